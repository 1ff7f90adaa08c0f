"""Function and class definitions: `def`, `lambda` and class statements inside the frame.

The idea: a new function is a tracker of its code, defaults, annotations and cells; a real function is created only if it escapes.

In: MAKE_FUNCTION, SET_FUNCTION_ATTRIBUTE, LOAD_BUILD_CLASS. Out: a `NestedFunctionVariable` on the stack. PyTorch's counterpart:
`MAKE_FUNCTION` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

import builtins
from types import CodeType
from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.callables.function import CellVariable, NestedFunctionVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

DEFAULTS, KEYWORD_DEFAULTS, ANNOTATIONS, CLOSURE, ANNOTATE = 1, 2, 4, 8, 16


def _annotated(part: int) -> None:
    """A function with annotations, to see what this Python calls the code that evaluates them."""


#: whether it is named after its function, and not, as its code object, after what encloses the function: later releases of 3.14
RENAMES_ANNOTATE = getattr(getattr(_annotated, "__annotate__", None), "__qualname__", "") == "_annotated.__annotate__"


@handles("MAKE_FUNCTION")
def make_function(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Build a function from its code and the parts that the flags name."""
    code: CodeType = frame.pop().as_constant()
    function = NestedFunctionVariable(code, frame.globals.values, in_frame=frame.globals.of_frame)
    for flag in (CLOSURE, ANNOTATIONS, KEYWORD_DEFAULTS, DEFAULTS):
        if step.arg & flag:
            _set_part(ctx, function, flag, frame.pop())
    frame.push(function)


@handles("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Set one part of a function; 3.13 has an instruction for each."""
    function = frame.pop()
    if not isinstance(function, NestedFunctionVariable):  # a real function: it was created at a break before this step
        ctx.break_graph("DX303", name=f"of a new function, flag {step.arg}", type=function.type_name())
    _set_part(ctx, function, step.arg, frame.pop())
    frame.push(function)


def _set_part(ctx: Interpreter, function: NestedFunctionVariable, flag: int, part: VariableTracker) -> None:
    if flag == DEFAULTS:
        function.defaults = part.unpack(ctx)
    elif flag == KEYWORD_DEFAULTS:
        function.keyword_defaults = {key.as_constant(): part.get_item(ctx, key) for key in part.unpack(ctx)}
    elif flag == ANNOTATIONS:
        function.annotations = part
    elif flag == ANNOTATE:
        function.annotate = part
        if RENAMES_ANNOTATE and isinstance(part, NestedFunctionVariable):
            part.attributes["__qualname__"] = ConstantVariable(f"{function.code.co_qualname}.__annotate__")
    else:
        function.cells = [cell for cell in part.unpack(ctx) if isinstance(cell, CellVariable)]


@handles("LOAD_BUILD_CLASS")
def load_build_class(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push `__build_class__`, with which a class statement begins."""
    frame.push(ctx.build(builtins.__build_class__, None))
