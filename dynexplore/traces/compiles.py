"""The compilations of one log: its entries grouped by compile id, with the long texts left in the file.

The idea: a log's entries are in chronological order, with those of several threads interleaved, and each has torch's compile id
("3/1": the second compilation of frame 3). Here they are grouped by that id. Short facts (the stack, the metrics, the symbols) are
kept; for a long text only its position in the file.

In: the entries of a log. Out: `compiles_of(log)`: `Compile`s in start order, and the entries outside of any compilation.

PyTorch's counterpart: `CompileId` in torch/_guards.py, and `CompilationMetrics` in torch/_dynamo/utils.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.traces.entry_limits import limits_in
from dynexplore.traces.trace_log import Entry, Payload

MOST_SYMBOLS = 1_000
"""The maximum number of symbols kept for one compilation."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """A text of a compilation: the kind of its entry, its name in torch, the attempt, and its position in the file (or the text
    itself).
    """

    kind: str
    name: str
    attempt: int
    payload: Payload | None = None
    text: str = ""

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.payload.size if self.payload is not None else len(self.text)


@dataclass(slots=True)
class Compile:
    """One compilation; see the module docstring.

    `name` is torch's compile id, with `#2` appended if the id occurs a second time. `stack` is the user's stack, with the compiled
    function last; `began` and `ended` are microseconds since the start of the year. `phases` are the
    texts in which phases begin and end, with their times.
    """

    name: str
    began: int = 0
    ended: int = 0
    thread: int = 0
    attempts: int = 1
    stack: tuple[ev.UserFrame, ...] = ()
    metrics: dict[str, Any] = field(default_factory=dict)
    backward: dict[str, Any] = field(default_factory=dict)
    artefacts: list[Artefact] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    phases: list[tuple[int, Payload]] = field(default_factory=list)
    inputs: dict[str, None] = field(default_factory=dict)

    def of(self, kind: str, name: str = "") -> list[Artefact]:
        """Its texts of one kind, optionally with one name."""
        return [artefact for artefact in self.artefacts if artefact.kind == kind and name in ("", artefact.name)]


@dataclass(slots=True)
class Contents:
    """All compilations of a log, by name, and the texts outside of any compilation. `ranks`: the ranks in its entries."""

    compiles: dict[str, Compile] = field(default_factory=dict)
    others: list[Artefact] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)
    torch: str = ""


def compiles_of(entries: Iterable[Entry]) -> Contents:
    """Group the entries of a log by compilation."""
    fold = _Fold()
    for entry in entries:
        fold.apply(entry)
    return fold.contents


_PASSED_OVER = frozenset(("describe_tensor", "describe_storage", "str", "link"))
"""Kinds without additional information: descriptions of fake tensors, the string table."""

MOST_PHASES = 400
"""The maximum number of begins and ends of phases kept for one compilation."""

_RELEVANT_METRICS = (
    "co_name", "co_filename", "co_firstlineno", "guard_count", "shape_env_guard_count", "graph_op_count", "graph_node_count",
    "graph_input_count", "cache_size", "accumulated_cache_size", "entire_frame_compile_time_s", "backend_compile_time_s",
    "inductor_compile_time_s", "code_gen_time_s", "dynamo_time_before_restart_s", "fail_type", "fail_reason",
    "fail_user_frame_filename", "fail_user_frame_lineno", "restart_reasons", "non_compliant_ops", "compliant_custom_ops",
    "has_guarded_code", "start_time_us", "end_time_us", "duration_us", "gc_time_us", "guard_latency_us", "pytorch_version",
    "python_version", "num_triton_bundles", "pre_grad_pass_time_us", "joint_graph_pass_time_us", "post_grad_pass_time_us",
    "structured_logging_overhead_us", "triton_compile_time_us", "recompile_reason", "compiler_config",
    "inductor_fx_local_cache_hit_count", "inductor_fx_local_cache_miss_count", "aotautograd_local_cache_hit_count",
    "aotautograd_local_cache_miss_count",
)  # fmt: skip

LONGEST_WORD = 4_000
"""The maximum number of characters kept of one metric."""


class _Fold:
    def __init__(self) -> None:
        self.contents = Contents()
        self._strings: dict[int, str] = {}
        self._latest: dict[str, Compile] = {}
        self._times: Counter[str] = Counter()

    def apply(self, entry: Entry) -> None:
        if entry.rank is not None:
            self.contents.ranks.add(entry.rank)
        if entry.kind == "str":
            self._intern(entry.facts)
        if entry.kind in _PASSED_OVER:
            return
        if not entry.compilation:
            self._other(entry)
            return
        compile_ = self._latest.get(entry.compilation)
        if entry.kind == "chromium_event":
            if compile_ is not None and entry.payload is not None and len(compile_.phases) < MOST_PHASES:
                compile_.phases.append((entry.microseconds, entry.payload))
            return
        if compile_ is None or (compile_.metrics and _begins(entry)):
            compile_ = self._begun(entry)
        if not compile_.metrics:  # a backward graph is compiled much later, when it is first needed
            compile_.ended = max(entry.microseconds, compile_.began)
        compile_.attempts = max(compile_.attempts, min(entry.attempt, 1_000) + 1)
        self._belongs(entry, compile_)

    def _begun(self, entry: Entry) -> Compile:
        """Create a new compilation. After `torch._dynamo.reset()` torch restarts its numbering: then the name is `0/0#2`."""
        name = entry.compilation
        self._times[name] += 1
        unique = name if self._times[name] == 1 else f"{name}#{self._times[name]}"
        compile_ = self._latest[name] = self.contents.compiles[unique] = Compile(unique, entry.microseconds, thread=entry.thread)
        return compile_

    def _intern(self, facts: Any) -> None:
        if isinstance(facts, list) and len(facts) == 2 and isinstance(facts[0], str) and isinstance(facts[1], int):
            self._strings[facts[1]] = facts[0]

    def _other(self, entry: Entry) -> None:
        if entry.payload is not None:
            self.contents.others.append(Artefact(entry.kind, entry.name, 0, entry.payload))

    def _belongs(self, entry: Entry, compile_: Compile) -> None:
        facts = entry.facts if isinstance(entry.facts, dict) else {}
        if entry.kind == "dynamo_start":
            compile_.stack = self.stack_of(facts.get("stack"))
        elif entry.kind == "compilation_metrics":
            compile_.metrics = relevant_metrics(facts)
            self.contents.torch = self.contents.torch or str(facts.get("pytorch_version") or "")
        elif entry.kind == "bwd_compilation_metrics":
            compile_.backward = relevant_metrics(facts)
        elif entry.kind == "describe_source":
            compile_.inputs[_short(facts.get("source"))] = None
        elif entry.kind == "create_symbol":
            compile_.inputs[_short(facts.get("source"))] = None  # a dynamic size is an input, too
            words = (_short(facts.get(key)) for key in ("symbol", "val", "vr", "source"))
            self._symbol(compile_, "{} = {} in {}, from {}".format(*words))
        elif entry.payload is not None:
            name = entry.name or _short(facts.get("filename", ""))
            compile_.artefacts.append(Artefact(entry.kind, name, entry.attempt, entry.payload))
        elif facts:
            text = f"{entry.kind}: " + ", ".join(f"{key} {_short(value)}" for key, value in facts.items() if "stack" not in key)
            self._symbol(compile_, ev.clip(text, LONGEST_WORD))

    def _symbol(self, compile_: Compile, text: str) -> None:
        if len(compile_.symbols) < MOST_SYMBOLS:
            compile_.symbols.append(text)

    def stack_of(self, rows: Any) -> tuple[ev.UserFrame, ...]:
        """A stack as records; file names refer to the string table."""
        frames = []
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict):
                file = row.get("filename")
                named = self._strings.get(file, "?") if isinstance(file, int) else str(file or "?")
                line = row.get("line")
                number = line if isinstance(line, int) and line > 0 else 0
                frames.append(ev.UserFrame(named, number, _short(row.get("name")), _short(row.get("loc", ""))))
        return tuple(frames)


def _begins(entry: Entry) -> bool:
    """Whether this entry is the start of a compilation."""
    return entry.kind == "dynamo_start" or entry.name == "recompile_reasons"


def relevant_metrics(facts: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a compilation that are reported: those with a meaningful value."""
    metrics: dict[str, Any] = {}
    for name in _RELEVANT_METRICS:
        value = facts.get(name)
        if value not in (None, [], ""):
            metrics[name] = value if isinstance(value, int | float) else _short(value)
    began = facts.get("start_time")  # torch 2.6 reports seconds
    if "start_time_us" not in metrics and isinstance(began, int | float) and 0 < began < 1e11:
        metrics["start_time_us"] = int(began * 1e6)
    return metrics | limits_in(facts.get("dynamo_config"))


def _short(value: Any) -> str:
    return ev.clip(value if isinstance(value, str) else str(value), LONGEST_WORD)
