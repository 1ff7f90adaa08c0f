"""The instructions that an engine came to, in the order in which the program would run them.

Which idea lives here: two engines read the same bytecode, cut it into frames at different places, and one lowers an instruction to
several steps where the other has one. What both have is the instruction itself: this offset of this function, called from that
place, come to for the k-th time. So a visit is an instruction of an attempt that counted, with all that the engine made of it,
whatever frame it stood in: nodes, guards, and whether the graph ended before it. The engine's own wrappers are nobody's
instructions.

In:  a Recording. Out: `visits(recording)`: one `Visit` for each instruction, in order; `discarded_visits(recording)`: those
     of the attempts before.

PyTorch has no counterpart.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.engine.old_names import keep_old_names
from dynexplore.recording.recording import Recording
from dynexplore.views.names import is_entry, plain_name
from dynexplore.views.timeline import State, Timeline

Place = tuple[str, int, int]
"""File and first line of a function, and the offset of an instruction in it."""

Path = tuple[object, ...]
"""How an activation of a function was come to: its caller's path, the offset of the call there, and its number among the calls
from there; of the outermost function its file and first line."""


@dataclass(frozen=True, slots=True)
class Visit:
    """An instruction that was come to: by `path`, for the time that `time` counts from 0.

    `state` is the number of the state of its frame that stands for it in the explorer, `stack` what lies on the stack afterwards,
    `graph_break` the break that ended the graph before it (None: it was interpreted).
    """

    place_in_code: Place
    path: Path
    time: int
    code: ev.CodeView
    frame: int
    state: int
    offset: int
    line: int
    op: str
    stack: tuple[ev.ValueView, ...]
    nodes: tuple[ev.NodeAdded, ...] = ()
    guards: tuple[ev.GuardInstalled, ...] = ()
    graph_break: ev.GraphBroke | None = None

    @property
    def function(self) -> str:
        """The function, as people say it."""
        return plain_name(self.code.qualname)

    @property
    def place(self) -> str:
        """Where it is: "model.py:12 in forward"."""
        return f"{self.code.file}:{self.line or self.code.first_line} in {self.function}"


def visits(recording: Recording) -> tuple[Visit, ...]:
    """The instructions of all attempts that counted, in the order of the program."""
    return tuple(_collect(_moments(recording), _Paths(recording)))


def discarded_visits(recording: Recording) -> tuple[Visit, ...]:
    """The instructions of the attempts that were given up: the same as those of the one that counted, as far as they came."""
    paths = _Paths(recording)
    attempts = itertools.groupby(_moments(recording, counted=False), lambda moment: (moment[0].frame, moment[0].attempt))
    return tuple(itertools.chain.from_iterable(_collect(moments, paths) for _, moments in attempts))


def _collect(moments: Iterable[tuple[State, int]], paths: _Paths) -> list[Visit]:
    visits: list[Visit] = []
    times: Counter[tuple[Path, int]] = Counter()
    for state, number in moments:
        if visits and _goes_on(visits[-1], state):
            visits[-1] = _joined(visits[-1], state, number)
            continue
        path = paths.of(state)
        visits.append(_visit(path, times[path, state.offset], state, number))
        times[path, state.offset] += 1
    return visits


class _Paths:
    """The paths of all activations. A resume function goes on with the activation that the break ended."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._path_cache: dict[tuple[int, int], Mapping[int, Path]] = {}

    def of(self, state: State) -> Path:
        """The path of the function at hand."""
        attempt = state.frame, state.attempt
        if attempt not in self._path_cache:
            self._path_cache[attempt] = self._of_attempt(*attempt)
        return self._path_cache[attempt][state.calls[-1] if state.calls else 0]

    def _of_attempt(self, frame: int, attempt: int) -> Mapping[int, Path]:
        code = self._recording.original_code(frame)
        paths: dict[int, Path] = {0: () if is_entry(code) else (code.file, code.first_line)}
        calls: Counter[tuple[Path, int]] = Counter()
        for entered in self._recording.of_frame(frame, ev.InlineEntered):
            if entered.attempt != attempt:
                continue
            caller = paths[entered.inline]
            times = calls[caller, entered.offset]
            calls[caller, entered.offset] += 1
            begins = not caller and not is_entry(entered.code)  # what the engine's wrapper calls was called by the program
            paths[entered.callee] = (entered.code.file, entered.code.first_line) if begins else (caller, entered.offset, times)
        return paths


def _moments(recording: Recording, *, counted: bool = True) -> Iterator[tuple[State, int]]:
    """Frame by frame the states at the instructions of its last attempt, and at its break, with their numbers in the frame; or,
    not `counted`, those of the attempts before."""
    of_frame = Timeline(recording).by_frame()
    for entered in recording.frames:
        last, states = recording.final_attempt(entered.frame), list(enumerate(of_frame.get(entered.frame, ())))
        steps = [pair for pair in states if isinstance(pair[1].event, ev.InstructionStepped)]
        broken = [pair for pair in states if isinstance(pair[1].event, ev.GraphBroke)][-1:]  # seen in the attempt before the last
        counted_steps = [pair for pair in steps if (pair[1].attempt == last) is counted]
        for number, state in (*counted_steps, *(broken if counted else ())):
            if state.offset >= 0 and state.code is not None and not is_entry(state.code) and _has_work(state.code, state.offset):
                yield state, number


def _has_work(code: ev.CodeView, offset: int) -> bool:
    """Whether an instruction means anything to our engine: some are there for the interpreter alone."""
    return all(row.steps for row in code.rows if row.offset == offset)


def _visit(path: Path, time: int, state: State, number: int) -> Visit:
    assert state.code is not None
    row = next((row for row in state.code.rows if row.offset == state.offset), None)
    broke = state.event if isinstance(state.event, ev.GraphBroke) else None
    op = row.op if row is not None else getattr(state.event, "op", "")
    place = state.code.file, state.code.first_line, state.offset
    return Visit(
        place, path, time, state.code, state.frame, number, state.offset, state.line, op, state.stack, state.nodes, state.guards,
        broke,
    )  # fmt: skip


def _goes_on(visit: Visit, state: State) -> bool:
    """Whether this is one more step of the same instruction: our engine lowers one to several, torch.compile rewrites some."""
    is_step = isinstance(state.event, ev.InstructionStepped) and visit.graph_break is None
    return is_step and visit.code is state.code and visit.offset == state.offset and visit.frame == state.frame


def _joined(visit: Visit, state: State, number: int) -> Visit:
    return dataclasses.replace(
        visit, state=number, stack=state.stack, nodes=(*visit.nodes, *state.nodes), guards=(*visit.guards, *state.guards)
    )


keep_old_names(globals())
