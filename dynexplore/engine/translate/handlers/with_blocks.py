"""`with` blocks: entering, and leaving, normally or by an exception.

The idea: the exit function is an ordinary stack value, so a resume function can restore it.

In: BEFORE_WITH, WITH_EXCEPT_START. Out: the exit function and the entered value, or the result of the exit function. PyTorch's
counterpart: `BEFORE_WITH` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.modes.protocol import enter_context

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@handles("BEFORE_WITH")
def before_with(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Enter a context manager: its exit function stays on the stack, below the result of `__enter__`."""
    exit_function, entered = enter_context(ctx, frame.pop())
    frame.push(exit_function)
    frame.push(entered)


@handles("WITH_EXCEPT_START")
def with_except_start(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Leave because of an exception: call the exit function with it."""
    exception = frame.stack[-1]
    exit_function = frame.stack[-4 - step.arg]
    kind = ctx.build(exception.python_type(), None)
    traceback = exception.get_attribute(ctx, "__traceback__")
    frame.push(exit_function.call(ctx, [kind, exception, traceback], {}))
