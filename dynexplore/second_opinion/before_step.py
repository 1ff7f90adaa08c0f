"""The state that a step may mutate, copied before the step.

The idea: check_table.py declares which trackers an instruction may mutate. Each is copied shallowly: the items of a container
(a large one has a twin, see large_containers.py), the remaining items of an iterator, and the pending stores of an object,
module, class, the globals or a cell.

In: a frame and the step that is about to be interpreted. Out: tracker -> copy. PyTorch's counterpart: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.bytecode import Step
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.second_opinion import opcode_checks
from dynexplore.second_opinion.check_table import CHANGES
from dynexplore.second_opinion.deferred_checks import StateBefore, as_read
from dynexplore.second_opinion.large_containers import NO_TWIN, SMALL

if TYPE_CHECKING:
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
    from dynexplore.second_opinion.large_containers import LargeContainers

_CHECKS = opcode_checks  # imported, with its submodules, for the mutations that the checks declare
_NOTHING: StateBefore = {}


def state_before(frame: SymbolicFrame, step: Step, large: LargeContainers) -> StateBefore:
    """Copies of the trackers that this step may mutate; for a large container its twin."""
    changes = CHANGES.get(step.op)
    if changes is None:
        return _NOTHING
    state: StateBefore = {}
    for tracker in map(as_read, changes(frame, step)):
        copy = _copy(tracker) if tracker.bulk() <= SMALL else _of_large(tracker, large)
        if copy is not None:
            state[tracker] = copy
        elif tracker.container_type is not None:  # unread so far: after the step, its content is not that from before
            state[tracker] = NO_TWIN
    return state


def _of_large(tracker: VariableTracker, large: LargeContainers) -> Any:
    """The twin of a large container; the next items of an iterator that has many left."""
    return large.twin_of(tracker) if tracker.container_type is not None else tracker.remaining(SMALL)


def _copy(tracker: VariableTracker) -> Any:
    """A shallow copy of the tracker's content; None for a value that no step mutates."""
    for question in (tracker.contents, tracker.remaining, tracker.assigned):
        copy: Any = question()
        if copy is not None:
            return copy
    return None
