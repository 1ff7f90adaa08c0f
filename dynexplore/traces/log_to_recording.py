"""Conversion of a log to a recording: each compilation becomes a frame, with its graph, guards, breaks and compiler output.

The idea: the views display recordings and know nothing about logs. So a log is converted to the same events that a watched capture
produces. What the log does not contain is left out: there are no steps, values or cache hits, and bytecode is only text. A graph is
named by torch's compile id ("3/1"), so that users can find it in the log. Texts are read from the file when they are recorded; a
text that does not fit is replaced by its position in the log.

In: a TraceLog, and its Contents. Out: `record_log(log, contents, recording, sources)`.

PyTorch's counterpart: none; tlparse writes a folder of pages.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.clock import Clock
from dynexplore.recording.installed_files import is_installed, is_torch
from dynexplore.recording.recording import Recording
from dynexplore.traces import (
    artefact_kinds,
    entry_limits,
    graph_text,
    guard_text,
    phases,
    provenance,
    recompile_reasons,
    torch_words,
)
from dynexplore.traces.compiles import Artefact, Compile, Contents
from dynexplore.traces.contradictions import contradictions
from dynexplore.traces.sources import Sources
from dynexplore.traces.trace_log import TraceLog

ROOM = 40_000_000
"""The maximum number of bytes of text in one recording; graphs, guards and generated code take precedence."""

LONGEST = 2_000_000
"""The maximum number of bytes of one text; the rest stays in the log."""


def record_log(log: TraceLog, contents: Contents, recording: Recording, sources: Sources) -> None:
    """Record the content of a log."""
    _LogConverter(log, contents, recording, sources).convert()


class _LogConverter:
    def __init__(self, log: TraceLog, contents: Contents, recording: Recording, sources: Sources) -> None:
        self._log = log
        self._contents = contents
        self._recording = recording
        self._sources = sources
        self._codes: dict[tuple[str, str, int], ev.CodeView] = {}
        self._code_ids = itertools.count(max(recording.codes, default=0) + 1)
        self._frames: dict[str, int] = {}
        self._last: dict[tuple[str, str], int] = {}  # file and plain name of a function -> its latest frame
        self._entries = itertools.count(len(recording.of(ev.CacheEntryAdded)) + 1)
        self._code_of_frame: dict[str, tuple[ev.CodeView, str]] = {}  # torch's frame number -> its function
        self._metrics_of: dict[str, dict[str, Any]] = {}  # torch's frame number -> the metrics of its latest compilation
        self._entry_of: dict[str, int] = {}
        self._expected: dict[str, tuple[dict[str, str], dict[str, int]]] = {}
        self._printed: dict[str, list[guard_text.PrintedGuard]] = {}
        self._same: dict[str, str] = {}
        self._fits = artefact_kinds.that_fit(contents, ROOM)
        self._times: list[int] = []

    def convert(self) -> None:
        began_at = len(self._recording)
        for compile_ in self._contents.compiles.values():
            self._compile(compile_)
        for artefact in self._contents.others:
            self._artefact(0, "", artefact)
        self._record_times(began_at)

    # -- one compilation -------------------------------------------------------------------------------------------------

    def _compile(self, compile_: Compile) -> None:
        frame = self._frames[compile_.name] = self._recording.next_frame_id()
        code, function = self._code_of_frame[_number_of(compile_)] = self._code_of(compile_)
        parent = self._last.get((code.file, function)) if code.resumes >= 0 else None
        self._last[code.file, function] = frame
        self._record(
            compile_.began,
            ev.FrameEntered(frame=frame, parent=parent, code=code, caller=_caller(compile_), stack=_stack(compile_)),
        )
        self._recompiled(compile_, frame)
        last = compile_.attempts
        for attempt in range(1, last):
            self._record(compile_.began, ev.AttemptStarted(frame=frame, attempt=attempt))
            reasons = str(compile_.metrics.get("restart_reasons") or "torch.compile restarts")
            self._record(compile_.began, ev.AttemptRestarted(frame=frame, attempt=attempt, reason=ev.clip(reasons)))
        self._record(compile_.began, ev.AttemptStarted(frame=frame, attempt=last))
        graph = self._graph(compile_, frame, last)
        self._breaks(compile_, frame, last, function, sum(node.op.startswith("call_") for node in graph))
        guards = self._guards(compile_, frame, last)
        self._also_failed(compile_, frame)
        self._compiled(compile_, frame, last, graph)
        for artefact in compile_.artefacts:
            self._artefact(frame, compile_.name, artefact, compile_)
        self._facts(compile_, frame)
        self._finished(compile_, frame, code, function, guards)
        if compile_.metrics:
            self._metrics_of[_number_of(compile_)] = compile_.metrics

    def _record(self, microseconds: int, event: ev.Event) -> None:
        before = len(self._recording)
        self._recording.record(event)
        self._times += [microseconds] * (len(self._recording) - before)

    def _text(self, artefact: Artefact, most: int = LONGEST) -> str:
        return self._log.text(artefact.payload, most) if artefact.payload is not None else artefact.text

    def _code_of(self, compile_: Compile) -> tuple[ev.CodeView, str]:
        """The function that was compiled, and its name in the user's program."""
        place = compile_.stack[-1] if compile_.stack else None
        metrics = compile_.metrics
        before = self._code_of_frame.get(_number_of(compile_))
        if place is None and "co_name" not in metrics and before is not None:  # the recompile limit ended it before it began
            return before
        name = place.function if place else str(metrics.get("co_name", "a function that the log does not name"))
        file = place.file if place else str(metrics.get("co_filename", ""))
        line = place.line if place else _whole(metrics.get("co_firstlineno"))
        plain = torch_words.plain_function(name)
        if plain == name:
            return self._code(file, plain, line), plain
        original = self._original(file, plain, line)
        key = (file, name, line)
        if key not in self._codes:
            below = original.source.splitlines()[line - original.first_line :] if line >= original.first_line else []
            self._codes[key] = ev.CodeView(
                next(self._code_ids), original.qualname, file, line, "\n".join(below), (), resumes=original.id
            )
        return self._codes[key], plain

    def _original(self, file: str, name: str, line: int) -> ev.CodeView:
        """The function that a resume function continues: the nearest function of that name above it."""
        candidates = [(key[2], code) for key, code in self._codes.items() if key[:2] == (file, name) and key[2] <= line]
        return max(candidates, key=lambda pair: pair[0])[1] if candidates else self._code(file, name, line)

    def _code(self, file: str, name: str, line: int) -> ev.CodeView:
        key = (file, name, line)
        if key not in self._codes:
            there = self._sources.function(file, line, name)
            self._codes[key] = ev.CodeView(
                next(self._code_ids),
                there.qualname if there else name,
                file,
                there.first if there else line,
                there.text if there else "",
                (),
            )
        return self._codes[key]

    # -- graph, breaks, guards -------------------------------------------------------------------------------------------

    def _graph(self, compile_: Compile, frame: int, attempt: int) -> list[graph_text.PrintedNode]:
        printed = compile_.of("dynamo_output_graph")
        if not printed:
            return []
        nodes = graph_text.nodes_of(self._text(printed[-1], graph_text.MOST), _input_names(compile_.inputs))
        for node in nodes:
            self._record(
                compile_.began,
                ev.NodeAdded(frame=frame, attempt=attempt, graph=compile_.name, **dataclasses.asdict(node)),
            )
        return nodes

    def _compiled(self, compile_: Compile, frame: int, attempt: int, nodes: list[graph_text.PrintedNode]) -> None:
        if not compile_.of("dynamo_output_graph") or compile_.metrics.get("fail_type"):
            return
        ops = [node.op for node in nodes]
        self._record(
            compile_.ended,
            ev.SubgraphCompiled(
                frame=frame, attempt=attempt, graph=compile_.name, backend=_backend(compile_), node_count=len(nodes),
                op_count=sum(op.startswith("call_") for op in ops),
                inputs=tuple(node.target for node in nodes if node.op == "placeholder"),
                outputs=next((node.inputs for node in nodes if node.op == "output"), ()),
                nodes=tuple(node.name for node in nodes),
                seconds=seconds_of(compile_.metrics.get("backend_compile_time_s")),
                pieces=self._pieces(compile_, nodes),
            ),
        )  # fmt: skip

    def _pieces(self, compile_: Compile, nodes: list[graph_text.PrintedNode]) -> tuple[ev.GraphPiece, ...]:
        """The subgraphs that DDPOptimizer split a graph into: torch prints each, in forward order, with renamed nodes."""
        printed = compile_.of("optimize_ddp_split_child")
        children = [graph_text.nodes_of(self._text(child, graph_text.MOST)) for child in printed]
        whole = [node for node in nodes if node.op.startswith("call_")]
        if [node.target for node in whole] != [node.target for child in children for node in child if node.op.startswith("call_")]:
            return ()
        operators = iter(whole)
        inputs = {node.name: node for node in nodes if node.op == "placeholder"}
        pieces = []
        for number, child in enumerate(children, 1):
            used = [inputs[node.name] for node in child if node.op == "placeholder" and node.name in inputs]
            parameters = [node for node in used if "_parameters_" in node.name]
            own = tuple(next(operators).name for node in child if node.op.startswith("call_"))
            names = tuple(torch_words.parameter_name(node.target) for node in parameters)
            size = sum(map(_bytes_of, parameters))
            pieces.append(ev.GraphPiece(number, own, (len(children) - number,), names, size))
        return tuple(pieces) if all(piece.nodes for piece in pieces) else ()

    def _breaks(self, compile_: Compile, frame: int, attempt: int, function: str, operations: int) -> None:
        texts = dict.fromkeys(self._text(printed) for printed in compile_.of("artifact", "dynamo_graph_break_reason"))
        first = compile_.stack[-1].function if compile_.stack else function
        for cause in without_consequences([break_of(text, first) for text in texts]):
            self._record(compile_.began, cause.event(frame=frame, attempt=attempt, operations=operations, stack=(), live_locals=()))

    def _guards(self, compile_: Compile, frame: int, attempt: int) -> str:
        printed = compile_.of("dynamo_cpp_guards_str")
        if not printed:
            return ""
        tree = self._text(printed[-1])
        guards = guard_text.guards_of(tree)
        for number, guard in enumerate(guards):
            self._record(
                compile_.ended,
                ev.GuardInstalled(
                    frame=frame, attempt=attempt, index=number, scope=guard.scope, source=guard.source, kind=guard.kind,
                    expected=guard.expected, expression=guard.expression,
                    reason=f"line {guard.line} needs it" if guard.line else "",
                ),
            )  # fmt: skip
        tensors = {guard.source: guard.expected for guard in guards if guard.kind == "TENSOR_MATCH"}
        numbers = {guard.source: number for number, guard in reversed(list(enumerate(guards))) if guard.source}
        self._expected[_torch_name(compile_)] = tensors, numbers
        self._printed[_torch_name(compile_)] = guards
        return tree

    def _also_failed(self, compile_: Compile, frame: int) -> None:
        """The guards of earlier entries that the guards of this compilation contradict."""
        after = self._printed.get(_torch_name(compile_), [])
        entries = {number: name for name, number in self._entry_of.items()}
        for first in self._recording.of_frame(frame, ev.GuardFailed):
            before = self._printed.get(entries.get(first.entry, ""), [])
            for guard, expected, actual in contradictions(before, after):
                if guard.source == first.source:
                    continue
                self._record(
                    compile_.ended,
                    ev.GuardAlsoFailed(
                        frame=frame, entry=first.entry, index=before.index(guard), scope=guard.scope, source=guard.source,
                        kind="EQUALS" if guard.kind == "EQUALS_MATCH" else guard.kind, expected=expected, actual=actual,
                    ),
                )  # fmt: skip

    def _recompiled(self, compile_: Compile, frame: int) -> None:
        """Record why it recompiled although there were entries: torch identifies each entry by its compile id, `3/0: ...`."""
        printed = compile_.of("artifact", "recompile_reasons")
        reasons = _reasons(self._text(printed[-1])) if printed else []
        for reason in reasons:
            entry = reason.partition(":")[0].strip()
            tensors, numbers = self._expected.get(entry, ({}, {}))
            failed = recompile_reasons.failed_guard(
                reason, ({}, {}), tensors, numbers, frame=frame, entry=self._entry_of.get(entry, 0)
            )
            if entry in self._entry_of:
                self._record(compile_.began, failed)
        if reasons:
            first = recompile_reasons.plain_reason(reasons[0])
            self._record(compile_.began, ev.Recompiled(frame=frame, reason=first, entries=len(reasons)))

    # -- compiler output -------------------------------------------------------------------------------------------------

    def _artefact(self, frame: int, graph: str, artefact: Artefact, compile_: Compile | None = None) -> None:
        stage, part, language = artefact_kinds.described(artefact, compile_)
        text = self._artefact_text(artefact, graph, part)
        began = compile_.began if compile_ else 0
        self._record(began, ev.ArtifactEmitted(frame=frame, graph=graph, stage=stage, part=part, text=text, language=language))

    def _artefact_text(self, artefact: Artefact, graph: str, part: str) -> str:
        payload = artefact.payload
        if payload is None:
            return artefact.text
        if part in artefact_kinds.OFTEN_THE_SAME:
            before = self._same.setdefault(f"{artefact.name} {payload.digest}", graph)
            if before != graph:
                return f"the same as that of {before}"
        place = f"{self._log.path.name} has it, from byte {payload.offset:,} on ({payload.size:,} bytes)"
        if payload not in self._fits:
            return f"not read, because this log contains too much text: {place}"
        text = self._text(artefact)
        if part == "provenance":
            return provenance.as_text(text)
        if part == "kernel lines":
            return provenance.lines_as_text(text)
        return text if payload.size <= LONGEST else f"{text}\n... cut here: {place}"

    def _facts(self, compile_: Compile, frame: int) -> None:
        """Phase times, metrics, symbols."""
        for name, phase in PHASES.items():
            for metrics, prefix in ((compile_.metrics, ""), (compile_.backward, "backward ")):
                if seconds := seconds_of(metrics.get(name)):
                    self._record(compile_.ended, ev.PhaseTimed(frame=frame, phase=prefix + phase, seconds=seconds))
        for metrics, stage in ((compile_.metrics, "compile"), (compile_.backward, "backward compile")):
            if metrics:
                self._artefact(frame, compile_.name, Artefact("metrics", stage, 0, text=_table(metrics)), compile_)
        for span in phases.spans_of(self._log, compile_):
            self._record(compile_.ended, ev.PhaseSpan(frame=frame, phase=span.phase, begin=span.begin, seconds=span.seconds))
        if compile_.symbols:
            symbols = Artefact("symbols", "", 0, text="\n".join(compile_.symbols))
            self._artefact(frame, compile_.name, symbols, compile_)

    def _finished(self, compile_: Compile, frame: int, code: ev.CodeView, function: str, guards: str) -> None:
        metrics = compile_.metrics
        seconds = seconds_of(metrics.get("entire_frame_compile_time_s"))
        if self._failed(compile_, frame, function, code) or not (guards or metrics.get("has_guarded_code")):
            is_limit = bool(self._recording.of_frame(frame, ev.CacheLimitReached))
            why = "torch.compile's recompile limit is reached" if is_limit else _why_plain(compile_)
            place = {"function": function, "file": code.file, "line": code.first_line}
            self._record(compile_.ended, ev.FrameSkipped(frame=frame, reason=why, **place))  # type: ignore[arg-type]
            self._record(compile_.ended, ev.FrameFinished(frame=frame, outcome="skipped", seconds=seconds))
            return
        number = self._entry_of[_torch_name(compile_)] = next(self._entries)
        count = _whole(metrics.get("guard_count"))
        original = code.id if code.resumes < 0 else code.resumes
        self._record(
            compile_.ended,
            ev.CacheEntryAdded(
                frame=frame, entry=number, code=original, guard_count=count, check=ev.clip(guards, artefact_kinds.LONGEST_CHECK)
            ),
        )
        self._record(compile_.ended, ev.FrameFinished(frame=frame, outcome="compiled", seconds=seconds))

    def _failed(self, compile_: Compile, frame: int, function: str, code: ev.CodeView) -> bool:
        kind, reason = str(compile_.metrics.get("fail_type") or ""), str(compile_.metrics.get("fail_reason") or "")
        if (kind or not compile_.metrics) and self._limit(compile_, frame, reason):
            return True
        if not kind:
            return False
        if kind.endswith("BackendCompilerFailed"):
            raised = _RAISED.match(reason)
            backend, error = (raised[1], raised[2]) if raised else (_backend(compile_), reason)
            self._record(
                compile_.ended, ev.BackendFailed(frame=frame, attempt=compile_.attempts, graph="", backend=backend, error=error)
            )
        elif not compile_.of("artifact", "dynamo_graph_break_reason") and "Unsupported" in kind:
            message = re.split(r"\n\s*from user code:", self._failure_text(compile_) or reason)[0]
            line = _whole(compile_.metrics.get("fail_user_frame_lineno"))
            file = str(compile_.metrics.get("fail_user_frame_filename", code.file))
            stack = (ev.UserFrame(file, line, function),) if line else ()
            cause = torch_words.parsed(message.strip(), stack)
            self._record(compile_.ended, cause.event(frame=frame, attempt=compile_.attempts, operations=0))
        return True

    def _limit(self, compile_: Compile, frame: int, failure: str) -> bool:
        """Record the recompile limit, if one ended a compilation before it began."""
        if compile_.stack:
            return False
        again = self._recording.of_frame(frame, ev.Recompiled)
        metrics = {**self._metrics_of.get(_number_of(compile_), {}), **compile_.metrics}
        limit = entry_limits.limit_reached(failure, metrics, again[0].entries if again else 0)
        if limit:
            reason, function = (again[0].reason if again else ev.clip(failure)), self._code_of(compile_)[1]
            self._record(compile_.ended, ev.CacheLimitReached(frame=frame, function=function, limit=limit, reason=reason))
        return limit > 0

    def _failure_text(self, compile_: Compile) -> str:
        """The message of the exception, extracted from the logged traceback."""
        printed = compile_.of("artifact", "dynamo_error")
        parts = re.split(r"^(?:[\w.]+\.)?Unsupported: ", self._text(printed[-1]), flags=re.M) if printed else []
        return parts[-1] if len(parts) > 1 else ""

    # -- timestamps ------------------------------------------------------------------------------------------------------

    def _record_times(self, began_at: int) -> None:
        """Record start times: timestamps in a log have no year and no time zone; those in a compilation's metrics have both."""
        compiles = self._contents.compiles.values()
        dated = next((compile_ for compile_ in compiles if compile_.began and compile_.metrics.get("start_time_us")), None)
        if dated is None or began_at or len(self._times) != len(self._recording):
            return
        times = list(itertools.accumulate((time or dated.began for time in self._times), max))
        first = times[0] if times else 0
        steps = [(after - before) * 1_000 for before, after in itertools.pairwise([first, *times])]
        wall = (_whole(dated.metrics["start_time_us"]) - dated.began + first) * 1_000
        if wall > 0:
            clock = {"wall": wall, "threads": ["MainThread"], "steps": steps, "turns": [[len(steps), 0]]}
            self._recording.tell_times(Clock.from_plain(clock, len(steps)))


# -- messages ----------------------------------------------------------------------------------------------------------

_RAISED = re.compile(r"backend='(.*?)' raised:\s*(.*)", re.S)

PHASES = {
    "entire_frame_compile_time_s": "all of it", "dynamo_time_before_restart_s": "discarded attempts",
    "backend_compile_time_s": "backend", "inductor_compile_time_s": "Inductor", "code_gen_time_s": "code generation",
}  # fmt: skip
"""Metric -> the phase whose duration it contains."""

_TRACE_LINE = re.compile(r'^  File "(.*?)", line (\d+), in (.*)\n((?:    .*\n?)*)', re.M)


def break_of(text: str, function: str) -> torch_words.Cause:
    """The cause in a `dynamo_graph_break_reason` entry, with the user's stack from `function` on."""
    message, _, trace = text.partition("\nUser code traceback:\n")
    trace = trace.partition("\nTraceback (most recent call last):")[0]  # torch's own stack follows the user's
    message = re.sub(r"\A.*?^(?:Graph Break )?Reason: ", "", message, count=1, flags=re.M | re.S)  # up to 2.6: "Reason: "
    stack = [_user_frame(match) for match in _TRACE_LINE.finditer(trace)]
    first = max((number for number, frame in enumerate(stack) if frame.function == function), default=0)
    shown = [_plain_frame(frame) for frame in stack[first:]]
    return torch_words.parsed(message.strip(), tuple(shown))


def without_consequences(causes: Sequence[torch_words.Cause]) -> list[torch_words.Cause]:
    """The breaks of a compilation, without those at which torch failed to end the graph at an earlier one: part of that one."""
    shown: list[torch_words.Cause] = []
    for cause in causes:
        if shown and torch_words.is_consequence(cause.message) and shown[-1].user_stack[:1] == cause.user_stack[:1]:
            earlier = shown.pop()
            cause = torch_words.parsed(torch_words.with_consequence(earlier.message, cause.message), earlier.user_stack)
        shown.append(cause)
    return shown


def _user_frame(match: re.Match[str]) -> ev.UserFrame:
    lines = match[4].splitlines()
    code, marks = (lines[0][4:] if lines else ""), (lines[1] if len(lines) > 1 else "")
    begin = marks.find("^") - 4
    width = marks.count("^") + marks.count("~")
    column = len(code[:begin].encode()) if begin >= 0 else -1
    end = len(code[: begin + width].encode()) if begin >= 0 else -1
    return ev.UserFrame(match[1], int(match[2]), match[3], code, column, end)


def _plain_frame(frame: ev.UserFrame) -> ev.UserFrame:
    name = torch_words.plain_function(frame.function)
    return ev.UserFrame(frame.file, frame.line, name, frame.code, frame.column, frame.end_column)


def _caller(compile_: Compile) -> ev.UserFrame | None:
    """The line of the program that called the compiled function: the stack ends in the function itself."""
    own = [place for place in compile_.stack[:-1] if place.line and not is_installed(place.file)]
    return _plain_frame(own[-1]) if own else None


def _stack(compile_: Compile) -> tuple[ev.UserFrame, ...]:
    """The callers, without torch's own frames and the function itself."""
    return tuple(_plain_frame(place) for place in compile_.stack[:-1] if place.line and not is_torch(place.file))


def _torch_name(compile_: Compile) -> str:
    """torch's name of a cache entry in its recompile reasons."""
    return compile_.name.partition("#")[0]


def _number_of(compile_: Compile) -> str:
    """torch's frame number, shared by all compilations of a function."""
    return _torch_name(compile_).rpartition("/")[0]


def _input_names(sources: Mapping[str, None]) -> dict[str, str]:
    """torch's name of an input -> its source in Python syntax."""
    return {re.sub(r"[^a-zA-Z0-9]+", "_", source): torch_words.plain_source(source) for source in sources}


def _reasons(text: str) -> list[str]:
    try:
        reasons = json.loads(text)
    except (ValueError, RecursionError):
        return [text] if text else []  # a single reason is written without a list
    return [reason for reason in reasons if isinstance(reason, str)] if isinstance(reasons, list) else []


def _bytes_of(node: graph_text.PrintedNode) -> int:
    """The size in bytes of a tensor whose dtype and sizes are printed; 0 if a size is a symbol."""
    bits = re.search(r"\d+", node.dtype)
    sizes = node.shape.strip("[]").split(",") if node.shape.strip("[]") else []
    if not all(size.strip().isdecimal() for size in sizes):
        return 0
    return math.prod(int(size) for size in sizes) * (int(bits[0]) if bits else 8) // 8


def _backend(compile_: Compile) -> str:
    kinds = {artefact.kind for artefact in compile_.artefacts}
    if "inductor_output_code" in kinds or any("fx_graph_cache" in artefact.name for artefact in compile_.artefacts):
        hit = any(artefact.name in ("fx_graph_cache_hit", "aotautograd_cache_hit") for artefact in compile_.artefacts)
        return "inductor, from its cache" if hit else "inductor"
    return "AOTAutograd" if any(kind.startswith("aot_") for kind in kinds) else "unknown"


def _why_plain(compile_: Compile) -> str:
    metrics = compile_.metrics
    if not metrics:
        return "the log ends before its compilation does"
    kind = metrics.get("fail_type")
    if not kind:
        return "torch.compile found nothing to compile in it"
    return f"torch.compile raised {str(kind).rpartition('.')[2]}"


def _table(metrics: Mapping[str, Any]) -> str:
    width = max(len(name) for name in metrics)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in metrics.items())


def seconds_of(value: Any) -> float:
    """A metric as seconds; 0 if it is not a number."""
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else 0.0


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else 0
