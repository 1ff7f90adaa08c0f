"""Making functions: `def` and `lambda` inside the frame."""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.function import CellVariable, NestedFunctionVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

DEFAULTS, KEYWORD_DEFAULTS, ANNOTATIONS, CLOSURE = 1, 2, 4, 8


@handles("MAKE_FUNCTION")
def make_function(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Build a function of its code and the parts that the flags name."""
    code: CodeType = frame.pop().as_constant()
    made = NestedFunctionVariable(code, frame.globals.values, in_frame=frame.globals.of_frame)
    for flag in (CLOSURE, ANNOTATIONS, KEYWORD_DEFAULTS, DEFAULTS):
        if step.arg & flag:
            _set_part(ctx, made, flag, frame.pop())
    frame.push(made)


@handles("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """3.13: the parts follow one by one."""
    made = frame.pop()
    assert isinstance(made, NestedFunctionVariable)
    _set_part(ctx, made, step.arg, frame.pop())
    frame.push(made)


def _set_part(ctx: Interpreter, made: NestedFunctionVariable, flag: int, part: VariableTracker) -> None:
    if flag == DEFAULTS:
        made.defaults = part.unpack(ctx)
    elif flag == KEYWORD_DEFAULTS:
        made.keyword_defaults = {key.as_constant(): part.get_item(ctx, key) for key in part.unpack(ctx)}
    elif flag == ANNOTATIONS:
        made.annotations = part
    else:
        made.cells = [cell for cell in part.unpack(ctx) if isinstance(cell, CellVariable)]


@handles("LOAD_BUILD_CLASS")
def load_build_class(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """A class statement inside the frame is left to Python."""
    ctx.break_graph("DX315")
