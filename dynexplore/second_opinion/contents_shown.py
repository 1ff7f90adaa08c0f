"""The content of a container or an object created in the frame, recorded after each mutation.

The idea: a list that is created in a frame has no node and is not an argument, so no real value is recorded for it. But its
content is known at every step (and compared with CPython's, container_checks.py), so its real value can be assembled on request
from those of its items (recording/real_values.py). Here the items are recorded, with labels: at the step that created the
container and at each that mutated it.

In: a step that was checked. Out: records of class ContentsSeen. PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from dynexplore.engine import events as ev
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.second_opinion.contents import is_mapping
from dynexplore.second_opinion.deferred_checks import CheckedStep, as_read

FIRST = 6
"""The number of items that are recorded."""

ViewOf = Callable[[VariableTracker], ev.ValueView]


class ShownContents(NamedTuple):
    """The first items of a container or the attributes of an object, and their total number."""

    length: int
    labels: list[str]
    items: list[VariableTracker]


def shown_contents(tracker: VariableTracker) -> ShownContents | None:
    """The content of a tracker; None if it is not a container, or existed before the frame and was not read."""
    if tracker.container_type is None:
        attributes = tracker.new_object_attributes()
        return None if attributes is None else _labelled(attributes, len(attributes))
    length = tracker.bulk()
    contents = tracker.contents(FIRST) if length > FIRST else tracker.contents()
    if contents is None or contents.live is not None:
        return None
    length = max(length, len(contents.items))
    if is_mapping(tracker):
        return _labelled([(as_read(key).text(), value) for key, value in contents.items[:FIRST]], length)
    return ShownContents(length, [], list(map(as_read, contents.items[:FIRST])))


def _labelled(pairs: Sequence[tuple[str, VariableTracker]], length: int) -> ShownContents:
    return ShownContents(length, [label for label, _ in pairs[:FIRST]], [as_read(value) for _, value in pairs[:FIRST]])


def may_have_changed(state_before: Iterable[VariableTracker], after: Sequence[VariableTracker]) -> bool:
    """Whether a step with these copies before it and this stack after it can have created or mutated a container that is shown."""
    return bool(after and _is_shown(as_read(after[-1]))) or any(map(_is_shown, state_before))


def _is_shown(tracker: VariableTracker) -> bool:
    return tracker.container_type is not None or tracker.new_object_attributes() is not None


class ContentsRecorded:
    """The content that was recorded of each container of an attempt."""

    def __init__(self) -> None:
        self._latest: dict[VariableTracker, ShownContents] = {}

    def changes(self, step: CheckedStep) -> list[tuple[VariableTracker, ShownContents]]:
        """The containers that a step created or mutated."""
        changed = []
        for tracker in self._touched(step):
            now = shown_contents(tracker)
            if now is not None and self._latest.get(tracker) != now:
                self._latest[tracker] = now
                changed.append((tracker, now))
        return changed

    def _touched(self, step: CheckedStep) -> Iterable[VariableTracker]:
        yield from step.state_before
        if step.after:
            yield as_read(step.after[-1])


def record_of(place: dict[str, int], number: int, tracker: VariableTracker, now: ShownContents, view: ViewOf) -> ev.ContentsSeen:
    """The record of a container's content from step `number` on."""
    labels = now.labels or [""] * len(now.items)
    return ev.ContentsSeen(
        **place,
        step=number,
        value=view(tracker).id,
        tracker=type(tracker).__name__,
        kind=tracker.type_name(),
        length=now.length,
        is_object=tracker.container_type is None,
        items=tuple((ev.clip(label, 40), _shown(item, view)) for label, item in zip(labels, now.items, strict=True)),
    )


def _shown(item: VariableTracker, view: ViewOf) -> ev.ValueView:
    if isinstance(item, LazyVariable):  # it gets a number when it is realized
        return ev.ValueView(0, "LazyVariable", f"a {item.type_name()}", item.source.text() if item.source is not None else "")
    return view(item)
