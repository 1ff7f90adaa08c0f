"""Live stepping: translate and run a call for real, step by step.

The idea: a button cannot control a cell that is still running. So the call runs in a separate thread, whose recorder blocks on a
semaphore at each state where one can stop. The owner of the `LiveRun` resumes it: for one step, until a break, or to the end. A
blocked translation does not affect the rest of the process: the translation lock is released, random state and modes are those
outside, the garbage collector is enabled. The call is real: its side effects happen.

In: a function, arguments, a fresh store. Out: `LiveRun`. It ends with the call, when it is stopped, and when the last reference to
it is dropped; Ctrl-C while waiting for it stops it.

PyTorch's counterpart: none; the closest are `DebugMode` in torch/utils/_debug_mode/_mode.py and torch/_dynamo/bytecode_debugger.py.
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
"""Arguments of `LiveRun.until`: name -> the events at which the run stops."""

_PATIENCE = 5.0
"""How long a stopped run may take to end, in seconds."""


class Stopped(BaseException):
    """Raised in the thread of a stopped run, at the instruction where it is blocked. `except Exception` does not catch it."""


class Gate:
    """The recorder of a live run, on which its thread blocks. It holds no reference to the `LiveRun`."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.stops: tuple[type[ev.Event], ...] = STOPS["step"]
        self.to_pass = 0  # stopping points to skip before the next stop
        self.is_free = False
        self.is_stopping = False
        self.thread: threading.Thread | None = None
        self._go = threading.Semaphore(0)
        self._arrived = threading.Event()
        self._counted: dict[str, dict[str, int]] = {}

    # -- called by the run's thread

    def next_frame_id(self) -> int:
        """A new frame number."""
        return self.recording.next_frame_id()

    def next_entry_number(self) -> int:
        """A new number of a cache entry."""
        return self.recording.next_entry_number()

    def record(self, event: ev.Event) -> None:
        """Record one event, and block if it is a stopping point."""
        self.recording.record(event)
        if self.is_free or threading.current_thread() is not self.thread or not isinstance(event, self.stops):
            return
        if self.to_pass:
            self.to_pass -= 1
            return
        with released(), preserve_global_state.paused(), gc_enabled():
            self.park()
        if self.is_stopping:
            self.is_free = True  # the thread is unwinding: do not block any more
            raise Stopped

    def park(self) -> None:
        """Block until resumed; meanwhile the counters have their values from outside the run."""
        counters.restore(self._counted)
        self.arrive()
        self._go.acquire()
        self._counted = counters.snapshot()

    def arrive(self) -> None:
        """Signal that the run is blocked or finished."""
        self._arrived.set()

    def begin(self) -> None:
        """Wait for the first step."""
        self._counted = counters.snapshot()
        self.park()

    def end(self) -> None:
        """Mark the run as finished."""
        counters.restore(self._counted)
        self.arrive()

    # -- called by the owner's thread

    def go_on(self) -> None:
        """Resume the blocked run."""
        self._arrived.clear()
        self._go.release()

    @property
    def is_parked(self) -> bool:
        """Whether the run is blocked or finished, and was not resumed."""
        return self._arrived.is_set()

    def wait(self, timeout: float | None) -> bool:
        """Wait until the run is blocked or finished; return False if it still runs after `timeout` seconds."""
        return self._arrived.wait(timeout)

    def stop(self) -> None:
        """End the run where it is blocked, or as soon as it runs Python code."""
        self.is_stopping = True
        thread = self.thread
        if self.is_parked:
            self.go_on()
        elif thread is not None and thread.ident is not None and thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Stopped))


class LiveRun:
    """A call that runs step by step, created by `Session.live`. See the module docstring.

    Attributes: `recording`: the events so far; `value`, `error`: the result of the finished call.

    >>> with session.live(torch.ones(3)) as run:  # doctest: +SKIP
    ...     run.step()
    ...     run.until("break")
    ...     run.finish()
    """

    def __init__(self, call: Callable[[], Any], gate: Gate) -> None:
        self.recording = gate.recording
        self._gate = gate
        self._result: dict[str, Any] = {}
        self._moments = timeline.states(_events(gate.recording))
        self._read = 0
        self._state: timeline.State | None = None
        gate.thread = threading.Thread(
            target=_run, args=(call, gate, self._result, _modes()), name="dynexplore live run", daemon=True
        )
        gate.thread.start()
        gate.wait(None)
        self._end = weakref.finalize(self, gate.stop)

    # -- resuming

    def step(self, count: int = 1, timeout: float | None = None) -> timeline.State | None:
        """Continue by `count` steps, and return the state there. After `timeout` seconds it may still be "running"; the next call
        then waits for those steps and takes none.
        """
        if count < 1:
            raise ValueError(f"a live run only moves forward: count must be at least 1, not {count}")
        return self._until(STOPS["step"], count - 1, timeout)

    def until(self, stop: str, timeout: float | None = None) -> timeline.State | None:
        """Continue to the next "frame", "attempt", "break", "graph" (compiled or run) or "run" (of a graph), or to the "end"."""
        if stop not in STOPS:
            raise ValueError(f"a live run continues until one of {', '.join(STOPS)}, not {stop!r}")
        return self._until(STOPS[stop], 0, timeout)

    def finish(self, timeout: float | None = None) -> Any:
        """Run to the end and return the call's value; its exceptions propagate. Raises TimeoutError if it still runs."""
        if self.status == "running":
            self._wait(timeout)  # a step of before is still under way, and blocks the run again
        self._until((), 0, timeout)
        if self.status == "running":
            raise TimeoutError(f"the call still runs after {timeout} seconds")
        if self.status == "failed":
            raise self._result["error"]
        return self._result.get("value")

    def stop(self) -> None:
        """End the call where it is blocked. Its `finally` blocks run, and everything is cleaned up."""
        if self.status in ("parked", "running"):
            self._end()
            thread = self._gate.thread
            if thread is not None and thread is not threading.current_thread():
                thread.join(_PATIENCE)

    def _until(self, stops: tuple[type[ev.Event], ...], to_pass: int, timeout: float | None) -> timeline.State | None:
        gate = self._gate
        if self.status == "parked":
            gate.stops, gate.to_pass = stops, to_pass
            gate.go_on()
        self._wait(timeout)
        return self.state

    def _wait(self, timeout: float | None) -> None:
        """Wait for a resumed run until it is blocked again."""
        try:
            self._gate.wait(timeout)
        except KeyboardInterrupt:
            self.stop()
            raise

    # -- current state

    @property
    def status(self) -> str:
        """ "parked", "running", "finished", "failed" (the call raised) or "stopped"."""
        if "error" in self._result:
            return "stopped" if isinstance(self._result["error"], Stopped) else "failed"
        if "value" in self._result:
            return "finished"
        return "parked" if self._gate.is_parked else "running"

    @property
    def state(self) -> timeline.State | None:
        """The latest state: instruction, stack, locals. None before the first state."""
        events = self.recording.events
        for event in events[self._read :]:
            self._read += 1
            if isinstance(event, timeline.MOMENTS):
                self._state = next(self._moments)
        return self._state

    @property
    def observed(self) -> tuple[ev.ValueObserved, ...]:
        """The real values observed so far: arguments, inputs and outputs of graphs, values inside graphs, locals."""
        return self.recording.of(ev.ValueObserved)

    @property
    def value(self) -> Any:
        """The call's return value; None before it returns."""
        return self._result.get("value")

    @property
    def error(self) -> BaseException | None:
        """The exception that the call raised."""
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
    """The events as they arrive, up to the current end of the recording."""
    position = 0
    while True:
        yield recording.events[position]
        position += 1


# -- in the thread -----------------------------------------------------------------------------------------------


def _modes() -> tuple[bool, bool, tuple[tuple[str, bool, torch.dtype], ...]]:
    """The thread's modes that affect what a call does."""
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
        # the frames keep the call's objects alive
        result["error"] = error.with_traceback(None) if isinstance(error, Stopped) else error
    finally:
        gate.end()
