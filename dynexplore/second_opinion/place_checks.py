"""Checks of the instructions for named places (locals, cells, globals, attributes) and of loops.

The idea: a store must put exactly this value there and change no other name; a load must push the value that is there, which
for a live object, module or namespace is read from the real one. An iterator must yield the next of its remaining items.

In: a step, as in opcode_checks.py. Out: its verdict; Unknown if code of the program decides (a property, `__setattr__`).
Mirrors Objects/object.c of CPython (_PyObject_GenericGetAttrWithDict). PyTorch's counterpart: none.
"""

from __future__ import annotations

import builtins
import types
from typing import Any

import torch

from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.contract.base import NotConstant, VariableTracker
from dynexplore.engine.variables.contract.inspection import Contents, Unknown
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.objects.python_module import PythonModuleVariable
from dynexplore.engine.variables.objects.super_ import SuperVariable
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable
from dynexplore.engine.variables.torch_.nn.nn_module import NNModuleVariable
from dynexplore.engine.variables.torch_.tensor.tensor import TensorMethodVariable, TensorVariable
from dynexplore.second_opinion.check_table import another, check, check_stack, text_of
from dynexplore.second_opinion.contents import Value, first_value, is_container, may_be_same
from dynexplore.second_opinion.deferred_checks import CheckedStep, Mismatch, Verdict, as_read
from dynexplore.second_opinion.large_containers import SMALL
from dynexplore.second_opinion.stack_calls import call_on_stack

Stored = dict[str, VariableTracker | None]


def _check_stored(place: VariableTracker, expected: Stored, place_kind: str) -> Verdict:
    """Check that the names and values of a place are the expected ones."""
    now, live = place.assigned() or {}, place.live_names()
    for name in {**expected, **now}:
        predicted, actual = expected.get(name), now.get(name)
        if predicted is None and actual is None:
            if name in live and (name in expected) is not (name in now):
                return Mismatch(
                    f"{place_kind} {name}", *(("deleted", "as it was") if name in expected else ("as it was", "deleted"))
                )
        elif predicted is None or actual is None or not may_be_same(Value(predicted), Value(actual)):
            return another(f"{place_kind} {name}", text_of(predicted), text_of(actual))
    return None


# -- locals and cells --------------------------------------------------------------------------------------------------


@check("DELETE_FAST")
def _delete_fast(step: CheckedStep) -> Verdict:
    bound = step.frame.locals.get(step.arg)
    return check_stack(step.before, step) if bound is None else Mismatch(f"local {step.arg}", "nothing", text_of(bound))


def _cells(frame: Any, step: Any) -> list[VariableTracker]:
    cell = frame.cells.get(step.arg)
    return [] if cell is None else [cell]


@check("STORE_DEREF", changes=_cells)
def _store_deref(step: CheckedStep) -> Verdict:
    cell, value = step.frame.cells[step.arg], step.before[-1]
    if cell not in step.state_before:
        return Mismatch(f"cell {step.arg}", "the same cell", "another cell")
    if cell.content is not value:
        return another(f"cell {step.arg}", text_of(value), text_of(cell.content))
    return check_stack(step.before[:-1], step)


@check("LOAD_DEREF", changes=_cells)
def _load_deref(step: CheckedStep) -> Verdict:
    cell = step.frame.cells.get(step.arg)
    content = step.state_before[cell]["cell_contents"] if cell in step.state_before else None
    if content is None or isinstance(as_read(content), LazyVariable):
        raise Unknown
    return check_stack([*step.before, content], step)


@check("LOAD_CLOSURE")
def _load_closure(step: CheckedStep) -> Verdict:
    if step.arg in step.frame.locals:
        raise Unknown
    return check_stack([*step.before, step.frame.cells[step.arg]], step)


# -- globals -----------------------------------------------------------------------------------------------------------


@check("STORE_GLOBAL", "DELETE_GLOBAL", changes=lambda frame, step: [frame.globals])
def _store_global(step: CheckedStep) -> Verdict:
    value = step.before[-1] if step.op == "STORE_GLOBAL" else None
    expected = {**step.state_before[step.frame.globals], step.arg: value}
    rest = step.before[:-1] if value is not None else step.before
    return _check_stored(step.frame.globals, expected, "global") or check_stack(rest, step)


@check("LOAD_GLOBAL", changes=lambda frame, step: [frame.globals])
def _load_global(step: CheckedStep) -> Verdict:
    namespace, name = step.frame.globals, step.arg
    stored: Stored = step.state_before[namespace]
    if stored.get(name) is not None:
        return check_stack([*step.before, stored[name]], step)  # type: ignore[list-item]
    if name in namespace.values and name not in stored:
        live = namespace.values[name]
    elif hasattr(builtins, name):
        live = getattr(builtins, name)
    else:
        raise Unknown
    return _check_loaded(step, step.after[-1], live, f"global {name}") or check_stack([*step.before, step.after[-1]], step)


def _check_loaded(step: CheckedStep, tracker: VariableTracker, live: object, place_kind: str) -> Verdict:
    """Check that a tracker that was loaded may represent this live object. Raises Unknown."""
    if type(live) in _PLAIN and isinstance(tracker, ConstantVariable):
        return None if may_be_same(Value(tracker), Value(None, live)) else Mismatch(place_kind, repr(live)[:80], text_of(tracker))
    expected = step.journal.tracker_of(live)
    if expected is not None:
        return None if may_be_same(Value(expected), Value(tracker)) else another(place_kind, text_of(expected), text_of(tracker))
    try:
        actual = tracker.live_value()
    except NotConstant:
        actual = step.journal.value_of(tracker)
        if actual is None:
            raise Unknown from None
    if actual is live or type(actual) is not type(live) or not isinstance(live, _KNOWN_BY_IDENTITY):
        return None
    return another(place_kind, _name(live), _name(actual))


_PLAIN = frozenset({int, float, bool, str, bytes, type(None), complex})
_KNOWN_BY_IDENTITY = (types.FunctionType, types.ModuleType, types.BuiltinFunctionType, type, torch.Tensor, list, dict)


def _name(value: Any) -> str:
    return str(getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or f"a {type(value).__name__}")


# -- attributes --------------------------------------------------------------------------------------------------------


@check("STORE_ATTR", changes=lambda frame, step: frame.stack[-1:])
def _store_attribute(step: CheckedStep) -> Verdict:
    value, owner = step.before[-2], as_read(step.before[-1])
    _require_plain_store(step, owner, value)
    expected = {**step.state_before[owner], step.arg: value}
    return _check_stored(owner, expected, "attribute") or check_stack(step.before[:-2], step)


@check("DELETE_ATTR", changes=lambda frame, step: frame.stack[-1:])
def _delete_attribute(step: CheckedStep) -> Verdict:
    owner = as_read(step.before[-1])
    _require_plain_store(step, owner, None)
    expected = {**step.state_before[owner], step.arg: None}
    return _check_stored(owner, expected, "attribute") or check_stack(step.before[:-1], step)


def _require_plain_store(step: CheckedStep, owner: VariableTracker, value: VariableTracker | None) -> None:
    """Raise Unknown if an assignment runs code, of the program or of a module that registers the assigned value."""
    if isinstance(owner, PythonModuleVariable):
        return
    if not isinstance(owner, UserObjectVariable) or step.inlined:
        raise Unknown
    setters = [object.__setattr__, object.__delattr__]
    if isinstance(owner, NNModuleVariable) and isinstance(value, ConstantVariable):
        setters.append(torch.nn.Module.__setattr__)
    cls = owner.cls
    if cls.__setattr__ not in setters or cls.__delattr__ not in (*setters, torch.nn.Module.__delattr__):
        raise Unknown
    if _is_data_descriptor(_in_class(cls, step.arg)):
        raise Unknown


def _in_class(cls: type[Any], name: str) -> Any:
    return next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)


def _is_data_descriptor(attribute: Any) -> bool:
    return hasattr(type(attribute), "__set__") and not isinstance(attribute, types.MemberDescriptorType)


@check("LOAD_ATTR")
def _load_attribute(step: CheckedStep) -> Verdict:
    owner, name, loaded = as_read(step.before[-1]), step.arg, step.after[-1]
    if isinstance(loaded, TensorMethodVariable) and isinstance(owner, TensorVariable):
        return _check_method_name(step, loaded.tensor, loaded.name)
    if isinstance(loaded, ConstantMethodVariable) and is_container(owner):
        return _check_method_name(step, loaded.receiver, loaded.name)
    if not isinstance(owner, PythonModuleVariable | UserObjectVariable):
        raise Unknown
    if isinstance(owner, UserObjectVariable) and (step.inlined or not _looks_up_plainly(owner.cls, name)):
        raise Unknown
    own = owner.live_names()
    stored = owner.stored.get(name)
    if stored is not None:
        return check_stack([*step.before[:-1], stored], step)
    if name in owner.stored or name not in own:
        raise Unknown
    return _check_loaded(step, loaded, own[name], f"attribute {name}")


def _check_method_name(step: CheckedStep, receiver: VariableTracker, name: str) -> Verdict:
    if name != step.arg:
        return Mismatch("method", str(step.arg), name)
    return None if receiver is as_read(step.before[-1]) else another("receiver", text_of(step.before[-1]), text_of(receiver))


def _looks_up_plainly(cls: type[Any], name: str) -> bool:
    getter: Any = cls.__getattribute__
    return getter is object.__getattribute__ and not hasattr(type(_in_class(cls, name)), "__set__")


@check("CALL")
def _super(step: CheckedStep) -> Verdict:
    """`super()` without arguments refers to the calling frame's class, and to that frame's first argument."""
    function, args, named = call_on_stack(step)
    proxy = step.after[-1]
    is_super = isinstance(function, ClassVariable) and function.value is super
    if args or named or not is_super or not isinstance(proxy, SuperVariable):
        raise Unknown
    code, cells = step.frame.parsed.code, step.frame.cells
    receiver = step.frame.locals.get(code.co_varnames[0])
    if receiver is not None and as_read(proxy.receiver) is not as_read(receiver):
        return another("receiver of super()", text_of(receiver), text_of(proxy.receiver))
    if "__class__" in cells and proxy.after is not cells["__class__"].content:
        return another("class of super()", text_of(cells["__class__"].content), text_of(proxy.after))
    return None


# -- identity -----------------------------------------------------------------------------------------------------------


@check("IS_OP")
def _is(step: CheckedStep) -> Verdict:
    """Check `is`, which is decidable if one value is None, or if one tracker represents both."""
    lhs, rhs = map(as_read, step.before[-2:])
    nones = [type(value) is ConstantVariable and value.value is None for value in (lhs, rhs)]
    if lhs is rhs:
        is_same = True
    elif any(nones) and all(_is_never_none(value) for value, none in zip((lhs, rhs), nones, strict=True) if not none):
        is_same = all(nones)
    else:
        raise Unknown
    return _check_equal(is_same is not bool(step.arg), step.after[-1].unguarded_value(), "value")


def _is_never_none(value: VariableTracker) -> bool:
    """For a value that is not None: whether the program cannot find None there in another call."""
    return isinstance(value, ConstantVariable) or is_container(value) or value.identity() is not None


# -- loops -------------------------------------------------------------------------------------------------------------


@check("GET_ITER")
def _get_iterator(step: CheckedStep) -> Verdict:
    """Check that a new iterator has all items before it."""
    walked, iterator = as_read(step.before[-1]), step.after[-1]
    whole, remaining = walked.contents(), iterator.remaining()
    if whole is None or remaining is None:
        raise Unknown
    return _check_remaining(whole, remaining)


@check("FOR_ITER", changes=lambda frame, step: frame.stack[-1:])
def _for_iter(step: CheckedStep) -> Verdict:
    iterator = step.before[-1]
    remaining = step.state_before.get(as_read(iterator))
    if not isinstance(remaining, Contents):
        raise Unknown
    item = first_value(remaining)
    is_left = step.frame.pc == step.instruction.target
    if (item is None) is not is_left:
        outcomes = ["the loop is left", "the loop continues"]
        return Mismatch("next instruction", *(outcomes if item is None else outcomes[::-1]))
    if item is None:
        return check_stack(step.before[:-1], step)
    if len(step.after) == len(step.before) + 1 and not may_be_same(_as_tracked(step, item), Value(step.after[-1])):
        return another("item", item.text(), text_of(step.after[-1]))
    return _check_rest(remaining, iterator) or check_stack([*step.before, step.after[-1]], step)


def _check_rest(before: Contents, iterator: VariableTracker) -> Verdict:
    """Check that the remaining items are those before, without the first; for a long iterator only the next ones are compared."""
    expected = _without_first(before)
    if len(before.items) < SMALL or before.live is not None:
        return _check_remaining(expected, iterator.remaining())
    return _check_remaining(expected, iterator.remaining(len(expected.items)))


def _as_tracked(step: CheckedStep, item: Value) -> Value:
    """An item that had no tracker before the step, with the one that represents it now."""
    tracker = step.journal.tracker_of(item.live) if item.tracker is None and type(item.live) not in _PLAIN else None
    return item if tracker is None else Value(tracker)


def _without_first(contents: Contents) -> Contents:
    if contents.live:
        return Contents(contents.items, contents.live[1:])
    return Contents(contents.items[1:])


def _check_remaining(expected: Contents, actual: Contents | None) -> Verdict:
    """Check that the remaining items of an iterator are the same, and equally many."""
    if actual is None:
        raise Unknown
    if isinstance(expected.live, range) and isinstance(actual.live, range):
        return _check_equal(expected.live, actual.live, "numbers that remain")
    wrong = _check_equal(expected.length(), actual.length(), "number of items that remain")
    if wrong is not None or expected.live is not None or actual.live is not None or expected.items == actual.items:
        return wrong
    pairs = zip(map(as_read, expected.items), map(as_read, actual.items), strict=True)
    return next(
        (
            another("item that remains", text_of(expected_item), text_of(actual_item))
            for expected_item, actual_item in pairs
            if expected_item is not actual_item
        ),
        None,
    )


def _check_equal(expected: Any, actual: Any, aspect: str) -> Verdict:
    return None if expected == actual else Mismatch(aspect, str(expected)[:80], str(actual)[:80])
