"""Float inputs of a graph as 0-dim tensors, for backends on AOTAutograd, which accept tensors and SymInts only.

The idea: `x * rate` with a rate that changes from call to call is one graph with a float input. AOTAutograd can turn
`tensor.item()` into tensor arithmetic (its pass tensorify_python_scalars). So the graph for such a backend begins with
`rate_tensor.item()`, and the compiled callable gets a tensor in place of the float. The operators that this pass does not handle
(`a - x`, `a ** x`, `x > a`) get the tensor already here (float_operators.py). Where a float must stay a float (the `alpha=` of an
addition), it becomes a constant of the graph, with a guard on its value. A random number drawn in the call cannot be guarded: then
the backend is skipped.

In: the graph and its example inputs. Out: a callable that accepts floats, compiled in one of three ways. PyTorch's counterpart:
`wrap_symfloat` in torch/_dynamo/variables/builder.py.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx.node import map_arg

from dynexplore.engine.aliasing import float_operators
from dynexplore.engine.graph.concrete_value import specialize_float
from dynexplore.engine.graph.finished_graph import FinishedGraph, copy_of_graph, example_value
from dynexplore.engine.provenance.sources import LocalSource

#: torch's backends that pass the graph to AOTAutograd, by name
_THROUGH_AOT = frozenset({"aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner", "inductor"})

_NAMES = ("add", "sub", "mul", "truediv", "iadd", "isub", "imul", "itruediv")
_FUNCTIONS = frozenset({*(getattr(operator, name) for name in _NAMES), torch.add, torch.sub, torch.mul, torch.div})
#: with the float on the left as well: `a / x` is `x.reciprocal() * a`
_COMMUTE = frozenset({operator.add, operator.mul, operator.truediv, torch.add, torch.mul})
_METHODS = frozenset({"add", "sub", "mul", "div", "add_", "sub_", "mul_", "div_"})


def supports_symfloats(backend_name: str) -> bool:
    """Whether this backend of torch handles floats this way."""
    return backend_name in _THROUGH_AOT


def float_indices(examples: Sequence[object]) -> list[int]:
    """The indices of the float inputs."""
    return [index for index, example in enumerate(examples) if isinstance(example, torch.SymFloat)]


def floats_of(graph: FinishedGraph) -> tuple[list[Any], list[int]]:
    """The inputs of a graph as captured, and which of them are floats."""
    examples = [example_value(entry.node) for entry in graph.inputs]
    return examples, float_indices(examples)


def computes_floats(module: Any) -> bool:
    """Whether the graph computes dynamic floats (None: unknown)."""
    nodes = module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ()
    return any(isinstance(node.meta.get("example_value"), torch.SymFloat) for node in nodes)


def with_hints(examples: Sequence[Any], floats: Sequence[int]) -> list[Any]:
    """The example inputs; each float without a hint (a number that the program draws) gets a symbol with a hint.

    Only for backed symbols does a fake tensor memoize `item()` (torch/_subclasses/fake_tensor.py, SymNumberMemoDescriptor).
    """
    from torch.fx.experimental.symbolic_shapes import DimDynamic

    hinted = list(examples)
    for index in floats:
        node = hinted[index].node
        if node.hint is None:
            source = LocalSource(f"drawn_number_{index}", index)
            symbol = node.shape_env.create_unspecified_symbol(_ANY_NUMBER, source=source, dynamic_dim=DimDynamic.DYNAMIC)
            hinted[index] = node.shape_env.create_symfloatnode(symbol, hint=_ANY_NUMBER, source=source)
    return hinted


_ANY_NUMBER = 0.6180339887


def are_random(examples: Sequence[Any], floats: Sequence[int]) -> bool:
    """Whether the program draws one of the floats in the call: then its value cannot be guarded."""
    return any(examples[index].node.hint is None for index in floats)


# -- three ways to compile a graph with floats --------------------------------------------------------------------------

CompileModule = Callable[..., Callable[..., Any]]
"""Compiles a module for example inputs, inside additional context managers."""
CompileFloats = Callable[[CompileModule, torch.fx.GraphModule, Sequence[Any], Sequence[int], Any], Callable[..., Any]]


def compile_with_symfloats(
    compile_module: CompileModule, module: torch.fx.GraphModule, examples: Sequence[Any], floats: Sequence[int], fake_mode: Any
) -> Callable[..., Any]:
    """The backend gets SymFloats."""
    return compile_module(module, examples)


def compile_as_tensors(
    compile_module: CompileModule, module: torch.fx.GraphModule, examples: Sequence[Any], floats: Sequence[int], fake_mode: Any
) -> Callable[..., Any]:
    """The backend gets tensors, and must not specialize on any value."""
    examples = with_hints(examples, floats)
    are_symbolic = require_symbolic_floats(examples, floats)
    module, tensors = as_tensors(module, examples, floats, fake_mode)
    return wrap_float_inputs(compile_module(module, tensors, are_symbolic), floats)


def compile_for_values(
    compile_module: CompileModule, module: torch.fx.GraphModule, examples: Sequence[Any], floats: Sequence[int], fake_mode: Any
) -> Callable[..., Any]:
    """The backend gets the current values as constants, which are guarded from then on."""
    copied = copy_of_graph(module)
    inputs = [node for node in copied.graph.nodes if node.op == "placeholder"]
    for index in floats:
        _make_constant(inputs[index], examples[index].node.hint)
    copied.recompile()
    others = [index for index in range(len(examples)) if index not in floats]
    compiled = compile_module(copied, [examples[index] for index in others], without_recapture(fake_mode.shape_env))
    for index in floats:
        specialize_float(examples[index])
    return lambda *inputs: compiled(*(inputs[index] for index in others))


def _make_constant(node: torch.fx.Node, value: float) -> None:
    def constant(argument: torch.fx.Node) -> Any:
        return value if argument is node else argument

    for user in list(node.users):
        user.args, user.kwargs = map_arg(user.args, constant), map_arg(user.kwargs, constant)
    node.graph.erase_node(node)


def as_tensors(
    module: torch.fx.GraphModule, examples: Sequence[Any], floats: Sequence[int], fake_mode: Any
) -> tuple[torch.fx.GraphModule, list[Any]]:
    """A copy of the graph that takes 0-dim tensors in place of floats, and its example inputs."""
    copied = copy_of_graph(module)
    inputs = [node for node in copied.graph.nodes if node.op == "placeholder"]
    tensors = list(examples)
    for index in floats:
        with fake_mode:
            tensors[index] = torch.empty((), dtype=torch.float64, device="cpu")
        tensors[index].item_memo = examples[index]
        _insert_item_call(copied.graph, inputs[index], inputs[-1])
        inputs[index].meta["example_value"] = tensors[index]
    float_operators.replace_floats_by_tensors(copied.graph)
    copied.recompile()
    return copied, tensors


def _insert_item_call(graph: torch.fx.Graph, tensor: torch.fx.Node, after: torch.fx.Node) -> None:
    with graph.inserting_after(after):
        number = graph.call_method("item", (tensor,))
    number.meta = dict(tensor.meta)
    tensor.replace_all_uses_with(number, delete_user_cb=lambda user: user is not number)


def can_become_tensors(module: torch.fx.GraphModule) -> bool:
    """Whether every use of the graph's floats can be replaced by a 0-dim tensor."""
    is_float = float_operators.is_float
    return all(_is_arithmetic(user) for number in module.graph.nodes if is_float(number) for user in number.users)


def _is_arithmetic(node: torch.fx.Node) -> bool:
    if node.op == "output" or float_operators.same_with_a_tensor(node) is not None:
        return True
    if node.kwargs:
        return False
    first, *others = [argument.meta.get("example_value") for argument in node.args if isinstance(argument, torch.fx.Node)] or [None]
    if isinstance(first, torch.SymFloat) and any(isinstance(other, torch.Tensor) for other in others):
        return node.target in _COMMUTE
    return node.target in (_METHODS if node.op == "call_method" else _FUNCTIONS)


@contextlib.contextmanager
def require_symbolic_floats(examples: Sequence[Any], floats: Sequence[int]) -> Iterator[None]:
    """While the backend compiles: fail if it must specialize a float to its current value.

    If so, raises TypeError at the end. Without this, the pass would specialize a float that it cannot handle.
    """
    symbols = {examples[index].node._expr for index in floats}
    env = examples[floats[0]].node.shape_env
    relied_on = len(env.guards)
    with without_recapture(env):
        yield
    if symbols & env.replacements.keys() or any(symbols & guard.expr.free_symbols for guard in env.guards[relied_on:]):
        raise TypeError("a float among the inputs is needed as a number")


@contextlib.contextmanager
def without_recapture(shape_env: Any) -> Iterator[None]:
    """Let the pass specialize a float that it cannot handle, without requesting a re-capture of the frame.

    It checks every float of the frame, also those that the graph, or the piece of it, does not have.
    """
    symbols = _float_symbols(shape_env) if shape_env is not None else []
    if not symbols:
        yield
        return
    from torch.fx.passes._tensorify_python_scalars import TensorifyState  # type: ignore[attr-defined]

    unknown = set(map(str, symbols)) - TensorifyState.force_specializations
    TensorifyState.force_specializations.update(unknown)
    try:
        yield
    finally:
        TensorifyState.force_specializations.difference_update(unknown)


def _float_symbols(shape_env: Any) -> list[Any]:
    from torch.utils._sympy.symbol import SymT, symbol_is_type  # sympy, which a ShapeEnv has loaded

    return [symbol for symbol in shape_env.backed_var_to_val if symbol_is_type(symbol, SymT.FLOAT)]


def wrap_float_inputs(compiled: Callable[..., Any], floats: Sequence[int]) -> Callable[..., Any]:
    """The backend's callable, called with floats again."""

    def call(*inputs: Any) -> Any:
        arguments = list(inputs)
        for index in floats:
            arguments[index] = torch.tensor(arguments[index], dtype=torch.float64, device="cpu")
        return compiled(*arguments)

    return call
