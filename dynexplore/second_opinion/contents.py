"""What a container holds, as a real Python container that CPython itself can work on.

The idea: what `list.insert`, `dict.update` or `set.add` do to a container nobody has to describe: CPython does it again, to a
real list, dict or set whose items stand for trackers (`Value`). A `Value` may be compared, hashed and ordered where its constant
is known, and is itself and nothing else where it is a tensor or an object; what asks for more than is known ends in `Unknown`.

Nothing here asks a tracker a question that could install a guard: a list or dict that existed before the frame and was not yet
looked at is read from the live object.

In: the tracker of a list, tuple, deque, dict or set. Out: `Held`, a shallow copy of what it holds now, which costs one copy of a
Python list; `real(held)`; and `unlike(expected, actual)`, the first thing in which two of them differ. PyTorch has no counterpart.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

import torch

from dynexplore.engine.variables.containers.deque import DequeVariable
from dynexplore.engine.variables.containers.dict_views import DictViewVariable
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.containers.mapping import (
    DefaultDictVariable,
    DictVariable,
    ExistingDictVariable,
    MappingProxyVariable,
    OrderedDictVariable,
)
from dynexplore.engine.variables.containers.named_tuple import NamedTupleVariable
from dynexplore.engine.variables.containers.ranges import RangeVariable
from dynexplore.engine.variables.containers.sequence import ExistingListVariable, ListVariable, SizeVariable, TupleVariable
from dynexplore.engine.variables.containers.set_ import FrozenSetVariable, SetVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.function import BuiltinVariable, FunctionVariable
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.scalars.constant import LITERALS, ConstantVariable
from dynexplore.engine.variables.scalars.symbolic_number import SymbolicNumberVariable
from dynexplore.engine.variables.torch_.tensor import TensorVariable
from dynexplore.second_opinion.check_table import differs, says
from dynexplore.second_opinion.deferred_checks import Mismatch, Unknown, as_read, has_nodes, is_plain, known, same_constant

LONGEST = 1000
"""A container of more items is not held against anything."""

SEQUENCES: dict[type[Any], type[Any]] = {
    ListVariable: list,
    ExistingListVariable: list,
    TupleVariable: tuple,
    SizeVariable: tuple,
    NamedTupleVariable: tuple,
    DequeVariable: deque,
}
MAPPINGS: dict[type[Any], type[Any]] = {
    DictVariable: dict,
    ExistingDictVariable: dict,
    OrderedDictVariable: OrderedDict,
    DefaultDictVariable: defaultdict,
    MappingProxyVariable: dict,
}
SETS: dict[type[Any], type[Any]] = {SetVariable: set, FrozenSetVariable: frozenset}
CONTAINERS: dict[type[Any], type[Any]] = {**SEQUENCES, **MAPPINGS, **SETS}
"""Tracker -> the Python type that stands for it here."""


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
            if type(self.live) in LITERALS:
                return self.live
            raise Unknown
        found = known(self.tracker)
        if has_nodes(found) or not is_plain(found):
            raise Unknown
        return found

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
        if isinstance(tracker, FunctionVariable | BuiltinVariable):
            return hash(id(tracker.function))
        if isinstance(tracker, TensorVariable) or (isinstance(tracker, UserObjectVariable) and _hashes_by_identity(tracker.cls)):
            return hash(id(tracker))
        return hash(self.constant())

    def text(self) -> str:
        """For people: as the views show it, with the node that holds it."""
        if self.tracker is None:
            return f"a {type(self.live).__qualname__}"
        return says(self.tracker)


def _hashes_by_identity(cls: type[Any]) -> bool:
    own: list[Any] = [cls.__hash__, cls.__eq__]
    return own == [object.__hash__, object.__eq__]


def same(one: Value, other: Value) -> bool:
    """Whether two items may be one object; where that cannot be told, they may."""
    left, right = one.tracker, other.tracker
    if left is right:
        return left is not None or one.live is other.live or _are_equal(one, other)
    if left is None or right is None:
        return _are_equal(one, other) if _has_constant(one) and _has_constant(other) else (left or right).source is not None  # type: ignore[union-attr]
    if isinstance(left, _OF_NODES) and isinstance(right, _OF_NODES):
        return left.node is right.node
    if isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
        return same_constant(left.value, right.value)
    if isinstance(left, FunctionVariable | BuiltinVariable) and isinstance(right, FunctionVariable | BuiltinVariable):
        return left.function is right.function
    if type(left) is not type(right):
        return _has_constant(one) and _has_constant(other) and _are_equal(one, other)
    if type(left) in (TupleVariable, SizeVariable, NamedTupleVariable):  # made anew by `items()`, `zip`, a conversion
        pairs = zip(left.items, right.items, strict=False)  # type: ignore[attr-defined]
        return len(left.items) == len(right.items) and all(same(Value(a), Value(b)) for a, b in pairs)  # type: ignore[attr-defined]
    return type(left) not in CONTAINERS and not isinstance(left, UserObjectVariable)


_OF_NODES = (TensorVariable, SymbolicNumberVariable)


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


@dataclass(slots=True)
class Held:
    """A shallow copy of what a tracker holds: items, pairs or members; None as long as nothing of a live object was read."""

    tracker: VariableTracker
    items: list[Any] | None
    added: list[Any] = field(default_factory=list)  # by the frame, to a live object of which nothing was read


def held(tracker: VariableTracker) -> Held | None:
    """What a container holds now; None for what is no container, or is too long."""
    kind = type(tracker)
    if kind is ExistingListVariable:
        items = tracker._items  # type: ignore[attr-defined]
        return Held(tracker, None if items is None else list(items), list(tracker.added) if items is None else [])  # type: ignore[attr-defined]
    if kind is ExistingDictVariable:
        entries = tracker._entries  # type: ignore[attr-defined]
        return Held(tracker, None, list(tracker.put)) if entries is None else Held(tracker, list(entries.values()))  # type: ignore[attr-defined]
    if kind in SEQUENCES:
        return Held(tracker, list(tracker.items))  # type: ignore[attr-defined]
    if kind in MAPPINGS:
        return Held(tracker, list(tracker.entries.values()))  # type: ignore[attr-defined]
    if kind in SETS:
        return Held(tracker, list(tracker.members.values()))  # type: ignore[attr-defined]
    return None


def real(found: Held) -> Any:
    """The real container. Raises Unknown where it is too long, or a key cannot be hashed without asking."""
    tracker = found.tracker
    python_type = CONTAINERS[type(tracker)]
    items = _items(found)
    if len(items) > LONGEST:
        raise Unknown
    if python_type is defaultdict:
        return defaultdict(None, items)
    if python_type is deque:
        return deque(items, tracker.maxlen)  # type: ignore[attr-defined]
    return python_type(items)


def _items(found: Held) -> list[Any]:
    is_mapping = type(found.tracker) in MAPPINGS
    if found.items is not None:
        return [(Value(key), Value(value)) for key, value in found.items] if is_mapping else list(map(Value, found.items))
    if is_mapping:
        live_pairs: dict[Any, Any] = found.tracker.real_dict  # type: ignore[attr-defined]
        pairs = [(Value(None, key), Value(None, value)) for key, value in dict.items(live_pairs)]
        return [*pairs, *((Value(key), Value(value)) for key, value in found.added)]
    return [*(Value(None, item) for item in list.__iter__(found.tracker.real_list)), *map(Value, found.added)]  # type: ignore[attr-defined]


def contents(tracker: VariableTracker) -> Any:
    """The real container for a tracker as it is now. Raises Unknown."""
    found = held(as_read(tracker))
    if found is None:
        raise Unknown
    return real(found)


def items_of(tracker: VariableTracker) -> list[Any]:
    """What iterating over it gives. Raises Unknown for iterators and whatever else is not known without asking."""
    tracker = as_read(tracker)
    if isinstance(tracker, DictViewVariable):
        pairs = contents(tracker.mapping).items()
        return [{"keys": key, "values": value}.get(tracker.part) or _pair(key, value) for key, value in pairs]
    if isinstance(tracker, RangeVariable | ConstantVariable):
        found = range(*map(known, tracker.parts)) if isinstance(tracker, RangeVariable) else known(tracker)
        if isinstance(found, torch.fx.Node) or not isinstance(found, range | str | bytes | tuple) or len(found) > LONGEST:
            raise Unknown
        return [Value(ConstantVariable(item)) for item in found]
    return list(contents(tracker))


def _pair(key: Value, value: Value) -> Value:
    if key.tracker is None or value.tracker is None:
        raise Unknown
    return Value(TupleVariable([key.tracker, value.tracker]))


# -- two of them -------------------------------------------------------------------------------------------------------


def unlike(expected: Any, actual: Any, of: str = "") -> Mismatch | None:
    """The first thing in which two real containers differ; `of` names the one it is about."""
    kind = type(expected).__name__
    of = f" of {of}" if of else f" of the {kind}"
    if type(expected) is not type(actual):
        return Mismatch("type", kind, type(actual).__name__)
    if isinstance(expected, set | frozenset):
        missing, extra = [item for item in expected if item not in actual], [item for item in actual if item not in expected]
        return Mismatch(f"members{of}", says_items(missing), says_items(extra)) if missing or extra else None
    wanted, found = list(expected), list(actual)
    if len(wanted) != len(found):
        return Mismatch(f"length{of}", f"{len(wanted)}: {says_items(expected)}", f"{len(found)}: {says_items(actual)}")
    for place, (one, other) in enumerate(zip(wanted, found, strict=True)):
        if not same(one, other):
            return differs(f"{'key' if isinstance(expected, dict) else 'item'} {place}{of}", one.text(), other.text())
        if isinstance(expected, dict) and not same(expected[one], actual[other]):
            return differs(f"value of key {one.text()}{of}", expected[one].text(), actual[other].text())
    return None


def says_items(real_container: Any) -> str:
    """A few items as text."""
    items = list(real_container.items() if isinstance(real_container, dict) else real_container)
    texts = [": ".join(part.text() for part in item) if isinstance(item, tuple) else item.text() for item in items[:4]]
    return (", ".join(texts) + (", ..." if len(items) > 4 else "")) or "nothing"
