"""runtime/backend_failures.py: the line of the program that a backend raised from, and the operator that it had in hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from dynexplore import explain
from dynexplore.engine import events as ev
from dynexplore.engine.errors import BackendCompilerError


def waves(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() * 2
    return y.cos() + 1


def failure(backend: Any) -> ev.BackendFailed:
    """What is recorded of a backend that fails."""
    with explain(waves, backend=backend) as fn, pytest.raises(BackendCompilerError, match="cannot"):
        fn(torch.ones(3))
    (failed,) = fn.explanation.recording.of(ev.BackendFailed)
    return failed


def at_cos(graph: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    for node in graph.graph.nodes:
        if "cos" in str(node.target):
            raise ValueError("cannot")  # the line
    return graph.forward


class Steps(fx.Interpreter):
    def run_node(self, n: fx.Node) -> Any:
        if "cos" in str(n.target):
            raise ValueError("cannot")
        return super().run_node(n)


def interprets(graph: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    Steps(graph).run(*inputs)
    return graph.forward


def through_aot(graph: fx.GraphModule, inputs: list[Any]) -> Any:
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(fw_compiler=at_cos)(graph, inputs)


def after_all(graph: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    first, *_, last = [node for node in graph.graph.nodes if node.op.startswith("call")]
    raise ValueError(f"cannot compile from {first} to {last}")


@pytest.mark.parametrize("backend", [at_cos, interprets, through_aot])
def test_the_operator_in_hand(backend: Any) -> None:
    """A loop over nodes, an interpreter, a compiler of a graph that was made from ours: each held one operator as it raised."""
    failed = failure(backend)
    assert failed.node == "cos" and failed.raised_at is not None
    assert failed.raised_at.code.strip().startswith('raise ValueError("cannot")')
    assert failed.raised_at.function == ("Steps.run_node" if backend is interprets else "at_cos")


def test_several_operators_in_hand() -> None:
    """Where a backend holds more than one nobody knows which it was: none is named."""
    failed = failure(after_all)
    assert failed.node == "" and failed.raised_at is not None and failed.raised_at.function == "after_all"


def test_a_value_that_lies_about_its_class() -> None:
    """The variables of a frame are the program's own: no property of theirs runs."""

    class Lies:
        @property
        def __class__(self) -> type:  # type: ignore[override]
            raise AssertionError("asked")

    def holds(graph: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        lies = Lies()
        raise ValueError("cannot", id(lies))

    with explain(waves, backend=holds) as fn, pytest.raises(BackendCompilerError):
        fn(torch.ones(3))
    (failed,) = fn.explanation.recording.of(ev.BackendFailed)
    assert failed.node == "" and failed.raised_at is not None
