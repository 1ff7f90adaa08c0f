"""Live stepping: the real translation and the real run of a call, step by step.

The idea: a button cannot control a cell that is still running. So the call runs in a thread of its own, whose recorder parks it
on a semaphore at every state that one can stop at. The owner of the `LiveRun` resumes it: for one step, to a break, to the end.
A parked translation blocks nothing: the translation lock is released, random numbers and modes are as they are outside, the
garbage collector works. The call is a real one: its prints and mutations happen.

In: a function, arguments, a fresh store. Out: `LiveRun`. It ends with the call, when it is stopped, and when the last reference
to it is dropped; Ctrl-C while waiting for it stops it.

PyTorch has no counterpart; the nearest is its DebugMode under pdb.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dynexplore.engine import events as ev
from dynexplore.engine.counters import counters
from dynexplore.engine.gc_control import gc_enabled
from dynexplore.engine.runtime import preserve_global_state
from dynexplore.engine.runtime.compile_lock import released
from dynexplore.recording.recording import Recording
from dynexplore.views import timeline

STOPS: dict[str, tuple[type[ev.Event], ...]] = {
    "step": (*timeline.MOMENTS, ev.CallEnded),
    "frame": (ev.FrameEntered, ev.CacheHit, ev.FrameSkipped),
    "attempt": (ev.AttemptStarted,),
    "break": (ev.GraphBroke,),
    "graph": (ev.SubgraphCompiled, ev.GraphRan),
    "run": (ev.GraphRan,),
    "end": (),
}
"""What `LiveRun.until` takes: name -> the events at which the run parks."""

_PATIENCE = 5.0
"""How long a stopped run may take to end, in seconds."""


class Stopped(BaseException):
    """Raised in the thread of a run that is stopped, at the parked instruction. No `except Exception` of a program catches it."""


class Gate:
    """The recorder of a live run, and the place where its thread parks. It does not know the `LiveRun`."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.stops: tuple[type[ev.Event], ...] = STOPS["step"]
        self.to_pass = 0  # how many moments go by before the next stop
        self.is_free = False
        self.is_stopping = False
        self.is_parked = False
        self.thread: threading.Thread | None = None
        self._go = threading.Semaphore(0)
        self._arrived = threading.Semaphore(0)
        self._counted: dict[str, dict[str, int]] = {}

    # -- the run's side

    def next_frame_id(self) -> int:
        """A new frame number."""
        return self.recording.next_frame_id()

    def next_entry_number(self) -> int:
        """A new number of a cache entry."""
        return self.recording.next_entry_number()

    def record(self, event: ev.Event) -> None:
        """Take one event, and park if it is one to stop at."""
        self.recording.record(event)
        if self.is_free or threading.current_thread() is not self.thread or not isinstance(event, self.stops):
            return
        if self.to_pass:
            self.to_pass -= 1
            return
        with released(), preserve_global_state.paused(), gc_enabled():
            self.park()
        if self.is_stopping:
            self.is_free = True  # on the way out nothing parks any more
            raise Stopped

    def park(self) -> None:
        """Wait to be resumed; meanwhile the counters are as they are outside of the run."""
        counters.put_back(self._counted)
        self.arrive()
        self._go.acquire()
        self.is_parked = False
        self._counted = counters.snapshot()

    def arrive(self) -> None:
        """Signal that the run is parked or over."""
        self.is_parked = True
        self._arrived.release()

    def begin(self) -> None:
        """Wait for the first step."""
        self._counted = counters.snapshot()
        self.park()

    def end(self) -> None:
        """The run is over."""
        counters.put_back(self._counted)
        self.arrive()

    # -- the other side

    def go_on(self) -> None:
        """Resume the parked run."""
        self.is_parked = False
        self._go.release()

    def wait(self, timeout: float | None) -> bool:
        """Wait until the run is parked or over; False if it still runs after `timeout` seconds."""
        return self._arrived.acquire(timeout=timeout)

    def stop(self) -> None:
        """End the run where it is parked, or as soon as it runs Python code."""
        self.is_stopping = True
        thread = self.thread
        if self.is_parked:
            self.go_on()
        elif thread is not None and thread.ident is not None and thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Stopped))


class LiveRun:
    """A call that runs step by step; `Session.live` makes one. See the head of this file.

    Attributes: `recording`: what has happened so far; `value`, `error`: what came out of the call when it is over.

    >>> with session.live(torch.ones(3)) as run:  # doctest: +SKIP
    ...     run.step()
    ...     run.until("break")
    ...     run.finish()
    """

    def __init__(self, call: Callable[[], Any], gate: Gate) -> None:
        self.recording = gate.recording
        self._gate = gate
        self._result: dict[str, Any] = {}
        self._is_out = False  # on its way: it was let go on, and has not arrived yet
        self._moments = timeline.states(_events(gate.recording))
        self._read = 0
        self._state: timeline.State | None = None
        gate.thread = threading.Thread(
            target=_run, args=(call, gate, self._result, _modes()), name="dynexplore live run", daemon=True
        )
        gate.thread.start()
        gate.wait(None)
        self._end = weakref.finalize(self, gate.stop)

    # -- going on

    def step(self, count: int = 1, timeout: float | None = None) -> timeline.State | None:
        """Continue by `count` steps, and return the state there. After `timeout` seconds it may still be "running"."""
        if count < 1:
            raise ValueError(f"a live run only moves forward: count must be at least 1, not {count}")
        return self._until(STOPS["step"], count - 1, timeout)

    def until(self, stop: str, timeout: float | None = None) -> timeline.State | None:
        """Continue to the next "frame", "attempt", "break", "graph" (compiled or run) or "run" (of a graph), or to the "end"."""
        if stop not in STOPS:
            raise ValueError(f"a live run continues until one of {', '.join(STOPS)}, not {stop!r}")
        return self._until(STOPS[stop], 0, timeout)

    def finish(self, timeout: float | None = None) -> Any:
        """Run to the end and return what the call returns; its exceptions are raised. TimeoutError: it still runs."""
        self._until((), 0, timeout)
        if self.status == "running":
            raise TimeoutError(f"the call still runs after {timeout} seconds")
        if self.status == "failed":
            raise self._result["error"]
        return self._result.get("value")

    def stop(self) -> None:
        """End the call where it is parked. Its `finally` blocks run; nothing is left behind."""
        if self.status in ("parked", "running"):
            self._end()
            thread = self._gate.thread
            if thread is not None and thread is not threading.current_thread():
                thread.join(_PATIENCE)

    def _until(self, stops: tuple[type[ev.Event], ...], to_pass: int, timeout: float | None) -> timeline.State | None:
        gate = self._gate
        if self.status == "parked":
            gate.stops, gate.to_pass = stops, to_pass
            self._is_out = True
            gate.go_on()
        if self._is_out:
            self._wait(timeout)
        return self.state

    def _wait(self, timeout: float | None) -> None:
        try:
            self._is_out = not self._gate.wait(timeout)
        except KeyboardInterrupt:
            self.stop()
            raise

    # -- where it stands

    @property
    def status(self) -> str:
        """ "parked", "running", "finished", "failed" (the call raised) or "stopped"."""
        if "error" in self._result:
            return "stopped" if isinstance(self._result["error"], Stopped) else "failed"
        if "value" in self._result:
            return "finished"
        return "parked" if self._gate.is_parked and not self._is_out else "running"

    @property
    def state(self) -> timeline.State | None:
        """The latest state: instruction, stack, locals. None before the first."""
        events = self.recording.events
        for event in events[self._read :]:
            self._read += 1
            if isinstance(event, timeline.MOMENTS):
                self._state = next(self._moments)
        return self._state

    @property
    def observed(self) -> tuple[ev.ValueObserved, ...]:
        """The real values that were seen so far: arguments, inputs and outputs of graphs, what is in them, locals."""
        return self.recording.of(ev.ValueObserved)

    @property
    def value(self) -> Any:
        """What the call returned; None before its end."""
        return self._result.get("value")

    @property
    def error(self) -> BaseException | None:
        """What the call raised."""
        error: BaseException | None = self._result.get("error")
        return None if isinstance(error, Stopped) else error

    def __enter__(self) -> LiveRun:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = self.state
        where = f" at state {state.number}" if state is not None else ""
        return f"LiveRun({self.recording.title}: {self.status}{where})"


def _events(recording: Recording) -> Iterator[ev.Event]:
    """The events as they arrive, and no more than there are."""
    position = 0
    while True:
        yield recording.events[position]
        position += 1


# -- in the thread -----------------------------------------------------------------------------------------------


def _modes() -> tuple[bool, bool, tuple[tuple[str, bool, torch.dtype], ...]]:
    """The modes of this thread that decide what a call does."""
    autocast = tuple((device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in ("cpu", "cuda"))
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast


def _run(call: Callable[[], Any], gate: Gate, result: dict[str, Any], modes: Any) -> None:
    grad, inference, autocast = modes
    try:
        gate.begin()
        if gate.is_stopping:
            raise Stopped
        with torch.inference_mode(inference), torch.set_grad_enabled(grad):
            for device, enabled, dtype in autocast:
                torch.set_autocast_enabled(device, enabled)
                torch.set_autocast_dtype(device, dtype)
            result["value"] = call()
    except BaseException as error:
        # the frames hold what the call held
        result["error"] = error.with_traceback(None) if isinstance(error, Stopped) else error
    finally:
        gate.end()
