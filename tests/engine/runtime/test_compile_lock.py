"""engine/runtime/compile_lock.py: threads, forks, and what a backend may do meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import native
from dynexplore.engine.runtime.compile_lock import compile_lock, released
from engine_checks import CountingBackend, graphs_compiled

X = torch.ones(3)


def run_threads(count: int, target: Any) -> list[Any]:
    """What `count` threads return; an exception in one is raised here."""
    results: list[Any] = [None] * count
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            results[number] = target(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]
    return results


def is_held_by_another_thread() -> bool:
    free: list[bool] = []

    def look() -> None:
        free.append(compile_lock.acquire(blocking=False))
        if free[0]:
            compile_lock.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return not free[0]


@pytest.mark.plain("the lock by itself")
def test_released_lets_go_and_takes_again() -> None:
    """All levels are let go for the block and taken again, also after an exception; without the lock nothing happens."""
    with compile_lock, compile_lock:
        assert is_held_by_another_thread()
        with pytest.raises(ValueError), released():
            assert not is_held_by_another_thread()
            raise ValueError
        assert is_held_by_another_thread()
    assert not is_held_by_another_thread()
    with released():
        assert not is_held_by_another_thread()


def test_threads_compile_one_function_once() -> None:
    """Threads that call the same function at once make one graph between them, and all get eager's value."""

    def slow(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    graphs: list[Any] = []
    optimized = dynexplore.optimize(slow)(lambda x: x * 2 + 1)
    barrier = threading.Barrier(6)

    def call(number: int) -> Any:
        barrier.wait()
        return optimized(X).tolist()

    assert run_threads(6, call) == [[3, 3, 3]] * 6
    assert 1 <= len(graphs) <= 6  # while a backend works, others may translate the same frame
    calls = len(graphs)
    run_threads(6, lambda number: optimized(X))
    assert len(graphs) == calls


def test_the_lock_is_not_held_while_a_backend_works() -> None:
    """Another thread compiles and runs something else while a backend takes its time."""
    started, go_on = threading.Event(), threading.Event()
    asked: list[Any] = []

    def waiting(graph: Any, inputs: Any) -> Any:
        asked.append(graph)
        started.set()
        assert go_on.wait(30)
        return graph.forward

    def compile_and_run() -> None:
        dynexplore.optimize(waiting)(lambda x: x + 1)(X)
        started.set()  # where no backend was asked

    thread = threading.Thread(target=compile_and_run)
    thread.start()
    assert started.wait(30) and asked
    assert dynexplore.optimize()(lambda x: x - 1)(X).tolist() == [0, 0, 0]
    go_on.set()
    thread.join(30)
    assert not thread.is_alive()


def test_many_threads_with_many_functions() -> None:
    """Every thread compiles its own functions and breaks its own graphs; nothing is mixed up."""

    def work(thread: int) -> list[float]:
        number = thread + 2  # 0 and 1 would be graphs of their own, whoever comes first

        def f(x: torch.Tensor) -> torch.Tensor:
            x = x + number
            dynexplore.graph_break()
            return x * 2

        optimized = dynexplore.optimize()(f)
        return [optimized(X * n).sum().item() for n in range(3)]

    assert run_threads(4, work) == [[(n + number) * 6.0 for n in range(3)] for number in range(2, 6)]
    assert graphs_compiled() >= 3  # more where one translates while the backend of another works
    assert not native.installed()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("where", ["outside", "in a region", "while a thread translates"])
def test_a_forked_child_compiles_for_itself(where: str) -> None:
    """After a fork the child's lock is free, its hook works, and what was compiled before is there."""
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(lambda x: x * 2)
    optimized(X)
    if where == "while a thread translates":
        holding, done = threading.Event(), threading.Event()

        def hold() -> None:
            with compile_lock:
                holding.set()
                done.wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        holding.wait(30)
    region = dynexplore.optimize(disable=where != "in a region")
    with region:
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # a child that hangs must not outlive the test
            own_runs = 1 if where == "in a region" else 2  # of nested regions the outer wins
            fine = optimized(X).tolist() == [2, 2, 2] and backend.runs == own_runs
            fine = fine and dynexplore.optimize()(lambda x: x - 1)(X).tolist() == [0, 0, 0]
            os._exit(0 if fine else 1)
    if where == "while a thread translates":
        done.set()
        thread.join()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert optimized(X).tolist() == [2, 2, 2] and len(backend.graphs) == 1


def test_threads_are_in_a_backend_of_torch_one_after_the_other() -> None:
    """Torch's backends trace with state of the whole process."""
    inside: list[int] = []
    together: list[int] = []

    def backend(graph: Any, inputs: Any) -> Any:
        inside.append(threading.get_ident())
        time.sleep(0.02)  # the others come by
        together.append(len(inside))
        inside.pop()
        return graph.forward

    backend.__module__ = "torch.somewhere"
    functions = [eval(f"lambda x: x * {number}") for number in range(4)]
    values = run_threads(4, lambda number: dynexplore.optimize(backend)(functions[number])(X).tolist())
    assert values == [[float(number)] * 3 for number in range(4)]
    assert together == [1] * 4
