"""The cost of graph breaks by location: the ranking that the headline and a report's list share.

The idea: one line of a program may break in every iteration of a loop and in several callers, and each time a resume function
is compiled, and recompiled for other values. All of these share one location, and one fix. For a program the locations are
ranked by seconds of compilation; for a single explained function, which compiles quickly, the first location that ends a large
graph comes first.

In: a Recording; `key`, which identifies a location. Out: `broken_places(recording, key)`, `BrokenPlace`s, the most expensive
first; `break_before(recording, again)`, the break that causes a recompile. PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.changes import FROM_BEFORE, change
from dynexplore.views.compile_seconds import seconds_by_frame, seconds_of_breaks


@dataclass(eq=False)
class BrokenPlace:
    """A line where graphs break: its breaks in order of occurrence; seconds of compilation, including those of `recompiles` that
    it causes; `operators` of the largest graph that it ends.
    """

    breaks: list[ev.GraphBroke] = field(default_factory=list)
    seconds: float = 0.0
    operators: int = 0
    recompiles: list[ev.Recompiled] = field(default_factory=list)


def broken_places(recording: Recording, key: Callable[[ev.GraphBroke], Hashable]) -> list[BrokenPlace]:
    """The locations, the most expensive first."""
    places: dict[Hashable, BrokenPlace] = {}
    spent, cut = seconds_of_breaks(recording), _operators_before(recording)
    for broke in recording.breaks:
        place = places.setdefault(key(broke), BrokenPlace())
        place.breaks.append(broke)
        place.seconds += spent[broke.frame].all if broke.frame in spent else 0.0
        place.operators = max(place.operators, cut[broke.user_stack[-1:]])
    by_frame = seconds_by_frame(recording)
    for again in recording.of(ev.Recompiled):
        broken = break_before(recording, again)
        if broken is not None:
            place = places[key(broken)]
            place.recompiles.append(again)
            place.seconds += by_frame[again.frame].all if again.frame in by_frame else 0.0
    ranked = list(places.values())
    if recording.of(ev.ProgramEnded):
        return sorted(ranked, key=lambda place: (-place.seconds, -len(place.breaks)))
    most = max((place.operators for place in ranked), default=0)
    return sorted(ranked, key=lambda place: 2 * place.operators < most)


def _operators_before(recording: Recording) -> Counter[tuple[ev.UserFrame, ...]]:
    """The number of operators of the largest graph that ends at a line; a line breaks in each caller."""
    operators: Counter[int] = Counter()
    for graph in recording.graphs:
        operators[graph.frame] += graph.op_count
    cut: Counter[tuple[ev.UserFrame, ...]] = Counter()
    for broke in recording.breaks:
        cut[broke.user_stack[-1:]] = max(cut[broke.user_stack[-1:]], operators[broke.frame])
    return cut


def break_before(recording: Recording, again: ev.Recompiled) -> ev.GraphBroke | None:
    """The graph break that causes a recompile: its resume function received another value from the code before it."""
    failed = next(iter(recording.of_frame(again.frame, ev.GuardFailed)), None)
    entered = next(iter(recording.of_frame(again.frame, ev.FrameEntered)), None)
    if failed is None or entered is None or entered.parent is None or change(failed).name != FROM_BEFORE:
        return None
    return next(reversed(recording.of_frame(entered.parent, ev.GraphBroke)), None)
