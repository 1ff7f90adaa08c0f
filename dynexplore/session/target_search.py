"""The search for targets: a program runs as plain Python, and the engine is loaded when the first target is called.

The idea: the program runs in a region whose callback translates nothing. It asks targets.py about each frame that begins, once per
code object if the answer cannot change. A target is a *visit*: that frame, and all that it calls, belongs to the region of a
recording store until it has ended (native/frame_hook.c). Imports run with the hook off. Importing the engine takes longer than
running many scripts, so this file imports little of it: `begin` imports the rest (program_capture.py) at the first target.

A program may also be ended early: after a number of calls, or when its time is up (`end`). A call that is being captured at that
moment is finished first.

In: a program as a function, `Targets`, a recording, `begin`. Out: `TargetSearch`: the frames that were selected and those that were
not.

PyTorch's counterpart: none.
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
from dynexplore.session.call_facts import MODULE_CALL
from dynexplore.session.targets import Choice, Targets

Visit = tuple[Region, Callable[[Any, BaseException | None], object]]
"""The region that a frame belongs to, and the callback for its return value or exception when it has ended."""

MOST_REFUSALS = 50
"""A function that was not a target in this many calls is not checked any more."""


class ProgramStopped(BaseException):
    """Ends the program early; the program's `except Exception` does not catch it."""


class Capture(Protocol):
    """Captures the targets that a search selects."""

    @property
    def notices(self) -> Sequence[str]:
        """What the backend is missing, in sentences."""

    def visit(self, state: FrameState, choice: Choice, call: int, caller: ev.UserFrame | None) -> Visit:
        """Called when call number `call` begins, from this line of the program."""


class TargetSearch:
    """A running program, and the targets in it.

    Attributes: `recording`; `targets`, which also holds the frames that were not captured; `call_count`, calls of targets so far;
    `capturing`, the name of the target that is being called ("" outside of one) and `since`, when its call began.
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
        """Args: begin: creates the capture, at the first target; recorder: receives the events, instead of the recording itself."""
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
        """What the backend is missing, in sentences."""
        return list(self._capture.notices) if self._capture is not None else []

    def run(self, program: Callable[[], Any]) -> Any:
        """Run the program; return its value. Its exceptions propagate."""
        __tracebackhide__ = True
        unskip_code(MODULE_CALL)  # another region of the engine may have marked it as skipped
        try:
            with imports_unhooked():
                return RegionCall(program, self._region)()
        finally:
            self._runs_plain.end()

    def stop_choosing(self) -> None:
        """Select no more targets; the rest of the program runs as plain Python, without the hook."""
        self._region.callback = self._region.store = None

    def end(self, reason: str, *, at_once: bool = False) -> None:
        """End the program, from its main thread: now, or after the call that is being captured.

        Raises ProgramStopped, once. Call again to wait for a call in another thread. at_once: do not wait for anything.
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
        if os.getpid() != self._process:  # a forked worker: it runs as plain Python
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
        """Called when the program passes `target` to torch.compile (None: as a decorator, or earlier)."""
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
        """Whether the program itself calls torch.compile: a library's internal use does not determine the engine."""
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None and (frame.f_code.co_filename.startswith(OWN_FOLDER) or _is_torch(frame.f_code.co_filename)):
            frame = frame.f_back
        return frame is not None and self.targets.is_own(frame.f_code.co_filename)

    def _visit(self, state: FrameState, choice: Choice) -> Visit:
        state.cache.payload = -sys.maxsize  # once a target, always a target: its code is checked at each call
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
        """The innermost line of the program itself on the stack; None if only libraries are."""
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
        """Called when a target's call has ended: continue the search, or end the program if that waited for this call."""
        self.capturing = ""
        self._announce()
        for code in (MODULE_CALL, self._torch_compile_code, *foreign_modes.code_of_wrappers()):
            if code is not None:
                unskip_code(code)  # the engine marks skipped code in its own regions; the search checks it again
        if self._end_reason and threading.current_thread() is threading.main_thread():
            self._stop(self._end_reason)

    # -- when the program has ended

    def note_passed(self) -> None:
        """Record what was called but not captured, so that readers find the reason."""
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
    """While the program runs, functions compiled by torch.compile run as plain Python, so that this engine captures them
    instead.
    """

    def __init__(self) -> None:
        self._stances = contextlib.ExitStack()
        self._is_set = False

    def set(self) -> None:
        """Activate at the first call of torch.compile."""
        if not self._is_set:
            self._is_set = True
            self._stances.enter_context(torch.compiler.set_stance("force_eager"))

    def end(self) -> None:
        """Let torch.compile compile again."""
        self._stances.close()


def _is_torch(file: str) -> bool:
    return file.startswith(os.path.dirname(torch.__file__) + os.sep)


@contextlib.contextmanager
def imports_unhooked() -> Iterator[None]:
    """Disable the hook for imports during the block: no frame below an import is a target, and imports run at normal speed."""
    bootstrap: Any = sys.modules["_frozen_importlib"]
    codes = [bootstrap._find_and_load.__code__, bootstrap._find_spec.__code__]  # `python -m` calls the second one directly
    for code in codes:
        skip_code_recursively(code)
    try:
        yield
    finally:
        for code in codes:
            unskip_code(code)
