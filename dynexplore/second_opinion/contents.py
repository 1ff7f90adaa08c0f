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
from dynexplore.engine.variables.contract.base import NotConstant, VariableTracker
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


def may_be_same(item: Value, other: Value) -> bool:
    """Whether two items may be one object; where that cannot be told, they may."""
    tracker, other_tracker = item.tracker, other.tracker
    if tracker is other_tracker:
        return tracker is not None or item.live is other.live or _are_equal(item, other)
    if (
        tracker is not None
        and other_tracker is not None
        and tracker.identity() is not None
        and other_tracker.identity() is not None
    ):
        return tracker.identity() is other_tracker.identity()
    if _has_constant(item) and _has_constant(other):
        return _are_equal(item, other)
    if tracker is None or other_tracker is None:
        return _may_stand_for(other_tracker, item.live) if tracker is None else _may_stand_for(tracker, other.live)
    return type(tracker) is type(other_tracker) and (
        tracker.container_type is not tuple or _are_same_tuples(tracker, other_tracker)
    )


def _may_stand_for(tracker: VariableTracker | None, live: object) -> bool:
    """Whether a tracker may be that of a live object: it has a source, or is of this very object, as of a member of an Enum."""
    assert tracker is not None
    if tracker.source is not None or tracker.identity() is live:
        return True
    for question in (tracker.unguarded_value, tracker.live_value):
        try:
            if question() is live:
                return True
        except (Unknown, NotConstant):
            continue
    return False


def _are_same_tuples(items_tracker: VariableTracker, right: VariableTracker) -> bool:
    """Whether two tuples may count as one because of their items: `items()`, `zip` and conversions make new tuples."""
    items, others = values_of(items_tracker), values_of(right)
    return len(items) == len(others) and all(map(may_be_same, items, others))


def _has_constant(value: Value) -> bool:
    try:
        value.constant()
    except Unknown:
        return False
    return True


def _are_equal(item: Value, other: Value) -> bool:
    try:
        return same_constant(item.constant(), other.constant())
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


def container_of(tracker: VariableTracker, contents: Contents | None = None, *, longest: int | None = LONGEST) -> Any:
    """The real container for a tracker, of what it holds now or of these `contents`.

    Raises Unknown where it is longer than `longest`, or a key cannot be hashed without asking.
    """
    tracker = as_read(tracker)
    if tracker.container_type is None or (contents is None and longest is not None and tracker.bulk() > longest):
        raise Unknown
    contents = contents if contents is not None else tracker.contents()
    return tracker.new_container(_items(contents, is_mapping(tracker), longest))


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


def _items(contents: Contents | None, of_pairs: bool, longest: int | None = LONGEST) -> list[Any]:
    if contents is None or (longest is not None and contents.length() > longest):
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
    expected_items, actual_items = list(expected), list(actual)
    if len(expected_items) != len(actual_items):
        return Mismatch(
            f"length{of}", f"{len(expected_items)}: {text_of_items(expected)}", f"{len(actual_items)}: {text_of_items(actual)}"
        )
    for place, (expected_item, actual_item) in enumerate(zip(expected_items, actual_items, strict=True)):
        if not may_be_same(expected_item, actual_item):
            return another(
                f"{'key' if isinstance(expected, dict) else 'item'} {place}{of}", expected_item.text(), actual_item.text()
            )
        if isinstance(expected, dict) and not may_be_same(expected[expected_item], actual[actual_item]):
            return another(f"value of key {expected_item.text()}{of}", expected[expected_item].text(), actual[actual_item].text())
    return None


def text_of_items(real_container: Any) -> str:
    """A few items as text."""
    items = list(real_container.items() if isinstance(real_container, dict) else real_container)
    texts = [": ".join(part.text() for part in item) if isinstance(item, tuple) else item.text() for item in items[:4]]
    return (", ".join(texts) + (", ..." if len(items) > 4 else "")) or "nothing"
