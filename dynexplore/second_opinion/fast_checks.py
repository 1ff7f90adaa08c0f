"""Fast checks: steps that are proved right by comparing objects for identity.

The idea: nearly every step is right, and most are of a few kinds: a local is loaded, values are moved, or the graph gets the
one node that the instruction corresponds to. Such a step is recognized without inspecting the values. A fast check can only
return "right"; a step that it does not recognize gets the full check (opcode_checks.py), which alone can find an error.

In: a step, the frame after it, the stack before it, and the nodes that it added. Out: whether it is right. PyTorch's
counterpart: none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.fx

from dynexplore.engine.bytecode import OPCODES, Step
from dynexplore.engine.bytecode.opcodes import stack_change
from dynexplore.engine.translate.symbolic_frame import NULL, SymbolicFrame
from dynexplore.engine.variables.callables.function import BuiltinVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.side_effects import Journal
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.objects.python_module import PythonModuleVariable
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.operators import BINARY, COMPARE
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable
from dynexplore.engine.variables.torch_.tensor.tensor import TensorMethodVariable, TensorVariable
from dynexplore.second_opinion.deferred_checks import Stack

FastCheck = Callable[[Step, SymbolicFrame, Stack], bool]
FastNodeCheck = Callable[[Step, SymbolicFrame, Stack, torch.fx.Node], bool]

FAST_CHECKS: dict[str, FastCheck] = {}
"""For steps that add no node to the graph."""

FAST_NODE_CHECKS: dict[str, FastNodeCheck] = {}
"""For steps that add one node."""


def is_right(
    step: Step,
    frame: SymbolicFrame,
    before: Stack,
    local_before: VariableTracker | None,
    new_nodes: Sequence[torch.fx.Node],
    journal: Journal,
) -> bool:
    """Whether a step is proved right; False if it needs the full check. The arguments are as in `CheckedStep`."""
    op = step.op
    try:
        if op == "LOAD_FAST":
            return local_before is not None and frame.stack == [*before, local_before]
        if op == "CALL" and calls_code(step, frame, before):
            return True
        if new_nodes:
            of_node = FAST_NODE_CHECKS.get(op)
            return of_node is not None and len(new_nodes) == 1 and of_node(step, frame, before, new_nodes[0])
        if op == "LOAD_ATTR":
            return loads_attribute(step, frame, before, journal)
        if op == "LOAD_GLOBAL":
            return loads_global(step, frame, before, journal)
        fast_check = FAST_CHECKS.get(op)
        return fast_check is not None and fast_check(step, frame, before)
    except IndexError:  # a wrong handler left a stack that is too short
        return False


def loads_attribute(step: Step, frame: SymbolicFrame, before: Stack, journal: Journal) -> bool:
    """Whether a LOAD_ATTR pushed a tensor's method, or a value stored in an object; False for classes and hooks."""
    value, owner, name = frame.stack[-1], before[-1], step.arg
    if frame.stack[:-1] != before[:-1]:
        return False
    if type(owner) is TensorVariable:
        return type(value) is TensorMethodVariable and value.tensor is owner and value.name == name
    if not isinstance(owner, UserObjectVariable | PythonModuleVariable):
        return False
    if name in owner.stored:
        return owner.stored[name] is value
    own = vars(owner.value) if isinstance(owner, PythonModuleVariable) else owner.live_dictionary()
    return own is None or name not in own or journal.tracker_of(own[name]) is value


def calls_code(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    """Whether a CALL was of a function of the program or a module: the callee's steps are checked one by one."""
    begin = len(before) - step.arg[0]
    kinds = {type(before[begin - 2]), type(before[begin - 1])}
    return kinds.isdisjoint(_CALLED_WITHOUT_STEPS) and frame.stack[:-1] == before[: begin - 2]


_CALLED_WITHOUT_STEPS = (ConstantMethodVariable, ClassVariable, BuiltinVariable, TensorMethodVariable)


def loads_global(step: Step, frame: SymbolicFrame, before: Stack, journal: Journal) -> bool:
    """Whether a LOAD_GLOBAL pushed the tracker of the live object in the globals."""
    namespace = frame.globals
    if namespace.stored or step.arg not in namespace.values:
        return False
    tracker = journal.tracker_of(namespace.values[step.arg])
    return tracker is not None and frame.stack == [*before, tracker]


def _fast_check(*ops: str) -> Callable[[FastCheck], FastCheck]:
    def declare(function: FastCheck) -> FastCheck:
        FAST_CHECKS.update(dict.fromkeys(ops, function))
        return function

    return declare


# -- moves: equal lists contain the identical trackers, which do not define `__eq__` -------------------------------

NEW_VALUES: dict[str, VariableTracker] = {"null": NULL}
"""The values that move instructions push in addition, by the wording of their stack effects."""


@_fast_check(*(row.name for row in OPCODES.values() if row.only_moves))
def _only_moves(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    return frame.stack == stack_change(step.op, step.arg).applied(before, NEW_VALUES)


@_fast_check("STORE_FAST")
def _store_fast(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    return frame.locals.get(step.arg) is before[-1] and frame.stack == before[:-1]


@_fast_check("RETURN_VALUE")
def _return_value(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    return frame.returned is before[-1]


@_fast_check("LOAD_CONST")
def _load_const(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    top: Any = frame.stack[-1]
    return type(top) is ConstantVariable and top.value is step.arg and frame.stack[:-1] == before


# -- jumps ---------------------------------------------------------------------------------------------------------


@_fast_check("JUMP")
def _jump(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    return frame.pc == step.target and frame.stack == before


@_fast_check("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
def _jump_if(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    top: Any = before[-1]
    if type(top) is not ConstantVariable or type(top.value) is not bool:
        return False
    jumps = top.value is (step.op == "POP_JUMP_IF_TRUE")
    return frame.pc == (step.target if jumps else step.index + 1) and frame.stack == before[:-1]


@_fast_check("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
def _jump_if_none(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    top: Any = before[-1]
    if type(top) is not ConstantVariable:
        return False
    jumps = (top.value is None) is (step.op == "POP_JUMP_IF_NONE")
    return frame.pc == (step.target if jumps else step.index + 1) and frame.stack == before[:-1]


# -- computations --------------------------------------------------------------------------------------------------


def _binary(step: Step, frame: SymbolicFrame, before: Stack, node: torch.fx.Node) -> bool:
    """Check the one node of a binary operation or a comparison of tensors and constants."""
    function = (BINARY if step.op == "BINARY_OP" else COMPARE)[step.arg]
    if node.op != "call_function" or node.target is not function or frame.stack[:-1] != before[:-2]:
        return False
    return _computes(node, before[-2:], frame.stack[-1])


def _call(step: Step, frame: SymbolicFrame, before: Stack, node: torch.fx.Node) -> bool:
    """Check the one node of a method of a tensor, called with tensors and constants."""
    count, names = step.arg
    begin = len(before) - count
    method: Any = before[begin - 1] if before[begin - 2] is NULL else before[begin - 2]
    if type(method) is not TensorMethodVariable or NULL not in before[begin - 2 : begin] or names:
        return False
    if method.name != node.target or node.op != "call_method" or method.name.endswith("_"):
        return False
    return frame.stack[:-1] == before[: begin - 2] and _computes(node, [method.tensor, *before[begin:]], frame.stack[-1])


FAST_NODE_CHECKS.update({"BINARY_OP": _binary, "COMPARE_OP": _binary, "CALL": _call})


def _computes(node: torch.fx.Node, operands: Sequence[Any], result: Any) -> bool:
    """Whether the node has these operands, tensors and constants, and the result is its value."""
    args = node.args
    if node.kwargs or len(args) != len(operands) or type(result) is not TensorVariable or result.node is not node:
        return False
    for arg, operand in zip(args, operands, strict=True):
        kind = type(operand)
        if (operand.node if kind is TensorVariable else operand.value if kind is ConstantVariable else _NOTHING) is not arg:
            return False
    return True


_NOTHING = object()
