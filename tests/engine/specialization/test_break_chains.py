"""specialization/break_chains.py: how many chains of calls end one graph at one place of a helper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.config import config
from dynexplore.engine.specialization.break_chains import MOST_GUARDED, may_guard_separate_callee

X = torch.ones(3)


def breaks_once(x):
    x = x * 2
    dynexplore.graph_break()
    return x + 1


def test_a_helper_of_many_callers_is_compiled_for_four_of_them() -> None:
    """Further ones break where they call, and share the frame of the helper."""
    names: dict[str, Any] = {"breaks_once": breaks_once}
    for number in range(7):
        exec(f"def f{number}(x):\n    x = x - {number}\n    y = breaks_once(x)\n    return y * x", names)

    dynexplore.reset()
    graphs: list[torch.fx.GraphModule] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    functions = [dynexplore.optimize(backend)(names[f"f{number}"]) for number in range(7)]
    counts = []
    for number, function in enumerate(functions):
        with config.patch(nested_graph_breaks=True):
            assert torch.equal(function(X), names[f"f{number}"](X))
        counts.append(len(graphs))
    assert counts == [2, 4, 6, 8, 12, 14, 16]


def step(x, i):
    x = x + i
    dynexplore.graph_break()
    return x * 2


def loop(x):
    for i in range(4):
        x = step(x - 1, i) / 2
    return x + 1


def inner(x):
    x = x * 5
    return loop(x) - x


def middle(x):
    x = x + 7
    return inner(x) * x


def outer(x):
    x = x + 9
    return middle(x) / 3


def compiled_after(functions: Sequence[Callable[[torch.Tensor], torch.Tensor]], *, nested: bool) -> tuple[list[int], int]:
    """The number of graphs after each function was called three times, same as eager, and the number of operators of all."""
    dynexplore.reset()
    sizes: list[int] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        sizes.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
        return module.forward

    counts = []
    with config.patch(nested_graph_breaks=nested):
        for function in functions:
            optimized = dynexplore.optimize(backend)(function)
            for _ in range(3):
                assert torch.equal(optimized(X), function(X))
            counts.append(len(sizes))
    return counts, sum(sizes)


@pytest.mark.parametrize(("functions", "graphs", "operators"), [
    ((inner, middle, outer), [3, 5, 7], 17),
    ((inner, middle, inner, middle), [3, 5, 5, 5], 13),
    ((outer, middle, inner), [3, 6, 9], 39),
])
def test_callers_reuse_the_graphs_of_a_function_that_broke_as_the_outermost_frame(
    functions: Sequence[Callable[[torch.Tensor], torch.Tensor]], graphs: list[int], operators: int
) -> None:
    """A caller that is captured later has two graphs of its own, around the call. In the other order nothing can be reused."""
    counts, size = compiled_after(functions, nested=True)
    assert (counts, size) == (graphs, operators)
    of_frames, _ = compiled_after(functions, nested=False)
    assert all(count <= other for count, other in zip(counts, of_frames, strict=True))


@pytest.mark.plain("a function of three numbers")
def test_an_entry_for_a_separate_callee_has_guards_while_there_are_few_and_room_for_another() -> None:
    """The last entry that the limit allows has none, so that it serves all further calls."""
    assert [may_guard_separate_callee(guarded, guarded, 8) for guarded in range(4)] == [True, True, False, False]
    assert [may_guard_separate_callee(0, entries, 3) for entries in range(4)] == [True, True, False, False]
    assert not may_guard_separate_callee(0, 0, 1)
    assert MOST_GUARDED == 2
