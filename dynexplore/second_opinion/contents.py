"""What a container holds, as a real Python container that CPython itself can work on.

The idea: nobody has to describe what `list.insert`, `dict.update` or `set.add` do to a container: CPython does it again, to a
real list, dict or set whose items stand for trackers (`Value`). A `Value` can be compared, hashed and ordered if its constant is
known; a tensor or an object equals only itself; an operation that needs more than is known raises `Unknown`.

Nothing here asks a tracker a question that could install a guard, and no class of tracker is named: each says what it holds
(engine/variables/contract/inspection.py). Lazy values are read from the live object.

In: the tracker of a container, or what it held before a step. Out: `container_of(tracker)`, the real container;
`first_difference(expected, actual)`, the first thing in which two of them differ. PyTorch has no counterpart.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.inspection import Contents, Unknown
from dynexplore.second_opinion.check_table import another, text_of
from dynexplore.second_opinion.deferred_checks import Mismatch, as_read, has_nodes, is_plain, same_constant

LONGEST = 1000
"""A container of more items is not compared with anything."""


class Value:
    """One item: a tracker, or a live object that no tracker stands for yet."""

    __slots__ = ("live", "tracker")

    tracker: VariableTracker | None
    live: Any

    def __init__(self, tracker: VariableTracker | None, live: object = None) -> None:
        read = as_read(tracker) if tracker is not None else None
        if isinstance(read, LazyVariable):
            self.tracker, self.live = None, read.value
        else:
            self.tracker, self.live = read, live

    def constant(self) -> Any:
        """The Python value, where it is a plain one. Raises Unknown."""
        if self.tracker is None:
            if type(self.live) is list or not is_plain(self.live):
                raise Unknown
            return self.live
        value = self.tracker.unguarded_value()
        if has_nodes(value) or not is_plain(value):
            raise Unknown
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value):
            raise Unknown
        if self is other or (self.tracker is other.tracker and self.live is other.live):
            return True
        return bool(self.constant() == other.constant())

    def __lt__(self, other: Value) -> bool:
        return bool(self.constant() < other.constant())

    def __hash__(self) -> int:
        tracker = self.tracker
        if tracker is not None and tracker.hashes_by_identity():
            return hash(id(tracker.identity()))
        return hash(self.constant())

    def text(self) -> str:
        """For people: as the views show it, with the node that holds it."""
        if self.tracker is None:
            return f"a {type(self.live).__qualname__}"
        return text_of(self.tracker)


def may_be_same(one: Value, other: Value) -> bool:
    """Whether two items may be one object; where that cannot be told, they may."""
    left, right = one.tracker, other.tracker
    if left is right:
        return left is not None or one.live is other.live or _are_equal(one, other)
    if left is not None and right is not None and left.identity() is not None and right.identity() is not None:
        return left.identity() is right.identity()
    if _has_constant(one) and _has_constant(other):
        return _are_equal(one, other)
    if left is None or right is None:
        return (left or right).source is not None  # type: ignore[union-attr]
    return type(left) is type(right) and (left.container_type is not tuple or _are_same_tuples(left, right))


def _are_same_tuples(left: VariableTracker, right: VariableTracker) -> bool:
    """Whether two tuples may count as one because of their items: `items()`, `zip` and conversions make new tuples."""
    items, others = values_of(left), values_of(right)
    return len(items) == len(others) and all(map(may_be_same, items, others))


def _has_constant(value: Value) -> bool:
    try:
        value.constant()
    except Unknown:
        return False
    return True


def _are_equal(one: Value, other: Value) -> bool:
    try:
        return same_constant(one.constant(), other.constant())
    except Unknown:
        return False


# -- what a container holds --------------------------------------------------------------------------------------------


def is_container(tracker: VariableTracker) -> bool:
    """Whether a real Python container can be made of what a tracker holds."""
    return as_read(tracker).container_type is not None


def is_mapping(tracker: VariableTracker) -> bool:
    """Whether that is a dict."""
    kind = as_read(tracker).container_type
    return kind is not None and issubclass(kind, dict)


def is_sequence(tracker: VariableTracker) -> bool:
    """Whether that is a list, a tuple or a deque."""
    return as_read(tracker).container_type in (list, tuple, deque)


def container_of(tracker: VariableTracker, contents: Contents | None = None) -> Any:
    """The real container for a tracker, of what it holds now or of these `contents`.

    Raises Unknown where it is too long, or a key cannot be hashed without asking.
    """
    tracker = as_read(tracker)
    if tracker.container_type is None:
        raise Unknown
    return tracker.new_container(_items(contents if contents is not None else tracker.contents(), is_mapping(tracker)))


def values_of(tracker: VariableTracker) -> list[Any]:
    """The items of iterating over a value. Raises Unknown if they are not known without asking."""
    tracker = as_read(tracker)
    if tracker.container_type is not None:
        return list(container_of(tracker))
    return _items(tracker.contents(), of_pairs=False)


def first_value(contents: Contents) -> Value | None:
    """The first of the items; None where there are none."""
    if contents.live:
        return Value(None, contents.live[0])
    return Value(contents.items[0]) if contents.items else None


def _items(contents: Contents | None, of_pairs: bool) -> list[Any]:
    if contents is None or contents.length() > LONGEST:
        raise Unknown
    if not of_pairs:
        return [*(Value(None, item) for item in contents.live or ()), *map(Value, contents.items)]
    live: dict[Any, Any] = contents.live or {}
    pairs = [(Value(None, key), Value(None, value)) for key, value in dict.items(live)]
    return [*pairs, *((Value(key), Value(value)) for key, value in contents.items)]


# -- two of them -------------------------------------------------------------------------------------------------------


def first_difference(expected: Any, actual: Any, of: str = "") -> Mismatch | None:
    """The first thing in which two real containers differ; `of` names what they are."""
    kind = type(expected).__name__
    of = f" of {of}" if of else f" of the {kind}"
    if type(expected) is not type(actual):
        return Mismatch("type", kind, type(actual).__name__)
    if isinstance(expected, set | frozenset):
        missing, extra = [item for item in expected if item not in actual], [item for item in actual if item not in expected]
        return Mismatch(f"members{of}", text_of_items(missing), text_of_items(extra)) if missing or extra else None
    wanted, held = list(expected), list(actual)
    if len(wanted) != len(held):
        return Mismatch(f"length{of}", f"{len(wanted)}: {text_of_items(expected)}", f"{len(held)}: {text_of_items(actual)}")
    for place, (one, other) in enumerate(zip(wanted, held, strict=True)):
        if not may_be_same(one, other):
            return another(f"{'key' if isinstance(expected, dict) else 'item'} {place}{of}", one.text(), other.text())
        if isinstance(expected, dict) and not may_be_same(expected[one], actual[other]):
            return another(f"value of key {one.text()}{of}", expected[one].text(), actual[other].text())
    return None


def text_of_items(real_container: Any) -> str:
    """A few items as text."""
    items = list(real_container.items() if isinstance(real_container, dict) else real_container)
    texts = [": ".join(part.text() for part in item) if isinstance(item, tuple) else item.text() for item in items[:4]]
    return (", ".join(texts) + (", ..." if len(items) > 4 else "")) or "nothing"
