"""Replay: rerun a segment as plain Python after its graph raised, without calling user code again.

The idea: a graph may run user code: hooks of saved tensors, custom operators. An exception of that code must leave the function as
in eager: after the preceding side effects, from its line, into the handler that covers it. A rerun as plain Python does all of
this, provided that torch's operators compute the same (they do), and that user code is not called a second time: each call returns
the recorded result, or raises the recorded exception, at the same point.

    hooks of saved tensors    return their recorded results in order; the call that raised raises the same exception
    custom operators          the same, below autograd
    anything else             (a signal handler, Ctrl-C, a dispatch mode) is raised at the node that was running

In:  the exception, the record of the call (graph/custom_operators.py), the location of the node. Out: `Replay.run`, which calls the
plain function; `record_hook_calls`, which wraps the graph so that calls of hooks are recorded. PyTorch's counterpart: none.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

from dynexplore.engine.graph.custom_operators import CallNotes, calls
from dynexplore.engine.policy.trace_rules import OWN_FOLDER
from dynexplore.engine.translate.stack_traces import NodeLocation

_saved_tensors: Any = torch._C._autograd
_TORCH_FOLDER = torch.__path__[0]


def innermost_hooks() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """The active hooks of saved tensors; None if there are none."""
    hooks: tuple[Callable[..., Any], Callable[..., Any]] | None = _saved_tensors._top_saved_tensors_default_hooks(True)
    return hooks


@contextlib.contextmanager
def _hooks(pack: Callable[..., Any], unpack: Callable[..., Any]) -> Iterator[None]:
    _saved_tensors._push_saved_tensors_default_hooks(pack, unpack)
    try:
        yield
    finally:
        _saved_tensors._pop_saved_tensors_default_hooks()


def record_hook_calls(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a compiled graph so that each call records the results of hooks of saved tensors and of custom operators."""

    def run(*inputs: Any) -> Any:
        notes, outer = CallNotes(), calls.current
        calls.current = notes
        hooks = innermost_hooks()
        try:
            if hooks is None:
                return function(*inputs)
            with _hooks(_noting(hooks[0], notes), hooks[1]):
                return function(*inputs)
        except BaseException as raised:
            note_failure(raised, notes)
            raise
        finally:
            calls.current = outer

    return run


def _noting(pack: Callable[..., Any], notes: CallNotes) -> Callable[[torch.Tensor], Any]:
    def call(tensor: torch.Tensor) -> Any:
        try:
            packed = pack(tensor)
        except BaseException as raised:
            notes.raised = "hook", len(notes.packed), raised
            raise
        notes.packed.append(packed)
        return packed

    return call


def note_failure(raised: BaseException, notes: CallNotes) -> None:
    """Keep the record of a call that raised, for the next `notes_of` in this thread."""
    _failures.latest = raised, notes


def notes_of(raised: BaseException) -> CallNotes | None:
    """The record of the call that raised this exception; it can be taken once."""
    latest, _failures.latest = _failures.latest, None
    return latest[1] if latest is not None and latest[0] is raised else None


class _Failures(threading.local):
    latest: tuple[BaseException, CallNotes] | None = None


_failures = _Failures()


class Replay:
    """One run of a segment as plain Python in which calls of user code return recorded results."""

    def __init__(
        self,
        failure: BaseException,
        notes: CallNotes,
        location: NodeLocation | None,
        *,
        in_order: bool,
        is_raised_again: bool,
        tail: TracebackType | None,
    ) -> None:
        self.failure, self.notes, self.location = failure, notes, location
        self.in_order = in_order
        self.is_raised_again = is_raised_again
        """Whether user code raised the exception; an operator of the graph raises again by itself."""
        self.tail = tail
        self.is_over = False
        self.modes: list[TorchDispatchMode] = []

    def run(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call the plain function; raise the exception when it returns, at the latest."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._restored_modes)
            while torch._C._len_torch_dispatch_stack():  # these modes have seen the operators already
                self.modes.append(_pop_mode())
            hooks = innermost_hooks()
            if hooks is not None:
                stack.enter_context(_hooks(*self._replayed_hooks(*hooks)))
            kind = self.notes.raised[0] if self.notes.raised is not None else ""
            if self.notes.operators or kind == "operator":
                stack.enter_context(_RecordedOperators(self))
            if self.is_raised_again and not kind and self.location is not None:
                stack.enter_context(_RaiseAtNode(self, self.location))
            result = function(*args)
        if self.is_raised_again and not self.is_over:
            raise self.failure.with_traceback(self.tail)
        return result

    def throw(self) -> None:
        """Raise the exception of the user code, with that code's traceback."""
        self.is_over = True
        self._restored_modes()
        running = set(_codes(sys._getframe(1)))
        tail = self.tail
        while tail is not None and (tail.tb_frame.f_code in running or tail.tb_frame.f_code.co_filename.startswith(OWN_FOLDER)):
            tail = tail.tb_next
        raise self.failure.with_traceback(tail)

    def _restored_modes(self) -> None:
        while self.modes:
            _push_mode(self.modes.pop())

    def _replayed_hooks(
        self, pack: Callable[..., Any], unpack: Callable[..., Any]
    ) -> tuple[Callable[..., Any], Callable[..., Any]]:
        packed, raised = self.notes.packed, self.notes.raised
        count = 0

        def pack_replayed(tensor: torch.Tensor) -> Any:
            nonlocal count
            location, count = count, count + 1
            if self.is_over:
                return pack(tensor)
            if raised is not None and raised[0] == "hook" and raised[1] == location:
                self.throw()
            if location >= len(packed):
                return pack(tensor)
            return packed[location] if self.in_order else _Unpacked(tensor)  # a backend saves other tensors, in another order

        return pack_replayed, lambda value: value.tensor if type(value) is _Unpacked else unpack(value)


class _Unpacked:
    """A saved tensor for which no user hook is called: its counterpart was packed while the graph ran."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def _codes(frame: FrameType | None) -> Iterator[Any]:
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


class _RecordedOperators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Custom operators return their recorded results; the mode is below autograd, which records them as usual."""

    def __init__(self, replay: Replay) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.replay = replay
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        replay, notes = self.replay, self.replay.notes
        if not replay.is_over:
            raised = notes.raised
            if self.count < len(notes.operators) and notes.operators[self.count][0] in (func, func.overloadpacket):
                self.count += 1
                return torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, notes.operators[self.count - 1][1])
            if raised is not None and raised[0] == "operator" and raised[1] == self.count and func.namespace != "aten":
                replay.throw()
        return func(*args, **(kwargs or {}))


class _RaiseAtNode(TorchFunctionMode):
    """Raises at the torch call from which a node of the graph was captured."""

    def __init__(self, replay: Replay, location: NodeLocation) -> None:
        super().__init__()
        self.replay = replay
        self.lines = {(frame.file, frame.line) for frame in location.frames}
        self.remaining_calls = location.preceding_on_line

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.replay.is_over and self._is_at_node(func):
            if not self.remaining_calls:
                self.replay.throw()
            self.remaining_calls -= 1
        return func(*args, **(kwargs or {}))

    def _is_at_node(self, func: Any) -> bool:
        if getattr(func, "__name__", "") in _ONLY_ASKED:
            return False
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            file = frame.f_code.co_filename
            if (file, frame.f_lineno) in self.lines:
                return True
            if not file.startswith((_TORCH_FOLDER, OWN_FOLDER)):
                return False
            frame = frame.f_back
        return False


_ONLY_ASKED = frozenset({"__get__", "size", "dim", "stride", "numel", "is_contiguous", "is_floating_point", "__len__", "__hash__"})
