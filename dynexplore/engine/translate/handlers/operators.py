"""Operators, comparisons, subscripts and slices.

The idea: these opcodes only move operands; the rules of each operator are in variables/.

In: UNARY_OP, BINARY_OP, COMPARE_OP, BINARY_SUBSCR and their neighbors. Out: the result's tracker on the stack. PyTorch's
counterpart: `BINARY_OP` and `COMPARE_OP` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.data_dependent_asserts import may_be_assumed
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.operators import binary, compare, unary
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.identity import identical
from dynexplore.engine.variables.scalars.specialize import specialize_bool
from dynexplore.engine.variables.torch_.tensor.tensor import DeferredBoolVariable, defer_bool

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@handles("UNARY_OP")
def unary_op(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """-x, +x, ~x, not x."""
    operand = frame.pop()
    if step.arg != "not":
        frame.push(unary(ctx, step.arg, operand))
        return
    truth = operand.truth(ctx)
    if not isinstance(truth, bool):
        ctx.break_graph("DX105", operation="not")
    frame.push(ConstantVariable(not truth))


@handles("BINARY_OP")
def binary_op(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """left + right, left += right, ..."""
    right, left = frame.pop(), frame.pop()
    frame.push(binary(ctx, step.arg, left, right))


@handles("COMPARE_OP")
def compare_op(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """left < right, ..."""
    right, left = frame.pop(), frame.pop()
    frame.push(compare(ctx, step.arg, left, right))


@handles("IS_OP")
def is_op(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """left is right."""
    right, left = frame.pop(), frame.pop()
    same = identical(ctx, left, right)
    if same is None:
        ctx.break_graph("DX305", operator="is", left=left.type_name(), right=right.type_name())
    frame.push(ConstantVariable(same != step.arg))


@handles("CONTAINS_OP")
def contains_op(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """item in container."""
    container, item = frame.pop(), frame.pop()
    present = container.contains(ctx, item)
    frame.push(ConstantVariable(specialize_bool(ctx, present) != step.arg))


@handles("TO_BOOL")
def to_bool(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """The truth value of the top; a tensor's is deferred to the jump that uses it."""
    value = frame.pop()
    truth = value.truth(ctx)
    if isinstance(truth, bool):
        frame.push(ConstantVariable(truth))
    else:
        frame.push(DeferredBoolVariable(value) if may_be_assumed(frame) else defer_bool(ctx, value))


@handles("BINARY_SUBSCR")
def binary_subscr(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """container[key]."""
    key, container = frame.pop(), frame.pop()
    frame.push(container.get_item(ctx, key).read(ctx))


@handles("STORE_SUBSCR")
def store_subscr(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """container[key] = value."""
    key, container, value = frame.pop(), frame.pop(), frame.pop()
    container.set_item(ctx, key, value)


@handles("DELETE_SUBSCR")
def delete_subscr(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """del container[key]."""
    key, container = frame.pop(), frame.pop()
    container.delete_item(ctx, key)


@handles("BUILD_SLICE")
def build_slice(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """slice(start, stop[, step])."""
    frame.push(_slice(frame.popn(step.arg)))


@handles("BINARY_SLICE")
def binary_slice(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """container[start:stop]."""
    bounds = frame.popn(2)
    container = frame.pop()
    frame.push(container.get_item(ctx, _slice(bounds)))


@handles("STORE_SLICE")
def store_slice(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """container[start:stop] = value."""
    bounds = frame.popn(2)
    container, value = frame.pop(), frame.pop()
    container.set_item(ctx, _slice(bounds), value)


def _slice(parts: list) -> SliceVariable:  # type: ignore[type-arg]
    return SliceVariable(*parts, *([ConstantVariable(None)] * (3 - len(parts))))
