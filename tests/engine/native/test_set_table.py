"""engine/native/set_table.c: a copy of a set, or a set that is filled, iterates as the set itself does."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from dynexplore.engine import native
from grown_sets import grown_set

pytestmark = pytest.mark.plain("functions of C, which no frame calls here")


SETS: dict[str, Any] = {
    "empty": set(),
    "small": {1, 2, 3},
    "colliding": grown_set(([8, 16, 0, 24], [])),
    "with a gap": grown_set(([8, 16, 0, 24], [16])),
    "large": set(range(0, 400, 8)),
    "once large": grown_set((list(range(0, 400, 8)), list(range(0, 380, 8)))),
    "frozen": frozenset([8, 16, 0]),
}


@pytest.mark.parametrize("name", SETS)
def test_a_copy_has_the_order_of_the_set_after_the_same_changes(name: str) -> None:
    """Of `set.copy()` that is not so."""
    original = SETS[name]
    copy, filled = native.set_with_table_of(original), native.set_in_table(set(), tuple(original), native.set_table_of(original))
    frozen = native.set_in_table(None, tuple(original), native.set_table_of(original))
    assert list(copy) == list(filled) == list(frozen) == list(original)
    assert type(copy) is type(filled) is set and type(frozen) is frozenset and hash(frozen) == hash(frozenset(original))
    if isinstance(original, set):
        again = native.set_with_table_of(original)
        for other in (copy, filled, again):
            other.update([72, 5, 80])
            other.discard(8)
        assert list(copy) == list(filled) == list(again)
        assert len(copy) == len(list(copy))
        copy.clear()
        assert copy == set()


def test_members_are_kept_alive_once() -> None:
    """Neither leaks, nor frees one that is still held."""
    member = object()
    before = sys.getrefcount(member)
    original = {member, 1}
    original.discard(1)
    copies = [native.set_with_table_of(original), native.set_in_table(set(), (member,), native.set_table_of(original))]
    assert sys.getrefcount(member) == before + 3
    del original, copies
    gc.collect()
    assert sys.getrefcount(member) == before


WRONG: list[tuple[Any, ...]] = [
    (set(), (1,), native.set_table_of(set())),
    (set(), (1,), (7, 0, (9,), ())),
    (set(), ([],), (7, 0, (0,), ())),
    (set(), (1,)),
    ([], (), native.set_table_of(set())),
    (frozenset([1]), (1,), native.set_table_of({1})),
]


@pytest.mark.parametrize("arguments", WRONG, ids=str)
def test_what_does_not_fit_raises(arguments: tuple[Any, ...]) -> None:
    """The set is empty then, or as it was."""
    with pytest.raises((TypeError, ValueError, SystemError)):
        native.set_in_table(*arguments)
