"""Generators made in traced code: sent to, thrown into, closed, and left by StopIteration."""

from __future__ import annotations

import collections.abc
import gc
import weakref
from typing import Any

import pytest
import torch
from programs.program_table import Programs

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.ones(3)


def logged(x, log):
    try:
        log.append("begin")
        yield x + 1
        yield x + 2
    except ValueError as error:
        log.append(str(error))
        yield x * 5
    finally:
        log.append("end")


@program(X, graphs=1, ops=3)
def throws_and_goes_on(x):
    log = []
    parts = logged(x, log)
    y = next(parts) + parts.throw(ValueError("thrown"))
    parts.close()
    return y, log, list(parts)


@program(X, graphs=1, ops=1)
def closes_twice_and_before_the_start(x):
    log = []
    parts = logged(x, log)
    y = next(parts)
    parts.close()
    parts.close()
    untouched = logged(x, log)
    untouched.close()
    return y, log, list(parts), list(untouched)


@program(X, graphs=1, ops=1)
def throws_what_nobody_catches(x):
    log = []
    parts = logged(x, log)
    y = next(parts)
    try:
        parts.throw(KeyError("thrown"))
    except KeyError as error:
        log.append(repr(error))
    return y, log, list(parts)


@program(X, graphs=1, ops=3)
def sends_and_takes_what_is_returned(x):
    def sums():
        total = x
        while (value := (yield total)) is not None:
            total = total + value
        return total * 100

    parts = sums()
    results = [next(parts), parts.send(2), parts.send(3)]
    try:
        parts.send(None)
    except StopIteration as stop:
        results.append(stop.value)
    return results


@program(X, graphs=1, ops=1)
def sends_too_early(x):
    try:
        logged(x, []).send(3)
    except TypeError as error:
        return str(error), x + 1


@program(X, graphs=1, ops=1)
def stop_iteration_inside_is_an_error(x):
    def stopping():
        yield x
        next(iter([]))

    try:
        return sum(stopping())
    except RuntimeError as error:
        return str(error), repr(error.__cause__), x + 1


@program(X, graphs=1, ops=2)
def body_ignores_its_end(x):
    def stubborn():
        try:
            yield x
        except GeneratorExit:
            yield x + 1

    parts = stubborn()
    y = next(parts) * 2
    try:
        parts.close()
    except RuntimeError as error:
        return str(error), y


@program(X, graphs=1, ops=1, breaks=["DX213", "DX307", "DX318"])
def throws_into_a_delegating_one(x):
    def inner():
        try:
            yield x
        except ValueError:
            yield x + 7

    def outer():
        yield from inner()

    parts = outer()
    y = next(parts)
    return y + parts.throw(ValueError)


@program(X, graphs=0)
def thrown_away_inside_a_try(x):
    def numbers():
        try:
            yield x
            yield x + 1
        finally:
            closed.append("closed")

    closed = []
    y = next(numbers()) * 2
    return y, closed


class Letters(collections.abc.Sequence):  # type: ignore[type-arg]
    """Walked by the generator of collections.abc, which waits inside `try: ... except IndexError:`."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> int:
        if index >= 5:
            raise IndexError(index)
        return index


def passes_the_exit(seen):
    try:
        for number in range(5):
            yield number
    except ValueError:
        seen.append("value")


@program(X, Letters(), [], graphs=1, ops=8)
def generators_thrown_away_that_do_nothing(x, letters, seen):
    for factor, letter in zip([1, 2], letters):
        x = x * factor + letter
    for factor, number in zip([1, 2], passes_the_exit(seen)):
        x = x * factor + number
    return x, seen


@PROGRAMS.parameters()
def test_generator(run):
    """The program does what it does in eager."""
    run()


def test_the_attempts_let_go_of_the_programs_objects() -> None:
    """What a frame held is freed when it returns, at its first call too: nothing waits for the garbage collector."""

    class Held:
        """Something that can be watched."""

    def program(x: torch.Tensor, held: Any) -> torch.Tensor:
        print("woo")
        return next(iter([x])) + len(str(type(held)))

    gc.disable()
    try:
        held = Held()
        watched = weakref.ref(held)
        dynexplore.optimize("eager")(program)(X, held)
        del held
        assert watched() is None
        assert graphs_compiled() == 1
    finally:
        gc.enable()


class Held:
    """Something that can be watched."""


def changes_what_is_outside(x: torch.Tensor, held: Any, outside: list[Any]) -> torch.Tensor:
    """Values that are written back when the graph has run."""
    outside.append(held)
    return x + len(outside)


def catches_what_is_raised(x: torch.Tensor, held: Any, outside: list[Any]) -> torch.Tensor:
    """An exception that passes a frame of the engine's which keeps it."""
    try:
        return x + held.missing
    except AttributeError:
        return x * 2


def stops_after_a_change(x: torch.Tensor, held: Any, outside: list[Any]) -> torch.Tensor:
    """The same behind a break, and beside an exception that leaves a generator."""
    outside.append(held)
    print(len(outside))
    made = logged(x, outside)
    try:
        raise ValueError(next(made) is x)
    except ValueError:
        return x + len(list(made))


@pytest.mark.parametrize("program", [changes_what_is_outside, catches_what_is_raised, stops_after_a_change])
def test_a_capture_holds_nothing_in_circles(program: Any) -> None:
    """Neither generated code that waits for its turn, nor the traceback of a caught exception, outlives the capture."""
    dynexplore.optimize("eager")(lambda x: x + 1)(X)  # the first capture of a process imports parts of torch, which keep frames
    dynexplore.reset()
    gc.collect()
    gc.disable()
    try:
        held = Held()
        watched, outside = weakref.ref(held), []
        dynexplore.optimize("eager")(program)(X, held, outside)
        outside.clear()
        del held
        assert watched() is None
        assert graphs_compiled() >= 1
    finally:
        gc.enable()


def test_a_closed_generator_has_nothing_to_send_to() -> None:
    """`send` after `close` ends, whether the body had begun or not."""

    def body() -> collections.abc.Generator[int, int, None]:
        yield 1

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        made = body()
        made.close()
        try:
            made.send(2)
        except (StopIteration, TypeError) as error:
            return x * 2, type(error).__name__
        return x, ""

    assert_same_as_eager(fn, torch.ones(3))


@pytest.mark.parametrize("way", [next, lambda made: made.__next__(), lambda made: made.send(None)])
def test_what_a_generator_returned_is_said_once(way: Any) -> None:
    """StopIteration bears what the body returned, the first time; a generator that is over says nothing more."""

    def values(x: torch.Tensor) -> Any:
        yield x + 1
        return x * 3

    def call(x: torch.Tensor) -> Any:
        made = values(x)
        said: list[Any] = [way(made)]
        for _ in range(2):
            try:
                way(made)
            except StopIteration as stop:
                said.append((len(stop.args), stop.value))
        return said

    assert_same_as_eager(call, torch.ones(2))


def test_a_generator_that_returns_at_once() -> None:
    """Its first item is its end, whose text is that of what it returned."""

    def at_once(n: int) -> Any:
        return n
        yield n

    def call(x: torch.Tensor) -> Any:
        try:
            next(at_once(7))
        except StopIteration as stop:
            return x * 2, str(stop)

    assert_same_as_eager(call, torch.ones(2))


@pytest.mark.parametrize("handles", [True, False])
@pytest.mark.parametrize("caller_handles", [True, False])
def test_what_is_thrown_has_the_context_of_what_the_generator_handles(handles: bool, caller_handles: bool) -> None:
    """`throw` chains to the exception that the generator itself handles, and to no other."""

    def parts():
        if handles:
            try:
                raise KeyError("handled")
            except KeyError:
                yield 1
        else:
            yield 1

    def thrown():
        part = parts()
        next(part)
        error = ValueError("thrown")
        try:
            part.throw(error)
        except ValueError as caught:
            return repr(caught.__context__), caught is error

    def throws(x):
        if not caller_handles:
            return x + 1, thrown()
        try:
            raise TypeError("of the caller")
        except TypeError:
            return x + 1, thrown()

    assert_same_as_eager(throws, X, graphs=1, breaks=0, calls=2)
