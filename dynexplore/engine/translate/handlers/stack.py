"""The value stack itself: push, pop, copy, swap.

The idea: trackers move as values do in CPython. In: NOP, POP_TOP, PUSH_NULL, COPY, SWAP. Out: the frame's stack.
PyTorch's counterpart: `SWAP` and its neighbors in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.handlers.observed_end import refuse_observed_end
from dynexplore.engine.translate.symbolic_frame import NULL, SymbolicFrame

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@handles("NOP")
def nop(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Do nothing."""


@handles("POP_TOP")
def pop_top(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Drop the top."""
    if ctx.resume is not None:
        refuse_observed_end(frame, frame.stack[-1], ctx, is_local=False)
    frame.pop()


@handles("PUSH_NULL")
def push_null(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push the NULL beside a callable."""
    frame.push(NULL)


@handles("COPY")
def copy(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push the n-th value from the top again."""
    frame.push(frame.stack[-step.arg])


@handles("SWAP")
def swap(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Exchange the top with the n-th from the top."""
    stack = frame.stack
    stack[-1], stack[-step.arg] = stack[-step.arg], stack[-1]
