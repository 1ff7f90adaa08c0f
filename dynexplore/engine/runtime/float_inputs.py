"""Floats among the inputs of a graph, for backends that stand on AOTAutograd: each as a tensor of no dimensions.

The idea: `x * rate` with a rate that changes from call to call is one graph with a float among its inputs. AOTAutograd takes
tensors and symbolic ints only, but it turns `tensor.item()` into tensor arithmetic where it can (its pass
tensorify_python_scalars). So the graph that goes to such a backend begins with `rate_tensor.item()`, and what comes back is
called with a tensor in the place of the float. Where a float has to stay a float (the `alpha=` of an addition) the caller
compiles for the very value.

In:  the graph and its example inputs. Out: the same with tensors, and a callable that takes the floats again.
torch/_dynamo/variables/builder.py (wrap_symfloat) does the same job.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

#: torch's backends that hand the graph to AOTAutograd, by name
_THROUGH_AOT = frozenset({"aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner", "inductor"})

_NAMES = ("add", "sub", "mul", "truediv", "iadd", "isub", "imul", "itruediv")
_FUNCTIONS = frozenset({*(getattr(operator, name) for name in _NAMES), torch.add, torch.sub, torch.mul, torch.div})
_COMMUTE = frozenset({operator.add, operator.mul, torch.add, torch.mul})
_METHODS = frozenset({"add", "sub", "mul", "div", "add_", "sub_", "mul_", "div_"})


def are_served(backend_name: str) -> bool:
    """Whether a backend of torch's takes floats this way."""
    return backend_name in _THROUGH_AOT


def places(examples: Sequence[object]) -> list[int]:
    """Which inputs are floats."""
    return [place for place, example in enumerate(examples) if isinstance(example, torch.SymFloat)]


def as_tensors(
    module: torch.fx.GraphModule, examples: Sequence[Any], floats: Sequence[int], fake_mode: Any
) -> tuple[torch.fx.GraphModule, list[Any]]:
    """A copy of the graph that takes tensors of no dimensions in the places of floats, and its example inputs."""
    copied = torch.fx.GraphModule(module, copy.deepcopy(module.graph))  # it shares the parameters
    inputs = [node for node in copied.graph.nodes if node.op == "placeholder"]
    given = list(examples)
    for place in floats:
        with fake_mode:
            given[place] = torch.empty((), dtype=torch.float64, device="cpu")
        given[place].item_memo = examples[place]
        _read_out(copied.graph, inputs[place], inputs[-1])
        inputs[place].meta["example_value"] = given[place]
    copied.recompile()
    return copied, given


def _read_out(graph: torch.fx.Graph, tensor: torch.fx.Node, after: torch.fx.Node) -> None:
    with graph.inserting_after(after):
        number = graph.call_method("item", (tensor,))
    number.meta = dict(tensor.meta)
    tensor.replace_all_uses_with(number, delete_user_cb=lambda user: user is not number)


def can_become_tensors(module: torch.fx.GraphModule) -> bool:
    """Whether every float of the graph is only computed with in ways that tensors of no dimensions can take over."""
    floats = (node for node in module.graph.nodes if isinstance(node.meta.get("example_value"), torch.SymFloat))
    return all(_is_arithmetic(user) for number in floats for user in number.users)


def _is_arithmetic(node: torch.fx.Node) -> bool:
    left, *others = [argument.meta.get("example_value") for argument in node.args if isinstance(argument, torch.fx.Node)] or [None]
    if isinstance(left, torch.SymFloat) and any(isinstance(other, torch.Tensor) for other in others):
        return node.target in _COMMUTE and not node.kwargs  # of `a - x` AOTAutograd makes an operator that wants a float
    if node.op == "call_method":
        return node.target in _METHODS and not node.kwargs
    return node.op == "output" or (node.op == "call_function" and node.target in _FUNCTIONS and not node.kwargs)


def taking_floats(compiled: Callable[..., Any], floats: Sequence[int]) -> Callable[..., Any]:
    """What the backend made, called with floats again."""

    def call(*inputs: Any) -> Any:
        given = list(inputs)
        for place in floats:
            given[place] = torch.tensor(given[place], dtype=torch.float64, device="cpu")
        return compiled(*given)

    return call
