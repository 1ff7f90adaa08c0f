"""The journal: side effects of the traced frame, and the order in which they are replayed.

The idea: nothing real is mutated while a frame is interpreted. `lst.append(x)` mutates the tracker of `lst` and is recorded here;
after the graph has run, the modified code applies the mutations to the real list. An abandoned attempt therefore has no effect, and
the frame can be interpreted again from the start.

The journal holds:

- the tracker of each live object (**one per object**: aliasing in the program is identity of trackers);
- the mutated trackers, in the order of their first mutation. Each tracker's file defines how it is written back.

In: mutations that trackers record. Out: codegen.py iterates over `changed` and calls `write_back` of each. PyTorch's counterpart:
`SideEffects` in torch/_dynamo/side_effects.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from dynexplore.engine.variables.contract.base import VariableTracker, progress

OnChange = Callable[[VariableTracker, str], None]


class Journal:
    """The trackers of live objects and the list of mutated trackers, for one attempt."""

    def __init__(
        self, on_change: OnChange | None = None, refuse: OnChange | None = None,
    ) -> None:  # fmt: skip
        """`on_change`: told of each change. `refuse`: called before a change of an object whose trackers would then disagree."""
        self._trackers: dict[int, VariableTracker] = {}
        self._keep: list[object] = []
        self._identity_observed: set[VariableTracker] = set()
        self.changed: dict[VariableTracker, int] = {}  # with the root frame's step at the first mutation of each
        self.count = 0
        """How many changes were noted: of two moments with the same count, nothing changed in between."""
        self._on_change, self._refuse = on_change, refuse
        self._listening: list[list[VariableTracker]] = []
        self._is_cached: list[Callable[[VariableTracker], bool]] = []
        self.changed_in_a_cache: VariableTracker | None = None
        """The first object that changed though a cache of the program holds the real one."""

    @contextlib.contextmanager
    def mutations_during(self) -> Iterator[list[VariableTracker]]:
        """Collect the trackers that are mutated while the block runs, whether or not the mutation is replayed."""
        mutated: list[VariableTracker] = []
        self._listening.append(mutated)
        try:
            yield mutated
        finally:
            self._listening.pop()

    def listen(self) -> list[VariableTracker]:
        """A list to which every tracker mutated from now on is appended; the caller empties it."""
        mutated: list[VariableTracker] = []
        self._listening.insert(0, mutated)
        return mutated

    def mark_cached(self, is_cached: Callable[[VariableTracker], bool]) -> None:
        """From now on a cache of the program holds the real objects of these trackers: other calls see the same objects."""
        self._is_cached.append(is_cached)

    def is_cached(self, tracker: VariableTracker) -> bool:
        """Whether a cache of the program holds the real object, so that no copy of it may leave the frame."""
        return tracker.mutable and any(is_cached(tracker) for is_cached in self._is_cached)

    def tracker_of(self, value: object) -> VariableTracker | None:
        """The tracker that already represents this very object."""
        return self._trackers.get(id(value))

    def value_of(self, tracker: VariableTracker) -> object | None:
        """The live object that a tracker represents."""
        return next((value for value in self._keep if self._trackers[id(value)] is tracker), None)

    def remember(self, value: object, tracker: VariableTracker) -> None:
        """From now on `tracker` represents `value`, which is kept alive until the attempt ends."""
        self._trackers[id(value)] = tracker
        self._keep.append(value)

    def existing(self) -> Iterator[tuple[object, VariableTracker]]:
        """The live objects that have trackers, with their trackers."""
        return ((value, self._trackers[id(value)]) for value in self._keep)

    def observe_identity(self, *trackers: VariableTracker) -> None:
        """Note that the program depends on the identity of existing objects: as a dict key, or in a comparison."""
        self._identity_observed.update(tracker for tracker in trackers if tracker.source is not None)

    def possible_aliases(self) -> list[list[VariableTracker]]:
        """Existing objects of one type that must not alias: one was mutated, or the program depends on their identity."""
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
        """Record that a tracker is about to be mutated; replayed only if its object existed before the frame."""
        self._count(tracker, change)
        if tracker.source is not None:
            self.changed.setdefault(tracker, progress.step)

    def must_replay(self, tracker: VariableTracker, change: str) -> None:
        """Like `note`, for a tracker without a source whose mutation is replayed nevertheless (cells, globals)."""
        self._count(tracker, change)
        self.changed.setdefault(tracker, progress.step)

    def _count(self, tracker: VariableTracker, change: str) -> None:
        if self._refuse is not None and (tracker.storage_owner or tracker).is_its_own_dict:
            self._refuse(tracker, change)
        self.count += 1
        if self.changed_in_a_cache is None and self.is_cached(tracker):
            self.changed_in_a_cache = tracker
        for listener in self._listening:
            listener.append(tracker)
        if self._on_change is not None:
            self._on_change(tracker, change)

    def is_changed(self, tracker: VariableTracker) -> bool:
        """Whether the tracker has mutations that the real object does not have yet."""
        return tracker in self.changed
