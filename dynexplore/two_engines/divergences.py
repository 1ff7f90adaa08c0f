"""Where the captures of two engines part, and why.

Which idea lives here: of two captures somebody asks first whether the same operators run in the same graphs. Where they do not,
there is a first place: an instruction before which one engine ends the graph and the other does not, or for which one has
another operator, or the same one on other data. Behind it stand the guards, which say when each has to compile again, and the
instructions that only one of them read. Each difference bears its cause, so that many of them can be counted.

In:  the recordings of both. Out: `divergences(pairs, torch_side, engine_side)`: `Divergence`s, kind by kind, in
the order of the program.

PyTorch has no counterpart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.engine.old_names import keep_old_names
from dynexplore.recording.engines import DYNEXPLORE, TORCH
from dynexplore.recording.recording import Recording
from dynexplore.two_engines.alignment import Pair
from dynexplore.two_engines.guard_claims import claims, unlike
from dynexplore.two_engines.operators import unlike_operators
from dynexplore.two_engines.visits import Visit
from dynexplore.views.counts import plural
from dynexplore.views.names import frame_name, is_library, short_file

KINDS = ("frame", "break", "operator", "guard", "step")
"""Kinds of divergences, that with the greatest weight first."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """One thing that the engines did not do alike. `cause` names the kind of difference, `message` is it in one sentence, `where`
    its place in the source, `at` the number of the pair at which it shows (-1: none), `about` the guarded value.
    """

    kind: str
    cause: str
    message: str
    where: str = ""
    at: int = -1
    about: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def divergences(pairs: Sequence[Pair], torch_side: Recording, engine_side: Recording) -> list[Divergence]:
    """Where two recordings of one function part: in their graphs, in their guards, on the way; each in the order of the program."""
    graphs = [*_frames(pairs, torch_side, engine_side), *_breaks(pairs), *_operators(pairs, torch_side, engine_side)]
    guards = [*_guards(pairs, torch_side, engine_side)]
    return [*sorted(graphs, key=_in_order), *sorted(guards, key=_in_order), *_steps(pairs)]


def _in_order(divergence: Divergence) -> tuple[bool, int, int]:
    return divergence.at < 0, divergence.at, KINDS.index(divergence.kind)


def _where(visit: Visit) -> str:
    return f"{short_file(visit.code.file)}:{visit.line or visit.code.first_line} in {visit.function}"


def _numbers(pairs: Sequence[Pair]) -> dict[int, int]:
    """The identity of a visit -> the number of its pair."""
    return {id(visit): at for at, pair in enumerate(pairs) for visit in (pair.torch_side, pair.engine_side) if visit is not None}


# -- frames ------------------------------------------------------------------------------------------------------------


def _frames(pairs: Sequence[Pair], torch_side: Recording, engine_side: Recording) -> Iterator[Divergence]:
    """Functions, or the rest of them after a break, that one engine leaves to Python and the other captures something of."""
    sides = ((TORCH, DYNEXPLORE, torch_side, engine_side), (DYNEXPLORE, TORCH, engine_side, torch_side))
    for name, other, given_up, captured in sides:
        captured_codes = {_code_of(captured, entered) for entered, _ in _skipped(captured)}
        for entered, reason in _skipped(given_up):
            at = _begins(pairs, name, entered.frame, _code_of(given_up, entered))
            if at is not None and _code_of(given_up, entered) not in captured_codes and captured.graphs:
                graphs, function = plural(len(captured.graphs), "graph"), frame_name(given_up, entered)
                message = f"{name} runs {function} as plain Python ({reason}), {other} makes {graphs} of the call"
                yield Divergence("frame", f"only {name} gives a frame up: {reason}", message, _where(pairs[at].any), at)


def _begins(pairs: Sequence[Pair], name: str, frame: int, code: tuple[str, int]) -> int | None:
    """The first instruction of a frame that was given up, where the other engine came to more of its function; None: it did not."""
    own = [(at, _of_side(pair, name)) for at, pair in enumerate(pairs) if _code(pair.any) == code]
    alone = [at for at, visit in own if visit is None]
    begun = [at for at, visit in own if visit is not None and visit.frame == frame]
    return next(iter([*begun, *alone]), None) if alone else None


def _skipped(recording: Recording) -> list[tuple[ev.FrameEntered, str]]:
    """The frames that were left to Python, and why."""
    return [(recording.frame(skipped.frame), skipped.reason) for skipped in recording.of(ev.FrameSkipped)]


def _code_of(recording: Recording, entered: ev.FrameEntered) -> tuple[str, int]:
    code = recording.original_code(entered.frame)
    return code.file, code.first_line


def _code(visit: Visit) -> tuple[str, int]:
    return visit.code.file, visit.code.first_line


def _of_side(pair: Pair, name: str) -> Visit | None:
    return pair.torch_side if name == TORCH else pair.engine_side


# -- breaks ------------------------------------------------------------------------------------------------------------


def _breaks(pairs: Sequence[Pair]) -> Iterator[Divergence]:
    for at, pair in enumerate(pairs):
        broke = pair.torch_side.graph_break if pair.torch_side is not None else None
        engine_broke = pair.engine_side.graph_break if pair.engine_side is not None else None
        graph_break = broke or engine_broke
        if graph_break is None or (broke and engine_broke):
            continue
        name, other = (TORCH, DYNEXPLORE) if broke else (DYNEXPLORE, TORCH)
        is_met = pair.torch_side is not None and pair.engine_side is not None
        then = f"but {other} continues" if is_met else f"but {other} does not reach it"
        message = f"{name} ends the graph here ({graph_break.kind}: {graph_break.title}), {then}"
        yield Divergence("break", f"only {name} breaks: {graph_break.title}", message, _where(pair.any), at)


# -- operators ---------------------------------------------------------------------------------------------------------


def _operators(pairs: Sequence[Pair], torch_side: Recording, engine_side: Recording) -> Iterator[Divergence]:
    """Where the operators of the graphs differ, or what these are given and make."""
    makers, numbers = _makers(pairs), _numbers(pairs)
    for difference in unlike_operators(torch_side, engine_side):
        torch_visit = next((makers.get((TORCH, node.frame, node.name)) for node in difference.torch_side), None)
        engine_visit = next((makers.get((DYNEXPLORE, node.frame, node.name)) for node in difference.engine_side), None)
        visit = engine_visit or torch_visit
        where, at = (_where(visit), numbers[id(visit)]) if visit is not None else ("", -1)
        yield Divergence("operator", difference.cause, difference.message, where, at)


def _makers(pairs: Sequence[Pair]) -> dict[tuple[str, int, str], Visit]:
    visits = itertools.chain.from_iterable(((TORCH, pair.torch_side), (DYNEXPLORE, pair.engine_side)) for pair in pairs)
    return {(side, visit.frame, node.name): visit for side, visit in visits if visit is not None for node in visit.nodes}


# -- guards ------------------------------------------------------------------------------------------------------------


def _guards(pairs: Sequence[Pair], torch_side: Recording, engine_side: Recording) -> Iterator[Divergence]:
    """Where one engine relies on more, of functions of which both captured something."""
    torch_claims, engine_claims = claims(torch_side), claims(engine_side)
    shared = {function for function, _ in torch_claims} & {function for function, _ in engine_claims} | {""}
    needed, numbers = _needed(pairs), _numbers(pairs)
    for difference in unlike(torch_claims, engine_claims):
        if difference.place[0] in shared:
            guards = [(DYNEXPLORE, guard) for guard in difference.engine_side] + [(TORCH, guard) for guard in difference.torch_side]
            visits = (needed.get((side, guard.frame, guard.index)) for side, guard in guards)
            visit = next((visit for visit in visits if visit is not None), None)
            where, at = (_where(visit), numbers[id(visit)]) if visit is not None else (difference.place[0], -1)
            yield Divergence("guard", difference.cause, difference.message, where, at, difference.place[1])


def _needed(pairs: Iterable[Pair]) -> dict[tuple[str, int, int], Visit]:
    visits = itertools.chain.from_iterable(((TORCH, pair.torch_side), (DYNEXPLORE, pair.engine_side)) for pair in pairs)
    return {(side, visit.frame, guard.index): visit for side, visit in visits if visit is not None for guard in visit.guards}


# -- steps -------------------------------------------------------------------------------------------------------------


def _steps(pairs: Sequence[Pair]) -> Iterator[Divergence]:
    """Each stretch of instructions that only one side came to."""
    at = 0
    for is_met, stretch in itertools.groupby(pairs, lambda pair: (pair.torch_side is not None, pair.engine_side is not None)):
        alone = list(stretch)
        if is_met != (True, True):
            yield _stretch(pairs, at, alone)
        at += len(alone)


def _stretch(pairs: Sequence[Pair], at: int, alone: Sequence[Pair]) -> Divergence:
    first = alone[0].any
    name, other = (TORCH, DYNEXPLORE) if alone[0].torch_side is not None else (DYNEXPLORE, TORCH)
    before = next((visit for pair in reversed(pairs[:at]) if (visit := _of_side(pair, name)) is not None), None)
    whose = "a library" if is_library(first.code.file) else "the program"
    count = plural(len(alone), "instruction")
    if before is None or before.code.file != first.code.file or before.code.first_line != first.code.first_line:
        cause = f"only {name} reads a function of {whose}: {first.function}"
        message = f"{name} reads {first.function} ({count}), {other} does not"
    else:
        cause = f"only {name} takes this path through a function of {whose}: {first.function}"
        message = f"{name} continues in {first.function} ({count}) where {other} does not"
    return Divergence("step", cause, message, _where(first), at)


keep_old_names(globals())
