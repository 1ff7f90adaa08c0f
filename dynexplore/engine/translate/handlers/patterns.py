"""match statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.objects.class_facts import raw_lookup
from dynexplore.engine.variables.objects.object_rules import is_instance
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@handles("MATCH_SEQUENCE")
def match_sequence(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Whether the subject is a sequence (and no string)."""
    subject = frame.stack[-1].python_type()
    ctx.module_guards.subclass_answers.note(subject, Sequence, issubclass(subject, Sequence))
    frame.push(ConstantVariable(issubclass(subject, Sequence) and not issubclass(subject, (str, bytes, bytearray))))


@handles("MATCH_MAPPING")
def match_mapping(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Whether the subject is a mapping."""
    subject = frame.stack[-1].python_type()
    ctx.module_guards.subclass_answers.note(subject, Mapping, issubclass(subject, Mapping))
    frame.push(ConstantVariable(issubclass(subject, Mapping)))


@handles("MATCH_KEYS")
def match_keys(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """The values under the keys, or None when one is missing."""
    keys, subject = frame.stack[-1].unpack(ctx), frame.stack[-2]
    values = []
    for key in keys:
        if not subject.contains(ctx, key).truth(ctx):
            frame.push(ConstantVariable(None))
            return
        values.append(subject.get_item(ctx, key).read(ctx))
    frame.push(TupleVariable(values))


@handles("MATCH_CLASS")
def match_class(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Class patterns: isinstance, then the attributes by position (`__match_args__`) and by name."""
    names = [name.as_constant() for name in frame.pop().unpack(ctx)]
    cls, subject = frame.pop(), frame.pop()
    live = cls.live_value()
    if not isinstance(live, type):
        ctx.break_graph("DX317", pattern=cls.text())
    if not is_instance(ctx, subject, subject.python_type(), live):
        frame.push(ConstantVariable(None))
        return
    if step.arg and live in (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple):
        frame.push(TupleVariable([subject]))
        return
    positional = (raw_lookup(ctx, live, "__match_args__") or ())[:step.arg] if step.arg else ()
    if len(positional) < step.arg:
        ctx.break_graph("DX317", pattern=cls.text())
    wanted = [*positional, *names]
    if not all(_has(subject, name) for name in wanted):
        ctx.break_graph("DX317", pattern=cls.text())
    frame.push(TupleVariable([subject.get_attribute(ctx, name).read(ctx) for name in wanted]))


def _has(subject: object, name: str) -> bool:
    live = getattr(subject, "live_value", None)
    return live is not None and name.isidentifier()
