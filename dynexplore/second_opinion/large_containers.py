"""Large containers: a real one stands beside each, and does what the steps do to it.

The idea: to copy a container before a step and to compare all of it afterwards takes time that grows with it, and a loop that
fills it pays that in each round. So beside a large one a *twin* is kept, a real container of `Value`s: CPython carries each step
out on the twin itself, and only what the step touched is compared at once. All of it is compared each time that as many steps
have gone by as there are items, which costs no more than the steps did, and when the translation ends or begins anew: a
difference that was not touched is found then, and stands at the latest step that changed the container.

Whatever else changes the container (a rule that nothing here can repeat, a `key=` function) the journal hears of; then the twin is
given up, and a new one is made when that is due.

In: trackers, before and after the steps that look at them or change them. Out: twins, mismatches. PyTorch has no counterpart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.inspection import Unknown
from dynexplore.engine.variables.contract.side_effects import Journal
from dynexplore.second_opinion.check_table import another
from dynexplore.second_opinion.contents import Value, container_of, first_difference, may_be_same
from dynexplore.second_opinion.deferred_checks import Mismatch, StepMark

SMALL = 64
"""A container of so many items is copied before each step, and compared as a whole after it."""


@dataclass(slots=True, eq=False)
class Twin:
    """The real container beside a large one. `steps`: how many changed it since it was last compared as a whole."""

    real: Any
    steps: int = 0
    mark: StepMark | None = None  # of the latest of these


NO_TWIN = Twin(None)
"""Stands for the state of a large container of which there is no twin."""


class LargeContainers:
    """The twins of one attempt; see the head of this file."""

    def __init__(self, journal: Journal) -> None:
        self._twins: dict[VariableTracker, Twin] = {}
        self._waited: dict[VariableTracker, int] = {}  # how often a twin was asked for since the last one was made
        self._change_log = journal.listen()
        self._compared: set[Twin] = set()  # in the step at hand

    def twin_of(self, tracker: VariableTracker) -> Twin:
        """The twin of a large container as it is before a step; NO_TWIN where there is none, and it is not due to make one."""
        twin = self._twins.get(tracker)
        if twin is not None and _has_as_many(twin, tracker):
            return twin
        self._twins.pop(tracker, None)
        waited = self._waited.get(tracker)
        if waited is not None and waited < tracker.bulk():
            self._waited[tracker] = waited + 1
            return NO_TWIN
        self._waited[tracker] = 0
        try:
            fresh = self._twins[tracker] = Twin(container_of(tracker))
        except Unknown:
            return NO_TWIN
        return fresh

    def difference(self, tracker: VariableTracker, twin: Twin, touched: Any) -> Mismatch | None:
        """How a container differs from its twin after the step that did something to both: at `touched`, a key or an index."""
        self._compared.add(twin)
        twin.steps += 1
        if twin.steps >= len(twin.real):
            twin.steps = 0
            return first_difference(twin.real, container_of(tracker, longest=None))
        if not _has_as_many(twin, tracker):
            return Mismatch(f"length of the {type(twin.real).__name__}", str(len(twin.real)), str(tracker.bulk()))
        return _difference_at(tracker, twin.real, touched)

    def step_is_over(self, mark: StepMark | None) -> None:
        """A step was interpreted, and checked if it had to be: give up the twins that did not follow it."""
        for twin in self._compared:
            twin.mark = mark
        for tracker in self._change_log:
            if tracker in self._twins and self._twins[tracker] not in self._compared:
                del self._twins[tracker]
        self._change_log.clear()
        self._compared.clear()

    def give_up(self, state_before: Any) -> None:
        """A step did not come to its end, or its check did not: the twins that it was given may be anything."""
        for tracker, twin in state_before.items():
            if isinstance(twin, Twin) and twin not in self._compared:
                self._twins.pop(tracker, None)

    def differences(self) -> list[tuple[StepMark, Mismatch]]:
        """All twins compared as a whole, at the end; of each that differs the latest step that changed it."""
        wrong = []
        for tracker, twin in self._twins.items():
            if not twin.steps or twin.mark is None:
                continue
            try:
                mismatch = first_difference(twin.real, container_of(tracker, longest=None))
            except Unknown:
                continue
            if mismatch is not None:
                wrong.append((twin.mark, mismatch))
        return wrong


def _has_as_many(twin: Twin, tracker: VariableTracker) -> bool:
    """Whether there are as many items; of one that has a part which nobody looked at that is not known."""
    shown = tracker.contents(0)
    return shown is None or shown.live is not None or len(twin.real) == tracker.bulk()


def _difference_at(tracker: VariableTracker, real: Any, place: Any) -> Mismatch | None:
    """The item at a place, which the container can find without walking, compared with that of the twin."""
    if not isinstance(place, Value if isinstance(real, dict) else int) or isinstance(real, set | frozenset):
        return None
    key = place.tracker if isinstance(place, Value) else place
    actual = tracker.content_at(key) if key is not None else None
    try:
        expected = real[place]
    except (KeyError, IndexError):
        expected = None
    if actual is None or expected is None or may_be_same(expected, Value(actual)):
        return None
    return another(f"item {place.text() if isinstance(place, Value) else place} of the {type(real).__name__}",
                   expected.text(), Value(actual).text())  # fmt: skip
