"""Twins of large containers: real containers that repeat the steps' operations.

The idea: copying a container before a step and comparing it afterwards takes time proportional to its size, which a loop that
fills it would pay in each iteration. So a large container has a *twin*, a real container of `Value`s: CPython repeats each step
on the twin, and only the items that the step touched are compared at once. The whole container is compared whenever the number
of steps since then reaches its size, which is amortized constant time, and when the translation ends or restarts. That finds a
difference in an untouched item, which is attributed to the latest step that mutated the container.

Any other mutation (by a handler that cannot be repeated here, or a `key=` function) is visible in the journal; the twin is then
discarded, and a new one is created when it is due.

In: trackers, before and after the steps that read or mutate them. Out: twins, mismatches. PyTorch's counterpart: none.
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
"""The largest container that is copied before each step, and compared as a whole after it."""


@dataclass(slots=True, eq=False)
class Twin:
    """The real container that mirrors a large one. `steps`: the number of mutating steps since it was last compared as a whole."""

    real: Any
    steps: int = 0
    mark: StepMark | None = None  # of the latest of these steps


NO_TWIN = Twin(None)
"""Represents the state of a large container without a twin."""


class LargeContainers:
    """The twins of one attempt; see the module docstring."""

    def __init__(self, journal: Journal) -> None:
        self._twins: dict[VariableTracker, Twin] = {}
        self._waited: dict[VariableTracker, int] = {}  # how often a twin was requested since the last one was created
        self._change_log = journal.listen()
        self._compared: set[Twin] = set()  # in the current step

    def twin_of(self, tracker: VariableTracker) -> Twin:
        """The twin of a large container before a step; NO_TWIN if there is none, and creating one is not due."""
        twin = self._twins.get(tracker)
        if twin is not None and _has_same_length(twin, tracker):
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
        """How a container differs from its twin after a step that operated on both: at `touched`, a key or an index."""
        self._compared.add(twin)
        twin.steps += 1
        if twin.steps >= len(twin.real):
            twin.steps = 0
            return first_difference(twin.real, container_of(tracker, longest=None))
        if not _has_same_length(twin, tracker):
            return Mismatch(f"length of the {type(twin.real).__name__}", str(len(twin.real)), str(tracker.bulk()))
        return _difference_at(tracker, twin.real, touched)

    def step_is_over(self, mark: StepMark | None) -> None:
        """After a step and its check: discard the twins that did not follow it."""
        for twin in self._compared:
            twin.mark = mark
        for tracker in self._change_log:
            if tracker in self._twins and self._twins[tracker] not in self._compared:
                del self._twins[tracker]
        self._change_log.clear()
        self._compared.clear()

    def give_up(self, state_before: Any) -> None:
        """Discard the twins of a step that did not complete, or whose check did not: their content is undefined."""
        for tracker, twin in state_before.items():
            if isinstance(twin, Twin) and twin not in self._compared:
                self._twins.pop(tracker, None)

    def differences(self) -> list[tuple[StepMark, Mismatch]]:
        """Compare all twins as a whole, at the end; for each that differs, return the latest step that mutated it."""
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


def _has_same_length(twin: Twin, tracker: VariableTracker) -> bool:
    """Whether the numbers of items are equal; unknown, so True, for a container with an unread part."""
    shown = tracker.contents(0)
    return shown is None or shown.live is not None or len(twin.real) == tracker.bulk()


def _difference_at(tracker: VariableTracker, real: Any, place: Any) -> Mismatch | None:
    """Compare the item at a place, if the container can find it without iterating, with that of the twin."""
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
