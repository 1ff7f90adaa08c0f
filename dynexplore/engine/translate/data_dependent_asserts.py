"""Branches that only raise: `assert (x > 0).all()`, `if bad.any(): raise ValueError(...)`.

The idea: which way such a branch goes is known only when the graph runs, but one way leads straight into an exception, and
programs are written to go the other. So the other way is *assumed*, and a node that fails if it is wrong (`torch._assert_async`,
as PyTorch's Dynamo writes for `assert`) is added to the graph. When it fails, nothing of the segment has been seen outside yet: the
handler around the graph's call puts back what the graph has changed and runs the segment again as plain Python, which raises what
the program raises (graph_call.py).

In: a branch on a tensor. Out: the way that is taken, or None. torch/_dynamo/symbolic_convert.py (generic_jump) does the same job
for `assert` alone.
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
    """The truth of a tensor at a branch, where the other truth leads straight into an exception; None where neither or both do.

    `if_true`, `if_false`: the steps at which the frame goes on.
    """
    raises = only_raises(frame, if_true), only_raises(frame, if_false)
    if raises[0] == raises[1] or not assume(ctx, value, raises[1]):
        return None
    return raises[1]


def assume(ctx: Interpreter, value: VariableTracker, truth: bool) -> bool:
    """Go on as if the tensor had this truth, and check it when the graph runs. False if that is not possible."""
    if isinstance(value, DeferredBoolVariable):  # Python 3.13 asks for the truth in an instruction of its own
        value = value.value
    if not isinstance(value, TensorVariable) or value.fake.is_complex():
        return False
    checked: VariableTracker = value
    if not truth:
        checked = ctx.operation("call_function", torch.logical_not, [checked], {})
    check_when_run(ctx, checked)
    return True


def may_be_assumed(frame: SymbolicFrame) -> bool:
    """Whether the next step is a branch of which one way only raises: what decides it is assumed there, and not asked here."""
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
