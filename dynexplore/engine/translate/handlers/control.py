"""Control flow: jumps, loops, return.

The idea: only the side of a branch that this call takes is interpreted. A truth value that depends on tensor data breaks the graph,
unless one side only raises (data_dependent_asserts.py).

In: jump opcodes, GET_ITER, FOR_ITER, RETURN_VALUE. Out: the frame's next step. PyTorch's counterpart: `generic_jump` and
`FOR_ITER` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.data_dependent_asserts import assumed_truth
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.torch_.tensor.tensor import DeferredBoolVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@handles("JUMP")
def jump(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Go to the target."""
    frame.jump(step.target)


def _truth(ctx: Interpreter, value: VariableTracker) -> bool:
    """The truth value that decides a branch; a tensor's breaks the graph here."""
    truth = value.truth(ctx)
    if not isinstance(truth, bool):
        number = value.value if isinstance(value, DeferredBoolVariable) else value  # from Python 3.13 on, TO_BOOL precedes the jump
        is_number = isinstance(number, SymbolicNumberVariable)
        condition = f"{number.text()}, where only the data determines the number" if is_number else value.text()
        ctx.break_graph("DX104", condition=condition)
    return truth


def _branch_truth(ctx: Interpreter, frame: SymbolicFrame, value: VariableTracker, if_true: int, if_false: int) -> bool:
    """The truth value that decides a branch; a side that only raises is assumed not to be taken."""
    truth = value.truth(ctx)
    if isinstance(truth, bool):
        return truth
    assumed = assumed_truth(ctx, frame, truth, if_true, if_false)
    return assumed if assumed is not None else _truth(ctx, value)


@handles("POP_JUMP_IF_TRUE")
def pop_jump_if_true(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Jump if the top is true."""
    if _branch_truth(ctx, frame, frame.pop(), step.target, frame.pc):
        frame.jump(step.target)


@handles("POP_JUMP_IF_FALSE")
def pop_jump_if_false(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Jump if the top is false."""
    if not _branch_truth(ctx, frame, frame.pop(), frame.pc, step.target):
        frame.jump(step.target)


def _is_none(ctx: Interpreter, value: VariableTracker) -> bool:
    """Whether a value is None; unknown for the exception that the caller is handling."""
    if value.is_constant():
        return value.python_type() is type(None)
    if value.same_object(NONE) is None:
        ctx.break_graph("DX305", operator="is", left=value.type_name(), right=NONE.type_name())
    return False


@handles("POP_JUMP_IF_NONE")
def pop_jump_if_none(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Jump if the top is None."""
    if _is_none(ctx, frame.pop()):
        frame.jump(step.target)


@handles("POP_JUMP_IF_NOT_NONE")
def pop_jump_if_not_none(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Jump if the top is not None."""
    if not _is_none(ctx, frame.pop()):
        frame.jump(step.target)


@handles("JUMP_IF_TRUE_OR_POP")
def jump_if_true_or_pop(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """`or`: keep a true left operand and jump."""
    if _truth(ctx, frame.stack[-1]):
        frame.jump(step.target)
    else:
        frame.pop()


@handles("JUMP_IF_FALSE_OR_POP")
def jump_if_false_or_pop(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """`and`: keep a false left operand and jump."""
    if _truth(ctx, frame.stack[-1]):
        frame.pop()
    else:
        frame.jump(step.target)


@handles("GET_ITER")
def get_iter(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """iter(top)."""
    frame.push(frame.pop().iterate(ctx))


@handles("FOR_ITER")
def for_iter(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """The next item; an exhausted iterator is popped and the loop left."""
    item = frame.stack[-1].next_item(ctx)
    if item is None:
        frame.pop()
        frame.jump(step.target)
    else:
        frame.push(item.read(ctx))


@handles("RETURN_VALUE")
def return_value(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Leave the frame with the top."""
    frame.returned = frame.pop()
