"""Exceptions that the traced program raises and catches.

The idea: a program's exception is a Python exception of the translator, `ObservedException`, which carries its tracker; the
translator's loop looks the handler up in the exception table.

In: RAISE_VARARGS, RERAISE, PUSH_EXC_INFO and their neighbors. Out: ObservedException, or the stack of a handler. PyTorch's
counterpart: `ObservedException` in torch/_dynamo/exc.py, and `exception_handler` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.handlers.observed_end import refuse_observed_handling
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.objects.exception import instantiate, matches, set_cause, set_context
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@handles("LOAD_ASSERTION_ERROR")
def load_assertion_error(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push AssertionError."""
    frame.push(ctx.build(AssertionError, None))


@handles("RAISE_VARARGS")
def raise_varargs(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """raise; raise exception; raise exception from cause."""
    parts = frame.popn(step.arg)
    if not parts:
        handled = ctx.frames.handled_exception()
        if handled is None:
            ctx.break_graph("DX310", because="only the caller knows what is raised again")
        raise ObservedException(ctx, handled)
    exception = instantiate(ctx, parts[0])
    if len(parts) == 2:
        set_cause(ctx, exception, parts[1])
    set_context(ctx, exception)
    raise ObservedException(ctx, exception)


@handles("RERAISE")
def reraise(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Raise the exception on top again."""
    raise ObservedException(ctx, frame.pop())


@handles("PUSH_EXC_INFO")
def push_exc_info(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Begin to handle the exception on top; the previously handled one is pushed below it."""
    exception = frame.pop()
    frame.push(frame.exceptions[-1] if frame.exceptions else ConstantVariable(None))
    frame.push(exception)
    frame.exceptions.append(exception)
    frame.caught_at.append(ctx.raised_at.get(exception, ctx.frames.stopping.unit_began_at))
    frame.in_flight_since = None


@handles("POP_EXCEPT")
def pop_except(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """End the handling of an exception. Python must do it for one that came in on a resume function's stack."""
    if not frame.exceptions:
        ctx.break_graph("DX311")
    refuse_observed_handling(frame.exceptions[-1], ctx)
    frame.pop()
    frame.exceptions.pop()
    frame.caught_at.pop()


@handles("CHECK_EXC_MATCH")
def check_exc_match(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Whether the exception matches the type of this `except`."""
    exception_type = frame.pop()
    frame.push(ConstantVariable(matches(ctx, frame.stack[-1], exception_type)))
