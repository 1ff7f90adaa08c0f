"""A recording: the events of one capture as plain data that can be queried, saved and loaded.

The idea: the engine depends only on the small Protocol `Recorder`; a `Recording` is the recorder that keeps everything
(event_log.py). It answers queries ("the nodes of graph 0", "step 12") with the plain records of events.py, and round-trips
through JSON (plain_records.py), in a process without torch.

`engine` says whose capture it is: this engine's, or one of torch.compile that was only observed. The latter may lack what
torch.compile does not report: steps, the roles of instructions, the handlers that ran. No view relies on these.

In: events, from the engine, or a JSON text. Out: queries, JSON (`to_json`, `from_json`), optionally with private data removed
(redaction.py). PyTorch's counterpart: none; the nearest is torch/_logging/structured.py, whose traces tlparse reads.
"""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import json
import os
import typing
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dynexplore.engine import display_hooks
from dynexplore.engine import events as ev
from dynexplore.engine.errors import RecordingError
from dynexplore.recording import attempts, sanity
from dynexplore.recording.clock import Clock
from dynexplore.recording.engines import ENGINES
from dynexplore.recording.event_log import DEFAULT_BYTES, DEFAULT_STEPS, Cut, EventLog
from dynexplore.recording.job import Job
from dynexplore.recording.memory import Memory, memory_of
from dynexplore.recording.plain_records import Pool, parser_of, record_of
from dynexplore.recording.real_values import Indexed, RealStep
from dynexplore.recording.redaction import redacted_record, redacted_text
from dynexplore.recording.shown import Shown
from dynexplore.recording.upgrades import upgraded

E = TypeVar("E", bound=ev.Event)
T = TypeVar("T")

_GZIP = b"\x1f\x8b"
"""What a packed file begins with."""

SCHEMA = 8
"""Version of the JSON form. A reader accepts this version and older ones. 2: the real run beside the symbolic one. 3: engine,
process and rank, and the clock. 4: the targets of a program, how it ended, and why a graph's backend was skipped. 5: guard kinds
by their standard names (upgrades.py), and how sizes, numbers and objects are specialized. 6: every guard that fails in a miss, the
line of the caller, seconds of each operator in a replay, and remedies that were tried. 7: prices of guards, and CUDA graphs.
8: the callers of a compilation, the phases in logs, and prices of single guards.
"""

_SCHEMA_OF_ORIGIN = 3

_STEP_FIRST = {"step": 0}
"""Sort key: a wrong step precedes its consequences at the same place."""


@dataclass(frozen=True, slots=True)
class GraphView(display_hooks.Displayable):
    """One graph of the recording: its final nodes in order, and how it was compiled (None: it was not compiled)."""

    name: str
    frame: int
    attempt: int
    nodes: tuple[ev.NodeAdded, ...]
    compiled: ev.SubgraphCompiled | None

    @property
    def skipped(self) -> ev.SkipReason | None:
        """Why its backend was skipped, so that it runs as captured; None if it was not skipped."""
        return self.compiled.because if self.compiled else None

    @property
    def pieces(self) -> tuple[ev.GraphPiece, ...]:
        """The parts that DistributedDataParallel's buckets split it into, in forward order; () if it was not split."""
        return self.compiled.pieces if self.compiled else ()

    @property
    def piece_of(self) -> dict[str, int]:
        """Node name -> index of its piece, for the nodes of a graph that was split."""
        return {name: piece.number for piece in self.pieces for name in piece.nodes}

    @property
    def op_count(self) -> int:
        """The number of operators: calls of functions, methods and modules."""
        return sum(1 for node in self.nodes if node.op.startswith("call_"))


class Recording(EventLog):
    """The events of a capture, in order.

    `title` is its display name. At most `max_steps` InstructionStepped events and about `max_bytes` bytes are kept. Beyond the
    first limit, steps are dropped; beyond the second, further events of any kind are dropped, and `cut` describes where.
    `versions` are those of Python and torch that made it ("Python 3.12.1, torch 2.13.0"), "" if unknown; `engine`, one of
    ENGINES, says whose captures it holds. `process` is the id of the process that recorded (None: unknown), `rank` its rank in
    torch.distributed (None: not distributed), `job` further facts about the job (None: none).

    >>> r = Recording()
    >>> r.record(ev.PhaseTimed(frame=r.next_frame_id(), phase="translate", seconds=0.5))
    >>> len(r), r.of(ev.PhaseTimed)[0].seconds, r.cut
    (1, 0.5, None)
    """

    def __init__(
        self, *, max_steps: int = DEFAULT_STEPS, max_bytes: int = DEFAULT_BYTES, title: str = "", engine: str = "dynexplore"
    ) -> None:
        super().__init__(max_steps, max_bytes)
        self.title = title
        self.engine = _checked_engine(engine)
        self.process: int | None = os.getpid()
        self.rank: int | None = None
        self.job: Job | None = None
        self.redacted = False
        self.versions = ""
        self._indexed = 0
        self._index: dict[type[ev.Event], list[ev.Event]] = {}
        self._frame_index: dict[tuple[int, type[ev.Event]], list[ev.Event]] = {}
        self._codes: dict[int, ev.CodeView] = {}
        self._callees: dict[tuple[int, int, int], ev.CodeView] = {}  # by (frame, attempt, number of the callee)
        self._besides_steps: list[tuple[int, ev.Event]] = []
        self._real: dict[int, tuple[int, Indexed]] = {}
        self._answers: dict[str, Any] = {}  # query -> answer
        self._answers_state: tuple[Any, ...] = ()  # what the recording was when they were computed

    # -- queries --------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Index the events recorded since the last query, so that recording itself is as cheap as possible."""
        if self._indexed == len(self._events):
            return
        self._answers.clear()
        events = self._settle()
        for position in range(self._indexed, len(events)):
            event = events[position]
            kind = type(event)
            self._index.setdefault(kind, []).append(event)
            self._frame_index.setdefault((event.frame, kind), []).append(event)
            if kind is not ev.InstructionStepped:
                self._besides_steps.append((position, event))
            if isinstance(event, (ev.FrameEntered, ev.InlineEntered)) and event.code.resumes < 0:
                self._codes.setdefault(event.code.id, event.code)
            if isinstance(event, ev.InlineEntered):
                self._callees.setdefault((event.frame, event.attempt, event.callee), event.code)
            self._indexed += 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recording):
            return NotImplemented
        own_content, other_content = (
            (recording.engine, recording.title, recording._settle(), recording._cut) for recording in (self, other)
        )
        return own_content == other_content

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Callable[[str], Recording], tuple[str]]:
        return type(self).from_json, (self.to_json(),)  # copying and pickling use the saved form

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
    def besides_steps(self) -> Sequence[tuple[int, ev.Event]]:
        """All events except steps, which are the majority, each with its position among all events."""
        self._catch_up()
        return self._besides_steps

    @property
    def frames(self) -> tuple[ev.FrameEntered, ...]:
        """The frames that were translated, in order."""
        return Shown("frame", self.of(ev.FrameEntered))

    def frames_since(self, position: int) -> tuple[ev.FrameEntered, ...]:
        """The frames that were translated after the first `position` events; does not create deferred events."""
        return tuple(event for event in self._events[position:] if type(event) is ev.FrameEntered)

    def only_frames(self, frames: Collection[int]) -> Recording:
        """A recording of only the events of these frames, and of those that belong to no frame; its steps have no moments."""
        part = Recording(title=self.title, engine=self.engine)
        part.versions, part.process, part.rank, part.job = self.versions, self.process, self.rank, self.job
        part.forget_times()
        for event in self.events:
            if not event.frame or event.frame in frames:
                part._append(event)
        return part

    def frame(self, frame: int) -> ev.FrameEntered:
        """The FrameEntered event of one frame; raises KeyError if there is none."""
        entered = self.of_frame(frame, ev.FrameEntered)
        if not entered:
            raise KeyError(f"no frame {frame} in this recording")
        return entered[0]

    @property
    def steps(self) -> tuple[ev.InstructionStepped, ...]:
        """Every instruction that was interpreted, in all frames and attempts."""
        return Shown("step", self.of(ev.InstructionStepped))

    def step(self, number: int | ev.InstructionStepped) -> ev.InstructionStepped:
        """Step `number`, from 0, over all frames; negative numbers count from the end. A step is returned as it is."""
        if isinstance(number, ev.InstructionStepped):
            return number
        self._catch_up()
        steps = self._index.get(ev.InstructionStepped, [])
        if not -len(steps) <= number < len(steps):
            raise IndexError(f"no step {number}: this recording has {len(steps)} steps")
        return typing.cast(ev.InstructionStepped, steps[number])

    def attempts(self, frame: int) -> tuple[attempts.AttemptView, ...]:
        """The attempts at a frame in order, each with its nodes, including abandoned and failed ones."""
        return Shown("attempt", attempts.of_frame(frame, self.of_frame))

    def final_attempt(self, frame: int) -> int:
        """The number of the frame's last attempt, whose graph and guards are the final ones (0: it was not translated)."""
        return max((event.attempt for event in self.of_frame(frame, ev.AttemptStarted)), default=0)

    def final_guards(self, frame: int) -> list[ev.GuardInstalled]:
        """The guards of the frame's last attempt: those of its cache entry."""
        last = self.final_attempt(frame)
        return [guard for guard in self.of_frame(frame, ev.GuardInstalled) if guard.attempt == last]

    def frame_of_entry(self, entry: int) -> int:
        """The frame that was compiled for a cache entry (0: an entry from before the recording)."""
        return self.once("frames of entries", self._frames_of_entries).get(entry, 0)

    def _frames_of_entries(self) -> dict[int, int]:
        frames: dict[int, int] = {}
        for added in self.of(ev.CacheEntryAdded):
            frames.setdefault(added.entry, added.frame)
        return frames

    def _final(self, kind: type[E]) -> tuple[E, ...]:
        last: dict[int, int] = {}
        for started in self.of(ev.AttemptStarted):
            last[started.frame] = max(last.get(started.frame, 0), started.attempt)
        return tuple(event for event in self.of(kind) if event.attempt == last.get(event.frame, event.attempt))

    @property
    def graphs(self) -> tuple[GraphView, ...]:
        """The graphs that were compiled, in order; graphs without nodes are excluded."""
        return self.once("graphs", lambda: Shown("graph", map(self._graph_of, self.of(ev.SubgraphCompiled))))

    def once(self, question: str, answer: Callable[[], T]) -> T:
        """Cache an answer until the recording changes: views repeat the same queries for each frame, guard and line, and a notebook
        shows a recording again and again. All answers are released at the first query after a change, or with the recording.
        """
        self._catch_up()
        state = self._state()
        if state != self._answers_state:
            self._answers.clear()
            self._answers_state = state
        if question in self._answers:
            return typing.cast("T", self._answers[question])
        value = answer()
        if state == self._answers_state:  # another thread may have recorded and asked meanwhile
            self._answers[question] = value
        return value

    def _state(self) -> tuple[Any, ...]:
        """All that an answer may depend on: events are only ever added, so their number stands for them."""
        origin = self.title, self.engine, self.versions, self.process, self.rank, self.job, self.redacted
        return self._indexed, self._cut, self._clock, origin

    def _graph_of(self, compiled: ev.SubgraphCompiled) -> GraphView:
        added_nodes = {n.name: n for n in self.of_frame(compiled.frame, ev.NodeAdded) if n.attempt == compiled.attempt}
        names = compiled.nodes or tuple(added_nodes)
        nodes = tuple(added_nodes[name] for name in names if name in added_nodes)
        return GraphView(compiled.graph, compiled.frame, compiled.attempt, nodes, compiled)

    def graph(self, name: str) -> GraphView:
        """The compiled graph of that name; raises KeyError if there is none."""
        graphs = {graph.name: graph for graph in self.graphs}
        if name not in graphs:
            raise KeyError(f"no graph {name!r} in this recording; there are: {', '.join(graphs) or 'none'}")
        return graphs[name]

    @property
    def guards(self) -> tuple[ev.GuardInstalled, ...]:
        """The guards of every frame's final attempt."""
        return self.once("guards", lambda: Shown("guard", self._final(ev.GuardInstalled)))

    @property
    def memory(self) -> Memory:
        """The memory of each graph: where it peaks, and what is saved for backward.

        >>> from dynexplore import explain
        >>> import torch
        >>> print(explain(lambda x: (x + 1).relu(), torch.ones(4)).recording.memory)
        __compiled_fn_0
          peak 48 B at relu (<doctest ...>:1)
          inputs and parameters 16 B throughout
          saved for backward: decided by autograd at run time (known with backend aot_eager and the artifact memory)
        """
        return memory_of(self.of(ev.MemoryPlanned))

    @property
    def breaks(self) -> tuple[ev.GraphBroke, ...]:
        """Every graph break, in order."""
        return Shown("graph break", self.of(ev.GraphBroke), self)

    @property
    def divergences(self) -> tuple[ev.DivergenceDetected, ...]:
        """The divergences of the real run from the symbolic one, in every frame's final attempt, in order."""
        divergences = self._final(ev.DivergenceDetected)
        return Shown(
            "divergence",
            sorted(divergences, key=lambda candidate: (candidate.frame, candidate.step, _STEP_FIRST.get(candidate.where, 1))),
        )

    def step_of(self, divergence: ev.DivergenceDetected) -> ev.InstructionStepped | None:
        """The step at which a divergence is reported; None if it belongs to no step (an input, say)."""
        steps = [step for step in self.of_frame(divergence.frame, ev.InstructionStepped) if step.attempt == divergence.attempt]
        return steps[divergence.step] if 0 <= divergence.step < len(steps) else None

    def real(self, number: int | ev.InstructionStepped, run: int = 1) -> RealStep:
        """A step, given by number or as an event, with the real values of its symbolic ones; those of the `run`-th run.

        >>> from dynexplore import explain
        >>> import torch
        >>> print(explain(lambda x: x * 2)(torch.ones(3)).recording.real(-2).stack[-1])
        float32[3] cpu min 2 mean 2 max 2, first 2, 2, 2 [real]
        """
        step = self.step(number)
        table = self._real_values(run)
        place = (step.frame, step.attempt)
        before = itertools.takewhile(lambda candidate: candidate is not step, self.of_frame(step.frame, ev.InstructionStepped))
        count = sum(earlier.attempt == step.attempt for earlier in before)
        stack = tuple(table.value(*place, count, view) for view in step.stack)
        names = {name: table.value(*place, count, view) for name, view in self._locals_at(step).items()}
        return RealStep(step, stack, names)

    def _real_values(self, run: int) -> Indexed:
        """The tables of `real_values.py`, built on the first query."""
        cached = self._real.get(run)
        if cached is None or cached[0] != len(self._events):
            cached = self._real[run] = len(self._events), Indexed(self._settle(), run)
        return cached[1]

    def _locals_at(self, step: ev.InstructionStepped) -> dict[str, ev.ValueView]:
        """The locals of the current function after a step."""
        place = (step.attempt, step.inline)
        entries = self.of_frame(step.frame, ev.InlineEntered)
        arguments = self.frame(step.frame).arguments if not step.inline else ()
        locals_ = dict(next((event.arguments for event in entries if (event.attempt, event.callee) == place), arguments))
        for event in self.of_frame(step.frame, ev.InstructionStepped):
            if (event.attempt, event.inline) == place:
                for name, view in event.changed:
                    locals_.pop(name, None) if view is None else locals_.update({name: view})
            if event is step:
                break
        return locals_

    @property
    def resume_functions(self) -> tuple[ev.ResumeFunctionCreated, ...]:
        """Every resume function that was created."""
        return Shown("resume function", self.of(ev.ResumeFunctionCreated))

    def modified_code(self, frame: int) -> ev.CodeView | None:
        """The modified code of a frame, None if it was not compiled."""
        emitted = self.of_frame(frame, ev.CodeEmitted)
        return emitted[-1].code if emitted else None

    def original_code(self, frame: int) -> ev.CodeView:
        """The code object that the offsets of a frame refer to: its own, or the one that its resume function continues."""
        return continued(self.frame(frame).code, self._codes)

    def code_of(self, event: ev.InstructionEvent) -> ev.CodeView | None:
        """The code object that an event's offset refers to: its frame's, or that of an inlined callee."""
        if not event.inline:
            return self.original_code(event.frame) if self.of_frame(event.frame, ev.FrameEntered) else None
        self._catch_up()
        return self._callees.get((event.frame, event.attempt, event.inline))

    @property
    def codes(self) -> dict[int, ev.CodeView]:
        """Every original code object that occurs, by id: of frames and inlined callees, and the continued ones."""
        self._catch_up()
        codes = dict(self._codes)
        for entered in self.frames:
            code = continued(entered.code, self._codes)
            codes.setdefault(code.id, code)
        return codes

    # -- display and saving -----------------------------------------------------------------------------------

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> display_hooks.Bundle:
        return display_hooks.connected().mimebundle(self)

    def _display_(self) -> Any:
        """Used by marimo to display the result of a cell."""
        return display_hooks.connected().explorer(self)

    def save(self, path: str | os.PathLike[str], *, redact: bool = False) -> str:
        """Write the recording in the format given by the extension of `path`, and return a sentence on what the file contains.

        `.html` is a self-contained explorer; `.json`, and packed `.json.gz`, can be read by `Recording.from_json`, by `dynexplore
        open` and by the viewer page; `.txt` is the report, `.dot` and `.svg` are the graphs. `redact` omits tensor elements, string
        constants and paths. Raises ExportError, with one sentence, for another extension and if the file cannot be written.

        >>> Recording().save("/tmp/nothing.json", redact=True)
        'The file contains source code, bytecode, names and shapes; tensor elements, string constants and paths were left out.'
        """
        return display_hooks.connected().save(self, path, redact=redact)

    @property
    def holds(self) -> str:
        """What a file of this recording contains, in one sentence."""
        if self.redacted:
            left_out = "tensor elements, string constants and paths were left out"
            return f"The file contains source code, bytecode, names and shapes; {left_out}."
        return (
            "Before you share it: the file contains source code, bytecode, names and shapes, file paths, constants, and the "
            "values of arguments and tensors from the recorded calls."
        )

    # -- JSON -----------------------------------------------------------------------------------------------

    def to_json(self, *, redact: bool = False, times: bool = True) -> str:
        """Return the recording as JSON text. `redact` omits tensor elements, string constants and paths; without `times`, times
        and the recording process are omitted.
        """
        return json.dumps(self.to_plain(redact=redact, times=times), ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def to_plain(self, *, redact: bool = False, times: bool = True) -> dict[str, Any]:
        """Return the recording as lists, dicts, strings and numbers, which `to_json` writes."""
        source = redacted(self) if redact else self
        pool = Pool()
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
            "job": source.job.to_plain() if times and source.job is not None else None,
            "clock": source._clock.to_plain() if times and source._clock is not None else None,
            "redacted": source.redacted,
            "cut": dataclasses.asdict(source._cut) if source._cut else None,
            "values": pool.tables[ev.ValueView],
            "codes": pool.tables[ev.CodeView],
            "events": plain,
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> Recording:
        """Return the recording that `to_json` wrote, or `save` as `.json` or `.json.gz`. Raises RecordingError, with one sentence,
        if the text is invalid.
        """
        try:
            if isinstance(text, bytes) and text.startswith(_GZIP):
                text = gzip.decompress(text)
            data = json.loads(text)
        except (OSError, EOFError, zlib.error) as error:
            raise RecordingError(f"this packed recording is damaged ({error})") from None
        except (ValueError, RecursionError) as error:
            raise RecordingError(f"this is not a dynexplore recording: it is not JSON ({error})") from None
        return cls.from_plain(data)

    @classmethod
    def from_plain(cls, data: object) -> Recording:
        """Return the recording that `to_plain` returned. Raises RecordingError, with one sentence, if the data is invalid."""
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


def recording_of(shown: Any) -> Recording:
    """The recording itself, or that of an explanation. Raises TypeError for anything else."""
    recording = getattr(shown, "recording", shown)
    if not isinstance(recording, Recording):
        raise TypeError(f"a Recording or an Explanation was expected, not {type(shown).__name__}")
    return recording


def continued(code: ev.CodeView, originals: Mapping[int, ev.CodeView]) -> ev.CodeView:
    """The code that a resume function continues, `code` itself if it is not a resume function; `originals` are original codes by
    id.

    If the original was not recorded, it is assembled from the resume function's body.
    """
    if code.resumes < 0:
        return code
    if code.resumes in originals:
        return originals[code.resumes]
    body = [row for row in code.rows if row.role == "original" and row.origin >= 0]
    origins = {row.offset: row.origin for row in body}
    targets = {origins.get(row.target, -1) for row in body if row.target >= 0}
    rows = []
    for row in body:
        target = origins.get(row.target, -1)
        arg = f"to {target}" if row.arg == f"to {row.target}" else row.arg
        original = dataclasses.replace(row, offset=row.origin, arg=arg, target=target, role="", origin=-1)
        rows.append(dataclasses.replace(original, is_target=row.origin in targets))
    return dataclasses.replace(code, id=code.resumes, rows=tuple(rows), resumes=-1)


def resumed_at(code: ev.CodeView) -> int:
    """The original offset at which a resume function resumes; -1 for other code."""
    if code.resumes < 0:
        return -1
    return next((row.origin for row in code.rows if row.role == "resume" and row.origin >= 0), -1)


def _read(cls: type[Recording], data: dict[str, Any]) -> Recording:
    try:
        tables = {
            ev.ValueView: [record_of(ev.ValueView, row, {}) for row in _rows(data, "values")],
            ev.CodeView: [record_of(ev.CodeView, row, {}) for row in _rows(data, "codes")],
        }
        for code in tables[ev.CodeView]:
            sanity.check_code(code)
        recording = cls(title=_text(data["title"]))
        recording.versions = str(data.get("versions", ""))
        _read_origin(recording, data)
        recording.redacted = bool(data["redacted"])
        rows = _rows(data, "events")
        added = [row for row in rows if isinstance(row, dict) and row.get("event") == "CacheEntryAdded"]
        first_entry = min((row.get("entry", 1) for row in added), default=1)
        for position, row in enumerate(rows):
            try:
                current_row = upgraded(row, first_entry)
                recording._append(record_of(ev.EVENTS[current_row["event"]], current_row, tables))
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise RecordingError(f"this recording is damaged: event {position} cannot be read ({_say(error)})") from None
        recording._cut = None if data["cut"] is None else record_of(Cut, data["cut"], {})
        recording._clock = _read_clock(data, len(recording))
        sanity.check_places(recording.events, recording.code_of)
    except RecordingError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordingError(f"this recording is damaged: {_say(error)}") from None
    highest = max((event.frame for event in recording.events), default=0)
    recording._frame_ids = itertools.count(highest + 1)
    recording._entry_numbers = itertools.count(max((added.entry for added in recording.of(ev.CacheEntryAdded)), default=0) + 1)
    return recording


def _read_origin(recording: Recording, data: dict[str, Any]) -> None:
    """Read engine and process: older schemas had a single engine and did not record the process."""
    if data["schema"] < _SCHEMA_OF_ORIGIN:
        recording.process = None
        return
    number = parser_of(int | None, "the number of the process", 0)
    recording.engine = _checked_engine(data["engine"])
    recording.process, recording.rank = (number(data[name], {}) for name in ("process", "rank"))
    job = data.get("job")  # older files have none
    recording.job = None if job is None else Job.from_plain(job)


def _checked_engine(name: object) -> str:
    if name not in ENGINES:
        raise ValueError(f"the engine is {name!r}, not one of {', '.join(ENGINES)}")
    return str(name)


def _read_clock(data: dict[str, Any], events: int) -> Clock | None:
    plain_clock = data["clock"] if data["schema"] >= _SCHEMA_OF_ORIGIN else None
    return None if plain_clock is None else Clock.from_plain(plain_clock, events)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("the title is not text")
    return value


def _rows(data: dict[str, Any], table: str) -> list[Any]:
    rows = data[table]
    if not isinstance(rows, list):
        raise TypeError(f"{table} is not a list")
    return rows


def _say(error: Exception) -> str:
    return f"missing or unknown {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__


def redacted(recording: Recording) -> Recording:
    """Return a copy without tensor elements, string constants and paths; names, shapes and numbers are kept."""
    copy = Recording(max_steps=recording.max_steps, max_bytes=recording.max_bytes, title=redacted_text(recording.title))
    copy.engine, copy.process, copy.rank, copy._clock = recording.engine, recording.process, recording.rank, recording._clock
    copy.job = recording.job.redacted() if recording.job is not None else None
    done: dict[int, Any] = {}
    for event in recording.events:
        copy._append(redacted_record(event, done))
    copy.versions = recording.versions
    copy._cut = recording.cut
    copy.redacted = True
    return copy


def save(recording: Recording, path: str | os.PathLike[str], *, redact: bool = False) -> None:
    """Write the recording to a file as JSON."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(recording.to_json(redact=redact))


def load(path: str | os.PathLike[str]) -> Recording:
    """Read a recording from a JSON file; raises RecordingError, with one sentence, if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordingError(f"cannot read {os.fspath(path)!r}: {error}") from None
    return Recording.from_json(text)
