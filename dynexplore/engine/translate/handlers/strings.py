"""f-strings (convert, format, join) and template strings (which keep the values).

The idea: a formatted string is a tracker, like any other value.

In: CONVERT_VALUE, FORMAT_VALUE, BUILD_STRING and their neighbors. Out: string trackers on the stack. PyTorch's counterpart:
`FORMAT_VALUE` and `BUILD_STRING` in torch/_dynamo/symbolic_convert.py; of template strings, none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.containers.template import InterpolationVariable, TemplateVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.unspecialized import joined

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

_CONVERSIONS = {"str": str, "repr": repr, "ascii": ascii}


@handles("CONVERT_VALUE")
def convert_value(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """!s, !r, !a."""
    frame.push(_converted(ctx, step.arg, frame.pop()))


@handles("FORMAT_VALUE")
def format_value(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """format(value, spec)."""
    conversion, has_spec = step.arg
    spec = frame.pop() if has_spec else ConstantVariable("")
    value = frame.pop()
    if conversion is not None:
        value = _converted(ctx, conversion, value)
    frame.push(ctx.build(format, None).call(ctx, [value, spec], {}))


def _converted(ctx: Interpreter, conversion: str, value: VariableTracker) -> VariableTracker:
    return ctx.build(_CONVERSIONS[conversion], None).call(ctx, [value], {})


@handles("BUILD_INTERPOLATION")
def build_interpolation(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Build one interpolation of a template string."""
    conversion, has_spec = step.arg
    spec = frame.pop() if has_spec else ConstantVariable("")
    expression, value = frame.pop(), frame.pop()
    frame.push(InterpolationVariable(value, expression, ConstantVariable(conversion), spec))


@handles("BUILD_TEMPLATE")
def build_template(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Build a template string from its strings and interpolations."""
    interpolations, strings = frame.pop(), frame.pop()
    frame.push(TemplateVariable(strings, interpolations))


@handles("BUILD_STRING")
def build_string(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Join the pieces of an f-string."""
    frame.push(joined(ctx, frame.popn(step.arg)))
