"""Attributes: owner.name, and super().name.

The idea: the owner's tracker implements attribute access, as a type's slots do in CPython.

In: LOAD_ATTR, STORE_ATTR, DELETE_ATTR, LOAD_SUPER_ATTR. Out: the attribute's tracker on the stack. PyTorch's counterpart:
`LOAD_ATTR` and `LOAD_ATTR_SUPER` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.handlers.observed_end import refuse_observed_end
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@handles("LOAD_ATTR")
def load_attr(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """owner.name."""
    owner = frame.stack[-1]
    is_method_call = frame.steps[frame.pc].origin is step.origin
    if ctx.resume is not None and not is_method_call:
        refuse_observed_end(frame, owner, ctx, is_local=False)
    frame.pop()
    if not is_method_call:  # if the name is a property, only its getter is called
        frame.only_calls, frame.calls_through = owner, ()
    frame.push(owner.get_attribute(ctx, step.arg).read(ctx))
    frame.only_calls = None


@handles("STORE_ATTR")
def store_attr(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """owner.name = value."""
    owner, value = frame.pop(), frame.pop()
    owner.set_attribute(ctx, step.arg, value)


@handles("DELETE_ATTR")
def delete_attr(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """del owner.name."""
    frame.pop().delete_attribute(ctx, step.arg)


@handles("LOAD_SUPER_ATTR")
def load_super_attr(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """super(cls, self).name, as 3.12 and later write `super().name`."""
    name, _ = step.arg
    receiver, cls, super_type = frame.pop(), frame.pop(), frame.pop()
    frame.push(super_type.call(ctx, [cls, receiver], {}).get_attribute(ctx, name))
