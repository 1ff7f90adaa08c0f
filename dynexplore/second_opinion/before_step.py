"""The state that a step may change, copied before the step.

The idea: check_table.py says which trackers an instruction may change; each gives a shallow copy of what it holds: the items of a
container, what an iterator will still give, what was stored in an object, module or class, in the globals or in a cell.

In: a frame and the step that is about to be interpreted. Out: tracker -> copy. PyTorch has no counterpart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.bytecode import Step
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.second_opinion.check_table import CHANGES
from dynexplore.second_opinion.deferred_checks import StateBefore, as_read

if TYPE_CHECKING:
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

_NOTHING: StateBefore = {}


def state_before(frame: SymbolicFrame, step: Step) -> StateBefore:
    """Copies of what this step may change."""
    changes = CHANGES.get(step.op)
    if changes is None:
        return _NOTHING
    state: StateBefore = {}
    for tracker in map(as_read, changes(frame, step)):
        copy = _copy(tracker)
        if copy is not None:
            state[tracker] = copy
    return state


def _copy(tracker: VariableTracker) -> Any:
    """What the tracker holds; None for a value that no step changes."""
    for question in (tracker.contents, tracker.remaining, tracker.assigned):
        copy: Any = question()
        if copy is not None:
            return copy
    return None
