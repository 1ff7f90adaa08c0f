"""Live stepping: a real call, one moment at a time, that stands in nobody's way and always comes to an end."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine import native
from dynexplore.engine.runtime.compile_lock import compile_lock

X = torch.ones(4)
seen: list[str] = []


def two_parts(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    y = x.sin() * factor
    seen.append("ran")
    dynexplore.graph_break()
    return y + torch.rand(4)


@dynexplore.disable
def wait_forever() -> None:
    while True:
        time.sleep(0.001)


def stuck(x: torch.Tensor, wait: bool = False) -> torch.Tensor:
    y = x + 1
    if wait:
        wait_forever()
    return y


def raises(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("wrong")


def live_and_stuck() -> Any:
    """A run that is parked before its first step, and would never end by itself."""
    session = dynexplore.explain(stuck, X).session
    assert len(session.entries) == 1
    return session.live(X, True)


@pytest.fixture
def session() -> Any:
    return dynexplore.explain(two_parts, X).session


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After each test no thread of a run is left, and the frame hook is off."""
    yield
    gc.collect()
    deadline = time.monotonic() + 5
    while any(thread.name == "dynexplore live run" for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "a thread is left"
        time.sleep(0.01)
    assert native.current() is None


def test_steps_are_those_of_the_recording(session: Any) -> None:
    """Step by step to the end: the same moments as in the recording of a call, the program runs once."""
    seen.clear()
    run = session.live(X)
    assert (run.status, run.state) == ("parked", None)
    kinds = []
    while run.status == "parked":
        state = run.step()
        kinds.append(type(state.event).__name__)
    assert run.status == "finished" and run.value.shape == (4,) and seen == ["ran"]
    again = dynexplore.explain(two_parts, X).recording
    assert [(step.op, step.offset) for step in run.recording.steps] == [(step.op, step.offset) for step in again.steps]
    assert {"FrameEntered", "AttemptStarted", "InstructionStepped", "GraphBroke", "GraphRan"} <= set(kinds)


def breaks_in_a_callee(x: torch.Tensor) -> torch.Tensor:
    def callee(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        seen.append("ran")
        dynexplore.graph_break()
        return y * 2

    return callee(x.sin()) - x


def test_a_break_in_a_callee_is_one_stop() -> None:
    """The frame and its callee go on in one resume function: two frames are translated, one breaks, the program runs once."""
    with dynexplore.config.patch(nested_graph_breaks=True):
        run = dynexplore.explain(breaks_in_a_callee, X).session.live(X)
        seen.clear()
        assert isinstance(run.until("break").event, ev.GraphBroke)
        assert torch.equal(run.finish(), breaks_in_a_callee(X)) and seen == ["ran", "ran"]
    assert len(run.recording.breaks) == 1 and [bool(frame.chain) for frame in run.recording.frames] == [False, True]


def test_the_state_is_that_of_the_moment(session: Any) -> None:
    """A stop at a break shows the stack before it; then the graph is compiled, then it runs."""
    with session.live() as run:
        state = run.until("break")
        assert isinstance(state.event, ev.GraphBroke) and dict(state.locals)["y"].node == "mul"
        assert isinstance(run.until("graph").event, ev.SubgraphCompiled)
        assert isinstance(run.until("run").event, ev.GraphRan) and run.value is None
        assert run.step(3).number > state.number
    assert run.status == "stopped"


def test_real_values_are_seen_as_it_runs(session: Any) -> None:
    """The arguments are seen first, the outputs of a graph when it has run."""
    with session.live(X) as run:
        run.until("break")
        assert {value.role for value in run.observed} <= {"local"}
        run.until("run")
        assert "output" not in {value.role for value in run.observed}
        run.step()
        found = {value.role: value for value in run.observed}
        assert found["output"].dtype == "float32" and found["output"].maximum == pytest.approx(2 * X.sin()[0].item())


def test_finish_gives_the_value_and_the_exception(session: Any) -> None:
    """What the call returns is returned, what it raises is raised."""
    run = session.live(X, 3.0)
    assert run.finish().shape == (4,) and run.recording.graphs
    with dynexplore.explain(raises) as watched:
        run = watched.explanation.session.live(X)
    with pytest.raises(ValueError, match="wrong"):
        run.finish()
    assert run.status == "failed" and isinstance(run.error, ValueError)


def test_a_parked_run_stands_in_nobodys_way(session: Any) -> None:
    """While it is parked in the middle of a translation others translate, the collector works, random numbers are drawn."""
    counted = dynexplore.counters.snapshot()
    torch.manual_seed(3)
    random.seed(3)
    before = torch.rand(1), random.random()
    torch.manual_seed(3)
    random.seed(3)
    with session.live(X) as run:
        run.step(6)
        assert isinstance(run.state.event, ev.InstructionStepped)
        assert gc.isenabled() and compile_lock.acquire(blocking=False)
        compile_lock.release()
        assert dynexplore.counters.snapshot() == counted
        assert (torch.rand(1), random.random()) == before
        after = torch.get_rng_state(), random.getstate()
        assert dynexplore.explain(two_parts, X).graph_count == 2
        torch.set_rng_state(after[0])
        run.until("graph")
        assert torch.equal(torch.get_rng_state(), after[0]) and random.getstate() == after[1]
        assert torch.is_grad_enabled()
    assert dynexplore.counters.snapshot() == counted


def test_modes_of_the_caller_hold_in_the_run(session: Any) -> None:
    """Under no_grad the run is under no_grad, in its own thread."""
    x = X.clone().requires_grad_()
    with torch.no_grad():
        assert not session.live(x).finish().requires_grad
    run = session.live(x)
    assert run.finish().requires_grad and run.recording.graphs


def test_stop_ends_a_parked_run(session: Any) -> None:
    """Stopped in the middle of a translation it goes no further; a second stop does nothing, and steps are none."""
    seen.clear()
    run = session.live(X)
    run.step(5)
    run.stop()
    run.stop()
    state = run.state
    assert run.status == "stopped" and seen == [] and run.step() is state and run.finish() is None
    assert dynexplore.explain(two_parts, X).graph_count == 2


def test_stop_ends_a_running_one() -> None:
    """A call that never ends by itself is stopped while it runs."""
    run = live_and_stuck()
    run.until("graph")
    run._until((), 0, 0.2)
    assert run.status == "running"
    run.stop()
    assert run.status == "stopped"


def test_a_slow_step_arrives(session: Any) -> None:
    """A step that took longer than one waited for it is "running" and then "parked", for who only looks."""
    run = session.live(X)
    run.step(3)
    with compile_lock:  # the step cannot arrive meanwhile
        run.until("break", timeout=0.05)
        assert run.status == "running"
    for _ in range(2000):
        if run.status != "running":
            break
        time.sleep(0.01)
    assert run.status == "parked" and isinstance(run.recording.events[-1], ev.GraphBroke)
    assert run.step() is not None and run.status == "parked" and run.finish() is not None


def test_who_looks_takes_nothing_from_who_steps(session: Any) -> None:
    """`status`, asked by one thread all the time, leaves another's steps their arrivals."""
    run = session.live(X)
    is_over = threading.Event()

    def looks() -> None:
        while not is_over.is_set():
            assert run.status

    def steps() -> None:
        for _ in range(20):
            run.step()

    looking, stepping = (threading.Thread(target=one, daemon=True) for one in (looks, steps))
    looking.start()
    stepping.start()
    stepping.join(30)
    is_over.set()
    looking.join(30)
    assert not stepping.is_alive() and run.status == "parked" and run.finish() is not None


def test_finish_ends_a_step_that_is_under_way(session: Any) -> None:
    """The value is that of the call, also if the run blocks once more before."""
    run = session.live(X)
    run.step(3)
    with compile_lock:
        run.until("break", timeout=0.05)
        assert run.status == "running"
    assert run.finish() is not None and run.status == "finished"


def test_ctrl_c_while_one_waits_stops_it() -> None:
    """KeyboardInterrupt comes out of the step, and the run is over."""
    run = live_and_stuck()
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run.finish()
    assert run.status == "stopped"


def test_a_run_that_nobody_holds_ends(session: Any) -> None:
    """The thread ends when its LiveRun is collected."""
    run = session.live(X)
    run.step(4)
    assert run.status == "parked"
    thread = run._gate.thread
    del run
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


def test_what_is_wrong_is_said(session: Any) -> None:
    """A step back and an unknown place to stop at are refused in a sentence."""
    with session.live(X) as run:
        assert isinstance(run.until("break").event, ev.GraphBroke)
        with pytest.raises(ValueError, match="only moves forward"):
            run.step(0)
        with pytest.raises(ValueError, match="until one of step, frame"):
            run.until("nowhere")
