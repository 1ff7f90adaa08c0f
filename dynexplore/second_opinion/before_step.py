"""The state that a step may change, copied before the step.

The idea: check_table.py says which trackers an instruction may change; each gives a shallow copy of what it holds: the items of a
container (of a large one there is a twin, see large_containers.py), what an iterator will still give, what was stored in an object,
module or class, in the globals or in a cell.

In: a frame and the step that is about to be interpreted. Out: tracker -> copy. PyTorch has no counterpart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.bytecode import Step
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.second_opinion import opcode_checks
from dynexplore.second_opinion.check_table import CHANGES
from dynexplore.second_opinion.deferred_checks import StateBefore, as_read
from dynexplore.second_opinion.large_containers import SMALL

if TYPE_CHECKING:
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
    from dynexplore.second_opinion.large_containers import LargeContainers

_CHECKS = opcode_checks  # imported, with its themes, for the changes that the checks declare
_NOTHING: StateBefore = {}


def state_before(frame: SymbolicFrame, step: Step, large: LargeContainers) -> StateBefore:
    """Copies of what this step may change; of a large container its twin."""
    changes = CHANGES.get(step.op)
    if changes is None:
        return _NOTHING
    state: StateBefore = {}
    for tracker in map(as_read, changes(frame, step)):
        copy = _copy(tracker) if tracker.bulk() <= SMALL else _of_large(tracker, large)
        if copy is not None:
            state[tracker] = copy
    return state


def _of_large(tracker: VariableTracker, large: LargeContainers) -> Any:
    """The twin of a large container; the next items of an iterator that still has many."""
    return large.twin_of(tracker) if tracker.container_type is not None else tracker.remaining(SMALL)


def _copy(tracker: VariableTracker) -> Any:
    """What the tracker holds; None for a value that no step changes."""
    for question in (tracker.contents, tracker.remaining, tracker.assigned):
        copy: Any = question()
        if copy is not None:
            return copy
    return None
