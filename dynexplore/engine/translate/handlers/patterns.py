"""match statements: MATCH_SEQUENCE, MATCH_MAPPING, MATCH_KEYS and MATCH_CLASS.

The idea: flags of the type identify sequences and mappings; a type inherits them, or gets them when it is registered with
collections.abc. Class patterns read `__match_args__` of the class, or match the whole subject if a flag says so (`case int(x)`).
Python/ceval.c (`match_keys`, `match_class`) defines the order of the checks and the errors.

In: subject and pattern. Out: attribute values, or None. PyTorch's counterpart: `MATCH_CLASS` and `MATCH_KEYS` in
torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.bytecode import Step
from dynexplore.engine.raw_attributes import class_flags
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import NotConstant, VariableTracker
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.objects.object_rules import attribute_or_none, guarded_isinstance
from dynexplore.engine.variables.objects.object_slots import NONE
from dynexplore.engine.variables.objects.type_lookup import find
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

# Include/object.h: Py_TPFLAGS_SEQUENCE, Py_TPFLAGS_MAPPING, _Py_TPFLAGS_MATCH_SELF
_SEQUENCE, _MAPPING, _MATCH_SELF = 1 << 5, 1 << 6, 1 << 22


@handles("MATCH_SEQUENCE")
def match_sequence(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Whether the subject is a sequence (but not a string)."""
    frame.push(ConstantVariable(_has_flag(ctx, frame.stack[-1], _SEQUENCE)))


@handles("MATCH_MAPPING")
def match_mapping(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Whether the subject is a mapping."""
    frame.push(ConstantVariable(_has_flag(ctx, frame.stack[-1], _MAPPING)))


def _has_flag(ctx: Interpreter, subject: VariableTracker, flag: int) -> bool:
    cls = subject.python_type()
    for collection in (Sequence, Mapping):  # registering the class with one of them changes its flags
        ctx.module_guards.subclass_answers.note(cls, collection, issubclass(cls, collection))
    return bool(class_flags(cls) & flag)


@handles("MATCH_KEYS")
def match_keys(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """The values of the keys, or None if one is missing; calls the subject's `get`."""
    keys, subject = frame.stack[-1].unpack(ctx), frame.stack[-2]
    missing = ClassVariable(object, None).call(ctx, (), {})
    values = []
    for index, key in enumerate(keys):
        if any(key.is_constant() and other.is_constant() and key.as_constant() == other.as_constant() for other in keys[:index]):
            ctx.raise_exception(ValueError, f"mapping pattern checks duplicate key ({key.as_constant()!r})")
        value = subject.call_method(ctx, "get", (key, missing), {}).read(ctx)
        if value is missing:
            frame.push(NONE)
            return
        values.append(value)
    frame.push(TupleVariable(values))


@handles("MATCH_CLASS")
def match_class(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Class patterns: isinstance, then the attributes by position (`__match_args__`) and by name."""
    keyword_names = [name.as_constant() for name in frame.pop().unpack(ctx)]
    pattern, subject = frame.pop(), frame.pop()
    cls = _class_of(pattern)
    if cls is None:
        ctx.break_graph("DX317", pattern=pattern.text())
    if not guarded_isinstance(ctx, subject, subject.python_type(), cls):
        frame.push(NONE)
        return
    positional_names = _positional_names(ctx, cls, pattern, step.arg)
    attributes = [subject] if positional_names is None else []
    names = [*(positional_names or ()), *keyword_names]
    for index, name in enumerate(names):
        if type(name) is not str:
            ctx.raise_exception(TypeError, f"__match_args__ elements must be strings (got {type(name).__name__})")
        if name in names[:index]:
            ctx.raise_exception(TypeError, f"{cls.__name__}() got multiple sub-patterns for attribute {name!r}")
        attribute = attribute_or_none(ctx, subject, name)
        if attribute is None:
            frame.push(NONE)
            return
        attributes.append(attribute.read(ctx))
    frame.push(TupleVariable(attributes))


def _class_of(pattern: VariableTracker) -> type[Any] | None:
    """The class of a class pattern; None if it is not a class, or was created in this call."""
    try:
        cls = pattern.live_value()
    except NotConstant:
        return None
    return cls if isinstance(cls, type) else None


def _positional_names(ctx: Interpreter, cls: type[Any], pattern: VariableTracker, count: int) -> tuple[Any, ...] | None:
    """The attribute names of `count` positional sub-patterns; None if the only one matches the subject itself."""
    if not count:
        return ()
    match_args = _match_args(ctx, cls, pattern)
    takes_subject = match_args is None and bool(class_flags(cls) & _MATCH_SELF)
    allowed = 1 if takes_subject else len(match_args or ())
    if allowed < count:
        plural = "" if allowed == 1 else "s"
        ctx.raise_exception(TypeError, f"{cls.__name__}() accepts {allowed} positional sub-pattern{plural} ({count} given)")
    return None if takes_subject else (match_args or ())[:count]


def _match_args(ctx: Interpreter, cls: type[Any], pattern: VariableTracker) -> tuple[Any, ...] | None:
    """`cls.__match_args__`; None if there is none."""
    attribute = find(ctx, cls, "__match_args__")
    if find(ctx, type(cls), "__match_args__") is not None:
        ctx.break_graph("DX317", pattern=pattern.text())
    if attribute is None:
        return None
    match_args = attribute.raw
    if attribute.stored is not None or hasattr(type(match_args), "__get__"):  # assigned in this frame, or computed
        ctx.break_graph("DX317", pattern=pattern.text())
    if type(match_args) is not tuple:
        ctx.raise_exception(TypeError, f"{cls.__name__}.__match_args__ must be a tuple (got {type(match_args).__name__})")
    return match_args
