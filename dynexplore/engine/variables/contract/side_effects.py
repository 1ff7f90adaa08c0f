"""The journal: side effects of the traced frame, and the order in which they are replayed.

The idea: while a frame is interpreted nothing real is mutated. `lst.append(x)` mutates the tracker of `lst` and is recorded here;
when the graph has run, the modified code makes the real list what the tracker became. So an attempt that is abandoned half-way has
no effect, and the frame can be interpreted again from the top.

It holds two things:

- which tracker stands for which live object (**one per object**: aliasing in the program is identity of trackers);
- the mutated trackers, in the order of their first mutation. How one is written back is in the tracker's own file.

In: mutations that trackers record. Out: codegen.py walks `changed` and calls `write_back` of each.
torch/_dynamo/side_effects.py (SideEffects) does the same job.
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
        self._identity_observed: set[VariableTracker] = set()
        self.changed: dict[VariableTracker, int] = {}  # and the root frame's step at which each first changed
        self.count = 0
        """How many changes were noted: of two moments with the same count, nothing changed in between."""
        self._on_change = on_change
        self._listening: list[list[VariableTracker]] = []
        self._is_cached: list[Callable[[VariableTracker], bool]] = []
        self.changed_in_a_cache: VariableTracker | None = None
        """The first object that changed though a cache of the program holds the real one."""

    @contextlib.contextmanager
    def mutations_during(self) -> Iterator[list[VariableTracker]]:
        """The trackers that change while the block runs, whether or not the change is replayed."""
        mutated: list[VariableTracker] = []
        self._listening.append(mutated)
        try:
            yield mutated
        finally:
            self._listening.pop()

    def listen(self) -> list[VariableTracker]:
        """A list to which every tracker is added that changes from now on; who listens empties it."""
        mutated: list[VariableTracker] = []
        self._listening.insert(0, mutated)
        return mutated

    def mark_cached(self, is_cached: Callable[[VariableTracker], bool]) -> None:
        """From now on, what these trackers stand for is held by a cache of the program: other calls see the very objects."""
        self._is_cached.append(is_cached)

    def is_cached(self, tracker: VariableTracker) -> bool:
        """Whether a cache of the program holds the real object, so that no copy of it may leave the frame."""
        return tracker.mutable and any(is_cached(tracker) for is_cached in self._is_cached)

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

    def observe_identity(self, *trackers: VariableTracker) -> None:
        """The program asked of existing objects which object they are: as a key, or compared with another one."""
        self._identity_observed.update(tracker for tracker in trackers if tracker.source is not None)

    def possible_aliases(self) -> list[list[VariableTracker]]:
        """Existing objects of one type that must be different: one was changed, or the program asked which object they are."""
        mutable: dict[type, list[VariableTracker]] = {}
        identified: dict[type, list[VariableTracker]] = {}
        for value in self._keep:
            tracker = self._trackers[id(value)]
            if tracker.source is not None and tracker.mutable:
                mutable.setdefault(type(value), []).append(tracker)
            if tracker in self._identity_observed:
                identified.setdefault(type(value), []).append(tracker)
        groups = [group for group in mutable.values() if any(tracker in self.changed for tracker in group)]
        groups += [group for group in identified.values() if group not in groups]
        return [group for group in groups if len(group) > 1]

    def note(self, tracker: VariableTracker, change: str) -> None:
        """A tracker is about to change; only what existed before the frame is replayed."""
        self._count(tracker, change)
        if tracker.source is not None:
            self.changed.setdefault(tracker, progress.step)

    def must_replay(self, tracker: VariableTracker, change: str) -> None:
        """Like `note`, for a tracker without a source that has something to replay all the same (cells, globals)."""
        self._count(tracker, change)
        self.changed.setdefault(tracker, progress.step)

    def _count(self, tracker: VariableTracker, change: str) -> None:
        self.count += 1
        if self.changed_in_a_cache is None and self.is_cached(tracker):
            self.changed_in_a_cache = tracker
        for listener in self._listening:
            listener.append(tracker)
        if self._on_change is not None:
            self._on_change(tracker, change)

    def is_changed(self, tracker: VariableTracker) -> bool:
        """Whether the real object is not yet what the tracker says."""
        return tracker in self.changed
