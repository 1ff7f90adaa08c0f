"""Data-dependent branches that only raise: `assert (x > 0).all()`, `if bad.any(): raise ValueError(...)`.

The idea: the direction of such a branch depends on tensor data, but one side leads straight to an exception, which programs are
written to avoid. So the translator speculates on the other side, and adds a node that fails if it was wrong
(`torch._assert_async`, as PyTorch's Dynamo does for `assert`) to the graph. When it fails, no side effect of the segment is visible
yet: the handler around the graph's call undoes the graph's mutations and reruns the segment as plain Python, which raises the
program's exception (graph_call.py).

In: a branch on a tensor. Out: the direction that is taken, or None. PyTorch's counterpart: `generic_jump` in
torch/_dynamo/symbolic_convert.py, for `assert` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.scalars.unbacked import check_when_run
from dynexplore.engine.variables.torch_.tensor.tensor import DeferredBoolVariable, TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


def assumed_truth(ctx: Interpreter, frame: SymbolicFrame, value: VariableTracker, if_true: int, if_false: int) -> bool | None:
    """The assumed truth value of a tensor at a branch whose other side leads straight to an exception; None if neither or both do.

    `if_true`, `if_false`: the steps at which the frame continues.
    """
    raises = only_raises(frame, if_true), only_raises(frame, if_false)
    if raises[0] == raises[1] or not assume(ctx, value, raises[1]):
        return None
    return raises[1]


def assume(ctx: Interpreter, value: VariableTracker, truth: bool) -> bool:
    """Continue as if the tensor had this truth value, and check it when the graph runs. False if that is not possible."""
    if isinstance(value, DeferredBoolVariable):  # Python 3.13 has a separate instruction for the truth value
        value = value.value
    if not isinstance(value, TensorVariable) or value.fake.is_complex():
        return False
    checked: VariableTracker = value
    if not truth:
        checked = ctx.operation("call_function", torch.logical_not, [checked], {})
    check_when_run(ctx, checked)
    return True


def may_be_assumed(frame: SymbolicFrame) -> bool:
    """Whether the next step is a branch with a side that only raises: its condition is assumed there, and not evaluated here."""
    following = frame.steps[frame.pc]
    if following.op not in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"):
        return False
    return only_raises(frame, following.target) != only_raises(frame, frame.pc + 1)


def only_raises(frame: SymbolicFrame, start: int) -> bool:
    """Whether straight code from this step on ends in a `raise` that the frame itself does not catch."""
    steps = frame.steps
    for index in range(start, len(steps)):
        step = steps[index]
        if step.op == "RAISE_VARARGS":
            return step.origin.handler is None
        if step.target >= 0 or step.op in _ENDS:
            return False
    return False


_ENDS = frozenset({"RETURN_VALUE", "RERAISE", "YIELD_VALUE", "SEND"})
