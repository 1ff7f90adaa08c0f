"""Generators: the body of an inlined generator, and `yield from`.

The idea: a generator's symbolic frame is interpreted up to a `yield`, and resumed when the program asks for the next item.

In: RETURN_GENERATOR, YIELD_VALUE, SEND and their neighbors. Out: the yielded tracker in `frame.yielded`. PyTorch's counterpart:
`InliningGeneratorInstructionTranslator` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.inlining import convert_stop_iteration
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.callables.generator import GeneratorVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@handles("RETURN_GENERATOR")
def return_generator(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Start the body of a generator, whose object inlining has created; pushes the value that POP_TOP drops."""
    frame.push(ConstantVariable(None))


@handles("YIELD_VALUE")
def yield_value(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Yield the top to the consumer, and suspend."""
    frame.yielded = frame.pop()


@handles("GET_YIELD_FROM_ITER")
def get_yield_from_iter(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """The iterator of `yield from`."""
    frame.push(frame.pop().iterate(ctx))


@handles("SEND")
def send(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Send a value to the inner iterator: its next item is yielded, its return value ends the loop."""
    value = frame.pop()
    inner = frame.stack[-1]
    try:
        frame.push(_sent(ctx, inner, value).read(ctx))
    except ObservedException as raised:
        if not issubclass(raised.exception.python_type(), StopIteration):
            raise
        frame.pop()
        frame.push(raised.exception.get_attribute(ctx, "value"))
        frame.jump(step.target)


def _sent(ctx: Interpreter, inner: VariableTracker, value: VariableTracker) -> VariableTracker:
    """The inner iterator's next item if `value` is None, else the result of its `send` (CPython's bytecodes.c, SEND)."""
    if isinstance(inner, GeneratorVariable):
        return inner.next_or_raise(ctx, value)
    if value.is_constant() and value.as_constant() is None:
        return inner.next_or_raise(ctx)
    return inner.get_attribute(ctx, "send").call(ctx, [value], {})


@handles("CALL_INTRINSIC_1")
def call_intrinsic(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """The intrinsic at the end of a generator's body, from 3.12 on: a StopIteration that leaves it becomes a RuntimeError."""
    if step.arg != "INTRINSIC_STOPITERATION_ERROR":
        ctx.break_graph("DX301", opcode=step.arg)
    frame.push(convert_stop_iteration(ctx, frame.pop()))
