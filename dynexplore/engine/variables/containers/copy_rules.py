"""Rules for `copy.copy` and `copy.deepcopy` of constants and containers.

The idea: the copy of a traced container is a new tracker. A deep copy does the same recursively, with one new tracker for each old
one (the memo), so that aliases within the original are aliases within the copy. `__copy__` and `__deepcopy__` are called where they
exist and may pass the memo on. Other user-defined objects are copied by object_copy.py, modules and tensors by
torch_/nn/module_copy.py.

In: calls of the two functions. Out: new trackers. PyTorch's counterpart: none; `call_deepcopy` in
torch/_dynamo/variables/builtin.py breaks the graph.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from dynexplore.engine.variables.containers.deque import DequeVariable
from dynexplore.engine.variables.containers.dict_views import Entries
from dynexplore.engine.variables.containers.mapping import DictVariable, OrderedDictVariable
from dynexplore.engine.variables.containers.named_tuple import NamedTupleVariable, has_other_fields, is_structure
from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, SizeVariable, TupleVariable
from dynexplore.engine.variables.containers.set_ import FrozenSetVariable, SetVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.object_copy import copy_object, guard_on_default
from dynexplore.engine.variables.objects.type_lookup import raw_lookup
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.scalars.specialize import is_tensor
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.type_errors import type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

Memo = dict[VariableTracker, VariableTracker]
CopyItems = Callable[[], list[VariableTracker]]
# Kinds whose values are their own copies: immutable, or copied by reference (copy.py, _deepcopy_atomic): `_ATOMIC_KINDS`.
# The pickle protocol that `collections.namedtuple` implements: `_PROTOCOL`.
_PROTOCOL = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs_ex__")
_ATOMIC_KINDS = frozenset({"constant", "function", "class", "builtin", "range"})


class CopyMemoVariable(VariableTracker):
    """The memo of a deep copy, as `__deepcopy__` receives it: it can only be passed on to `copy.deepcopy`, not inspected."""

    kind = "memo of a deep copy"

    def __init__(self, memo: Memo) -> None:
        self.memo = memo

    def python_type(self) -> type[Any]:
        return dict


@builtin(copy.copy)
def _copy(ctx: TraceContext, x: VariableTracker) -> VariableTracker:
    if isinstance(x, NamedTupleVariable):
        return _named_tuple_copy(ctx, x, "__copy__", [], lambda: x.items)
    if isinstance(x, SizeVariable):
        return SizeVariable(x.items)
    if x.kind in _ATOMIC_KINDS or isinstance(x, SliceVariable | TupleVariable | FrozenSetVariable):
        return x
    if isinstance(x, ListVariable | DictVariable | SetVariable | DequeVariable) and not _is_view(x):
        return _with_attributes(ctx, x, x.call_method(ctx, "copy", [], {}), lambda part: part)
    return _own_copy(ctx, x, "__copy__", [], None)


@builtin(copy.deepcopy)
def _deepcopy(ctx: TraceContext, x: VariableTracker, memo: VariableTracker | None = None) -> VariableTracker:
    if isinstance(memo, CopyMemoVariable):
        return deep_copy(ctx, x, memo.memo)
    if memo is not None and not (memo.is_constant() and memo.as_constant() is None):
        ctx.break_graph("DX205", function="copy.deepcopy", arguments="a memo")
    return deep_copy(ctx, x, {})


def deep_copy(ctx: TraceContext, value: VariableTracker, memo: Memo) -> VariableTracker:
    """The deep copy of one value; `memo` holds what has been copied already."""
    value = value.read(ctx)
    if value not in memo:
        copy = _new_copy(ctx, value, memo)
        if copy is value:
            return value
        memo.setdefault(value, copy)  # a tuple that contains itself has been copied meanwhile
    return memo[value]


def _new_copy(ctx: TraceContext, value: VariableTracker, memo: Memo) -> VariableTracker:
    if value.kind in _ATOMIC_KINDS:
        return value
    for tracker, make in COPIES:
        if isinstance(value, tracker) and not _is_view(value):
            return make(ctx, value, memo)
    if type_of(value) is dict:  # an object's `__dict__`
        return deep_copy(ctx, value.call_method(ctx, "copy", [], {}), memo)
    return _own_copy(ctx, value, "__deepcopy__", [CopyMemoVariable(memo)], memo)


def _own_copy(
    ctx: TraceContext, value: VariableTracker, method: str, args: list[VariableTracker], memo: Memo | None
) -> VariableTracker:
    """The copy of an object: by its own `__copy__` or `__deepcopy__`, else by the pickle protocol. `memo` None: a shallow copy."""
    python_type = type_of(value)
    if is_tensor(value):
        ctx.break_graph("DX416", operation="copy.copy" if method == "__copy__" else "copy.deepcopy")
    if python_type is not None and hasattr(raw_lookup(ctx, python_type, method), "__code__"):
        return value.call_method(ctx, method, args, {})
    if isinstance(value, UserObjectVariable) and raw_lookup(ctx, value.cls, method) is None:
        if memo is None:
            return copy_object(ctx, value, lambda part: part)
        guard_on_default(ctx, value, method)
        return copy_object(ctx, value, lambda part: deep_copy(ctx, part, memo), lambda copy: memo.update({value: copy}))
    if python_type is dict and memo is None:
        return value.call_method(ctx, "copy", [], {})
    refuse_copy(ctx, value)


def _is_view(value: VariableTracker) -> bool:
    """Whether this is a read-only view of a dict, which has the methods of a dict and cannot be copied."""
    return type_of(value) is MappingProxyType


def refuse_copy(ctx: TraceContext, value: VariableTracker) -> NoReturn:
    """Break the graph at the copy of a value that is not traced."""
    ctx.break_graph("DX205", function="copy", arguments=value.type_name())


def _deep_list(ctx: TraceContext, value: ListVariable, memo: Memo) -> VariableTracker:
    copy = memo[value] = ListVariable([])
    copy.items.extend(deep_copy(ctx, item, memo) for item in value.items)
    return copy


def _deep_deque(ctx: TraceContext, value: DequeVariable, memo: Memo) -> VariableTracker:
    copy = memo[value] = DequeVariable([], value.maxlen)
    copy.items.extend(deep_copy(ctx, item, memo) for item in value.items)
    return copy


def _deep_dict(ctx: TraceContext, value: DictVariable, memo: Memo) -> VariableTracker:
    entries: Entries = {}
    copy = memo[value] = value.like(entries)
    for key, item in value.pairs(ctx):
        copy.store(ctx, deep_copy(ctx, key, memo), deep_copy(ctx, item, memo))
    return _with_attributes(ctx, value, copy, lambda part: deep_copy(ctx, part, memo))


def _with_attributes(
    ctx: TraceContext, value: VariableTracker, copy: VariableTracker, copied: Callable[[VariableTracker], VariableTracker]
) -> VariableTracker:
    """Copy the attributes of an OrderedDict as well, as the pickle protocol does; `OrderedDict.copy` does not copy them."""
    if isinstance(value, OrderedDictVariable) and isinstance(copy, OrderedDictVariable):
        copy.attributes.update((name, copied(part)) for name, part in value.all_attributes(ctx).items())
    return copy


def _deep_set(ctx: TraceContext, value: SetVariable, memo: Memo) -> VariableTracker:
    copy = type(value)()
    for item in value.ordered(ctx):
        copy.put(ctx, deep_copy(ctx, item, memo))
    return copy


def _deep_slice(ctx: TraceContext, value: SliceVariable, memo: Memo) -> VariableTracker:
    """A new slice: copy.py has a rule for slices only in `copy`."""
    value.read_items(ctx)
    start, stop, step = (deep_copy(ctx, part, memo) for part in value.parts)
    return SliceVariable(start, stop, step)


def _deep_tuple(ctx: TraceContext, value: TupleVariable, memo: Memo) -> VariableTracker:
    if isinstance(value, NamedTupleVariable):
        return _named_tuple_copy(ctx, value, "__deepcopy__", [CopyMemoVariable(memo)], lambda: _deep_items(ctx, value, memo))
    items = _deep_items(ctx, value, memo)
    old = value.unpack(ctx)
    if not isinstance(value, SizeVariable) and all(new is item for new, item in zip(items, old, strict=True)):
        return value
    return SizeVariable(items) if isinstance(value, SizeVariable) else TupleVariable(items)


def _deep_items(ctx: TraceContext, value: TupleVariable, memo: Memo) -> list[VariableTracker]:
    return [deep_copy(ctx, item, memo) for item in value.items]


def _named_tuple_copy(
    ctx: TraceContext, value: NamedTupleVariable, method: str, args: list[VariableTracker], items: CopyItems
) -> VariableTracker:
    """By the class's own method. The graph breaks if the class overrides the pickle
    protocol or its instances may have attributes.
    """
    cls = value.cls
    if hasattr(raw_lookup(ctx, cls, method), "__code__"):
        return value.call_method(ctx, method, args, {})
    if not is_structure(cls):
        overrides = any(raw_lookup(ctx, cls, name) is not vars(object).get(name) for name in _PROTOCOL)
        overrides |= not value.has_own(ctx, "__getnewargs__")
        if overrides or value.value is not None:
            refuse_copy(ctx, value)
    elif has_other_fields(cls):
        refuse_copy(ctx, value)
    return NamedTupleVariable(cls, items())


COPIES: list[tuple[type[VariableTracker], Callable[[Any, Any, Memo], VariableTracker]]] = [
    (ListVariable, _deep_list),
    (DequeVariable, _deep_deque),
    (DictVariable, _deep_dict),
    (SetVariable, _deep_set),
    (TupleVariable, _deep_tuple),
    (SliceVariable, _deep_slice),
]
"""How to deep-copy each kind of tracker; torch_/nn/module_copy.py adds modules and tensors."""
