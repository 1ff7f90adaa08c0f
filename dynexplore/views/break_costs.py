"""What graph breaks cost, place by place: the one ranking that the headline and the list of a report share.

Which idea lives here: one line of a program may break in each round of a loop, in several functions that call it, and each time
what continues is compiled, and compiled again for another value. All of that is one place, which a person mends once. Of a program
the places that took most seconds of compilation come first; of one function that was explained, where seconds are few, the first
place that ends much graph work.

In:  a Recording; `key`, which says what is one place.
Out: `broken_places(recording, key)`, a `BrokenPlace` each, the costliest first; `break_before(recording, again)`, the break that a
     recompile goes with.

PyTorch has no counterpart.
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
    """A line where graphs break: its breaks as they came; seconds of compilation, those of `recompiles` that go with them included;
    `operators` of the largest graph that one of them ends."""

    breaks: list[ev.GraphBroke] = field(default_factory=list)
    seconds: float = 0.0
    operators: int = 0
    recompiles: list[ev.Recompiled] = field(default_factory=list)


def broken_places(recording: Recording, key: Callable[[ev.GraphBroke], Hashable]) -> list[BrokenPlace]:
    """The places, the costliest first."""
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
    """The operators of the largest graph that ends at a line; a line breaks in each caller."""
    operators: Counter[int] = Counter()
    for graph in recording.graphs:
        operators[graph.frame] += graph.op_count
    cut: Counter[tuple[ev.UserFrame, ...]] = Counter()
    for broke in recording.breaks:
        cut[broke.user_stack[-1:]] = max(cut[broke.user_stack[-1:]], operators[broke.frame])
    return cut


def break_before(recording: Recording, again: ev.Recompiled) -> ev.GraphBroke | None:
    """The graph break that a recompile goes with: what continues after it got another value from before it."""
    failed = next(iter(recording.of_frame(again.frame, ev.GuardFailed)), None)
    entered = next(iter(recording.of_frame(again.frame, ev.FrameEntered)), None)
    if failed is None or entered is None or entered.parent is None or change(failed).name != FROM_BEFORE:
        return None
    return next(reversed(recording.of_frame(entered.parent, ev.GraphBroke)), None)
