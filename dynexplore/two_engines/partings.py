"""Where the captures of two engines part, and why.

Which idea lives here: of two captures somebody asks first whether the same operators run in the same graphs. Where they do not,
there is a first place: an instruction before which one engine ends the graph and the other does not, or for which one has
another operator, or the same one on other data. Behind it stand the guards, which say when each has to compile again, and the
instructions that only one of them read. Each difference bears its cause, so that many of them can be counted.

In:  the recordings of both. Out: `partings(pairs, theirs, ours)`: `Parting`s, kind by kind, in the order of the program.

PyTorch has no counterpart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.recording.engines import OURS
from dynexplore.recording.engines import TORCH as THEIRS
from dynexplore.recording.recording import Recording
from dynexplore.two_engines.alignment import Pair
from dynexplore.two_engines.guard_claims import claims, unlike
from dynexplore.two_engines.operators import unlike_operators
from dynexplore.two_engines.visits import Visit
from dynexplore.views.counts import plural
from dynexplore.views.names import frame_name, is_library, short_file

KINDS = ("frame", "break", "operator", "guard", "step")
"""Kinds of partings, that with the greatest weight first."""


@dataclass(frozen=True, slots=True)
class Parting:
    """One thing that the engines did not do alike. `cause` names the kind of difference, `what` is it in one sentence, `where`
    its place in the source, `at` the number of the pair at which it shows (-1: none), `about` the guarded value.
    """

    kind: str
    cause: str
    what: str
    where: str = ""
    at: int = -1
    about: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


def partings(pairs: Sequence[Pair], theirs: Recording, ours: Recording) -> list[Parting]:
    """Where two recordings of one function part: in their graphs, in their guards, on the way; each in the order of the program."""
    graphs = [*_frames(pairs, theirs, ours), *_breaks(pairs), *_operators(pairs, theirs, ours)]
    guards = [*_guards(pairs, theirs, ours)]
    return [*sorted(graphs, key=_in_order), *sorted(guards, key=_in_order), *_steps(pairs)]


def _in_order(parting: Parting) -> tuple[bool, int, int]:
    return parting.at < 0, parting.at, KINDS.index(parting.kind)


def _where(visit: Visit) -> str:
    return f"{short_file(visit.code.file)}:{visit.line or visit.code.first_line} in {visit.function}"


def _numbers(pairs: Sequence[Pair]) -> dict[int, int]:
    """The identity of a visit -> the number of its pair."""
    return {id(visit): at for at, pair in enumerate(pairs) for visit in (pair.theirs, pair.ours) if visit is not None}


# -- frames ------------------------------------------------------------------------------------------------------------


def _frames(pairs: Sequence[Pair], theirs: Recording, ours: Recording) -> Iterator[Parting]:
    """Functions, or the rest of them after a break, that one engine leaves to Python and the other captures something of."""
    for name, other, given_up, captured in ((THEIRS, OURS, theirs, ours), (OURS, THEIRS, ours, theirs)):
        kept = {_code_of(captured, entered) for entered, _ in _skipped(captured)}
        for entered, reason in _skipped(given_up):
            at = _begins(pairs, name, entered.frame, _code_of(given_up, entered))
            if at is not None and _code_of(given_up, entered) not in kept and captured.graphs:
                graphs, function = plural(len(captured.graphs), "graph"), frame_name(given_up, entered)
                what = f"{name} runs {function} as plain Python ({reason}), {other} makes {graphs} of the call"
                yield Parting("frame", f"only {name} gives a frame up: {reason}", what, _where(pairs[at].any), at)


def _begins(pairs: Sequence[Pair], name: str, frame: int, code: tuple[str, int]) -> int | None:
    """The first instruction of a frame that was given up, where the other engine came to more of its function; None: it did not."""
    own = [(at, _of_side(pair, name)) for at, pair in enumerate(pairs) if _code(pair.any) == code]
    alone = [at for at, visit in own if visit is None]
    begun = [at for at, visit in own if visit is not None and visit.frame == frame]
    return next(iter([*begun, *alone]), None) if alone else None


def _skipped(recording: Recording) -> list[tuple[ev.FrameEntered, str]]:
    """The frames that were left to Python, and why."""
    return [(recording.frame(one.frame), one.reason) for one in recording.of(ev.FrameSkipped)]


def _code_of(recording: Recording, entered: ev.FrameEntered) -> tuple[str, int]:
    code = recording.original_code(entered.frame)
    return code.file, code.first_line


def _code(visit: Visit) -> tuple[str, int]:
    return visit.code.file, visit.code.first_line


def _of_side(pair: Pair, name: str) -> Visit | None:
    return pair.theirs if name == THEIRS else pair.ours


# -- breaks ------------------------------------------------------------------------------------------------------------


def _breaks(pairs: Sequence[Pair]) -> Iterator[Parting]:
    for at, pair in enumerate(pairs):
        broke = pair.theirs.broke if pair.theirs is not None else None
        our_broke = pair.ours.broke if pair.ours is not None else None
        one = broke or our_broke
        if one is None or (broke and our_broke):
            continue
        name, other = (THEIRS, OURS) if broke else (OURS, THEIRS)
        is_met = pair.theirs is not None and pair.ours is not None
        then = f"{other} goes on" if is_met else f"{other} does not come there"
        what = f"{name} ends the graph here ({one.kind} {one.title}), {then}"
        yield Parting("break", f"only {name} breaks: {one.title}", what, _where(pair.any), at)


# -- operators ---------------------------------------------------------------------------------------------------------


def _operators(pairs: Sequence[Pair], theirs: Recording, ours: Recording) -> Iterator[Parting]:
    """Where the operators of the graphs differ, or what these are given and make."""
    made, numbers = _makers(pairs), _numbers(pairs)
    for one in unlike_operators(theirs, ours):
        their_visit = next((made.get((THEIRS, node.frame, node.name)) for node in one.theirs), None)
        our_visit = next((made.get((OURS, node.frame, node.name)) for node in one.ours), None)
        visit = our_visit or their_visit
        where, at = (_where(visit), numbers[id(visit)]) if visit is not None else ("", -1)
        yield Parting("operator", one.cause, one.what, where, at)


def _makers(pairs: Sequence[Pair]) -> dict[tuple[str, int, str], Visit]:
    visits = itertools.chain.from_iterable(((THEIRS, pair.theirs), (OURS, pair.ours)) for pair in pairs)
    return {(side, visit.frame, node.name): visit for side, visit in visits if visit is not None for node in visit.nodes}


# -- guards ------------------------------------------------------------------------------------------------------------


def _guards(pairs: Sequence[Pair], theirs: Recording, ours: Recording) -> Iterator[Parting]:
    """Where one engine relies on more, of functions of which both captured something."""
    left, right = claims(theirs), claims(ours)
    shared = {function for function, _ in left} & {function for function, _ in right} | {""}
    needed, numbers = _needed(pairs), _numbers(pairs)
    for one in unlike(left, right):
        if one.place[0] in shared:
            asked = [(OURS, guard) for guard in one.ours] + [(THEIRS, guard) for guard in one.theirs]
            visits = (needed.get((side, guard.frame, guard.index)) for side, guard in asked)
            visit = next((visit for visit in visits if visit is not None), None)
            where, at = (_where(visit), numbers[id(visit)]) if visit is not None else (one.place[0], -1)
            yield Parting("guard", one.cause, one.what, where, at, one.place[1])


def _needed(pairs: Iterable[Pair]) -> dict[tuple[str, int, int], Visit]:
    visits = itertools.chain.from_iterable(((THEIRS, pair.theirs), (OURS, pair.ours)) for pair in pairs)
    return {(side, visit.frame, guard.index): visit for side, visit in visits if visit is not None for guard in visit.guards}


# -- steps -------------------------------------------------------------------------------------------------------------


def _steps(pairs: Sequence[Pair]) -> Iterator[Parting]:
    """Each stretch of instructions that only one side came to."""
    at = 0
    for is_met, stretch in itertools.groupby(pairs, lambda pair: (pair.theirs is not None, pair.ours is not None)):
        alone = list(stretch)
        if is_met != (True, True):
            yield _stretch(pairs, at, alone)
        at += len(alone)


def _stretch(pairs: Sequence[Pair], at: int, alone: Sequence[Pair]) -> Parting:
    first = alone[0].any
    name, other = (THEIRS, OURS) if alone[0].theirs is not None else (OURS, THEIRS)
    before = next((visit for pair in reversed(pairs[:at]) if (visit := _of_side(pair, name)) is not None), None)
    whose = "a library" if is_library(first.code.file) else "the program"
    count = plural(len(alone), "instruction")
    if before is None or before.code.file != first.code.file or before.code.first_line != first.code.first_line:
        cause = f"only {name} reads a function of {whose}: {first.function}"
        what = f"{name} reads {first.function} ({count}), {other} does not"
    else:
        cause = f"only {name} takes this way through a function of {whose}: {first.function}"
        what = f"{name} goes on in {first.function} ({count}) where {other} does not"
    return Parting("step", cause, what, _where(first), at)
