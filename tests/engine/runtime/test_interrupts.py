"""engine/runtime/interrupts.py: Ctrl-C at any moment leaves everything clean, and what other handlers raise is raised."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import native
from dynexplore.engine.runtime import interrupts
from dynexplore.engine.runtime.compile_lock import compile_lock
from engine_checks import graphs_compiled

X = torch.ones(3)


@pytest.fixture(autouse=True)
def pythons_own_handler() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, whoever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c(after: float) -> threading.Timer:
    """Send this process SIGINT, as a terminal does."""
    timer = threading.Timer(after, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    timer.start()
    return timer


def is_clean() -> bool:
    """Whether hook, lock, handler and torch's modes are as at the start."""
    free: list[bool] = []

    def look() -> None:
        free.append(compile_lock.acquire(blocking=False))
        if free[0]:
            compile_lock.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return (
        free == [True]
        and native.current() is None
        and not native.installed()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        and torch.is_grad_enabled()
        and torch.get_default_dtype() is torch.float32
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._len_torch_function_stack() == 0
    )


def test_ctrl_c_in_the_translation_of_a_resume_function() -> None:
    """The frame that broke has ended by then: the traceback tells of the function all the same, at the line where it goes on."""
    graphs: list[Any] = []

    def interrupted_at_the_second(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        if len(graphs) == 2:
            signal.raise_signal(signal.SIGINT)
        return graph

    def f(x: torch.Tensor, held: list[torch.Tensor]) -> torch.Tensor:
        kept = held[0] + 1
        x = x.sin()
        dynexplore.graph_break()
        return x * 2 + kept

    kept_alive = sys.getrefcount(X)
    with pytest.raises(KeyboardInterrupt) as raised:
        dynexplore.optimize(interrupted_at_the_second)(f)(X, [X])
    (entry,) = [entry for entry in raised.traceback if entry.name == "f"]
    assert entry.lineno + 1 == f.__code__.co_firstlineno + 3
    assert entry.frame.f_locals["held"][0] is X
    assert len(graphs) == 2
    assert is_clean()
    del entry, raised
    assert sys.getrefcount(X) == kept_alive


# One that comes while a weak reference's callback runs is printed and lost, as everywhere in Python.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("as_block", [False, True])
def test_ctrl_c_at_any_moment(as_block: bool) -> None:
    """While functions are compiled and run, again and again: KeyboardInterrupt, everything is clean, and the next call works."""

    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        x = x + n
        dynexplore.graph_break()
        return x * 2

    arrived: list[int] = []

    def raising(number: int, frame: Any) -> None:
        arrived.append(number)
        raise KeyboardInterrupt

    def call_until_interrupted(optimized: Any, n: int) -> None:
        # a function of its own: a `with` of Python 3.14 doesn't cover the jump back of a loop in it, where Ctrl-C arrives, too
        press_ctrl_c(0.0003 + n * 0.0006)
        while True:
            if as_block:
                with dynexplore.optimize():
                    f(X, n)
            else:
                optimized(X, n)
            if arrived:  # lost, see above
                arrived.clear()
                press_ctrl_c(0.001)

    for n in range(30):
        dynexplore.reset()
        optimized = dynexplore.optimize()(f)
        arrived.clear()
        signal.signal(signal.SIGINT, raising)
        with pytest.raises(KeyboardInterrupt):
            call_until_interrupted(optimized, n)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert is_clean(), n
        assert optimized(X, n).tolist() == [2.0 * (1 + n)] * 3, n
        assert graphs_compiled() >= 2, n  # more where one was interrupted between its backend and its entry


def test_ctrl_c_in_a_backend_comes_at_once() -> None:
    """A backend that takes long is interrupted as it is without us."""

    def slow(graph: Any, inputs: Any) -> Any:
        press_ctrl_c(0.01)
        time.sleep(30)

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        dynexplore.optimize(slow)(lambda x: x + 1)(X)
    assert time.monotonic() - started < 10 and is_clean()


# -- signals whose handlers raise an ordinary exception


class Late(Exception):
    """What the handler raises."""


@pytest.fixture
def arrived() -> Iterator[list[int]]:
    """SIGALRM raises Late; the list says how often."""
    calls: list[int] = []

    def late(number: int, frame: Any) -> None:
        calls.append(number)
        raise Late

    before = signal.signal(signal.SIGALRM, late)
    yield calls
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def raise_signal(number: int = signal.SIGALRM) -> int:
    signal.raise_signal(number)
    return 1


@torch.library.custom_op("tests_interrupts::late", mutates_args=())
def late_operator(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@late_operator.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    raise_signal()
    return torch.empty_like(x)


def in_a_backend(graph: Any, inputs: Any) -> Any:
    raise_signal()
    return graph


def in_a_caught_error(graph: Any, inputs: Any) -> Any:
    try:
        raise_signal()
    except Late as error:
        raise ValueError("the backend says") from error


CONSTANT = torch._dynamo.assume_constant_result(raise_signal)
ARRIVES: dict[str, tuple[Any, Any]] = {
    "in a function that is called at capture": ("eager", lambda x: x + CONSTANT()),
    "in a fake operator": ("eager", lambda x: torch.ops.tests_interrupts.late(x)),
    "in a backend": (in_a_backend, lambda x: x + 1),
    "in a backend that makes an error of it": (in_a_caught_error, lambda x: x + 1),
}


@pytest.mark.parametrize("place", ["function", "resume function", "block of a resume function"])
@pytest.mark.parametrize("where", ARRIVES)
def test_what_a_handler_raises_during_a_translation(arrived: list[int], where: str, place: str) -> None:
    """It leaves once, as itself, where Python would raise it; it is no failure of the engine, nor of a backend."""
    backend, operation = ARRIVES[where]

    def function(x: torch.Tensor) -> Any:
        if place != "function":
            torch._dynamo.graph_break()
        if place != "block of a resume function":
            return operation(x)
        try:
            torch._dynamo.graph_break()
            return operation(x)
        except Late:
            return "caught"

    dynexplore.reset()
    compiled = dynexplore.optimize(backend)(function)
    if place == "block of a resume function":
        assert compiled(X) == "caught"
    else:
        with pytest.raises(Late):
            compiled(X)
    assert len(arrived) == 1 and is_clean()
    assert not dynexplore.counters["engine_error"]
    assert dynexplore.counters["frames"]["total"] >= 1


def test_a_handler_may_be_an_object(arrived: list[int]) -> None:
    """Its `__call__` is what raises: no failure of the backend in which the signal arrives."""

    class Handler:
        def __call__(self, number: int, frame: Any) -> None:
            arrived.append(number)
            raise Late

    signal.signal(signal.SIGALRM, Handler())
    with pytest.raises(Late):
        dynexplore.optimize(in_a_backend)(lambda x: x + 1)(X)
    assert len(arrived) == 1 and is_clean()
    assert not dynexplore.counters["engine_error"] and dynexplore.counters["frames"]["total"] >= 1


@pytest.mark.parametrize("place", ["function", "block of a resume function"])
def test_what_a_handler_raises_while_guards_are_checked(arrived: list[int], place: str) -> None:
    """A guard check is a Python function, too: the exception says nothing about the entry, and is not lost."""

    def function(x: torch.Tensor, numbers: list[int]) -> Any:
        if place == "function":
            return x + sum(numbers[:50])
        try:
            torch._dynamo.graph_break()
            return x + sum(numbers[:50])
        except Late:
            return "caught"

    dynexplore.reset()
    numbers = list(range(50))
    compiled = dynexplore.optimize("eager")(function)
    compiled(X, numbers)
    graphs, caught = graphs_compiled(), 0

    def call_until_it_arrived() -> Any:  # Python 3.13 has the jump of a loop outside of the `try` around it
        result = None
        while not arrived:
            result = compiled(X, numbers)
        return result

    for round in range(150):
        arrived.clear()
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + round * 0.00001)
            caught += isinstance(call_until_it_arrived(), str)
        except Late:
            caught += 1
    assert (caught, graphs_compiled()) == (150, graphs)
    assert graphs >= 1


@pytest.mark.plain("holds a signal while any code runs")
def test_it_waits_for_torch() -> None:
    """While a frame of torch runs the handler is not called; it is as soon as that frame is over."""
    calls: list[bool] = []
    inside = False

    def handler(number: int, frame: Any) -> None:
        calls.append(inside)

    signal.signal(signal.SIGINT, handler)

    def in_torch(*args: Any) -> bool:
        nonlocal inside
        inside = True
        signal.raise_signal(signal.SIGINT)
        for _ in range(50):
            time.sleep(0.0002)
        inside = False
        return True

    with interrupts.deferred(sys._getframe()):
        torch.utils._pytree.tree_map(in_torch, [1])
        deadline = time.monotonic() + 10
        while not calls and time.monotonic() < deadline:
            time.sleep(0.001)
        signal.raise_signal(signal.SIGINT)
    assert calls == [False, False] and signal.getsignal(signal.SIGINT) is handler


@pytest.mark.plain("holds a signal while any code runs")
def test_other_handlers_and_threads_are_left_alone() -> None:
    """An ignored Ctrl-C stays ignored, and nothing is installed outside of the main thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts.deferred(sys._getframe()):
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    done: list[bool] = []

    def elsewhere() -> None:
        with interrupts.deferred(sys._getframe()), interrupts.passed_on():
            done.append(True)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert done == [True]
