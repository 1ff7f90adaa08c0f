"""A recording: the events of one capture as plain data, to be queried, saved and loaded.

Which idea lives here: the engine knows only the small Protocol `Recorder`; a `Recording` is the recorder that
keeps everything. It is append-only, has a cap on steps and bytes and says where it was cut, answers questions
("the nodes of graph 0", "step 12") with the plain records of events.py, and goes to JSON and back unchanged,
in a process without torch. Values and code objects occur in many events: JSON holds each once, in a table,
and events point into it. When each event was told, and by which thread, stands beside the events (clock.py).

Whose capture it is, `engine` says: this engine's, or one of torch.compile that was only watched. The latter may lack
what torch.compile does not tell: steps, the roles of instructions, the rules that ran. No view relies on these.

In:  events, from the engine, or a JSON text.
Out: queries, JSON (`to_json`, `from_json`), also with everything private left out (`redact=True`).

PyTorch's counterpart: none; the nearest is torch/_logging/structured.py, whose traces are read by tlparse.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import itertools
import json
import math
import os
import re
import textwrap
import threading
import tokenize
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dynexplore.engine import display_hooks
from dynexplore.engine import events as ev
from dynexplore.engine.errors import RecordingError
from dynexplore.engine.recorder import Noted
from dynexplore.recording import attempts, sanity
from dynexplore.recording.clock import Clock, Moment
from dynexplore.recording.memory import Memory, memory_of
from dynexplore.recording.real_values import Indexed, RealStep

E = TypeVar("E", bound=ev.Event)
T = TypeVar("T")

SCHEMA = 3
"""Version of the JSON form. A reader takes this version and older ones. 2: the real run beside the symbolic one. 3: whose
engine, process and rank, and the clock.
"""

ENGINES = ("dynexplore", "torch.compile")
"""Whose captures a recording may hold."""

_SCHEMA_OF_ORIGIN = 3

DEFAULT_STEPS = 200_000
DEFAULT_BYTES = 200_000_000

LONGEST_TEXT = 20_000
"""A longer text of an event (a guard on a huge string, say) is cut in the middle; code is kept whole."""


_MOST_OF_A_NOTE = 1_000
"""The assumed size, in bytes, of an event that is only noted: texts of events are cut, most to 240 letters."""

_PIECES = frozenset(ev.PIECES.values())
_CODE_BEARERS = (
    ev.FrameEntered, ev.InlineEntered, ev.ResumeFunctionMade, ev.CodeEmitted, ev.SubgraphCompiled, ev.ArtifactMade,
)  # fmt: skip

_STEP_FIRST = {"step": 0}
"""A wrong step comes before its consequences at the same place."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a recording was cut: which cap, at which event, and how many events were left out."""

    reason: str
    position: int
    frame: int
    left_out: int

    def __str__(self) -> str:
        where = f"cut at event {self.position} (frame {self.frame})"
        return f"{where}: {self.reason}; {self.left_out} events left out"


@dataclass(frozen=True, slots=True)
class GraphView:
    """One graph of the recording: its final nodes in order, and how it was compiled (None: it never was)."""

    name: str
    frame: int
    attempt: int
    nodes: tuple[ev.NodeAdded, ...]
    compiled: ev.SubgraphCompiled | None

    @property
    def pieces(self) -> tuple[ev.GraphPiece, ...]:
        """The parts that DistributedDataParallel's buckets split it into, in the order of forward; () where it is whole."""
        return self.compiled.pieces if self.compiled else ()

    @property
    def piece_of(self) -> dict[str, int]:
        """Name of a node -> number of its piece, for the nodes of a graph that was split."""
        return {name: piece.number for piece in self.pieces for name in piece.nodes}

    @property
    def op_count(self) -> int:
        """Number of operators: calls of functions, methods and modules."""
        return sum(1 for node in self.nodes if node.op.startswith("call_"))


class Recording:
    """The events of a capture, in order.

    `title` names it, for people. At most `max_steps` InstructionStepped events and about `max_bytes` bytes
    are kept: past the first cap only steps are left out, past the second everything; `cut` then says where.
    `versions` says what made it ("Python 3.12.1, torch 2.13.0"), "" if that is not known; `engine` whose captures it holds, one
    of ENGINES. `process` is the number of the process that recorded (None: not known), `rank` its number among the processes
    of torch.distributed (None: there is but one).

    >>> r = Recording()
    >>> r.record(ev.PhaseTimed(frame=r.next_frame_id(), phase="translate", seconds=0.5))
    >>> len(r), r.of(ev.PhaseTimed)[0].seconds, r.cut
    (1, 0.5, None)
    """

    def __init__(
        self, *, max_steps: int = DEFAULT_STEPS, max_bytes: int = DEFAULT_BYTES, title: str = "", engine: str = "dynexplore"
    ) -> None:
        self.title = title
        self.engine = _known_engine(engine)
        self.process: int | None = os.getpid()
        self.rank: int | None = None
        self.max_steps = max_steps
        self.max_bytes = max_bytes
        self.redacted = False
        self.versions = ""
        self._told: list[Any] = []  # events, and from `_settled` on also what is only noted
        self._clock: Clock | None = Clock()  # None: read from a file that tells no times
        self._lock = threading.RLock()  # an event and its moment are one; an event that is made may drop what tells another
        self._settled = 0
        self._room = 0  # so many may be noted before the caps are looked at
        self._frame_ids = itertools.count(1)
        self._step_count = 0
        self._bytes = 0
        self._sized: set[int] = set()
        self._cut: Cut | None = None
        self._indexed = 0
        self._index: dict[type[ev.Event], list[ev.Event]] = {}
        self._frame_index: dict[tuple[int, type[ev.Event]], list[ev.Event]] = {}
        self._codes: dict[int, ev.CodeView] = {}
        self._real: dict[int, tuple[int, Indexed]] = {}
        self._answers: dict[str, tuple[int, tuple[Any, ...]]] = {}  # what was asked: after how many events, and the answer

    # -- recording ------------------------------------------------------------------------------------------

    def note(self, noted: Noted) -> None:
        """Append an event that is made on the first query: most events of a recording come this way."""
        with self._lock:
            if self._room:
                self._room -= 1
                self._keep(noted)
            else:
                self._note_near_the_cap(noted)

    def _note_near_the_cap(self, noted: Noted) -> None:
        self._settle()
        left = (self.max_steps - self._step_count, (self.max_bytes - self._bytes) // _MOST_OF_A_NOTE)
        self._room = max(0, min(left))
        if self._room:
            self.note(noted)
        else:
            self.record(noted[0](*noted[1:]))

    def _settle(self) -> list[ev.Event]:
        """Make the events that are only noted so far; return all events."""
        told = self._told
        with self._lock:
            for position in range(self._settled, len(told)):
                noted = told[position]
                if type(noted) is tuple:
                    told[position] = self._counted(noted[0](*noted[1:]))
            self._settled = len(told)
        return told

    def record(self, event: ev.Event) -> None:
        """Append one event, unless a cap is reached."""
        with self._lock:
            self._record(event)

    def _record(self, event: ev.Event) -> None:
        is_step = type(event) is ev.InstructionStepped
        if is_step:
            self._settle()
        if self._bytes >= self.max_bytes:
            self._leave_out(f"{self.max_bytes} bytes are reached", event)
        elif is_step and self._step_count >= self.max_steps:
            self._leave_out(f"{self.max_steps} steps are reached", event)
        else:
            self._keep(self._counted(event))

    def _keep(self, told: ev.Event | Noted) -> None:
        self._told.append(told)
        if self._clock is not None:
            self._clock.tick()

    def _append(self, event: ev.Event) -> None:
        """Append an event that was told before: its moment is known, or will never be."""
        self._told.append(self._counted(event))

    def _counted(self, event: ev.Event) -> ev.Event:
        """An event, counted for the caps; one with a huge text comes back cut."""
        if type(event) is ev.InstructionStepped and len(event.arg) < LONGEST_TEXT // 2:
            # steps are most of a recording: a guess in a fraction of the time, the new value being on top
            stack = event.stack
            self._bytes += 160 + len(event.arg) + 8 * len(stack) + (len(stack[-1].text) if stack else 0)
            self._step_count += 1
            return event
        size = self._size(event)
        if size > LONGEST_TEXT and not isinstance(event, _CODE_BEARERS):
            event = _shortened(event)
            size = min(size, 2 * LONGEST_TEXT)
        self._bytes += size
        self._step_count += isinstance(event, ev.InstructionStepped)
        return event

    def _catch_up(self) -> None:
        """Index what was recorded since the last query, so that recording itself costs as little as possible."""
        for event in self._settle()[self._indexed :]:
            self._index.setdefault(type(event), []).append(event)
            self._frame_index.setdefault((event.frame, type(event)), []).append(event)
            if isinstance(event, (ev.FrameEntered, ev.InlineEntered)) and event.code.resumes < 0:
                self._codes.setdefault(event.code.id, event.code)
            self._indexed += 1

    def next_frame_id(self) -> int:
        """Return a new frame number, from 1 up."""
        return next(self._frame_ids)

    def _leave_out(self, reason: str, event: ev.Event) -> None:
        if self._cut is None:
            self._cut = Cut(reason, len(self._told), event.frame, 1)
        else:
            self._cut = dataclasses.replace(self._cut, left_out=self._cut.left_out + 1)

    def _size(self, event: ev.Event) -> int:
        """Roughly the bytes that an event costs; code and values that occurred before cost a pointer."""
        return 64 + sum([self._size_of(getattr(event, name)) for name in _names(event)])

    def _size_of(self, value: Any) -> int:
        kind = type(value)
        if kind is str:
            return len(value)
        if kind is tuple:
            return 8 + sum([self._size_of(item) for item in value])
        if kind in _PIECES:
            # the events keep the pieces alive, so an id is never used again while it is in the set
            if id(value) in self._sized:
                return 8
            self._sized.add(id(value))
            if kind is ev.CodeView:
                return 100 + len(value.source) + 100 * len(value.rows)
            return 48 + sum([self._size_of(getattr(value, name)) for name in _names(value)])
        return 8

    # -- questions ------------------------------------------------------------------------------------------

    @property
    def events(self) -> Sequence[ev.Event]:
        """All events in order."""
        return self._settle()

    def moment(self, position: int) -> Moment | None:
        """When the event at `position` was told, and by which thread; None in a recording that does not know."""
        return self._clock.moment(position) if self._clock is not None else None

    def forget_times(self) -> None:
        """What is recorded happened at another time than now: no moment is known, until `tell_times`."""
        self._clock = None

    def tell_times(self, clock: Clock) -> None:
        """The moments of all events so far."""
        self._clock = clock

    @property
    def cut(self) -> Cut | None:
        """Where the recording was cut, None when it is whole."""
        return self._cut

    def __len__(self) -> int:
        return len(self._told)

    def __iter__(self) -> Iterator[ev.Event]:
        return iter(self._settle())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recording):
            return NotImplemented
        mine, theirs = ((one.engine, one.title, one._settle(), one._cut) for one in (self, other))
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Callable[[str], Recording], tuple[str]]:
        return type(self).from_json, (self.to_json(),)  # copied and pickled as it is saved

    def __repr__(self) -> str:
        parts = (
            ("frame", len(self.frames)),
            ("step", len(self.steps)),
            ("graph", len(self.graphs)),
            ("guard", len(self.guards)),
        )
        counts = ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in parts)
        return f"Recording({self.title + ': ' if self.title else ''}{counts})"

    def of(self, kind: type[E]) -> tuple[E, ...]:
        """All events of one class, in order."""
        self._catch_up()
        return typing.cast("tuple[E, ...]", tuple(self._index.get(kind, ())))

    def of_frame(self, frame: int, kind: type[E]) -> tuple[E, ...]:
        """All events of one class that belong to one frame."""
        self._catch_up()
        return typing.cast("tuple[E, ...]", tuple(self._frame_index.get((frame, kind), ())))

    @property
    def frames(self) -> tuple[ev.FrameEntered, ...]:
        """The frames that were translated, in order."""
        return self.of(ev.FrameEntered)

    def frames_since(self, position: int) -> tuple[ev.FrameEntered, ...]:
        """The frames that were translated after the first `position` events; makes no event that is only noted."""
        return tuple(event for event in self._told[position:] if type(event) is ev.FrameEntered)

    def frame(self, frame: int) -> ev.FrameEntered:
        """The FrameEntered of one frame; KeyError when there is none."""
        entered = self.of_frame(frame, ev.FrameEntered)
        if not entered:
            raise KeyError(f"no frame {frame} in this recording")
        return entered[0]

    @property
    def steps(self) -> tuple[ev.InstructionStepped, ...]:
        """Every instruction that was interpreted, of all frames and attempts."""
        return self.of(ev.InstructionStepped)

    def step(self, number: int) -> ev.InstructionStepped:
        """Step `number`, from 0, over all frames; negative numbers count from the end."""
        self._catch_up()
        steps = self._index.get(ev.InstructionStepped, [])
        if not -len(steps) <= number < len(steps):
            raise IndexError(f"no step {number}: this recording has {len(steps)} steps")
        return typing.cast(ev.InstructionStepped, steps[number])

    def attempts(self, frame: int) -> tuple[attempts.AttemptView, ...]:
        """The attempts at a frame in order, with the nodes of each: of those that were given up or failed as well."""
        return attempts.of_frame(frame, self.of_frame)

    def final_attempt(self, frame: int) -> int:
        """The number of the frame's last attempt, whose graph and guards count (0: it never was translated)."""
        return max((event.attempt for event in self.of_frame(frame, ev.AttemptStarted)), default=0)

    def _final(self, kind: type[E]) -> tuple[E, ...]:
        last: dict[int, int] = {}
        for started in self.of(ev.AttemptStarted):
            last[started.frame] = max(last.get(started.frame, 0), started.attempt)
        return tuple(event for event in self.of(kind) if event.attempt == last.get(event.frame, event.attempt))

    @property
    def graphs(self) -> tuple[GraphView, ...]:
        """The graphs that were compiled, in order. A graph without nodes is none."""
        return self._once("graphs", lambda: tuple(self._graph_of(compiled) for compiled in self.of(ev.SubgraphCompiled)))

    def _once(self, question: str, answer: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        """What was answered before, until more is recorded: views ask for the same again for each frame, guard and line."""
        self._catch_up()
        known = self._answers.get(question)
        if known is None or known[0] != self._indexed:
            known = self._answers[question] = self._indexed, answer()
        return known[1]

    def _graph_of(self, compiled: ev.SubgraphCompiled) -> GraphView:
        told = {n.name: n for n in self.of_frame(compiled.frame, ev.NodeAdded) if n.attempt == compiled.attempt}
        names = compiled.nodes or tuple(told)
        nodes = tuple(told[name] for name in names if name in told)
        return GraphView(compiled.graph, compiled.frame, compiled.attempt, nodes, compiled)

    def graph(self, name: str) -> GraphView:
        """The compiled graph of that name; KeyError when there is none."""
        graphs = {graph.name: graph for graph in self.graphs}
        if name not in graphs:
            raise KeyError(f"no graph {name!r} in this recording; there are: {', '.join(graphs) or 'none'}")
        return graphs[name]

    @property
    def guards(self) -> tuple[ev.GuardInstalled, ...]:
        """The guards of every frame's final attempt."""
        return self._once("guards", lambda: self._final(ev.GuardInstalled))

    @property
    def memory(self) -> Memory:
        """The memory that each graph needs: where it peaks, and what is kept for backward.

        >>> from dynexplore import explain
        >>> import torch
        >>> print(explain(lambda x: (x + 1).relu(), torch.ones(4)).recording.memory)
        __compiled_fn_0
          peak 48 B at relu (<doctest ...>:1)
          inputs and parameters 16 B, all the while
          kept for backward: autograd decides as it runs (backend aot_eager with artifact memory knows)
        """
        return memory_of(self.of(ev.MemoryPlanned))

    @property
    def breaks(self) -> tuple[ev.GraphBroke, ...]:
        """Every graph break, in order."""
        return self.of(ev.GraphBroke)

    @property
    def divergences(self) -> tuple[ev.DivergenceFound, ...]:
        """Where the real run diverges from the symbolic one, in every frame's final attempt, in order."""
        divergences = self._final(ev.DivergenceFound)
        return tuple(sorted(divergences, key=lambda one: (one.frame, one.step, _STEP_FIRST.get(one.where, 1))))

    def step_of(self, divergence: ev.DivergenceFound) -> ev.InstructionStepped | None:
        """The step at which a divergence is flagged; None when it is at no step (an input, say)."""
        steps = [step for step in self.of_frame(divergence.frame, ev.InstructionStepped) if step.attempt == divergence.attempt]
        return steps[divergence.step] if 0 <= divergence.step < len(steps) else None

    def real(self, number: int, run: int = 1) -> RealStep:
        """Step `number` (as in `step`) with the real values beside the symbolic ones, in the `run`-th run of its graph.

        >>> from dynexplore import explain
        >>> import torch
        >>> print(explain(lambda x: x * 2)(torch.ones(3)).recording.real(-2).stack[-1])
        float32[3] cpu min 2 mean 2 max 2, first 2, 2, 2 [real]
        """
        step = self.step(number)
        table = self._real_values(run)
        place = (step.frame, step.attempt)
        before = itertools.takewhile(lambda one: one is not step, self.of_frame(step.frame, ev.InstructionStepped))
        count = sum(one.attempt == step.attempt for one in before)
        stack = tuple(table.value(*place, count, view) for view in step.stack)
        names = {name: table.value(*place, count, view) for name, view in self._locals_at(step).items()}
        return RealStep(step, stack, names)

    def _real_values(self, run: int) -> Indexed:
        """The tables of `real_values.py`, made when the events are asked for the first time."""
        known = self._real.get(run)
        if known is None or known[0] != len(self._told):
            known = self._real[run] = len(self._told), Indexed(self._settle(), run)
        return known[1]

    def _locals_at(self, step: ev.InstructionStepped) -> dict[str, ev.ValueView]:
        """The locals of the function at hand after a step."""
        place = (step.attempt, step.inline)
        entries = self.of_frame(step.frame, ev.InlineEntered)
        arguments = self.frame(step.frame).arguments if not step.inline else ()
        locals_ = dict(next((one.arguments for one in entries if (one.attempt, one.callee) == place), arguments))
        for one in self.of_frame(step.frame, ev.InstructionStepped):
            if (one.attempt, one.inline) == place:
                for name, view in one.changed:
                    locals_.pop(name, None) if view is None else locals_.update({name: view})
            if one is step:
                break
        return locals_

    @property
    def resume_functions(self) -> tuple[ev.ResumeFunctionMade, ...]:
        """Every resume function that was made."""
        return self.of(ev.ResumeFunctionMade)

    def modified_code(self, frame: int) -> ev.CodeView | None:
        """The modified code of a frame, None when it was not compiled."""
        emitted = self.of_frame(frame, ev.CodeEmitted)
        return emitted[-1].code if emitted else None

    def original_code(self, frame: int) -> ev.CodeView:
        """The code that the offsets of a frame count in: its own, or what its resume function continues."""
        return continued(self.frame(frame).code, self._codes)

    def code_of(self, event: ev.PlacedEvent) -> ev.CodeView | None:
        """The code object that an event's offset counts in: its frame's, or that of an inlined callee."""
        if not event.inline:
            return self.original_code(event.frame) if self.of_frame(event.frame, ev.FrameEntered) else None
        call = (event.attempt, event.inline)
        entries = self.of_frame(event.frame, ev.InlineEntered)
        return next((entered.code for entered in entries if (entered.attempt, entered.callee) == call), None)

    @property
    def codes(self) -> dict[int, ev.CodeView]:
        """Every original code object that occurs, by id: of frames and inlined callees, what they continue."""
        self._catch_up()
        codes = dict(self._codes)
        for entered in self.frames:
            code = continued(entered.code, self._codes)
            codes.setdefault(code.id, code)
        return codes

    # -- being shown and saved --------------------------------------------------------------------------------

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> display_hooks.Bundle:
        return display_hooks.connected().mimebundle(self)

    def save(self, path: str | os.PathLike[str], *, redact: bool = False) -> str:
        """Write the recording in the form that the ending of `path` names, and return what the file holds, in a sentence.

        `.html` is the explorer in one file, `.json` is read again by `Recording.from_json` and `dynexplore open`, `.txt` the
        report, `.dot` and `.svg` the graphs. `redact` leaves out tensor elements, string constants and paths. ExportError, in
        one sentence, for another ending and where nothing can be written.

        >>> Recording().save("/tmp/nothing.json", redact=True)
        'It holds source code, bytecode, names and shapes; tensor elements, string constants and paths were left out.'
        """
        return display_hooks.connected().save(self, path, redact=redact)

    @property
    def holds(self) -> str:
        """What a file made of this recording holds, in one sentence."""
        if self.redacted:
            return "It holds source code, bytecode, names and shapes; tensor elements, string constants and paths were left out."
        return "It holds source code, bytecode, names and shapes, file paths, constants, and values of the recorded call."

    # -- JSON -----------------------------------------------------------------------------------------------

    def to_json(self, *, redact: bool = False, times: bool = True) -> str:
        """Return the recording as JSON text. `redact` leaves out tensor elements, string constants and paths; without `times`
        nothing is written that tells when and in which process it was recorded.
        """
        return json.dumps(self.to_plain(redact=redact, times=times), ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def to_plain(self, *, redact: bool = False, times: bool = True) -> dict[str, Any]:
        """Return the recording as lists, dicts, strings and numbers: what `to_json` writes."""
        source = redacted(self) if redact else self
        pool = _Pool()
        plain = [pool.plain(event) for event in source.events]
        return {
            "format": "dynexplore recording",
            "schema": SCHEMA,
            "holds": source.holds,
            "title": source.title,
            "engine": source.engine,
            "versions": source.versions,
            "process": source.process if times else None,
            "rank": source.rank,
            "clock": source._clock.to_plain() if times and source._clock is not None else None,
            "redacted": source.redacted,
            "cut": dataclasses.asdict(source._cut) if source._cut else None,
            "values": pool.tables[ev.ValueView],
            "codes": pool.tables[ev.CodeView],
            "events": plain,
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> Recording:
        """Return the recording that `to_json` wrote. RecordingError, in one sentence, for anything else."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RecordingError(f"this is not a dynexplore recording: it is not JSON ({error})") from None
        return cls.from_plain(data)

    @classmethod
    def from_plain(cls, data: object) -> Recording:
        """Return the recording that `to_plain` gave. RecordingError, in one sentence, for anything else."""
        if not isinstance(data, dict) or data.get("format") != "dynexplore recording":
            raise RecordingError("this is JSON, but not a dynexplore recording")
        schema = data.get("schema")
        if type(schema) is not int:
            raise RecordingError("this recording is damaged: its schema version is missing")
        if schema > SCHEMA:
            raise RecordingError(
                f"this recording has schema {schema}, and this dynexplore reads up to {SCHEMA}: install a newer dynexplore"
            )
        return _read(cls, data)


def _shortened(value: Any) -> Any:
    """An event with its long texts cut."""
    if isinstance(value, str):
        return ev.clip(value, LONGEST_TEXT)
    if isinstance(value, tuple):
        return tuple([_shortened(item) for item in value])
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    return type(value)(**{name: _shortened(getattr(value, name)) for name in _names(value)})


def continued(code: ev.CodeView, known: Mapping[int, ev.CodeView]) -> ev.CodeView:
    """The code that a resume function continues, `code` itself if it is none; `known` are original codes by id.

    Where the original was never recorded, it is put together from the resume function's body.
    """
    if code.resumes < 0:
        return code
    if code.resumes in known:
        return known[code.resumes]
    body = [row for row in code.rows if row.role == "original" and row.origin >= 0]
    origins = {row.offset: row.origin for row in body}
    targets = {origins.get(row.target, -1) for row in body if row.target >= 0}
    rows = []
    for row in body:
        target = origins.get(row.target, -1)
        arg = f"to {target}" if row.arg == f"to {row.target}" else row.arg
        made = dataclasses.replace(row, offset=row.origin, arg=arg, target=target, role="", origin=-1)
        rows.append(dataclasses.replace(made, is_target=row.origin in targets))
    return dataclasses.replace(code, id=code.resumes, rows=tuple(rows), resumes=-1)


def resumed_at(code: ev.CodeView) -> int:
    """The original offset at which a resume function goes on; -1 for other code."""
    if code.resumes < 0:
        return -1
    return next((row.origin for row in code.rows if row.role == "resume" and row.origin >= 0), -1)


def _read(cls: type[Recording], data: dict[str, Any]) -> Recording:
    try:
        tables = {
            ev.ValueView: [_record(ev.ValueView, row, {}) for row in _rows(data, "values")],
            ev.CodeView: [_record(ev.CodeView, row, {}) for row in _rows(data, "codes")],
        }
        for code in tables[ev.CodeView]:
            sanity.check_code(code)
        recording = cls(title=_text(data["title"]))
        recording.versions = str(data.get("versions", ""))
        _read_origin(recording, data)
        recording.redacted = bool(data["redacted"])
        for position, row in enumerate(_rows(data, "events")):
            try:
                recording._append(_record(ev.EVENTS[row["event"]], _as_now(row), tables))
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise RecordingError(f"this recording is damaged: event {position} cannot be read ({_say(error)})") from None
        recording._cut = None if data["cut"] is None else _record(Cut, data["cut"], {})
        recording._clock = _read_clock(data, len(recording))
        sanity.check_places(recording.events, recording.code_of)
    except RecordingError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordingError(f"this recording is damaged: {_say(error)}") from None
    highest = max((event.frame for event in recording.events), default=0)
    recording._frame_ids = itertools.count(highest + 1)
    return recording


def _as_now(row: Any) -> Any:
    """An event as it is written now. Older files had two numbers of operators, of which one left calls of methods out."""
    if isinstance(row, dict) and "call_count" in row:
        row = {**row, "op_count": row["call_count"]}
        del row["call_count"]
    return row


def _read_origin(recording: Recording, data: dict[str, Any]) -> None:
    """Whose engine, and which process: of older schemas neither is known but that there was one engine."""
    if data["schema"] < _SCHEMA_OF_ORIGIN:
        recording.process = None
        return
    number = _parser(int | None, "the number of the process", 0)
    recording.engine = _known_engine(data["engine"])
    recording.process, recording.rank = (number(data[name], {}) for name in ("process", "rank"))


def _known_engine(name: object) -> str:
    if name not in ENGINES:
        raise ValueError(f"the engine is {name!r}, not one of {', '.join(ENGINES)}")
    return str(name)


def _read_clock(data: dict[str, Any], events: int) -> Clock | None:
    told = data["clock"] if data["schema"] >= _SCHEMA_OF_ORIGIN else None
    return None if told is None else Clock.from_plain(told, events)


def _rows(data: dict[str, Any], table: str) -> list[Any]:
    rows = data[table]
    if not isinstance(rows, list):
        raise TypeError(f"{table} is not a list")
    return rows


def _say(error: Exception) -> str:
    return f"missing or unknown {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__


def save(recording: Recording, path: str | os.PathLike[str], *, redact: bool = False) -> None:
    """Write the recording to a file as JSON."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(recording.to_json(redact=redact))


def load(path: str | os.PathLike[str]) -> Recording:
    """Read a recording from a JSON file; RecordingError in one sentence when it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordingError(f"cannot read {os.fspath(path)!r}: {error}") from None
    return Recording.from_json(text)


# -- records as plain data ---------------------------------------------------------------------------------


def _names(record: Any) -> tuple[str, ...]:
    cls: Any = type(record)
    return _field_names(cls)


@functools.cache
def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


@functools.cache
def _defaults(cls: Any) -> dict[str, Any]:
    fields = dataclasses.fields(cls)
    return {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}


class _Pool:
    """Turns records into plain data; ValueViews and CodeViews go into tables and leave their index."""

    def __init__(self) -> None:
        self.tables: dict[type, list[dict[str, Any]]] = {ev.ValueView: [], ev.CodeView: []}
        self._places: dict[ev.ValueView | ev.CodeView, int] = {}

    def plain(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return [self.plain(item) for item in value]
        if isinstance(value, (ev.ValueView, ev.CodeView)):
            place = self._places.get(value)
            if place is None:
                table = self.tables[type(value)]
                place = self._places[value] = len(table)
                table.append(self._fields(value))
            return place
        if isinstance(value, ev.Event):
            return {"event": type(value).__name__, **self._fields(value)}
        if dataclasses.is_dataclass(value):
            return self._fields(value)
        return value

    def _fields(self, record: Any) -> dict[str, Any]:
        """The fields that differ from their defaults: most of a step is default."""
        cls: Any = type(record)
        defaults = _defaults(cls)
        pairs = ((name, getattr(record, name)) for name in _names(record))
        return {name: self.plain(value) for name, value in pairs if name not in defaults or not _same(value, defaults[name])}


def _same(value: object, default: object) -> bool:
    # 0 == False == 0.0, but the type must survive the way to JSON and back
    if isinstance(value, float) and isinstance(default, float) and math.copysign(1.0, value) != math.copysign(1.0, default):
        return False  # -0.0 == 0.0
    return type(value) is type(default) and value == default


_Tables = dict[type, list[Any]]
_Parse = Callable[[Any, _Tables], Any]


def _record(cls: Any, row: object, tables: _Tables) -> Any:
    if not isinstance(row, dict):
        raise TypeError(f"{cls.__name__} is not an object")
    parsers = _parsers(cls)
    fields = {}
    for name, value in row.items():
        if name == "event":
            continue
        if name not in parsers:
            raise ValueError(f"{cls.__name__} has no field {name!r}")
        fields[name] = parsers[name](value, tables)
    return cls(**fields)


@functools.cache
def _parsers(cls: Any) -> dict[str, _Parse]:
    defaults = _defaults(cls)
    return {name: _parser(hint, name, -1 if defaults.get(name) == -1 else 0) for name, hint in typing.get_type_hints(cls).items()}


def _parser(hint: Any, name: str, lowest: int | None = None) -> _Parse:
    """A function that reads a value of this annotated type, and raises TypeError for a value of another.

    A whole number counts something, from `lowest` on, unless that is None: an element of a tensor is any number.
    """
    origin = typing.get_origin(hint)
    if origin is types.UnionType:
        # float last: it takes whole numbers too, and would turn an int into a float
        parts = sorted(typing.get_args(hint), key=lambda part: part is float)
        return _union_parser([_parser(part, name, None if float in parts else lowest) for part in parts], name)
    if origin is tuple:
        items = typing.get_args(hint)
        if len(items) == 2 and items[1] is Ellipsis:
            return _list_parser(_parser(items[0], name, lowest), name)
        return _fixed_parser([_parser(item, name, lowest) for item in items], name)
    if hint in (ev.ValueView, ev.CodeView):
        return _table_parser(hint, name)
    if dataclasses.is_dataclass(hint):
        return lambda value, tables: _record(typing.cast(type, hint), value, tables)
    wanted = (int, float) if hint is float else (hint,)

    def parse_scalar(value: Any, tables: _Tables) -> Any:
        if type(value) not in wanted:
            raise TypeError(f"{name} is {type(value).__name__}, not {getattr(hint, '__name__', hint)}")
        if hint is float:
            return sanity.finite(name, value)
        return value if hint is not int or lowest is None else sanity.countable(name, value, lowest)

    return parse_scalar


def _union_parser(parsers: list[_Parse], name: str) -> _Parse:
    def parse(value: Any, tables: _Tables) -> Any:
        for parser in parsers:
            try:
                return parser(value, tables)
            except TypeError:
                continue
        raise TypeError(f"{name} has a value of a wrong type ({type(value).__name__})")

    return parse


def _list_parser(item: _Parse, name: str) -> _Parse:
    def parse(value: Any, tables: _Tables) -> Any:
        if not isinstance(value, list):
            raise TypeError(f"{name} is not a list")
        return tuple([item(each, tables) for each in value])

    return parse


def _fixed_parser(items: list[_Parse], name: str) -> _Parse:
    def parse(value: Any, tables: _Tables) -> Any:
        if not isinstance(value, list) or len(value) != len(items):
            raise TypeError(f"{name} is not a list of {len(items)}")
        return tuple([item(each, tables) for item, each in zip(items, value, strict=True)])

    return parse


def _table_parser(cls: type, name: str) -> _Parse:
    def parse(value: Any, tables: _Tables) -> Any:
        table = tables.get(cls, [])
        if type(value) is not int or not 0 <= value < len(table):
            raise TypeError(f"{name} does not refer to a {cls.__name__}")
        return table[value]

    return parse


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("the title is not text")
    return value


# -- leaving out what is private ---------------------------------------------------------------------------

_QUOTED = re.compile(r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*\"""")
_PATH = re.compile(r"""(?:[A-Za-z]:)?(?:[/\\][^\s/\\'":,;()<>]+){2,}""")
_STRINGS = {getattr(tokenize, name) for name in ("STRING", "FSTRING_MIDDLE") if hasattr(tokenize, name)}


def redacted(recording: Recording) -> Recording:
    """Return a copy without tensor elements, string constants and paths; names, shapes and numbers stay."""
    copy = Recording(max_steps=recording.max_steps, max_bytes=recording.max_bytes, title=_redact_text(recording.title))
    copy.engine, copy.process, copy.rank, copy._clock = recording.engine, recording.process, recording.rank, recording._clock
    done: dict[int, Any] = {}
    for event in recording.events:
        copy._append(_redact(event, done))
    copy.versions = recording.versions
    copy._cut = recording.cut
    copy.redacted = True
    return copy


def _redact(value: Any, done: dict[int, Any]) -> Any:
    if isinstance(value, str):
        return _redact_text(value)
    if isinstance(value, tuple):
        return tuple([_redact(item, done) for item in value])
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    if id(value) not in done:
        fields = {name: _redact(getattr(value, name), done) for name in _names(value)}
        if "file" in fields:
            fields["file"] = _file_name(fields["file"])
        if isinstance(value, ev.CodeView):
            fields |= {"source": _redact_source(value.source)}
        if isinstance(value, ev.UserFrame):  # a line of the program, with its comment
            fields |= {"code": _redact_source(value.code)}
        if isinstance(value, ev.ArtifactMade):
            fields |= {"text": _redact_artifact(value)}
        if isinstance(value, ev.BackendFailed):  # what an exception says is the program's own
            fields |= {"error": fields["error"].partition(":")[0]}
        if isinstance(value, ev.CacheEntryAdded):  # torch writes lines of the program beside its guards
            fields |= {"check": re.sub(r"  +# .*", "", fields["check"])}
        if isinstance(value, ev.GraphBroke):
            fields |= {"facts": tuple((name, "...") if name == "context" else (name, text) for name, text in fields["facts"])}
        if isinstance(value, ev.ValueObserved):
            fields |= {"text": "", "first": (), "minimum": None, "mean": None, "maximum": None}
        if isinstance(value, ev.DivergenceFound) and value.aspect not in ("dtype", "shape", "device", "length"):
            fields |= {"expected": "...", "actual": "..."}
        done[id(value)] = type(value)(**fields)
    return done[id(value)]


def _redact_text(text: str) -> str:
    return _PATH.sub(lambda match: _file_name(match.group()), _QUOTED.sub("'...'", text))


def _file_name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _redact_source(source: str) -> str:
    """The source with strings and comments blanked out; nothing of it when it cannot be read."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(textwrap.dedent(source)).readline))
    except (tokenize.TokenError, SyntaxError):
        return ""
    return tokenize.untokenize(_blank(tokens))


_PRINTED_TYPE = re.compile(r"""["'](?:[a-z]+\d+\w*(?:\[[\ds+*/(), -]*\]){1,2}(?:[a-z]{2,6}(?::\d+)?)?|Sym\([\ds+*/() -]*\))["']""")
_LEFT_OUT = "(left out: it may hold settings, paths or texts of the program)"
_NUMBERS = ("symbols", "times", "memory", "kernels", "ir", "fused ir", "diagram")
"""Parts of artefacts that are no Python and hold numbers and names; of others only numbers stay, or nothing."""

_METRIC = re.compile(r"^\w+ +(?:[-+\d.e]+|True|False)$", re.M)


def _redact_artifact(made: ev.ArtifactMade) -> str:
    """Python without strings and comments, but for the types that graphs are printed with; numbers and names; nothing else."""
    if made.part == "metrics":
        return "\n".join(_METRIC.findall(made.text))
    if made.part in _NUMBERS:
        return _redact_text(re.sub(r"(?m)(?<!^)(?://|# ).*$", "", made.text))
    if made.language == "python" and made.part not in ("settings", "runnable"):
        return _redact_source(made.text) or _LEFT_OUT
    return _LEFT_OUT


def _blank(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[tuple[int, str]]:
    for token in tokens:
        if token.type == tokenize.COMMENT:
            continue
        keep = token.type not in _STRINGS or _PRINTED_TYPE.fullmatch(token.string)
        yield token.type, token.string if keep else "'...'"
