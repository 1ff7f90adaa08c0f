"""Steps that are right at a glance: what the second opinion of opcode_checks.py would find after a long look, in a short one.

The idea: nearly every step is right, and most are of a few kinds: a local is loaded, a constant pushed, the one node put into the
graph that the instruction stands for. Such a step is recognized by comparing objects for identity, without asking what is known
of the values. A glance only ever says "right"; whatever it does not recognize is looked at in full, and only that may find
anything wrong.

In: a step, the frame after it, the stack before it, and the one node it made. Out: whether it is right. PyTorch has no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.fx

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.symbolic_frame import NULL, SymbolicFrame
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.side_effects import Journal
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.objects.function import BuiltinVariable
from dynexplore.engine.variables.objects.python_module import PythonModuleVariable
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.operators import BINARY, COMPARE
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable
from dynexplore.engine.variables.torch_.tensor import TensorMethodVariable, TensorVariable
from dynexplore.second_opinion.deferred_checks import Stack

Glance = Callable[[Step, SymbolicFrame, Stack], bool]
NodeGlance = Callable[[Step, SymbolicFrame, Stack, torch.fx.Node], bool]

_GLANCES: dict[str, Glance] = {}
_GLANCES_AT_NODES: dict[str, NodeGlance] = {}


def is_right(
    step: Step,
    frame: SymbolicFrame,
    before: Stack,
    bound: VariableTracker | None,
    made: Sequence[torch.fx.Node],
    journal: Journal,
) -> bool:
    """Whether a step is seen to be right; False where it must be looked at in full. Arguments as of claims.Stepped."""
    op = step.op
    try:
        if op == "LOAD_FAST":
            return bound is not None and frame.stack == [*before, bound]
        if op == "CALL" and calls_code(step, frame, before):
            return True
        if made:
            of_node = _GLANCES_AT_NODES.get(op)
            return of_node is not None and len(made) == 1 and of_node(step, frame, before, made[0])
        if op == "LOAD_ATTR":
            return loads_attribute(step, frame, before, journal)
        if op == "LOAD_GLOBAL":
            return loads_global(step, frame, before, journal)
        glance = _GLANCES.get(op)
        return glance is not None and glance(step, frame, before)
    except IndexError:  # a wrong handler has left a stack that is too short
        return False


def loads_attribute(step: Step, frame: SymbolicFrame, before: Stack, journal: Journal) -> bool:
    """Whether a LOAD_ATTR has pushed a tensor's method, or what is stored in an object; of classes and hooks nothing is known."""
    found, owner, name = frame.stack[-1], before[-1], step.arg
    if len(frame.stack) != len(before):
        return False
    if type(owner) is TensorVariable:
        return type(found) is TensorMethodVariable and found.tensor is owner and found.name == name
    if not isinstance(owner, UserObjectVariable | PythonModuleVariable):
        return False
    if name in owner.stored:
        return owner.stored[name] is found
    own = vars(owner.value) if isinstance(owner, PythonModuleVariable) else owner.live_dictionary()
    return own is None or name not in own or journal.tracker_of(own[name]) is found


def calls_code(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    """Whether a CALL was of a function of the program or a module: the callee's own steps tell more."""
    begin = len(before) - step.arg[0]
    kinds = {type(before[begin - 2]), type(before[begin - 1])}
    return kinds.isdisjoint(_TOLD_OF_CALLS) and len(frame.stack) == begin - 1


_TOLD_OF_CALLS = (ConstantMethodVariable, ClassVariable, BuiltinVariable, TensorMethodVariable)


def loads_global(step: Step, frame: SymbolicFrame, before: Stack, journal: Journal) -> bool:
    """Whether a LOAD_GLOBAL has pushed the tracker of the live object that stands in the globals."""
    namespace = frame.globals
    if namespace.stored or step.arg not in namespace.values:
        return False
    tracker = journal.tracker_of(namespace.values[step.arg])
    return tracker is not None and frame.stack == [*before, tracker]


def _about(*ops: str) -> Callable[[Glance], Glance]:
    def declare(glance: Glance) -> Glance:
        _GLANCES.update(dict.fromkeys(ops, glance))
        return glance

    return declare


# -- moves: equal lists hold the very same trackers, which have no `__eq__` of their own ---------------------------


@_about("STORE_FAST")
def _store_fast(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    return frame.locals.get(step.arg) is before[-1] and frame.stack == before[:-1]


@_about("PUSH_NULL")
def _push_null(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    return frame.stack == [*before, NULL]


@_about("POP_TOP")
def _pop_top(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    return frame.stack == before[:-1]


@_about("SWAP")
def _swap(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    place = len(before) - step.arg
    return frame.stack == [*before[:place], before[-1], *before[place + 1 : -1], before[place]]


@_about("RETURN_VALUE")
def _return_value(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    return frame.returned is before[-1]


@_about("LOAD_CONST")
def _load_const(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    top: Any = frame.stack[-1]
    return type(top) is ConstantVariable and top.value is step.arg and len(frame.stack) == len(before) + 1


# -- jumps ---------------------------------------------------------------------------------------------------------


@_about("JUMP")
def _jump(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    return frame.pc == step.target and len(frame.stack) == len(before)


@_about("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
def _jump_if(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    top: Any = before[-1]
    if type(top) is not ConstantVariable or type(top.value) is not bool:
        return False
    jumps = top.value is (step.op == "POP_JUMP_IF_TRUE")
    return frame.pc == (step.target if jumps else step.index + 1) and len(frame.stack) == len(before) - 1


@_about("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
def _jump_if_none(step: Step, frame: SymbolicFrame, before: Stack) -> bool:
    top: Any = before[-1]
    if type(top) is not ConstantVariable:
        return False
    jumps = (top.value is None) is (step.op == "POP_JUMP_IF_NONE")
    return frame.pc == (step.target if jumps else step.index + 1) and len(frame.stack) == len(before) - 1


# -- computations --------------------------------------------------------------------------------------------------


def _binary(step: Step, frame: SymbolicFrame, before: Stack, made: torch.fx.Node) -> bool:
    """The one node of a binary operation or a comparison of tensors and constants."""
    function = (BINARY if step.op == "BINARY_OP" else COMPARE)[step.arg]
    if made.op != "call_function" or made.target is not function or len(frame.stack) != len(before) - 1:
        return False
    return _is_of(made, before[-2:], frame.stack[-1])


def _call(step: Step, frame: SymbolicFrame, before: Stack, made: torch.fx.Node) -> bool:
    """The one node of a method of a tensor, called with tensors and constants."""
    count, names = step.arg
    begin = len(before) - count
    method: Any = before[begin - 1] if before[begin - 2] is NULL else before[begin - 2]
    if type(method) is not TensorMethodVariable or NULL not in before[begin - 2 : begin] or names:
        return False
    if method.name != made.target or made.op != "call_method" or method.name.endswith("_"):
        return False
    return len(frame.stack) == begin - 1 and _is_of(made, [method.tensor, *before[begin:]], frame.stack[-1])


_GLANCES_AT_NODES.update({"BINARY_OP": _binary, "COMPARE_OP": _binary, "CALL": _call})


def _is_of(node: torch.fx.Node, operands: Sequence[Any], result: Any) -> bool:
    """Whether the node has these operands, tensors and constants, and the result is it."""
    args = node.args
    if node.kwargs or len(args) != len(operands) or type(result) is not TensorVariable or result.node is not node:
        return False
    for arg, operand in zip(args, operands, strict=True):
        kind = type(operand)
        if (operand.node if kind is TensorVariable else operand.value if kind is ConstantVariable else _NOTHING) is not arg:
            return False
    return True


_NOTHING = object()
