"""A program under the engine: its targets are captured, everything else runs as plain Python.

The idea: target_search.py runs the program and finds the targets; this file captures them, all into one recording. A function has
one cache, as under `optimize`; each instance of a module whose `forward` belongs to a library (`nn.Sequential`) has its own,
because users compile instances.

In: the frame of a target that begins, a backend. Out: `TargetCapture`, the visits of a search; `ProgramCapture`, search and capture
combined.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from dynexplore.engine import events as ev
from dynexplore.engine.native import FrameState, RegionCall
from dynexplore.engine.recorder import Recorder
from dynexplore.engine.runtime import reports
from dynexplore.engine.runtime.api import make_store
from dynexplore.engine.runtime.backends import CompilerFn, resolve
from dynexplore.engine.runtime.stores import Options, Store
from dynexplore.recording.recording import Recording
from dynexplore.session.call_facts import MODULE_CALL
from dynexplore.session.session import watched_store
from dynexplore.session.target_search import TargetSearch, Visit
from dynexplore.session.targets import Choice, Targets, call_of


class TargetCapture:
    """The stores that capture the targets of a search, all into its recording."""

    def __init__(
        self,
        search: TargetSearch,
        *,
        backend: str | CompilerFn = "eager",
        options: Options | None = None,
        real: bool = True,
        store: Store | None = None,
    ) -> None:
        """Args: store: an existing store (of a notebook cell) that writes the recording, instead of a new one with this backend."""
        self._search = search
        self._backend = resolve(backend) if store is None else store.backend
        self._options = (options or Options()) if store is None else store.options
        self.store = store or watched_store(self._backend, self._options, search.recording, real=real)
        self._recorder: Recorder = self.store.observers.recorder or search.recording
        self._of_instances: weakref.WeakKeyDictionary[torch.nn.Module, Store] = weakref.WeakKeyDictionary()

    @property
    def notices(self) -> list[str]:
        """What the backend is missing, in sentences."""
        return list(self.store.observers.notices or ())

    def visit(self, state: FrameState, choice: Choice, call: int, caller: ev.UserFrame | None) -> Visit:
        """Called when call number `call` begins, from this line of the program."""
        args, kwargs = _arguments(state)
        began = reports.call_began(call, args, kwargs, choice.name)
        self._recorder.record(began if caller is None else replace(began, caller=caller))
        before = len(self._search.recording)
        return self._store_for(state).region, functools.partial(self._ended, call, before)

    def _ended(self, call: int, before: int, value: Any, error: BaseException | None) -> None:
        if error is None:
            self._note_returned(value, before)
        self._recorder.record(ev.CallEnded(frame=0, call=call, error=type(error).__name__ if error is not None else ""))
        self._search.call_ended()

    def _note_returned(self, value: Any, before: int) -> None:
        """Record the call's return value with the first frame of this call, and with the resume functions that continued it."""
        observer, frames = self.store.observers.run, self._search.recording.frames_since(before)
        if observer is None or not frames:
            return
        frame: int | None = frames[0].frame
        while frame is not None:
            observer.returned(frame, value)
            frame = max((event.frame for event in frames if event.parent == frame and event.code.resumes >= 0), default=None)

    def _store_for(self, state: FrameState) -> Store:
        """The shared store, or that of an instance whose `forward` is shared with other instances."""
        if state.code is not MODULE_CALL or not self._is_library_forward(state.values[0]):
            return self.store
        module: torch.nn.Module = state.values[0]
        store = self._of_instances.get(module)
        if store is None:
            store = self._of_instances[module] = make_store(self._backend, self._options)
            store.observers = self.store.observers
            store.region.on_hit = functools.partial(reports.hit, store)
        return store

    def _is_library_forward(self, module: torch.nn.Module) -> bool:
        code = getattr(getattr(type(module), "forward", None), "__code__", None)
        return isinstance(code, types.CodeType) and not self._search.targets.is_own(code.co_filename)


def _arguments(state: FrameState) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if state.code is MODULE_CALL:
        return tuple(state.values[1]), dict(state.values[2])
    _, args, kwargs = call_of(state)
    return args, kwargs


class ProgramCapture(TargetSearch):
    """A search together with the capture of its targets, created at once."""

    def __init__(
        self,
        title: str,
        targets: Targets,
        *,
        backend: str | CompilerFn = "eager",
        options: Options | None = None,
        real: bool = True,
        most_calls: int = 0,
        captures_all: bool = False,
        on_target: Callable[[Choice], None] | None = None,
        on_torch_compile: Callable[[], None] | None = None,
        recorded: tuple[Recording, Store] | None = None,
    ) -> None:
        """Args: recorded: an existing recording and the store that writes it (of a notebook cell), instead of new ones with this
        backend.
        """
        recording, store = recorded or (Recording(title=title), None)
        super().__init__(
            targets,
            recording,
            lambda search: self._of_targets,
            most_calls=most_calls,
            on_target=on_target,
            on_torch_compile=on_torch_compile,
            recorder=store.observers.recorder if store is not None else None,
        )
        self._captures_all = captures_all
        self._of_targets = TargetCapture(self, backend=backend, options=options, real=real, store=store)

    @property
    def notices(self) -> list[str]:
        """What the backend is missing, in sentences."""
        return self._of_targets.notices

    def run(self, program: Callable[[], Any]) -> Any:
        """Run the program; return its value. Its exceptions propagate. With `captures_all`, each of its frames is translated."""
        __tracebackhide__ = True
        return RegionCall(program, self._of_targets.store.region)() if self._captures_all else super().run(program)
