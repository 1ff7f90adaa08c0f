"""TypeGuard: the classes of what a frame finds under its names, and one step below, read without running anything."""

from __future__ import annotations

import gc
import weakref
from types import CellType
from typing import Any

import pytest

from dynexplore.engine.native import UNBOUND, TypeGuard

pytestmark = pytest.mark.plain("a C type of its own, used without the hook")


class Plain:
    """Attributes in the object itself."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Inline:
    """Attributes that CPython stores without a dictionary."""

    def __init__(self, value: Any) -> None:
        self.first = 0
        self.value = value


class Slotted:
    """One slot."""

    __slots__ = ("value",)


class Loud(Inline):
    """Whoever asks it in Python is refused."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)


def test_the_class_of_an_argument_is_exact() -> None:
    """A subclass is another class, and an argument slot without a value fits none."""
    guard = TypeGuard(((1, None, (int, float)),))
    assert [guard.holds((None, value)) for value in (1, 1.5, True, "a", UNBOUND)] == [True, True, False, False, False]


def test_own_attributes_are_read_where_they_are() -> None:
    """In a dictionary, inline, at another place than before; a missing one fits nothing, and no `__getattribute__` is run."""
    guard = TypeGuard(((0, ("attribute", "value"), (int,)),))
    fits = [Inline(1), Plain(value=2), Plain(a=0, b=0, value=3), Loud(4)]
    misses = [Inline("a"), Plain(a=0, b=0), Plain(), Slotted(), 3, Loud(1.5)]
    for _ in range(2):
        assert [guard.holds((value,)) for value in (*fits, *misses)] == [True] * 4 + [False] * 6
    with_dictionary = Inline(1)
    vars(with_dictionary)["value"] = "text"
    assert not guard.holds((with_dictionary,))
    del with_dictionary.value
    assert not guard.holds((with_dictionary,))


def test_no_dictionary_is_made_by_looking() -> None:
    """An object whose attributes stand inline is as small after the check as before."""
    guard, value = TypeGuard(((0, ("attribute", "value"), (int,)),)), Inline(1)
    before = len(gc.get_referents(value))
    assert guard.holds((value,))
    assert len(gc.get_referents(value)) == before


def test_a_slot_is_read_in_instances_of_exactly_its_class() -> None:
    """A subclass is no instance, and an empty slot fits nothing."""

    class Below(Slotted):
        __slots__ = ()

    guard = TypeGuard(((0, ("member", "value", Slotted), (int,)),))
    full, other = Slotted(), Below()
    assert not guard.holds((full,))
    full.value = other.value = 3
    assert [guard.holds((value,)) for value in (full, other, 3)] == [True, False, False]
    full.value = "a"
    assert not guard.holds((full,))


def test_items_and_lengths_of_tuples_and_lists() -> None:
    """An index beyond the end fits nothing, and neither does what is no tuple or list."""
    guard = TypeGuard(((0, ("item", 1), (int,)), (0, ("length", 2), ())))
    values = [(0, 1), [0, 1], (0, 1, 2), (0, "a"), (0,), {0: 0, 1: 1}]
    assert [guard.holds((value,)) for value in values] == [True, True, False, False, False, False]


def test_globals_and_cells_are_looked_at_where_they_lie() -> None:
    """A name that is gone, an empty cell and a frame without a closure fit nothing."""
    names: dict[str, object] = {str(number): number for number in range(20)}
    guard = TypeGuard(((("global", "calls"), None, (int,)),))
    for found, holds in ((1, True), ("a", False), (2, True)):
        names["calls"] = found
        assert guard.holds((), None, names) is holds
    del names["calls"]
    assert not guard.holds((), None, names) and not guard.holds(())
    assert guard.holds((), None, {"calls": 3})  # of another module: not where it stood
    in_cell, cell = TypeGuard(((("cell", 1), None, (int,)),)), CellType(3)
    assert [in_cell.holds((), cells) for cells in ((cell, cell), (cell,), None, (cell, 3))] == [True, False, False, False]
    cell.cell_contents = "a"
    assert not in_cell.holds((), (cell, cell))
    del cell.cell_contents
    assert not in_cell.holds((), (cell, cell))


class Unasked:
    """A key whose hash is that of a string, and that is never compared."""

    def __hash__(self) -> int:
        return hash("n")

    def __eq__(self, other: object) -> bool:
        raise AssertionError(other)


@pytest.mark.parametrize("key", ["n", 1])
def test_items_of_a_dict(key: object) -> None:
    """Below a global as below an argument; keys with an equality of their own are not asked."""
    guard = TypeGuard((((("global", "seen"), ("key", key), (int,))), (0, ("key", key), (str,))))
    assert guard.holds(({key: "a"},), None, {"seen": {2: 0, key: 1}})
    assert not guard.holds(({key: 1},), None, {"seen": {key: 1}})
    assert not guard.holds(({},), None, {"seen": {key: 1}})
    assert not guard.holds(([1, "a"],), None, {"seen": {key: 1}})
    assert not guard.holds(({Unasked(): "a"},), None, {"seen": {key: 1}})


def test_classes_are_held_weakly() -> None:
    """A guard keeps no class alive, and nothing fits a class that is gone."""
    cls = type("Gone", (), {"__slots__": ("value",)})
    guard = TypeGuard(((0, None, (cls,)), (0, ("member", "value", cls), (int,))))
    reference = weakref.ref(cls)
    del cls
    gc.collect()
    assert reference() is None
    assert not guard.holds((None,))


@pytest.mark.parametrize("row", [
    3, (), (0, None), (-1, None, (int,)), (0, None, (3,)), (0, "attribute", (int,)), (0, ("attribute", 3), (int,)),
    (0, ("member", "value", Inline), (int,)), (0, ("member", "value"), (int,)), (0, ("member", "start", slice), (int,)),
    (("global", 3), None, (int,)), (("cell", "a"), None, (int,)), (("cell", 2**40), None, (int,)), (("local", 0), None, (int,)),
    (("cell",), None, (int,)), (0, ("key", 1.5), (int,)),
    (0, ("item", -1), (int,)), (0, ("item", 2**70), (int,)), (0, ("other", "a"), (int,)),
])  # fmt: skip
def test_malformed_rows_are_refused(row: Any) -> None:
    """Whatever does not say where to look, or for which classes."""
    with pytest.raises(TypeError, match="a row of a TypeGuard"):
        TypeGuard((row,))


def test_too_few_values_are_refused() -> None:
    """A guard looks at no slot that there is not."""
    with pytest.raises(TypeError, match="takes a tuple of the values"):
        TypeGuard(((1, None, (int,)),)).holds((1,))
