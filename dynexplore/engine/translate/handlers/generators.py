"""Generators: the body of an inlined one, and `yield from`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.inlining import leaving_generator
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.objects.generator import GeneratorVariable
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@handles("RETURN_GENERATOR")
def return_generator(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """The generator object is made by inlining; its body starts here, with the value that POP_TOP drops."""
    frame.push(ConstantVariable(None))


@handles("YIELD_VALUE")
def yield_value(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Hand the top to whoever asked, and stop until asked again."""
    frame.yielded = frame.pop()


@handles("GET_YIELD_FROM_ITER")
def get_yield_from_iter(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """The iterator of `yield from`."""
    frame.push(frame.pop().iterate(ctx))


@handles("SEND")
def send(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Pass a value to the inner iterator: its next item is yielded, its result ends the loop."""
    value = frame.pop()
    inner = frame.stack[-1]
    if isinstance(inner, GeneratorVariable):
        item = ctx.resume_generator(inner, value)
        result = inner.return_value() if item is None else ConstantVariable(None)
    else:
        item = inner.next_item(ctx)
        result = ConstantVariable(None)
    if item is not None:
        frame.push(item.read(ctx))
        return
    frame.pop()
    frame.push(result)
    frame.jump(step.target)


@handles("CALL_INTRINSIC_1")
def call_intrinsic(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """The one that stands at the end of a generator's body, from 3.12 on: a StopIteration that leaves it becomes an error."""
    if step.arg != "INTRINSIC_STOPITERATION_ERROR":
        ctx.break_graph("DX301", opcode=step.arg)
    frame.push(leaving_generator(ctx, frame.pop()))
