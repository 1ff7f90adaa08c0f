"""What a step may change, looked at before the step.

The idea: check_table.py says which trackers an instruction may change; here a shallow copy of each is made, by its kind: the
items of a container, what was stored in an object, a module, a class or the globals, what a cell holds, how far an iterator is.

In: a frame and the step that is about to be interpreted. Out: tracker -> copy. PyTorch has no counterpart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.bytecode import Step
from dynexplore.engine.variables.containers.iterator import ItemsIteratorVariable, SequenceIteratorVariable
from dynexplore.engine.variables.containers.ranges import RangeIteratorVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.objects.function import CellVariable
from dynexplore.engine.variables.objects.namespace import NamespaceVariable
from dynexplore.engine.variables.objects.python_module import PythonModuleVariable
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.second_opinion.check_table import KEEPERS
from dynexplore.second_opinion.contents import CONTAINERS, held
from dynexplore.second_opinion.deferred_checks import Kept, as_read

if TYPE_CHECKING:
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

NOTHING: Kept = {}

_STORES = (UserObjectVariable, NamespaceVariable, PythonModuleVariable, ClassVariable)


def keep(frame: SymbolicFrame, step: Step) -> Kept:
    """Copies of what this step may change."""
    keeper = KEEPERS.get(step.op)
    if keeper is None:
        return NOTHING
    kept: Kept = {}
    for tracker in keeper(frame, step):
        tracker = as_read(tracker)
        found = _copy(tracker)
        if found is not None:
            kept[tracker] = found
    return kept


def _copy(tracker: VariableTracker) -> Any:
    if type(tracker) in CONTAINERS:
        return held(tracker)
    if isinstance(tracker, CellVariable):
        return (tracker.content,)
    if isinstance(tracker, _STORES):
        return dict(tracker.stored)
    if isinstance(tracker, SequenceIteratorVariable):
        return tracker.sequence, tracker.index
    if isinstance(tracker, ItemsIteratorVariable):
        return tracker.items, tracker.index
    return tracker.numbers if isinstance(tracker, RangeIteratorVariable) else None
