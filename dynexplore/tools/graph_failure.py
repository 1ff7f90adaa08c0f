"""The failure of a graph under a compiler, if there is one.

The idea: a compiler is right about a graph if the compiled graph has the same effect as the uncompiled one: outputs, inputs
afterwards, gradients. Both runs start from copies of the same inputs and the same random state, so that dropout drops the same
elements; Inductor is configured to draw random numbers as eager does. Different results are a failure, and so is an exception while
the graph is compiled or run.

In: a graph, its inputs, a compiler. Out: `Failure` or None.

PyTorch's counterpart: `backend_accuracy_fails` and `same_two_models` in torch/_dynamo/debug_utils.py.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from dynexplore.engine import native
from dynexplore.engine.errors import MissingCompiler
from dynexplore.engine.graph.finished_graph import copy_of_graph
from dynexplore.engine.runtime.backends import inductor_settings
from dynexplore.engine.runtime.function_environment import copy_of_tensor
from dynexplore.engine.runtime.missing_compiler import missing_compiler
from dynexplore.tools.accuracy import first_difference

_INDUCTOR = "torch._inductor.config"
Predicate = Callable[[torch.fx.GraphModule, Sequence[Any]], bool]
Compiler = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Failure:
    """How a graph fails: "raises", with the exception's type as `error`, or "differs", in its values ("") or already in type, dtype
    or shape ("form"); `words` describe its first occurrence.
    """

    kind: str
    error: str = ""
    words: str = ""

    def is_like(self, other: Failure | None) -> bool:
        """Whether it is the same failure, in another graph."""
        return other is not None and (self.kind, self.error) == (other.kind, other.error)


def failure_of(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    compiler: Compiler,
    fails: Predicate | None = None,
    tolerance: float | None = None,
) -> Failure | None:
    """How a graph fails under a compiler; None if it is right. Raises MissingCompiler if it cannot be tried."""
    if fails is not None:
        return Failure("fails", words="fails as asked") if fails(copy_of_graph(graph), copies(inputs)) else None
    try:
        expected = run_once(graph, inputs)
    except Exception:  # a reduction may produce an invalid graph: that is not the failure
        return None
    try:
        with quiet(), same_random_numbers():
            compiled = compiler(copy_of_graph(graph), copies(inputs))
            actual = run_once(compiled, inputs)
    except Exception as error:  # any exception of the compiler is the finding
        if missing_compiler(error):
            raise MissingCompiler(missing_compiler(error)) from None
        return Failure("raises", type(error).__name__, f"raises {type(error).__name__}: {_first_line(error)}".rstrip(": "))
    difference = first_difference(expected, actual, tolerance)
    if difference is None:
        return None
    same_form = first_difference(expected, actual, math.inf) is None
    return Failure("differs", "" if same_form else "form", f"differs from the unmodified graph: {difference}")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "")


def run_once(compiled: Any, inputs: Sequence[Any]) -> Any:
    """Outputs, inputs afterwards, and gradients: of the inputs, with a weight for each output."""
    copied_inputs = copies(inputs)
    torch.manual_seed(0)
    outer = native.enter(None)
    try:
        outputs = compiled(*copied_inputs)
        outputs = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
        sources = [
            output for output in outputs if isinstance(output, torch.Tensor) and output.requires_grad and output.grad_fn is not None
        ]
        if sources:
            torch.autograd.backward(sources, [torch.full_like(output, 0.5 + index) for index, output in enumerate(sources)])
    finally:
        native.leave(outer)
    gradients = [value.grad if isinstance(value, torch.Tensor) and value.is_leaf else None for value in copied_inputs]
    return {"output": outputs, "input": copied_inputs, "gradient": gradients}


def copies(inputs: Sequence[Any]) -> list[Any]:
    """The inputs for one run: tensors are leaves with the same content."""
    return [copy_of_tensor(graph_input) if isinstance(graph_input, torch.Tensor) else graph_input for graph_input in inputs]


@contextlib.contextmanager
def same_random_numbers(backend: object = None) -> Iterator[None]:
    """Configure Inductor to draw the random numbers of eager mode while it compiles: it has its own generator by default."""
    inductor: Any = importlib.import_module(_INDUCTOR) if _is_inductor(backend) else sys.modules.get(_INDUCTOR)
    with inductor.patch(fallback_random=True) if inductor is not None else contextlib.nullcontext():
        yield


def _is_inductor(backend: object) -> bool:
    return (isinstance(backend, str) or callable(backend)) and inductor_settings(backend) is not None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the backend's log: it would log something about each of a hundred graphs."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
