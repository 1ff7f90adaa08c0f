"""The compilations of one rank, in a form that can be compared with another rank's.

The idea: ranks run the same program, so they should compile the same functions, in the same order, with the same graphs and guards.
A compilation is identified by its function (file, name, and for a resume function the line where it resumes) and by the number of
earlier compilations of that function. Whatever may differ between two healthy ranks is excluded from the comparison: addresses, and
the index of each rank's own device.

In: a rank's Recording. Out: `compilations(rank, recording)`; `Compilation`.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.recording.recording import GraphView, Recording
from dynexplore.views.break_places import library_line, own_line
from dynexplore.views.guard_words import check_of
from dynexplore.views.headline import LONGEST_CODE, cause_in_the_program
from dynexplore.views.miss_reasons import reasons_of
from dynexplore.views.names import calling_line, frame_code, frame_name, is_entry, is_library, is_torchs_entry, short_file

Key = tuple[str, str, int]
"""File, name and first line of a function, the same on all ranks."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """One frame that a rank compiled, or skipped. `number` counts those of the same function from 1; `begins` is in seconds since
    1970 by the clock of the rank's host (None: unknown). `cause` is the reason of a recompile.
    """

    rank: int
    frame: int
    key: Key
    name: str
    number: int
    begins: float | None
    seconds: float
    outcome: str
    cause: str
    graphs: tuple[GraphView, ...]
    guards: tuple[str, ...]
    breaks: tuple[str, ...]
    failure: str

    @property
    def place(self) -> str:
        """The place: `model.py:12`."""
        return f"{short_file(self.key[0])}:{self.key[2]}" if self.key[2] else short_file(self.key[0])

    @property
    def is_compiled(self) -> bool:
        """Whether it resulted in compiled code: frames without tensor operations are inspected and skipped."""
        return self.outcome == "compiled" or bool(self.graphs or self.breaks or self.failure)

    @property
    def is_library(self) -> bool:
        """Whether it is library code, and not the program's own."""
        return is_library(self.key[0])

    @property
    def operators(self) -> int:
        """The number of operators in its graphs."""
        return sum(graph.op_count for graph in self.graphs)


def compilations(rank: int, recording: Recording) -> list[Compilation]:
    """The compilations of a rank, in order."""
    return _Reading(rank, recording).all()


class _Reading:
    def __init__(self, rank: int, recording: Recording) -> None:
        self.rank = rank
        self.recording = recording
        self.seen: Counter[Key] = Counter()
        self.entered: dict[int, int] = {}
        self.finished_at: dict[int, int] = {}
        for position, event in enumerate(recording):
            if isinstance(event, ev.FrameEntered):
                self.entered.setdefault(event.frame, position)
            elif isinstance(event, ev.FrameFinished):
                self.finished_at[event.frame] = position
        self.graphs: dict[int, list[GraphView]] = {}
        for graph in recording.graphs:
            self.graphs.setdefault(graph.frame, []).append(graph)
        self.guards: dict[int, list[str]] = {}
        for guard in recording.guards:
            self.guards.setdefault(guard.frame, []).append(guard_words(guard))

    def all(self) -> list[Compilation]:
        return [self.compilation_of(entered) for entered in self.recording.frames]

    def compilation_of(self, entered: ev.FrameEntered) -> Compilation:
        recording, frame = self.recording, entered.frame
        key = _key(recording, entered)
        self.seen[key] += 1
        finished = recording.of_frame(frame, ev.FrameFinished)
        begins, seconds = self.times(frame, finished[-1].seconds if finished else 0.0)
        return Compilation(
            self.rank, frame, key, key[1], self.seen[key], begins, seconds,
            outcome=finished[-1].outcome if finished else "not finished",
            cause=_cause(recording, frame),
            graphs=tuple(self.graphs.get(frame, ())),
            guards=tuple(dict.fromkeys(self.guards.get(frame, ()))),
            breaks=tuple(_break_words(recording, broke) for broke in recording.of_frame(frame, ev.GraphBroke)),
            failure=_failure(recording, frame),
        )  # fmt: skip

    def times(self, frame: int, seconds: float) -> tuple[float | None, float]:
        """When it began, and how long it took: as recorded, else the time between its first and last event."""
        first = self.recording.moment(self.entered[frame])
        last = self.recording.moment(self.finished_at[frame]) if frame in self.finished_at else None
        if first is None:
            return None, seconds
        return first.wall, seconds or (last.wall - first.wall if last is not None else 0.0)


def _key(recording: Recording, entered: ev.FrameEntered) -> Key:
    """File, name and line: for a module wrapped by torch.compile those of its `forward`, otherwise the program's line of the
    call.
    """
    code = entered.code if entered.code.resumes >= 0 else frame_code(recording, entered)
    name = frame_name(recording, entered)
    if is_entry(code) or is_torchs_entry(code):
        caller = calling_line(recording, entered)
        return (caller.file, name, caller.line) if caller is not None else (short_file(recording.title), name, 0)
    return short_file(code.file) if is_library(code.file) else code.file, name, code.first_line


_MOST_REASONS = 3
"""The maximum number of recompile reasons in one line."""


def _cause(recording: Recording, frame: int) -> str:
    again = recording.of_frame(frame, ev.Recompiled)
    if not again:
        return ""
    reasons = [str(reason.change) for reason in reasons_of(recording, frame)]
    return "; ".join(reasons[:_MOST_REASONS]) if reasons else again[0].reason


def _failure(recording: Recording, frame: int) -> str:
    limits = recording.of_frame(frame, ev.CacheLimitReached)
    if limits:
        return f"the limit of {limits[0].limit} entries is reached, it runs as plain Python from then on"
    failures = recording.of_frame(frame, ev.BackendFailed)
    if failures:
        return f"the backend {failures[0].backend} failed: {(failures[0].error.strip().splitlines() or ['no reason is given'])[0]}"
    bugs = recording.of_frame(frame, ev.EngineFailed)
    return f"the engine failed: {bugs[0].error}" if bugs else ""


def _break_words(recording: Recording, broke: ev.GraphBroke) -> str:
    line = own_line(broke, recording) or library_line(broke)  # the cause ends with a library's line
    place = f"{short_file(line.file)}:{line.line}" if line is not None else "an unknown line"
    code = f" (`{ev.clip(line.code.strip(), LONGEST_CODE)}`)" if line is not None and line.code.strip() else ""
    return f"at {place}{code}: {cause_in_the_program(broke, line.code if line is not None else '')}"


# -- normalization for comparison ------------------------------------------------------------------------------------------

_DEVICE = re.compile(r"\b(cuda|xpu|hpu|npu|privateuseone):\d+|\b(device=(?:type=)?'?(?:cuda|xpu)'?, index=)\d+|\bdevice=\d+")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b|\b\d{10,}\b")
_IDENTITY = re.compile(r"(___check_(?:type|obj)_id\(.*?, )\d+(?=[,)])")
_COUNTER = re.compile(
    r"(__compiled_fn|__resume_at|torch_dynamo_resume_in_\w+?_at|___dict_version|___\w+?)_\d+\w*|\b(__[a-z]\w*?)_\d+\b"
)
_OF_ONE_OBJECT = re.compile(r"\b(\w*?)_\d{6,}_c\d+\b")


def same_words(words: str) -> str:
    """A text without the parts that differ between equal ranks: addresses, device indices, numbers of generated names.

    >>> same_words("___check_obj_id(x, 94387209114240) on cuda:3")
    '___check_obj_id(x, ...) on cuda'
    >>> same_words("___check_type_id(x, 752625424), type=<class 'Net'>")
    "___check_type_id(x, ...), type=<class 'Net'>"

    torch.compile adds globals to a module under generated names, with a counter, or with the address of the object.

    >>> same_words("__builtins_dict___10['str'], _140326311297808_c4.Tensor, layer_10")
    "__builtins_dict__['str'], _.Tensor, layer_10"
    """
    plain = _DEVICE.sub(lambda match: match[1] or match[2] or "device", words)
    plain = _OF_ONE_OBJECT.sub(lambda match: match[1] or "_", _IDENTITY.sub(r"\1...", plain))
    return _COUNTER.sub(lambda match: match[1] or match[2], _ADDRESS.sub("...", plain))


def guard_words(guard: ev.GuardInstalled) -> str:
    """The normalized text of a guard: its source, what it checks, and its expected value."""
    about = guard.source or guard.scope or "the process"
    condition = guard.expected if guard.kind in _EXPECTED_SAYS_IT and guard.expected else guard.expression or guard.expected
    check = f"`{about}` ({check_of(guard.kind)})"
    return same_words(f"{check}: {condition}" if condition else check)


_EXPECTED_SAYS_IT = ("TENSOR_MATCH", "EQUALS", "EQUALS_MATCH", "CONSTANT_MATCH", "TYPE_MATCH")


def node_words(node: ev.NodeAdded) -> str:
    """The normalized text of a node.

    >>> node_words(
    ...     ev.NodeAdded(
    ...         frame=1,
    ...         graph="g",
    ...         name="add",
    ...         op="call_function",
    ...         target="add",
    ...         args="(x, 1)",
    ...         dtype="float32",
    ...         shape="[4]",
    ...         device="cuda:1",
    ...     )
    ... )
    'add = add(x, 1) -> float32[4] cuda'
    """
    if node.op == "placeholder":
        shown = f"input `{node.target}`"
    elif node.op == "output":
        shown = f"output {node.args}"
    else:
        more = "" if node.kwargs in ("", "{}") else f" {node.kwargs}"
        shown = f"{node.name} = {node.target}{node.args}{more}"
    return same_words(f"{shown} -> {node.dtype}{node.shape} {node.device}".rstrip() if node.dtype else shown)


_COLLECTIVE = re.compile(
    r"_?c10d(?:_functional)?\b.*?(all_reduce|all_gather|reduce_scatter|broadcast|all_to_all|barrier)\w*"
    r"|\b(all_reduce|all_gather|reduce_scatter|all_to_all_single|broadcast)(?:_into_tensor|_tensor|_single|_coalesced)?_?\b"
)


def collectives_of(graph: GraphView) -> list[str]:
    """The collectives in a graph, in order, each with the sizes of its result."""
    nodes = [node for node in graph.nodes if node.op == "call_function" and _is_collective(node)]
    return [same_words(f"{node.target.rpartition('.')[2] or node.target} of {node.dtype}{node.shape}") for node in nodes]


def _is_collective(node: ev.NodeAdded) -> bool:
    return "wait_tensor" not in node.target and bool(_COLLECTIVE.search(node.target))
