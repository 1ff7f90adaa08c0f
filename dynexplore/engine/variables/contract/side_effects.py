"""The journal: what the traced frame changed, and the order in which that is replayed.

The idea: while a frame is interpreted nothing real is touched. `lst.append(x)` changes the tracker of `lst` and is noted here;
when the graph has run, the modified code makes the real list what the tracker became. So a frame that is given up half-way has
changed nothing, and can be interpreted again from the top.

Two kinds of things live here:

- which tracker stands for which live object (**one per object**: identity in the program is identity of trackers);
- the trackers that changed, in the order of their first change. How a change is written back stands in the tracker's own file.

In: notes of the trackers. Out: codegen.py walks `changed` and asks each for `write_back`.
torch/_dynamo/side_effects.py does the same job.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from dynexplore.engine.variables.contract.base import VariableTracker, progress


class Journal:
    """Identity of live objects and the list of changed trackers, of one attempt."""

    def __init__(self, on_change: Callable[[VariableTracker, str], None] | None = None) -> None:
        self._trackers: dict[int, VariableTracker] = {}
        self._keep: list[object] = []
        self._told_apart: set[VariableTracker] = set()
        self.changed: dict[VariableTracker, int] = {}  # and the root frame's step at which each first changed
        self.count = 0
        """How many changes were noted: of two moments with the same count, nothing changed in between."""
        self._on_change = on_change
        self._listening: list[list[VariableTracker]] = []

    @contextlib.contextmanager
    def noted_inside(self) -> Iterator[list[VariableTracker]]:
        """The trackers that change while the block runs, whether or not the change is replayed."""
        noted: list[VariableTracker] = []
        self._listening.append(noted)
        try:
            yield noted
        finally:
            self._listening.pop()

    def tracker_of(self, value: object) -> VariableTracker | None:
        """The tracker that already stands for this very object."""
        return self._trackers.get(id(value))

    def value_of(self, tracker: VariableTracker) -> object | None:
        """The live object that a tracker stands for."""
        return next((value for value in self._keep if self._trackers[id(value)] is tracker), None)

    def remember(self, value: object, tracker: VariableTracker) -> None:
        """From now on `tracker` stands for `value` (which stays alive as long as the attempt)."""
        self._trackers[id(value)] = tracker
        self._keep.append(value)

    def existing(self) -> Iterator[tuple[object, VariableTracker]]:
        """The live objects that were looked at, and the tracker that stands for each."""
        return ((value, self._trackers[id(value)]) for value in self._keep)

    def tell_apart(self, *trackers: VariableTracker) -> None:
        """The program asked of existing objects which object they are: as a key, or compared with another one."""
        self._told_apart.update(tracker for tracker in trackers if tracker.source is not None)

    def may_be_one(self) -> list[list[VariableTracker]]:
        """Existing objects of one type that must be different: one was changed, or the program asked which object they are."""
        mutable: dict[type, list[VariableTracker]] = {}
        asked: dict[type, list[VariableTracker]] = {}
        for value in self._keep:
            tracker = self._trackers[id(value)]
            if tracker.source is not None and tracker.mutable:
                mutable.setdefault(type(value), []).append(tracker)
            if tracker in self._told_apart:
                asked.setdefault(type(value), []).append(tracker)
        groups = [group for group in mutable.values() if any(tracker in self.changed for tracker in group)]
        groups += [group for group in asked.values() if group not in groups]
        return [group for group in groups if len(group) > 1]

    def note(self, tracker: VariableTracker, what: str) -> None:
        """A tracker is about to change; only what existed before the frame is replayed."""
        self._count(tracker, what)
        if tracker.source is not None:
            self.changed.setdefault(tracker, progress.step)

    def must_replay(self, tracker: VariableTracker, what: str) -> None:
        """Like `note`, for a tracker without a source that has something to replay all the same (cells, globals)."""
        self._count(tracker, what)
        self.changed.setdefault(tracker, progress.step)

    def _count(self, tracker: VariableTracker, what: str) -> None:
        self.count += 1
        for noted in self._listening:
            noted.append(tracker)
        if self._on_change is not None:
            self._on_change(tracker, what)

    def is_changed(self, tracker: VariableTracker) -> bool:
        """Whether the real object is not yet what the tracker says."""
        return tracker in self.changed


