"""What a container or an object made in the frame holds, told to the recording each time that it changed.

The idea: a list that is made in a frame has no node and is no argument, so that nothing could be said of its real value. But what
it holds is known at every step (and held against CPython, container_checks.py); its real value is put together from the real
values of its items, wherever that is asked (real_values.py). Here the items are told, with labels: at the step that made the
container and at each that changed it.

In: a step that was judged. Out: records ContentsSeen. PyTorch has no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from dynexplore.engine import events as ev
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.second_opinion.contents import MAPPINGS, SEQUENCES, SETS
from dynexplore.second_opinion.deferred_checks import Stepped, as_read

FIRST = 6
"""How many items are told."""

View = Callable[[VariableTracker], ev.ValueView]


class Contents(NamedTuple):
    """The first items of a container or the attributes of an object, and how many there are."""

    length: int
    labels: list[str]
    items: list[VariableTracker]


def contents_of(tracker: VariableTracker) -> Contents | None:
    """What a tracker holds; None for what is no container, or what existed before the frame and was not looked at."""
    kind = type(tracker)
    if kind in SEQUENCES:
        items = tracker._items if hasattr(tracker, "_items") else tracker.items  # type: ignore[attr-defined]
        return None if items is None else Contents(len(items), [], list(map(as_read, items[:FIRST])))
    if kind in MAPPINGS:
        entries = tracker._entries if hasattr(tracker, "_entries") else tracker.entries  # type: ignore[attr-defined]
        return None if entries is None else _named([(as_read(key).text(), value) for key, value in entries.values()])
    if kind in SETS:
        members = list(tracker.members.values())  # type: ignore[attr-defined]
        return Contents(len(members), [], list(map(as_read, members[:FIRST])))
    if kind is UserObjectVariable and tracker.value is None:  # type: ignore[attr-defined]
        return _named([(name, value) for name, value in tracker.stored.items() if value is not None])  # type: ignore[attr-defined]
    return None


def _named(pairs: list[tuple[str, VariableTracker]]) -> Contents:
    return Contents(len(pairs), [label for label, _ in pairs[:FIRST]], [as_read(value) for _, value in pairs[:FIRST]])


_HOLDERS = frozenset({*SEQUENCES, *MAPPINGS, *SETS, UserObjectVariable})


def may_be_news(kept: Iterable[VariableTracker], after: Sequence[VariableTracker]) -> bool:
    """Whether a step that kept these trackers and left this stack can have made or changed what `contents_of` knows."""
    if after and type(as_read(after[-1])) in _HOLDERS:
        return True
    return any(type(tracker) in _HOLDERS for tracker in kept)


class ContentsTold:
    """What was told of each container of an attempt."""

    def __init__(self) -> None:
        self._told: dict[VariableTracker, Contents] = {}

    def news(self, step: Stepped) -> list[tuple[VariableTracker, Contents]]:
        """The containers that a step made or changed."""
        found = []
        for tracker in self._touched(step):
            now = contents_of(tracker)
            if now is not None and self._told.get(tracker) != now:
                self._told[tracker] = now
                found.append((tracker, now))
        return found

    def _touched(self, step: Stepped) -> Iterable[VariableTracker]:
        yield from step.kept
        if step.after:
            yield as_read(step.after[-1])


def record_of(place: dict[str, int], number: int, tracker: VariableTracker, now: Contents, view: View) -> ev.ContentsSeen:
    """The record of what a container holds from step `number` on."""
    labels = now.labels or [""] * len(now.items)
    return ev.ContentsSeen(
        **place,
        step=number,
        value=view(tracker).id,
        tracker=type(tracker).__name__,
        kind=tracker.type_name(),
        length=now.length,
        is_object=isinstance(tracker, UserObjectVariable),
        items=tuple((ev.clip(label, 40), _shown(item, view)) for label, item in zip(labels, now.items, strict=True)),
    )


def _shown(item: VariableTracker, view: View) -> ev.ValueView:
    if isinstance(item, LazyVariable):  # it gets a number when it is read
        return ev.ValueView(0, "LazyVariable", f"a {item.type_name()}", item.source.text() if item.source is not None else "")
    return view(item)
