"""The debug printout: text about each translated frame.

The idea: the printout is a view like any other (views/text.py), created from a recording. If one is requested without an active
recorder, a recording is created for the one frame, printed, and dropped.

- `config.debug`, or parts of it by `config.logs`: graph, original and modified bytecode, guards, breaks; on standard output.
- `config.output_code`: original and modified bytecode.
- `config.log_level` "INFO": a line, code and graph for each function that was compiled; "DEBUG": every instruction.

In: the recorder of a frame. Out: text; with `config.debug` also the graph that torch.fx.symbolic_trace creates from the function.

PyTorch's counterpart: TORCH_LOGS, in torch/_logging/_internal.py.
"""

from __future__ import annotations

import contextlib
import io
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dynexplore.engine import events as ev
from dynexplore.engine.config import config
from dynexplore.engine.graph.fake_mode import facts_of
from dynexplore.engine.native import FrameState, function_of
from dynexplore.engine.recorder import Recorder, entry_number
from dynexplore.engine.runtime import reports
from dynexplore.engine.runtime.cache import slot_values
from dynexplore.engine.translate.resume import resume_point
from dynexplore.recording.recording import Recording
from dynexplore.views import text

_DEBUG_PARTS = ("graph", "bytecode", "guards", "breaks")


class _TeeRecorder:
    """A recorder that forwards everything to two others."""

    def __init__(self, first: Recorder, second: Recording) -> None:
        self.first, self.recording = first, second

    def record(self, event: ev.Event) -> None:
        """Record one event."""
        self.first.record(event)
        self.recording.record(event)

    def next_frame_id(self) -> int:
        """The frame number from the first recorder."""
        return self.first.next_frame_id()

    def next_entry_number(self) -> int:
        """A new cache entry's number, from the first recorder."""
        return entry_number(self.first)


def _parts() -> tuple[str, ...]:
    """The requested parts."""
    parts = list(_DEBUG_PARTS) if config.debug else []
    if config.output_code:
        parts.append("bytecode")
    return tuple(part for part in dict.fromkeys([*parts, *config.logs]) if part != "recompiles")  # printed when it happens


def watching(recorder: Recorder | None) -> Recorder | None:
    """The recorder for one frame: the existing one, plus a recording if a printout is requested."""
    if recorder is None:
        return Recording()
    return recorder if isinstance(recorder, Recording) else _TeeRecorder(recorder, Recording())


def show(recorder: Recorder | None, frame: int, state: FrameState) -> None:
    """Print and log the requested parts, when the frame is done."""
    recording = recorder.recording if isinstance(recorder, _TeeRecorder) else recorder
    if not isinstance(recording, Recording):
        return
    if not recording.of_frame(frame, ev.FrameEntered):
        return
    parts = _parts()
    if config.debug:
        _capture_otherwise(recording, frame, state)
    if parts:
        print(text.debug_printout(recording, frame, parts), end="\n\n")
    _log(recording, frame)


def _log(recording: Recording, frame: int) -> None:
    finished = recording.of_frame(frame, ev.FrameFinished)
    code = recording.frame(frame).code
    if finished and finished[-1].outcome == "compiled":
        parts = ("graph", "bytecode", "guards", "steps") if config.log_level == "DEBUG" else ("graph", "bytecode")
        printed = text.debug_printout(recording, frame, parts)
        reports.log("INFO", f"compiled {code.qualname} ({code.file}:{code.first_line})\n{printed}")


# -- torch.fx's capture, for comparison ----------------------------------------------------------------------

_METHOD = "torch.fx.symbolic_trace"


def _capture_otherwise(recording: Recording, frame: int, state: FrameState) -> None:
    """Let torch.fx capture the function too, if running it again with proxies has no visible effect."""
    if resume_point(state.code) is not None or not _runs_unseen(recording, frame):
        return
    numbers = random.getstate()
    try:
        with _silence(), _OnlyReads():
            graph = _trace(function_of(state), slot_values(state))
    except Exception as error:  # the function may do anything with proxies
        failure = " ".join(f"{type(error).__name__}: {error}".split())
        recording.record(ev.CapturedOtherwise(frame=frame, method=_METHOD, failure=ev.clip(failure, 400)))
        return
    finally:
        random.setstate(numbers)
    recording.record(ev.CapturedOtherwise(frame=frame, method=_METHOD, nodes=tuple(map(_row, graph.nodes))))


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Nothing that this second run prints, and no warning of it or of torch.fx, reaches the program."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _runs_unseen(recording: Recording, frame: int) -> bool:
    """Whether the function has no side effects: only then is it run again for comparison."""
    if recording.of_frame(frame, ev.MutationRecorded):
        return False
    if recording.of_frame(frame, ev.FrameSkipped):
        return False
    return all(broke.kind in ("DX104", "DX109") for broke in recording.of_frame(frame, ev.GraphBroke))


class _OnlyReads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Rejects operators whose effect outlives the trace: writes to existing tensors, and random numbers.

    An operation on a proxy becomes a node; an operation on a tensor from the function's closure is really executed.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._allocated: dict[int, torch.UntypedStorage] = {}  # memory that the trace itself allocated

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Execute one operator, or raise."""
        facts = facts_of(func)
        if facts.random:
            raise RuntimeError(f"{func} draws random numbers, which the program would miss")
        call_kwargs = kwargs or {}
        written = [args[place] if place < len(args) else call_kwargs.get(name) for place, name in facts.written]
        if any(key not in self._allocated for key in _storages(written)):
            raise RuntimeError(f"{func} mutates a tensor that existed before the trace")
        result = func(*args, **call_kwargs)
        before = _storages([args, call_kwargs])
        self._allocated |= {key: storage for key, storage in _storages(result).items() if key not in before}
        return result


def _storages(values: Any) -> dict[int, torch.UntypedStorage]:
    tensors = [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]
    storages = [tensor.untyped_storage() for tensor in tensors]
    return {storage._cdata: storage for storage in storages}


def _trace(function: Callable[..., Any], values: dict[str, object]) -> torch.fx.Graph:
    tracer = torch.fx.Tracer()
    first = next(iter(values.values()), None)
    if isinstance(first, torch.nn.Module) and getattr(type(first), "forward", None) is function:
        return tracer.trace(first)
    concrete = {name: value for name, value in values.items() if not isinstance(value, torch.Tensor)}
    return tracer.trace(function, concrete)


def _row(node: torch.fx.Node) -> ev.NodeRow:
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    return ev.NodeRow(node.op, node.name, target, ev.clip(str(node.args)), ev.clip(str(node.kwargs)))
