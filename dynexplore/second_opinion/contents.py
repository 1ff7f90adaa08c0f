"""The content of a container tracker as a real Python container that CPython can operate on.

The idea: `list.insert`, `dict.update` or `set.add` need no second implementation: CPython repeats them on a real list, dict or
set whose items represent trackers (`Value`). A `Value` can be compared, hashed and ordered if its constant is known; a tensor
or an object equals only itself; an operation that requires more than is known raises `Unknown`.

No function here makes a query on a tracker that could install a guard, and none depends on a tracker class: each tracker
exposes its content through engine/variables/contract/inspection.py. Unrealized lazy values are read from the live object.

In: the tracker of a container, or its content before a step. Out: `container_of(tracker)`, the real container;
`first_difference(expected, actual)`, the first difference between two. PyTorch's counterpart: none.
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
"""A container with more items is not compared."""


class Value:
    """One item: a tracker, or a live object without a tracker so far."""

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
        """The Python value of a constant. Raises Unknown for any other value."""
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
        """A text for people: as the views show it, with its node."""
        if self.tracker is None:
            return f"a {type(self.live).__qualname__}"
        return text_of(self.tracker)


def may_be_same(item: Value, other: Value) -> bool:
    """Whether two items may be the same object; True if unknown."""
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
    """Whether a tracker may represent a live object: it has a source, or represents this very object, as of a member of an Enum."""
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
    """Whether two tuples may count as equal because of their items: `items()`, `zip` and conversions create new tuples."""
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


# -- the content of a container ----------------------------------------------------------------------------------------


def is_container(tracker: VariableTracker) -> bool:
    """Whether a tracker's content can be converted to a real Python container."""
    return as_read(tracker).container_type is not None


def is_mapping(tracker: VariableTracker) -> bool:
    """Whether that container is a dict."""
    kind = as_read(tracker).container_type
    return kind is not None and issubclass(kind, dict)


def is_sequence(tracker: VariableTracker) -> bool:
    """Whether that container is a list, a tuple or a deque."""
    return as_read(tracker).container_type in (list, tuple, deque)


def container_of(tracker: VariableTracker, contents: Contents | None = None, *, longest: int | None = LONGEST) -> Any:
    """The real container for a tracker, with its present content or with these `contents`.

    Raises Unknown if it is longer than `longest`, or a key cannot be hashed without guards.
    """
    tracker = as_read(tracker)
    if tracker.container_type is None or (contents is None and longest is not None and tracker.bulk() > longest):
        raise Unknown
    contents = contents if contents is not None else tracker.contents()
    return tracker.new_container(_items(contents, is_mapping(tracker), longest))


def values_of(tracker: VariableTracker) -> list[Any]:
    """The items of iterating over a value. Raises Unknown if they cannot be determined without guards."""
    tracker = as_read(tracker)
    if tracker.container_type is not None:
        return list(container_of(tracker))
    return _items(tracker.contents(), of_pairs=False)


def first_value(contents: Contents) -> Value | None:
    """The first of the items; None if there are none."""
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


# -- comparison --------------------------------------------------------------------------------------------------------


def first_difference(expected: Any, actual: Any, of: str = "") -> Mismatch | None:
    """The first difference between two real containers; `of` is a description of them."""
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
    """The first items as text."""
    items = list(real_container.items() if isinstance(real_container, dict) else real_container)
    texts = [": ".join(part.text() for part in item) if isinstance(item, tuple) else item.text() for item in items[:4]]
    return (", ".join(texts) + (", ..." if len(items) > 4 else "")) or "nothing"
