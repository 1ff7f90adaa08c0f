"""The live side of a recording: the function, the inputs, and the cache entries that its calls created.

The idea: a recording is plain data. Questions that need live objects go to the `Session` that belongs to it: more calls into the
same cache (`call`), the verdict of each guard on another input (`check`), what another call would do (`predict`, `what_if`), the
result of edited source (`rerun`), and stepping through the same call (`live`). All but `call` leave cache, counters, random state
and inputs unchanged. The function is referenced weakly, the inputs of the latest call strongly. notebook_session.py extends it for
notebook cells.

In: a function, its store, a recording. Out: answers.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from dynexplore.engine import events as ev
from dynexplore.engine import native
from dynexplore.engine.counters import counters
from dynexplore.engine.native import CodeCache, RegionCall
from dynexplore.engine.recorder import Recorder
from dynexplore.engine.runtime import optimized, reports
from dynexplore.engine.runtime.api import make_store
from dynexplore.engine.runtime.backends import Backend, CompilerFn, resolve
from dynexplore.engine.runtime.cache import CompiledEntry, fits
from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.engine.runtime.stores import Options, Store
from dynexplore.recording.recording import Recording
from dynexplore.second_opinion.step_checker import StepChecker
from dynexplore.session import changed_inputs, edited_function, first_frame, live_run, prediction
from dynexplore.session.changed_inputs import Input
from dynexplore.session.edited_function import Rerun
from dynexplore.session.first_frame import DryRunFrame
from dynexplore.session.live_run import LiveRun
from dynexplore.session.prediction import Prediction
from dynexplore.session.verdicts import Verdicts, judge
from dynexplore.views.counts import plural


def watched_store(backend: str | CompilerFn | Backend, options: Options, recording: Recorder, *, real: bool = False) -> Store:
    """A new, separate store that records every step; `real`: also the real run."""
    store = make_store(backend if isinstance(backend, Backend) else resolve(backend), options)
    store.observers.recorder = recording
    store.observers.run = StepChecker(recording, store.observers.modified_codes) if real else None
    store.observers.graphs = []
    store.observers.notices = {}
    store.region.on_hit = functools.partial(reports.hit, store)
    return store


class Session:
    """A function that was recorded, with its latest inputs and its cache entries, to ask what other calls would do.

    Attributes: `args`, `kwargs`: the inputs of the latest call; `recording`; `about`: describes which call of the recording the
    session is about, "" if there is only one.
    """

    def __init__(self, target: Any, store: Store, explainer: Callable[[Any], Any], recording: Recording) -> None:
        self._explainer = explainer  # for another function, with the same backend and options
        self._target = _weakly(target)
        self._entry = first_frame.entry_code(target)
        self._store = store
        self.recording = recording
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        self.call_count = 0
        self.about = ""
        self._holds: Any = None  # kept alive as long as this session

    def __repr__(self) -> str:
        counts = f"{plural(self.call_count, 'call')}, {plural(len(self.entries), 'cache entry', 'cache entries')}"
        return f"Session({self.recording.title}: {counts})"

    @property
    def function(self) -> Any:
        """The function or module. Raises LookupError if it has been garbage collected."""
        target = self._target()
        if target is None:
            raise LookupError("the function of this recording no longer exists: keep a reference to it, or to the explanation")
        return target

    @property
    def options(self) -> Options:
        """The options it was compiled with."""
        return self._store.options

    @property
    def notices(self) -> list[str]:
        """What the backend is missing, in one sentence each: its graphs then ran uncompiled."""
        return list(self._store.observers.notices or ())

    @property
    def entries(self) -> list[CompiledEntry]:
        """Every cache entry that the recorded calls created."""
        entries = (entry for cache in self._store.native.caches() for entry in cache.entries)
        return [entry for entry in entries if isinstance(entry, CompiledEntry)]

    # -- frames

    def of_frame(self, frame: int | None) -> Session:
        """The session of the call that started a frame of the recording: always this one, because there is only one call."""
        return self

    def to_edit(self, frame: int | None) -> Session:
        """The session whose source is edited while a frame of the recording is displayed."""
        return self.of_frame(frame)

    # -- calls

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function again, with the same cache and into the same recording; return its value.

        >>> session.call(torch.ones(3))  # doctest: +SKIP
        """
        counted = counters.snapshot()
        try:
            return self._run(*args, **kwargs)
        finally:
            counters.restore(counted)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        runs, recorder = self._runs(), self._store.observers.recorder
        assert recorder is not None
        self.args, self.kwargs = args, kwargs
        self.call_count += 1
        recorder.record(reports.call_began(self.call_count, args, kwargs))
        outer = native.enter(None)  # of nested regions the outermost wins: leave all of them
        error = ""
        before = len(self.recording)
        try:
            value = runs(*args, **kwargs)
            self._note_returned(value, before)
            reports.skipped_generator(recorder, self.function)
            return value
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            native.leave(outer)
            recorder.record(ev.CallEnded(frame=0, call=self.call_count, error=error))

    def _note_returned(self, value: Any, events_before: int) -> None:
        """Record the call's return value with the first frame of this call, and with the resume functions that continued it."""
        frames = self.recording.frames_since(events_before)
        if self._store.observers.run is None or not frames:
            return
        frame: int | None = frames[0].frame
        while frame is not None:
            self._store.observers.run.returned(frame, value)
            frame = max((event.frame for event in frames if event.parent == frame and event.code.resumes >= 0), default=None)

    def _runs(self) -> Callable[..., Any]:
        """Run the function in the region of this session."""
        target = self.function
        if self._entry is None:
            wrapped: Callable[..., Any] = optimized.wrap(target, self._store.region)
            return wrapped
        return RegionCall(optimized.entry_with(self._entry, target), self._store.region)

    def capture(self, *args: Any, **kwargs: Any) -> Any:
        """The `Explanation` of another call: the function is really called, in a fresh store (unlike `what_if`)."""
        return self._explainer(self.function)(*args, **kwargs)

    # -- guards

    def check(self, *args: Any, **kwargs: Any) -> Verdicts:
        """Which entries of the function itself another call would hit, guard by guard. Runs nothing.

        Raises TypeError if the arguments do not match the function's signature.
        """
        frame = self._frame(args, kwargs)
        return Verdicts() if frame is None else judge(frame.cache, frame.scope, self.recording)

    # -- what if

    def predict(self, *args: Any, **kwargs: Any) -> Prediction:
        """What a call with these arguments would do: hit an entry, compile, run as plain Python. Runs nothing, has no side effects.

        Raises TypeError if the arguments do not match the function's signature.
        """
        return prediction.predict(self._store, self._frame(args, kwargs), self.recording)

    def what_if(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> Prediction:
        """What the latest call would have done with some inputs changed. Runs nothing, has no side effects.

        Args: changes, more: new values by the input's name or path (`{"xs[0]": 3}`). A tensor takes a new value, or a dict with
        some of shape, dtype, device, requires_grad.

        Raises TypeError or ValueError, in one sentence, for inputs that do not exist, or changes that are not possible.

        >>> session.what_if(x={"shape": (3, 4), "dtype": torch.float64}, factor=2.5).outcome  # doctest: +SKIP
        'recompile'
        """
        return self._predicted({**(changes or {}), **more}, capture=True)

    def first_answer(self, changes: Mapping[str, Any]) -> Prediction:
        """The fast part of `what_if`: the guards, and hit or miss, without attempting to capture a miss."""
        return self._predicted(changes, capture=False)

    def _predicted(self, changes: Mapping[str, Any], *, capture: bool) -> Prediction:
        args, kwargs = changed_inputs.changed_call(self.function, self.args, self.kwargs, changes)
        return prediction.predict(self._store, self._frame(args, kwargs), self.recording, capture=capture)

    @property
    def inputs(self) -> list[Input]:
        """The inputs that `what_if` can change."""
        return changed_inputs.inputs_of(self.function, self.args, self.kwargs)

    # -- edited source

    @property
    def source(self) -> str:
        """The function's source, which `rerun` takes in edited form. Raises EditError if there is none."""
        return edited_function.source_of(self.function)

    @property
    def first_line(self) -> int:
        """The line of the file at which the source begins."""
        return edited_function.first_line_of(self.function)

    def rerun(self, text: str) -> Rerun:
        """Explain the function with `text` as its source, on copies of the latest inputs: the captures before and after.

        The function is really called; mutations of inputs and modules are undone. If the text defines no such function, or the run
        raises, `error` says so.
        """
        earlier = self.recording if self.call_count == 1 else None
        return edited_function.rerun(self.function, text, self.args, self.kwargs, self._explainer, earlier)

    # -- step by step

    def live(self, *args: Any, **kwargs: Any) -> LiveRun:
        """The same call step by step, in a separate thread and a fresh store: translated and run for real.

        Without arguments: on copies of the latest inputs.

        >>> run = session.live(torch.ones(3))  # doctest: +SKIP
        >>> run.until("break").event.title  # doctest: +SKIP
        'printing or logging'
        """
        if not args and not kwargs:
            args, kwargs = CallSnapshot(self.function, self.args, self.kwargs).fresh()
        return self._live_run(self.function, args, kwargs)

    def _live_run(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LiveRun:
        gate = live_run.Gate(Recording(title=self.recording.title))
        store = watched_store(self._store.backend, self.options, gate, real=True)
        fresh = self._fresh(function, store, gate.recording)
        fresh._holds = function
        return LiveRun(functools.partial(fresh._run, *args, **kwargs), gate)

    def _fresh(self, function: Any, store: Store, recording: Recording) -> Session:
        """A session that runs a function like this one does, for another store."""
        return Session(function, store, self._explainer, recording)

    def _frame(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> DryRunFrame | None:
        """The frame that decides what a call does; None if the call's first frame is not seen by the engine.

        It is the first frame, unless that is an entry function that only calls the module: then it is the module's `forward`.
        """
        target = self.function
        frame = self._frame_of(first_frame.start(target, self._entry, args, kwargs))
        if frame is None or not isinstance(target, torch.nn.Module) or not _only_calls(frame):
            return frame
        return self._frame_of(first_frame.start(target.forward, None, args, kwargs))

    def _frame_of(self, started: first_frame.Start | None) -> DryRunFrame | None:
        if started is None:
            return None
        function, args, kwargs = started
        values = first_frame.slot_values(function, args, kwargs)
        return DryRunFrame(function, values, self._cache_of(function.__code__))

    def _cache_of(self, code: types.CodeType) -> CodeCache:
        return self._store.native.cache_of(code)


def _only_calls(frame: DryRunFrame) -> bool:
    """Whether a cache entry that matches this call captured nothing: the graph breaks at the call of the module."""
    fitting = (entry for entry in frame.cache.entries if fits(entry, frame))
    entry = next(fitting, None)
    return isinstance(entry, CompiledEntry) and not entry.graphs


def _weakly(target: Any) -> Callable[[], Any]:
    try:
        return weakref.WeakMethod(target) if isinstance(target, types.MethodType) else weakref.ref(target)
    except TypeError:
        return lambda: target
