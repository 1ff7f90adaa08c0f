"""The search for targets: a program runs as plain Python, and what captures one is loaded when the first is called.

Which idea lives here: the program runs in a region whose callback translates nothing. It asks targets.py about each frame that
begins, once per code object where the answer cannot change. A target is a *visit*: that frame, and all that it calls, belongs to
the region of a recording store until it has ended (native/frame_hook.c). Imports run with the hook off. The engine takes longer to
import than many a script takes to run, so this file imports little of it: `begin` brings the rest (program_capture.py) at the
first target.

A program may also be ended because enough was seen: after a number of calls, or when its time is over (`end`). A call that is
being captured at that moment is finished first.

In:  a program as a function, `Targets`, a recording, `begin`. Out: `TargetSearch`: what was chosen and what was passed by.

PyTorch has no counterpart.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch

from dynexplore.engine import events as ev
from dynexplore.engine.bytecode.versions import PYTHON
from dynexplore.engine.display_paths import shown_file, shown_line
from dynexplore.engine.native import CacheStore, FrameState, Region, RegionCall, skip_code_recursively, unskip_code
from dynexplore.engine.policy.trace_rules import OWN_FOLDER
from dynexplore.engine.recorder import Recorder
from dynexplore.engine.runtime import foreign_modes
from dynexplore.recording.recording import Recording
from dynexplore.session.targets import MODULE_CALL, Choice, Targets

Visit = tuple[Region, Callable[[Any, BaseException | None], object]]
"""The region that a frame belongs to, and what is called with its value or its exception when it has ended."""

MOST_REFUSALS = 50
"""A function that was no target in so many calls is asked about no more."""


class ProgramStopped(BaseException):
    """Ends the program in good order, because enough was seen: no `except Exception` of its own stops it."""


class Capture(Protocol):
    """What captures the targets that a search chooses."""

    @property
    def notices(self) -> Sequence[str]:
        """What the backend lacked, in sentences."""

    def visit(self, state: FrameState, choice: Choice, call: int, caller: ev.UserFrame | None) -> Visit:
        """Call number `call` begins, on this line of the program."""


class TargetSearch:
    """A program that runs, and the targets in it.

    Attributes: `recording`; `targets`, which also knows what was passed by; `call_count`, calls of targets so far; `capturing`,
    the name of the target that is being called ("" outside of one) and `since`, when its call began.
    """

    def __init__(
        self,
        targets: Targets,
        recording: Recording,
        begin: Callable[[TargetSearch], Capture],
        *,
        most_calls: int = 0,
        on_target: Callable[[Choice], None] | None = None,
        on_torch_compile: Callable[[], None] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """Args: begin: makes what captures, at the first target; recorder: takes the events, in place of the recording itself."""
        self.targets = targets
        self.recording = recording
        self.recording.versions = self.recording.versions or f"Python {PYTHON}, torch {torch.__version__}"
        self.call_count = 0
        self.capturing = ""
        self.since = 0.0
        self._begin = begin
        self._capture: Capture | None = None
        self._recorder = recorder or recording
        self._most_calls = most_calls
        self._on_target = on_target
        self._on_torch_compile = on_torch_compile
        self._unannounced: Choice | None = None
        self._end_reason = ""
        self._is_ending = False
        self._process = os.getpid()
        self._chosen: dict[tuple[str, str, int], Choice] = {}
        self._region = Region(CacheStore(), self._on_frame)
        self._runs_plain = _CompiledRunsPlain()
        self._torch_compile_code: types.CodeType | None = foreign_modes.code_of_compile()

    @property
    def chosen(self) -> list[Choice]:
        """The targets that were called, in the order of their first call."""
        return list(self._chosen.values())

    @property
    def notices(self) -> list[str]:
        """What the backend lacked, in sentences."""
        return list(self._capture.notices) if self._capture is not None else []

    def run(self, program: Callable[[], Any]) -> Any:
        """Run the program; what it returns. Its exceptions are raised."""
        __tracebackhide__ = True
        unskip_code(MODULE_CALL)  # a region of the engine that met it has marked it
        try:
            with imports_unhooked():
                return RegionCall(program, self._region)()
        finally:
            self._runs_plain.end()

    def stop_choosing(self) -> None:
        """Choose no more targets; the program runs on as plain Python, and the hook leaves it alone."""
        self._region.callback = self._region.store = None

    def end(self, reason: str, *, at_once: bool = False) -> None:
        """End the program, from its main thread: now, or after the call that is being captured.

        Raises ProgramStopped, once. A call in another thread is waited for by asking again. at_once: nothing is waited for.
        """
        if self._is_ending and not at_once:
            return
        if self.capturing and not at_once:
            self._end_reason = reason
            return
        self._stop(reason)

    def _stop(self, reason: str) -> None:
        self._is_ending = True
        raise ProgramStopped(reason)

    # -- the callback of the region

    def _on_frame(self, state: FrameState) -> Visit | None:
        if os.getpid() != self._process:  # a worker that was forked: it runs plain
            self.stop_choosing()
            return None
        if state.code is self._torch_compile_code:
            self._torch_compile(state.values[0])
            return None
        if foreign_modes.is_wrapper(state.code):  # of something that was compiled while a module was imported
            self._torch_compile(None)
            state.cache.skip = True
            return None
        choice = self.targets.decide(state)
        if not choice.is_target:
            self._note_refusal(state, choice)
            return None
        if self._most_calls and self.call_count >= self._most_calls:
            self._stop(f"after {self._most_calls} captured calls (--calls)")
        return self._visit(state, choice)

    def _note_refusal(self, state: FrameState, choice: Choice) -> None:
        if state.code is MODULE_CALL:
            return
        if choice.answer == "never":
            state.cache.skip = True
            return
        refusals = (state.cache.payload or 0) + 1
        state.cache.payload = refusals
        state.cache.skip = refusals >= MOST_REFUSALS

    def _torch_compile(self, target: Any) -> None:
        """The program gives `target` to torch.compile (None: as a decorator, or it did so before)."""
        compile_targets = self.targets.given_to_compile
        if compile_targets is not None:
            self._runs_plain.set()
            if target is not None and not any(earlier is target for earlier in compile_targets):
                compile_targets.append(target)
        elif self._on_torch_compile is not None:
            self._on_torch_compile()
            if self._is_called_by_the_program():
                self.stop_choosing()

    def _is_called_by_the_program(self) -> bool:
        """Whether the program itself calls torch.compile: what a library compiles for itself says nothing of the rest."""
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None and (frame.f_code.co_filename.startswith(OWN_FOLDER) or _is_torch(frame.f_code.co_filename)):
            frame = frame.f_back
        return frame is not None and self.targets.is_own(frame.f_code.co_filename)

    def _visit(self, state: FrameState, choice: Choice) -> Visit:
        state.cache.payload = -sys.maxsize  # a target stays one: its code is always asked about
        self.capturing, self.since = choice.name, time.monotonic()
        try:
            if self._capture is None:
                self._capture = self._begin(self)
            self.call_count += 1
            caller = self._own_caller()
            self._note_choice(choice, caller)
            return self._capture.visit(state, choice, self.call_count, caller)
        except BaseException:
            self.capturing = ""
            raise

    def _own_caller(self) -> ev.UserFrame | None:
        """The innermost line of the program itself that led here; None where only libraries call."""
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None and not self.targets.is_own(frame.f_code.co_filename):
            frame = frame.f_back
        return None if frame is None else shown_line(frame, frame.f_lineno)

    def _note_choice(self, choice: Choice, caller: ev.UserFrame | None) -> None:
        """Report a target when it is called for the first time."""
        key = (choice.name, choice.file, choice.line)
        if key in self._chosen:
            return
        if caller is not None and not self.targets.is_own(choice.file):
            choice = replace(choice, caller=f"{os.path.basename(caller.file)}:{caller.line}")
        self._chosen[key] = choice
        self._recorder.record(
            ev.TargetChosen(
                frame=0, name=choice.name, file=shown_file(choice.file), line=choice.line, row=choice.row, why=choice.why
            )
        )
        if choice.row == "function on tensors":  # it may turn out to have no tensor operation
            self._unannounced = choice
        elif self._on_target is not None:
            self._on_target(choice)

    def _announce(self) -> None:
        """Report a function of the program once something of it was captured."""
        choice, self._unannounced = self._unannounced, None
        if choice is not None and self._on_target is not None and self.recording.of(ev.SubgraphCompiled):
            self._on_target(choice)

    def call_ended(self) -> None:
        """The call of a target is over: the search goes on, or the program ends, where that waited for this call."""
        self.capturing = ""
        self._announce()
        for code in (MODULE_CALL, self._torch_compile_code, *foreign_modes.code_of_wrappers()):
            if code is not None:
                unskip_code(code)  # the engine marks what is plain in its own regions; the search asks about these again
        if self._end_reason and threading.current_thread() is threading.main_thread():
            self._stop(self._end_reason)

    # -- when it is over

    def note_passed(self) -> None:
        """Record what was called and not captured, so that a reader who looks for it finds the reason."""
        for passed in self.targets.passed.values():
            choice = passed.choice
            self._recorder.record(
                ev.TargetPassed(
                    frame=0,
                    name=choice.name,
                    file=shown_file(choice.file),
                    line=choice.line,
                    row=choice.row,
                    why=choice.why,
                    calls=passed.calls,
                )
            )


class _CompiledRunsPlain:
    """While the program runs, what torch.compile made runs as plain Python, so that this engine captures it instead."""

    def __init__(self) -> None:
        self._stances = contextlib.ExitStack()
        self._is_set = False

    def set(self) -> None:
        """torch.compile is called for the first time."""
        if not self._is_set:
            self._is_set = True
            self._stances.enter_context(torch.compiler.set_stance("force_eager"))

    def end(self) -> None:
        """torch.compile compiles again."""
        self._stances.close()


def _is_torch(file: str) -> bool:
    return file.startswith(os.path.dirname(torch.__file__) + os.sep)


@contextlib.contextmanager
def imports_unhooked() -> Iterator[None]:
    """While the block runs, imports run with the hook off: nothing below one is a target, and it costs what it costs in Python."""
    bootstrap: Any = sys.modules["_frozen_importlib"]
    codes = [bootstrap._find_and_load.__code__, bootstrap._find_spec.__code__]  # `python -m` asks for the second by itself
    for code in codes:
        skip_code_recursively(code)
    try:
        yield
    finally:
        for code in codes:
            unskip_code(code)
