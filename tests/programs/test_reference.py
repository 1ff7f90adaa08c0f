"""The reference programs: `fn`, `toy` and `chatty`, on every path, through the public functions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager


def fn(a, b):
    x = a + b
    x = x / 2.0
    if x.sum() < 0:
        return x * -1.0
    return x


def toy(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def chatty(a, b):
    x = a / (torch.abs(a) + 1)
    print("woo")
    if b.sum() < 0:
        b = b * -1
    return x * b


POSITIVE, NEGATIVE = torch.ones(10), -torch.ones(10)


def test_fn_on_the_taken_branch() -> None:
    """add, truediv, sum, lt with the outputs truediv and lt; then mul in the resume function."""
    report = assert_same_as_eager(fn, NEGATIVE, NEGATIVE, graphs=2, breaks=["DX104"], recompiles=0)
    assert report.targets == [["add", "truediv", "sum", "lt"], ["mul"]]
    assert sorted(output.name for output in outputs_of(report.graphs[0])) == ["lt", "truediv"]


def test_fn_on_the_other_branch() -> None:
    """The branch that is not taken returns, with no graph of its own."""
    report = assert_same_as_eager(fn, POSITIVE, POSITIVE, graphs=1, breaks=["DX104"])
    assert report.targets == [["add", "truediv", "sum", "lt"]]


def test_toy_has_three_graphs_when_both_paths_have_run() -> None:
    """abs, add, truediv, sum, lt; then a resume function at both targets."""
    report = assert_same_as_eager(
        toy, POSITIVE, NEGATIVE, then=[(POSITIVE, POSITIVE.clone())], graphs=3, breaks=["DX104"], ops=[4, 2, 1], recompiles=0
    )
    assert report.targets == [["abs", "add", "truediv", "sum", "lt"], ["mul", "mul"], ["mul"]]


@pytest.mark.parametrize("a", [POSITIVE, NEGATIVE, torch.randn(10), torch.zeros(10)])
@pytest.mark.parametrize("b", [POSITIVE, NEGATIVE, torch.zeros(10)])
@pytest.mark.parametrize("program", [fn, toy, chatty])
def test_values_are_eagers_on_every_path(program: Any, a: torch.Tensor, b: torch.Tensor) -> None:
    """Whatever the signs, values, prints and gradients are those of plain Python, at the first call and the second."""
    assert_same_as_eager(program, a, b, calls=2)
    assert_same_as_eager(program, a.clone().requires_grad_(), b)


def test_chatty_prints_once_a_call() -> None:
    """3 graphs, 2 breaks and 6 ops on one call with a negative sum; `woo` appears once a call."""
    assert_same_as_eager(chatty, POSITIVE, NEGATIVE, graphs=3, breaks=["DX104", "DX206"], ops=6)
    assert_same_as_eager(chatty, POSITIVE, NEGATIVE, calls=3, graphs=3)


def test_chatty_explained() -> None:
    """The explanation counts, and names both reasons with file, line and code."""
    explanation = dynexplore.explain(chatty, POSITIVE, NEGATIVE)
    text = str(explanation)
    assert "\n\n3 graphs, 2 graph breaks, 7 operators\nBreak reasons:\n" in text
    assert f'File "{__file__}", line {chatty.__code__.co_firstlineno + 2}, in chatty\n     print("woo")' in text
    assert f'File "{__file__}", line {chatty.__code__.co_firstlineno + 3}, in chatty\n     if b.sum() < 0:' in text


def test_the_guards_of_toy() -> None:
    """TENSOR_MATCH on a and b, and the identity of what was reached through the global `torch`."""
    backend = CountingBackend()
    explanation = dynexplore.explain(toy, POSITIVE, NEGATIVE, backend=backend)
    entry = explanation.recording.frames[0].frame
    guards = [(guard.scope, guard.source, guard.kind) for guard in explanation.guards if guard.frame == entry]
    assert ("local", "a", "TENSOR_MATCH") in guards and ("local", "b", "TENSOR_MATCH") in guards
    assert any(scope == "global" and source == "torch" and kind.endswith("_MATCH") for scope, source, kind in guards)


@pytest.mark.parametrize(("program", "compiled"), [(fn, 1), (toy, 2), (chatty, 3)])
def test_the_second_call_compiles_nothing(program: Any, compiled: int) -> None:
    """A counting backend sees no further graph, and run() does as well."""
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(program)
    optimized(POSITIVE, NEGATIVE)
    graphs, runs = len(backend.graphs), backend.runs
    assert graphs == compiled
    expected = program(POSITIVE, NEGATIVE)
    assert torch.equal(optimized(POSITIVE, NEGATIVE), expected)
    assert torch.equal(dynexplore.run(program)(POSITIVE, NEGATIVE), expected)
    assert torch.equal(dynexplore.run(optimized)(POSITIVE, NEGATIVE), expected)
    assert (len(backend.graphs), backend.runs) == (graphs, 4 * runs)


def test_toy_with_other_tensors_recompiles() -> None:
    """Another dtype is a recompile of each frame on the way; going back is not."""
    doubles = POSITIVE.double()
    assert_same_as_eager(
        toy,
        POSITIVE,
        NEGATIVE,
        then=[(doubles, -doubles), (POSITIVE, NEGATIVE), (doubles, -doubles)],
        graphs=4,
        recompiles=2,
    )


def outputs_of(graph: torch.fx.GraphModule) -> tuple[torch.fx.Node, ...]:
    """What a graph returns."""
    return next(node for node in graph.graph.nodes if node.op == "output").args[0]  # type: ignore[return-value]
