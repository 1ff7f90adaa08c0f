"""What instructions mean for places that have a name: locals, cells, globals, attributes; and for the loops that walk containers.

The idea: a store must put the very value there and change nothing else in the same place; a load must give what is there, which for
a live object, module or namespace is read from the real thing.

In: a step, as opcode_checks.py gets it. Out: its verdict; Unknown where code of the program decides (a property, `__setattr__`).
Mirrors Objects/object.c (_PyObject_GenericGetAttrWithDict); PyTorch has no counterpart.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Mapping
from typing import Any

import torch

from dynexplore.engine.variables.containers.iterator import ItemsIteratorVariable, SequenceIteratorVariable
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.containers.ranges import RangeIteratorVariable, RangeVariable
from dynexplore.engine.variables.contract.base import NotConstant, VariableTracker
from dynexplore.engine.variables.objects.python_module import PythonModuleVariable
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable
from dynexplore.engine.variables.torch_.nn_module import NNModuleVariable
from dynexplore.engine.variables.torch_.tensor import TensorMethodVariable, TensorVariable
from dynexplore.second_opinion.check_table import Verdict, about, differs, moved, says
from dynexplore.second_opinion.contents import CONTAINERS, SEQUENCES, Value, same
from dynexplore.second_opinion.deferred_checks import Mismatch, Stepped, Unknown, as_read, known

Stored = dict[str, VariableTracker | None]


def _stored_as(now: Stored, expected: Stored, live: Mapping[str, Any], what: str) -> Verdict:
    """A place with names must be what is expected of it; `live` is what it really was when the frame began."""
    for name in {**expected, **now}:
        wanted, found = expected.get(name), now.get(name)
        if wanted is None and found is None:
            if name in live and (name in expected) is not (name in now):
                return Mismatch(f"{what} {name}", *(("deleted", "as it was") if name in expected else ("as it was", "deleted")))
        elif wanted is None or found is None or not same(Value(wanted), Value(found)):
            return differs(f"{what} {name}", says(wanted), says(found))
    return None


# -- locals and cells --------------------------------------------------------------------------------------------------


@about("DELETE_FAST")
def _delete_fast(view: Stepped) -> Verdict:
    bound = view.frame.locals.get(view.step.arg)
    return moved(view.before, view) if bound is None else Mismatch(f"local {view.step.arg}", "nothing", says(bound))


def _cells(frame: Any, step: Any) -> list[VariableTracker]:
    cell = frame.cells.get(step.arg)
    return [] if cell is None else [cell]


@about("STORE_DEREF", keeps=_cells)
def _store_deref(view: Stepped) -> Verdict:
    cell, value = view.frame.cells[view.step.arg], view.before[-1]
    if cell not in view.kept:
        return Mismatch(f"cell {view.step.arg}", "the same cell", "another cell")
    if cell.content is not value:
        return differs(f"cell {view.step.arg}", says(value), says(cell.content))
    return moved(view.before[:-1], view)


@about("LOAD_DEREF", keeps=_cells)
def _load_deref(view: Stepped) -> Verdict:
    cell = view.frame.cells.get(view.step.arg)
    kept = view.kept.get(cell) if cell is not None else None
    if kept is None or kept[0] is None or (isinstance(kept[0], LazyVariable) and kept[0]._read is None):
        raise Unknown
    return moved([*view.before, kept[0]], view)


@about("LOAD_CLOSURE")
def _load_closure(view: Stepped) -> Verdict:
    if view.step.arg in view.frame.locals:
        raise Unknown
    return moved([*view.before, view.frame.cells[view.step.arg]], view)


# -- globals -----------------------------------------------------------------------------------------------------------


@about("STORE_GLOBAL", "DELETE_GLOBAL", keeps=lambda frame, step: [frame.globals])
def _store_global(view: Stepped) -> Verdict:
    value = view.before[-1] if view.step.op == "STORE_GLOBAL" else None
    expected = {**view.kept[view.frame.globals], view.step.arg: value}
    rest = view.before[:-1] if value is not None else view.before
    return _stored_as(view.frame.globals.stored, expected, view.frame.globals.values, "global") or moved(rest, view)


@about("LOAD_GLOBAL", "LOAD_NAME", keeps=lambda frame, step: [frame.globals])
def _load_global(view: Stepped) -> Verdict:
    namespace, name = view.frame.globals, view.step.arg
    stored: Stored = view.kept[namespace]
    if stored.get(name) is not None:
        return moved([*view.before, stored[name]], view)  # type: ignore[list-item]
    if name in namespace.values and name not in stored:
        live = namespace.values[name]
    elif hasattr(builtins, name):
        live = getattr(builtins, name)
    else:
        raise Unknown
    return _stands_for(view, view.after[-1], live, f"global {name}") or moved([*view.before, view.after[-1]], view)


def _stands_for(view: Stepped, found: VariableTracker, live: object, what: str) -> Verdict:
    """Whether a tracker may be the one for this live object. Raises Unknown."""
    if type(live) in _PLAIN and isinstance(found, ConstantVariable):
        return None if same(Value(found), Value(None, live)) else Mismatch(what, repr(live)[:80], says(found))
    expected = view.journal.tracker_of(live)
    if expected is not None:
        return None if same(Value(expected), Value(found)) else differs(what, says(expected), says(found))
    try:
        actual = found.live_value()
    except NotConstant:
        actual = view.journal.value_of(found)
        if actual is None:
            raise Unknown from None
    if actual is live or type(actual) is not type(live) or not isinstance(live, _TOLD_BY_IDENTITY):
        return None
    return differs(what, _name(live), _name(actual))


_PLAIN = frozenset({int, float, bool, str, bytes, type(None), complex})
_TOLD_BY_IDENTITY = (types.FunctionType, types.ModuleType, types.BuiltinFunctionType, type, torch.Tensor, list, dict)


def _name(value: Any) -> str:
    return str(getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or f"a {type(value).__name__}")


# -- attributes --------------------------------------------------------------------------------------------------------


@about("STORE_ATTR", keeps=lambda frame, step: frame.stack[-1:])
def _store_attribute(view: Stepped) -> Verdict:
    value, owner = view.before[-2], as_read(view.before[-1])
    _must_store_plainly(view, owner, value)
    expected = {**view.kept[owner], view.step.arg: value}
    return _stored_as(owner.stored, expected, _live(owner), "attribute") or moved(view.before[:-2], view)  # type: ignore[attr-defined]


@about("DELETE_ATTR", keeps=lambda frame, step: frame.stack[-1:])
def _delete_attribute(view: Stepped) -> Verdict:
    owner = as_read(view.before[-1])
    _must_store_plainly(view, owner, None)
    expected = {**view.kept[owner], view.step.arg: None}
    return _stored_as(owner.stored, expected, _live(owner), "attribute") or moved(view.before[:-1], view)  # type: ignore[attr-defined]


def _must_store_plainly(view: Stepped, owner: VariableTracker, value: VariableTracker | None) -> None:
    """Raises Unknown where an assignment runs code, of the program or of a module that registers what is assigned."""
    if isinstance(owner, PythonModuleVariable):
        return
    if not isinstance(owner, UserObjectVariable) or view.inlined:
        raise Unknown
    setters = [object.__setattr__, object.__delattr__]
    if isinstance(owner, NNModuleVariable) and isinstance(value, ConstantVariable):
        setters.append(torch.nn.Module.__setattr__)
    cls = owner.cls
    if cls.__setattr__ not in setters or cls.__delattr__ not in (*setters, torch.nn.Module.__delattr__):
        raise Unknown
    if _is_data_descriptor(_in_class(cls, view.step.arg)):
        raise Unknown


def _live(owner: VariableTracker) -> Mapping[str, Any]:
    """What stands in the dictionary of a live object or module; nothing for an object made in the frame."""
    if isinstance(owner, PythonModuleVariable):
        return vars(owner.value)
    return (owner.live_dictionary() or {}) if isinstance(owner, UserObjectVariable) else {}


def _in_class(cls: type[Any], name: str) -> Any:
    return next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)


def _is_data_descriptor(found: Any) -> bool:
    return hasattr(type(found), "__set__") and not isinstance(found, types.MemberDescriptorType)


@about("LOAD_ATTR")
def _load_attribute(view: Stepped) -> Verdict:
    owner, name, found = as_read(view.before[-1]), view.step.arg, view.after[-1]
    if isinstance(found, TensorMethodVariable) and isinstance(owner, TensorVariable):
        return _names_method(view, found.tensor, found.name)
    if isinstance(found, ConstantMethodVariable) and type(owner) in CONTAINERS:
        return _names_method(view, found.receiver, found.name)
    if not isinstance(owner, PythonModuleVariable | UserObjectVariable):
        raise Unknown
    if isinstance(owner, UserObjectVariable) and (view.inlined or not _looks_up_plainly(owner.cls, name)):
        raise Unknown
    own = _live(owner)
    stored = owner.stored.get(name)
    if stored is not None:
        return moved([*view.before[:-1], stored], view)
    if name in owner.stored or name not in own:
        raise Unknown
    return _stands_for(view, found, own[name], f"attribute {name}")


def _names_method(view: Stepped, receiver: VariableTracker, name: str) -> Verdict:
    if name != view.step.arg:
        return Mismatch("method", str(view.step.arg), name)
    return None if receiver is as_read(view.before[-1]) else differs("receiver", says(view.before[-1]), says(receiver))


def _looks_up_plainly(cls: type[Any], name: str) -> bool:
    getter: Any = cls.__getattribute__
    return getter is object.__getattribute__ and not hasattr(type(_in_class(cls, name)), "__set__")


# -- identity -----------------------------------------------------------------------------------------------------------


@about("IS_OP")
def _is(view: Stepped) -> Verdict:
    """Of two values one of which is None, or that one tracker stands for, it is known whether they are one object."""
    left, right = map(as_read, view.before[-2:])
    nones = [isinstance(value, ConstantVariable) and value.value is None for value in (left, right)]
    if left is right:
        wanted = True
    elif any(nones) and all(isinstance(value, _NEVER_NONE) for value, none in zip((left, right), nones, strict=True) if not none):
        wanted = all(nones)
    else:
        raise Unknown
    return _says_same(wanted is not bool(view.step.arg), known(view.after[-1]), "value")


_NEVER_NONE = (ConstantVariable, TensorVariable, UserObjectVariable, *CONTAINERS)


# -- loops -------------------------------------------------------------------------------------------------------------


@about("GET_ITER")
def _get_iterator(view: Stepped) -> Verdict:
    walked, made = as_read(view.before[-1]), view.after[-1]
    if isinstance(walked, RangeVariable) and isinstance(made, RangeIteratorVariable):
        try:
            wanted = iter(walked.as_constant())
        except NotConstant:
            raise Unknown from None
        return _says_same(list(wanted), list(made.numbers), "numbers to come")
    if type(walked) not in SEQUENCES or not isinstance(made, SequenceIteratorVariable):
        raise Unknown
    if made.sequence is not walked:
        return differs("what is walked", says(walked), says(made.sequence))
    return _says_same(0, made.index, "place of the iterator")


def _says_same(wanted: Any, found: Any, what: str) -> Verdict:
    return None if wanted == found else Mismatch(what, str(wanted)[:80], str(found)[:80])


@about("FOR_ITER", keeps=lambda frame, step: frame.stack[-1:])
def _for_iter(view: Stepped) -> Verdict:
    iterator = view.before[-1]
    item, index = _next(view, iterator)
    jumped = view.frame.pc == view.step.target
    if (item is None) is not jumped:
        says_so = ["the loop is left", "the loop goes on"]
        return Mismatch("next instruction", *(says_so if item is None else says_so[::-1]))
    if item is None:
        return moved(view.before[:-1], view)
    if len(view.after) == len(view.before) + 1 and not same(item, Value(view.after[-1])):
        return differs("item", item.text(), says(view.after[-1]))
    if isinstance(iterator, SequenceIteratorVariable | ItemsIteratorVariable) and iterator.index != index:
        return Mismatch("place of the iterator", str(index), str(iterator.index))
    return moved([*view.before, view.after[-1]], view)


def _next(view: Stepped, iterator: VariableTracker) -> tuple[Value | None, int]:
    """What comes next, None at the end, and the place after it. Raises Unknown."""
    kept: Any = view.kept.get(iterator)
    if isinstance(iterator, RangeIteratorVariable):
        numbers: range = kept
        return (Value(ConstantVariable(numbers[0])) if numbers else None), 0
    if type(iterator) is ItemsIteratorVariable:
        items, index, step = kept[0], kept[1], 1
    elif type(iterator) is SequenceIteratorVariable:
        if kept[0] is None:
            return None, kept[1]
        items, index, step = kept[0].items, kept[1], iterator.step
    else:
        raise Unknown
    return (Value(items[index]), index + step) if 0 <= index < len(items) else (None, index)
