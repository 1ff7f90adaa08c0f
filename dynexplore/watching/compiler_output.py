"""What AOTAutograd and Inductor make of the graphs of a watched torch.compile: joint, forward and backward graphs, generated code,
times.

Which idea lives here: torch tells these to a log of its own, whether or not a file is written (TORCH_TRACE). A handler of that
log hears them while they are made. Each belongs to a compilation by torch's number of it, and so to a frame of the recording; the
backward graph is compiled later, when the frame is long done. torch makes the texts only because somebody listens, so this is
asked for (`watch(artifacts=True)`).

In:  records of the logger `torch.__trace`, the frame at hand.
Out: `ArtifactEmitted` and `PhaseTimed` in a recording.

PyTorch's counterpart: `LazyTraceHandler` in torch/_logging/_internal.py, which writes them to files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.traces import artefact_kinds, log_to_recording
from dynexplore.traces.compiles import Artefact, Compile, relevant_metrics
from dynexplore.watching import private_torch
from dynexplore.watching.safe_reads import UNREADABLE

PARTS = ("joint", "graph", "code", "passes", "cache")
"""Parts that are told: what else the log has, a watch sees better."""

_Id = tuple[Any, Any, Any]


@dataclass(slots=True)
class _CompilationOutput:
    """What one compilation made: `graph` is its name in the recording, None until the frame is done."""

    frame: int
    compile_: Compile
    graph: str | None = None
    waiting: list[Callable[[str], ev.Event]] = field(default_factory=list)


class CompilerOutput(logging.Handler):
    """See the head of this file. `current` gives the number of the frame that is being compiled."""

    def __init__(self, recording: Recording, current: Callable[[], int | None], notice: Callable[[str], None]) -> None:
        super().__init__(logging.DEBUG)
        self._recording = recording
        self._current = current
        self._notice = notice
        self._outputs: dict[_Id, _CompilationOutput] = {}
        self._strings = 0
        self._log = logging.getLogger(private_torch.TRACE_LOG)

    def begin(self) -> None:
        """Listen from now on."""
        self._log.addHandler(self)
        self._strings = len(private_torch.interned())

    def end(self) -> None:
        """Listen no more. Strings that torch told to nobody else it tells again to who listens next."""
        self._log.removeHandler(self)
        if not self._log.handlers:
            table = private_torch.interned()
            for text in [text for text, number in table.items() if number >= self._strings]:
                del table[text]

    def finished(self, frame: int, graph: str) -> None:
        """A frame is compiled, and its graph has a name: what was made of it can be told."""
        for output in self._outputs.values():
            if output.frame == frame and output.graph is None:
                output.graph = graph
                for event in output.waiting:
                    self._recording.record(event(graph))
                output.waiting.clear()

    def emit(self, record: logging.LogRecord) -> None:
        """A record of torch's log."""
        try:
            self._hear(vars(record).get("metadata"), vars(record).get("payload"))
        except UNREADABLE as error:
            self._notice(f"Part of what the compiler made could not be read ({type(error).__name__}: {error}).")

    def _hear(self, metadata: Any, text: Any) -> None:
        if not isinstance(metadata, dict) or "frame_compile_id" not in metadata:
            return
        output = self._compilation((metadata.get("compiled_autograd_id"), metadata.get("frame_id"), metadata["frame_compile_id"]))
        if output is None:
            return
        for kind in ("compilation_metrics", "bwd_compilation_metrics"):
            if kind in metadata:
                self._times(output, relevant_metrics(metadata[kind]), "backward " if kind.startswith("bwd") else "")
        if not isinstance(text, str):
            return
        kind = next(iter(metadata))
        facts = metadata[kind] if isinstance(metadata[kind], dict) else {}
        output.compile_.artefacts.append(Artefact(kind, str(facts.get("name", "")), 0))  # what came before says which graph this is
        stage, part, language = artefact_kinds.described(output.compile_.artefacts[-1], output.compile_)
        if part in PARTS:
            more = len(text) - log_to_recording.LONGEST
            shown = text if more <= 0 else f"{text[: log_to_recording.LONGEST]}\n... {more:,} letters more"
            self._tell(output, lambda graph: ev.ArtifactEmitted(
                frame=output.frame, graph=graph, stage=stage, part=part, text=shown, language=language))  # fmt: skip

    def _compilation(self, number: _Id) -> _CompilationOutput | None:
        output = self._outputs.get(number)
        frame = self._current() if output is None else None
        if output is None and frame is not None:
            output = self._outputs[number] = _CompilationOutput(frame, Compile(f"{number[1]}/{number[2]}"))
        return output

    def _times(self, output: _CompilationOutput, metrics: dict[str, Any], prefix: str) -> None:
        lines = []
        for name, phase in log_to_recording.PHASES.items():
            seconds = log_to_recording.seconds_of(metrics.get(name))
            if seconds:
                self._recording.record(ev.PhaseTimed(frame=output.frame, phase=prefix + phase, seconds=seconds))
                lines.append(f"{phase:<28} {seconds:.3f} s")
        if lines:
            stage = f"{prefix}compile"
            self._tell(output, lambda graph: ev.ArtifactEmitted(
                frame=output.frame, graph=graph, stage=stage, part="times", text="\n".join(lines)))  # fmt: skip

    def _tell(self, output: _CompilationOutput, event: Callable[[str], ev.Event]) -> None:
        if output.graph is None:
            output.waiting.append(event)
        else:
            self._recording.record(event(output.graph))
