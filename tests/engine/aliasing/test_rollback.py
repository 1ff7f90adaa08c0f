"""What the alias matrix cannot say of rollback: how many inputs are copied before a call, inputs whose memory moves between calls.

What a failing call leaves behind is a cell of test_alias_matrix.py (`then_an_error_of_the_data`).
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.aliasing import rollback
from dynexplore.engine.aliasing.overlap_guard import StorageOverlap
from engine_checks import assert_same_as_eager

IN_RANGE, OUT_OF_RANGE = torch.tensor([1]), torch.tensor([9])
SOME, ONE_IS_OUT = torch.tensor([0, 2]), torch.tensor([1, 9])


def a_step_of_a_cache(keys, values, x, index, other):
    """What a model with a static cache does."""
    keys.index_copy_(0, index, x)
    values.index_copy_(0, index, x * 2)
    return keys.sum() + values.mean()


def two_layers(keys, values, x, index, other):
    keys.index_copy_(0, index, x)
    values.index_copy_(0, index, x * keys.sum())
    return values.sum()


def fails_behind_the_write(keys, values, x, index, other):
    keys.index_copy_(0, index, x)
    return values[other] + keys[:1]


def fails_ahead_of_the_write(keys, values, x, index, other):
    found = values[other]
    keys.index_copy_(0, index, x)
    return found + keys[:1]


def is_looked_at_first(keys, values, x, index, other):
    total = keys.sum()
    keys.index_copy_(0, index, x * total)
    return values[other] + keys[:1]


def is_written_twice(keys, values, x, index, other):
    keys.index_copy_(0, index, x)
    keys.zero_()
    return values[other]


def adds_to_what_is_there(keys, values, x, index, other):
    keys.index_add_(0, index, x)
    keys.index_put_((index,), x, True)
    return values[other]


def copies_from_itself(keys, values, x, index, other):
    keys[:1].copy_(keys[1:2] * 2)
    return values[other]


def through_a_view(keys, values, x, index, other):
    keys[:1].copy_(x[:1])
    values[1:] = keys[:1] + 1
    return values[other]


def inputs(index: torch.Tensor, other: torch.Tensor) -> Any:
    return torch.arange(12.0).reshape(4, 3), torch.ones(4, 3), torch.full((len(index), 3), 5.0), index, other


@pytest.mark.parametrize("fn", [a_step_of_a_cache, fails_ahead_of_the_write, through_a_view])
def test_several_places_of_which_one_is_not_there(fn):
    """What was written before the error stays, as in eager."""
    for index in (SOME, ONE_IS_OUT, SOME):
        assert_same_as_eager(fn, *inputs(index, IN_RANGE), backend="eager")


def copies(monkeypatch, fn, backend, *given):
    """How many inputs a call copies, not counting the first."""
    made = []
    monkeypatch.setattr(rollback, "_copy_of", lambda tensor, real=rollback._copy_of: made.append(1) or real(tensor))
    compiled = dynexplore.optimize(backend)(fn)
    compiled(*given)
    made.clear()
    compiled(*given)
    assert dynexplore.counters["stats"]["graphs"] == 1
    return len(made)


@pytest.mark.parametrize(("fn", "in_order", "compiled"), [
    (a_step_of_a_cache, 0, 0), (two_layers, 0, 0), (fails_behind_the_write, 0, 0), (fails_ahead_of_the_write, 0, 1),
    (is_looked_at_first, 1, 1), (is_written_twice, 1, 1), (adds_to_what_is_there, 1, 1), (copies_from_itself, 1, 1),
])  # fmt: skip
def test_what_is_only_written_over_is_not_copied(monkeypatch, fn, in_order, compiled):
    """A compiler may move a write ahead of what fails: there the write must depend on it."""
    assert copies(monkeypatch, fn, "eager", *inputs(IN_RANGE, IN_RANGE)) == in_order
    dynexplore.reset()
    assert copies(monkeypatch, fn, "aot_eager", *inputs(IN_RANGE, IN_RANGE)) == compiled


def test_several_places_are_copied_where_a_compiler_may_have_written_some(monkeypatch):
    """Two writes by one index: the second may come first, and write a part before it fails."""
    assert copies(monkeypatch, a_step_of_a_cache, "aot_eager", *inputs(SOME, IN_RANGE)) == 1
    dynexplore.reset()
    assert copies(monkeypatch, a_step_of_a_cache, "eager", *inputs(SOME, IN_RANGE)) == 0


def test_inputs_that_share_memory_in_a_later_call():
    """The second looks at what is written to the first: both are copied."""

    def fn(keys, values, x, index, other):
        before = values.sum()
        keys.index_copy_(0, index, x)
        return before + values[other]

    compiled = dynexplore.optimize("eager")(fn)
    for shared in (False, True, True):
        outcomes = []
        for call in (fn, compiled):
            keys, values, *rest = inputs(IN_RANGE, OUT_OF_RANGE if shared else IN_RANGE)
            values = keys[:] if shared else values
            try:
                outcomes.append((repr(call(keys, values, *rest)), repr(keys)))
            except IndexError as error:
                outcomes.append((repr(error), repr(keys)))
        assert outcomes[0] == outcomes[1]
    assert dynexplore.counters["stats"]["graphs"]


def test_storages_are_compared_anew_only_when_an_input_has_moved(monkeypatch):
    """A cache that stays where it is costs a list of addresses a call; new memory is looked at."""
    asked = []
    real = StorageOverlap._are_disjoint_uncached
    monkeypatch.setattr(StorageOverlap, "_are_disjoint_uncached", lambda *given: asked.append(1) or real(*given))
    compiled = dynexplore.optimize("eager")(a_step_of_a_cache)
    given = inputs(IN_RANGE, IN_RANGE)
    for _ in range(3):
        compiled(*given)
    assert len(asked) == 1
    compiled(given[0].clone(), *given[1:])
    assert len(asked) == 2
    given[0].data = given[1].data
    compiled(*given)
    assert len(asked) == 3 and dynexplore.counters["stats"]["graphs"] == 1


def test_a_cache_that_is_moved_into_another_input_is_copied(monkeypatch):
    """`.data =` gives a tensor other memory: from that call on an error leaves what eager leaves there, too."""

    def fn(keys, values, x, index, other):
        before = values.sum()
        keys.index_copy_(0, index, x)
        return before + values[other]

    compiled = dynexplore.optimize("eager")(fn)
    outcomes = []
    for call in (fn, compiled):
        keys, values, *rest = inputs(IN_RANGE, IN_RANGE)
        texts = [repr(call(keys, values, *rest)) for _ in range(2)]
        keys.data = values.data
        with pytest.raises(IndexError) as raised:
            call(keys, values, *rest[:-1], OUT_OF_RANGE)
        outcomes.append((texts, repr(raised.value), repr(keys), repr(values)))
    assert outcomes[0] == outcomes[1] and dynexplore.counters["stats"]["graphs"]


def test_a_view_of_a_storage_reaches_beyond_its_input():
    """Halves of one buffer, of which one is seen as the whole: equal addresses say nothing about what `as_strided` reads."""

    def fn(half, other_half, x, index, other):
        before = torch.as_strided(other_half, (12,), (1,), 0).sum()
        half.index_copy_(0, index, x)
        return before + x[other]

    compiled = dynexplore.optimize("eager")(fn)
    outcomes = []
    for call in (fn, compiled):
        buffer = torch.arange(12.0)
        _, _, x, index, _ = inputs(IN_RANGE, IN_RANGE)
        half, other_half = buffer[:6].view(2, 3), buffer[6:].view(2, 3)
        texts = [repr(call(half, other_half, x, index, torch.tensor([0]))) for _ in range(2)]
        with pytest.raises(IndexError) as raised:
            call(half, other_half, x, index, OUT_OF_RANGE)
        outcomes.append((texts, repr(raised.value), repr(buffer)))
    assert outcomes[0] == outcomes[1] and dynexplore.counters["stats"]["graphs"]
