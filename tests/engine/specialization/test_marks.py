"""engine/specialization/marks.py: what is said of a dimension counts from the first call on, in torch's words and in ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend


def scaled(x: Any) -> Any:
    return x * x.shape[0]


def only_four(x: Any) -> Any:
    return x * 2 if x.shape[0] == 4 else x * 3


def torchs(name: str) -> Callable[..., None]:
    """torch's own function of that name."""
    import torch._dynamo.decorators as decorators

    return getattr(decorators, name)  # type: ignore[no-any-return]


@pytest.fixture(params=["ours", "torch's"])
def mark(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Mark by name, with our functions and with torch's."""
    return lambda name, *args: (getattr(dynexplore, name) if request.param == "ours" else torchs(name))(*args)


def sizes(function: Any, numbers: tuple[int, ...], mark: Callable[[torch.Tensor], None]) -> int:
    """How many graphs calls with these sizes make; each result is eager's."""
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(function)
    for number in numbers:
        x = torch.randn(number, 3)
        mark(x)
        assert torch.equal(compiled(x), function(x))
    return len(backend.graphs)


@pytest.mark.parametrize("name", ["mark_dynamic", "maybe_mark_dynamic"])
def test_a_dimension_is_dynamic_from_the_first_call_on(mark: Any, name: str) -> None:
    """One graph serves all sizes; without a mark there are two."""
    assert sizes(scaled, (4, 5, 6), lambda x: mark(name, x, 0)) == 1
    assert sizes(scaled, (4, 5, 6), lambda x: None) == 2


def test_a_promise_that_does_not_hold_names_the_guard(mark: Any) -> None:
    """A function that asks for one size breaks the promise: MarkViolated says which guard would stand there."""
    x = torch.randn(4, 3)
    mark("mark_dynamic", x, 0)
    with pytest.raises(dynexplore.exc.MarkViolated, match=r"x is marked dynamic in dimension 0, .* x\.size\(\)\[0\] == 4: the"):
        dynexplore.optimize("eager")(only_four)(x)


def test_a_size_of_one_breaks_the_promise(mark: Any) -> None:
    """Sizes 0 and 1 are compiled for themselves, which the message says."""
    x = torch.randn(1, 3)
    mark("mark_dynamic", x, 0)
    with pytest.raises(dynexplore.exc.MarkViolated, match=r"x\.size\(\)\[0\] == 1: sizes 0 and 1"):
        dynexplore.optimize("eager")(scaled)(x)


def test_what_may_be_dynamic_may_be_asked_for(mark: Any) -> None:
    """`maybe_mark_dynamic` is no promise."""
    assert sizes(only_four, (4, 5, 6), lambda x: mark("maybe_mark_dynamic", x, 0)) == 2


def test_a_static_dimension_stays_so(mark: Any) -> None:
    """Each size has a graph of its own, however often it changes."""
    assert sizes(scaled, (4, 5, 6, 7), lambda x: mark("mark_static", x, 0)) == 4


def test_an_unbacked_dimension_is_of_any_size(mark: Any) -> None:
    """One graph serves every size, 0 and 1 too, whichever came first."""
    assert sizes(scaled, (1, 4, 0, 7), lambda x: mark("mark_unbacked", x, 0)) == 1
    assert sizes(lambda x: torch.cat([x, x.relu()])[1:].reshape(-1), (4, 1, 9), lambda x: mark("mark_unbacked", x, 0)) == 1


def test_an_unbacked_dimension_that_is_asked_about_breaks_the_graph(mark: Any) -> None:
    """The size of the first call decides nothing: both sides of an `if` on it are right, in graphs of their own."""
    assert sizes(only_four, (4, 5, 4, 1), lambda x: mark("mark_unbacked", x, 0)) > 1


def test_a_compiler_takes_an_unbacked_dimension() -> None:
    """AOTAutograd gets the symbol, and one entry serves all sizes."""
    compiled = dynexplore.optimize("aot_eager")(scaled)
    for number in (1, 4, 0):
        x = torch.randn(number, 3)
        dynexplore.mark_unbacked(x, 0)
        assert torch.equal(compiled(x), x * number)
    assert dynexplore.counters["stats"]["graphs"] == 1


def test_marks_take_several_and_negative_dimensions() -> None:
    """As torch's do; a dimension that is not there is an IndexError."""
    x = torch.randn(4, 3)
    dynexplore.mark_dynamic(x, [0, -1])
    assert sorted(vars(x)["_dynamo_dynamic_indices"]) == [0, 1]
    with pytest.raises(IndexError, match="a tensor of 2 dimensions has no dimension 2"):
        dynexplore.mark_static(x, 2)
    backend = CountingBackend()
    dynexplore.optimize(backend)(lambda x: x * 2)(x)
    assert len(backend.graphs) == 1
