"""engine/policy/markers.py: marks belong to one object, ours and torch's own are both seen."""

from __future__ import annotations

import functools
import gc
import importlib
import math
import operator
from typing import Any

import pytest
import torch

from dynexplore.engine.native import Region, RegionCall
from dynexplore.engine.policy.markers import Mark, assume_constant_result, graph_break, mark, mark_of, unmark

pytestmark = pytest.mark.plain("asks the rules what they say; nothing is captured")


def some_function(x: Any = None) -> Any:
    return x


@pytest.mark.parametrize("what", list(Mark))
def test_a_mark_is_found_and_taken_off(what: Mark) -> None:
    """Each mark is found on its function, replaces an earlier one, and goes with unmark."""

    def marked() -> None: ...

    assert mark_of(marked) is None
    assert mark(marked, Mark.SKIP) is marked
    assert mark(marked, what) is marked and mark_of(marked) is what
    unmark(marked)
    assert mark_of(marked) is None


def test_c_functions_take_marks() -> None:
    """A function that has no attributes is marked as well, also one that cannot be referenced weakly."""
    for function in (math.hypot, operator.attrgetter("x"), torch.hypot):
        mark(function, Mark.ALLOW_IN_GRAPH)
        assert mark_of(function) is Mark.ALLOW_IN_GRAPH
        unmark(function)
        assert mark_of(function) is None


def test_a_wrapper_of_a_marked_function_is_not_marked() -> None:
    """functools.wraps copies attributes, and a mark is none."""

    @functools.partial(mark, marking=Mark.SKIP)
    def inner() -> None: ...

    @functools.wraps(inner)
    def outer() -> None: ...

    assert mark_of(inner) is Mark.SKIP and mark_of(outer) is None


def test_a_method_is_marked_for_all_instances() -> None:
    """Marking a bound method marks the function of its class."""

    class Thing:
        def method(self) -> None: ...

    mark(Thing().method, Mark.DISALLOW_IN_GRAPH)
    assert mark_of(Thing().method) is Mark.DISALLOW_IN_GRAPH is mark_of(Thing.method)


def test_a_mark_goes_with_its_object() -> None:
    """A new function at the address of a dead one is not marked, and nothing is kept alive."""
    for _ in range(50):

        def short_lived() -> None: ...

        assert mark_of(short_lived) is None
        mark(short_lived, Mark.SKIP)
        del short_lived
        gc.collect(1)  # all that is this young


def test_a_call_with_the_hook_off_counts_as_disabled() -> None:
    """What `disable` makes is known without a mark; an optimized function is not disabled."""
    assert mark_of(RegionCall(some_function, None)) is Mark.DISABLE
    assert mark_of(RegionCall(some_function, Region(None, None))) is None


def test_our_own_markers() -> None:
    """graph_break() is a break and does nothing at run time; assume_constant_result marks."""

    def three() -> int:
        return 3

    assert mark_of(graph_break) is Mark.GRAPH_BREAK and graph_break() is None and graph_break("why") is None
    assert assume_constant_result(three) is three and mark_of(three) is Mark.CONSTANT_RESULT


def test_functions_decorated_by_torch_itself() -> None:
    """torch decorates some of its functions with torch._disable_dynamo, before torch._dynamo is imported."""
    assert mark_of(torch.optim.Optimizer.zero_grad) is Mark.DISABLE
    assert mark_of(torch.optim.SGD.step) is None


def test_torchs_markers_count() -> None:
    """torch.compiler.disable, allow_in_graph, assume_constant_result, torch._dynamo.graph_break and the rest."""
    dynamo = importlib.import_module("torch._dynamo")

    def fresh() -> Any:
        return lambda x: x

    assert mark_of(torch.compiler.disable(fresh())) is Mark.DISABLE
    assert mark_of(torch.compiler.disable(fresh(), recursive=False)) is Mark.SKIP
    allowed = torch.compiler.allow_in_graph(fresh())
    assert mark_of(allowed) is Mark.ALLOW_IN_GRAPH
    assert mark_of(torch.compiler.assume_constant_result(fresh())) is Mark.CONSTANT_RESULT
    assert mark_of(dynamo.graph_break) is Mark.GRAPH_BREAK
    assert mark_of(torch.compiler.set_stance) is Mark.DISALLOW_IN_GRAPH
    assert mark_of(some_function) is None


def test_torchs_disable_is_not_inherited_by_wrappers() -> None:
    """A wrapper with functools.wraps around a disabled function is not disabled itself."""
    disabled = torch.compiler.disable(lambda x: x)

    @functools.wraps(disabled)
    def outer(x: Any) -> Any:
        return disabled(x)

    assert mark_of(disabled) is Mark.DISABLE and mark_of(outer) is None
