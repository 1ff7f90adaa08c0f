"""The main claim is checked itself: `assert_same_as_eager` must fail for an engine that does something else."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Wrap], None]]:
    """Puts a pretended engine in the place of dynexplore.optimize."""

    def pretend(wrap: Wrap) -> None:
        # into the module's dict: asking for the attribute would bring in the real engine
        dynexplore.graph_breaks()  # the first name that is asked for brings its neighbours, over what is put there
        door = vars(dynexplore)
        monkeypatch.setitem(door, "optimize", lambda backend: wrap)
        monkeypatch.setitem(door, "reset", lambda: None)
        monkeypatch.setitem(door, "counters", {"frames": {"total": 1}, "stats": {"recompiles": 0}})
        monkeypatch.setitem(door, "explain", lambda *args, **kwargs: "the break report")

    yield pretend


class Thing:
    """Its repr is its address."""


def changed(change: Callable[[Any], Any]) -> Wrap:
    """An engine that runs the function and then changes its result."""
    return lambda fn: lambda *args, **kwargs: change(fn(*args, **kwargs))


def before(action: Callable[..., Any]) -> Wrap:
    """An engine that does something with the arguments before it runs the function."""

    def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            action(*args)
            return fn(*args, **kwargs)

        return run

    return wrap


def test_an_honest_engine_passes(engine: Callable[[Wrap], None]) -> None:
    """An engine that does what Python does passes, and the caller's arguments are never touched."""
    engine(lambda fn: fn)
    x, seen = torch.zeros(2), [1]
    closed = {"n": 0}

    def fn(x: torch.Tensor, seen: list[int]) -> Any:
        closed["n"] += 1
        x.add_(closed["n"])
        seen.append(2)
        print("woo", random.random(), torch.rand(1))
        return seen, x, x[1:]

    assert_same_as_eager(fn, x, seen, calls=3, graphs=0, breaks=0, ops=0)
    assert x.tolist() == [0, 0]
    assert seen == [1]
    assert closed == {"n": 0}


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (changed(lambda out: [out[0], out[1].clone()]), "value.*: one that was met|two objects|another object"),
        (changed(lambda out: [out[0], out[1] + 1]), "values differ|objects"),
        (changed(lambda out: tuple(out)), r"value\[0\]: .*\(list\) was expected, .*\(tuple\) was found"),
        (before(lambda x: x.add_(1)), r"arguments.*values differ"),
        (before(lambda x: print("noise")), r"printed: '' expected, 'noise\\n' found"),
        (before(lambda x: torch.rand(1)), "random numbers"),
        (before(lambda x: random.random()), "random numbers"),
        (before(lambda x: torch.set_grad_enabled(False)), "modes"),
        (before(lambda x: 1 / 0), "exceptions: .*ZeroDivisionError"),
        (before(lambda x: setattr(x, "mark", 1)), "__dict__"),
    ],
)
def test_a_dishonest_engine_is_caught(engine: Callable[[Wrap], None], wrap: Wrap, message: str) -> None:
    """Each way of doing something else is named in the failure, with the break report below it."""
    engine(wrap)
    with pytest.raises(AssertionError, match=f"(?s){message}.*the break report"):
        assert_same_as_eager(lambda x: [x, x], torch.ones(2), graphs=0)


def test_both_sides_start_from_the_same_modes(engine: Callable[[Wrap], None]) -> None:
    """A mode that a later call leaves set is none that the first call of the other side, or the next test, starts with."""

    def sometimes(x: torch.Tensor, enabled: bool) -> torch.Tensor:
        if not enabled:
            torch.set_grad_enabled(False)
        return x

    engine(lambda fn: fn)
    assert_same_as_eager(sometimes, torch.ones(2), True, then=[(torch.ones(2), False)], graphs=0)
    assert torch.is_grad_enabled()


def test_exceptions_are_compared(engine: Callable[[Wrap], None]) -> None:
    """An exception must have the same type and message, come from the same line, and have the same cause."""

    def fails(x: torch.Tensor) -> None:
        raise ValueError("no")

    engine(lambda fn: fn)
    assert_same_as_eager(fails, torch.ones(1), graphs=0)

    def other_line(x: torch.Tensor) -> None:
        raise ValueError("no")

    engine(lambda fn: other_line)
    with pytest.raises(AssertionError, match="tracebacks"):
        assert_same_as_eager(fails, torch.ones(1), graphs=0)

    def with_cause(x: torch.Tensor) -> None:
        raise ValueError("no") from KeyError(1)

    engine(lambda fn: with_cause)
    with pytest.raises(AssertionError, match="KeyError"):
        assert_same_as_eager(fails, torch.ones(1), graphs=0)


def test_printed_identities_are_compared(engine: Callable[[Wrap], None]) -> None:
    """Which argument an address or an id belongs to is compared, the address itself is not, and that of a new object neither."""

    def fn(pair: list[Any], swap: bool) -> str:
        first, second = pair[1::-1] if swap else pair[:2]
        print(f"{first!r}, {id(second)}, {object()!r}")
        if pair[2]:
            raise ValueError(f"no {first!r}")
        return "printed"

    for raises in (False, True):
        args = [Thing(), Thing(), raises], False
        engine(lambda fn: fn)
        assert_same_as_eager(fn, *args, graphs=0)
        engine(lambda fn: lambda pair, swap: fn(pair, True))
        with pytest.raises(AssertionError, match=r"Thing object at object \d+>, object \d+, <object object at 0x\.\.\.>"):
            assert_same_as_eager(fn, *args, graphs=0)


def test_gradients_are_compared(engine: Callable[[Wrap], None]) -> None:
    """Outputs with other gradients are another result, even when their values agree."""

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return 2 * grad

    engine(changed(Doubled.apply))
    with pytest.raises(AssertionError, match="gradients"):
        assert_same_as_eager(lambda x: x * 3, torch.ones(2, requires_grad=True), graphs=0)
    assert_same_as_eager(lambda x: x * 3, torch.ones(2, requires_grad=True), gradients=False, graphs=0)


def test_a_module_is_copied_once_per_side(engine: Callable[[Wrap], None]) -> None:
    """Buffers that a module changes go on from call to call on each side, and the original keeps its own."""
    model = torch.nn.BatchNorm1d(2)
    engine(lambda fn: fn)
    assert_same_as_eager(model, torch.randn(4, 2), calls=2, graphs=0)
    assert model.num_batches_tracked == 0
    engine(lambda fn: lambda x: fn.eval()(x))
    with pytest.raises(AssertionError, match="running_mean"):
        assert_same_as_eager(model, torch.randn(4, 2), calls=2, graphs=0)


def test_state_outside_is_observed(engine: Callable[[Wrap], None]) -> None:
    """`setup` resets what lies outside of the function, `observe` compares it."""
    log: list[int] = []
    engine(before(lambda x: log.append(7)))
    with pytest.raises(AssertionError, match="observed"):
        assert_same_as_eager(lambda x: x, torch.ones(1), setup=log.clear, observe=lambda: log, graphs=0)
    engine(lambda fn: fn)
    assert_same_as_eager(lambda x: x, torch.ones(1), setup=log.clear, observe=lambda: log, graphs=0)


def test_warnings_of_the_program_are_compared(engine: Callable[[Wrap], None]) -> None:
    """A warning from the function's own file is part of what it does."""
    engine(lambda fn: lambda x: x)

    def warns(x: torch.Tensor) -> torch.Tensor:
        warnings.warn("careful", UserWarning, stacklevel=1)
        return x

    with pytest.raises(AssertionError, match="careful"):
        assert_same_as_eager(warns, torch.ones(1), graphs=0)


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({}, "a graph was expected, none was compiled"),
        ({"graphs": 1}, "1 graphs were expected, 0 were compiled"),
        ({"graphs": 0, "ops": 2}, "2 operators were expected, 0 were captured"),
        ({"ops": [2]}, r"\[2\] operators per graph were expected, \[\] were captured"),
        ({"breaks": 1}, "1 graph breaks were expected, 0 happened"),
        ({"breaks": ["DX104"]}, r"the graph breaks \['DX104'\] were expected, \[\] happened"),
        ({"recompiles": 1}, "1 recompiles were expected, 0 happened"),
    ],
)
def test_counts_are_compared(engine: Callable[[Wrap], None], expected: dict[str, Any], message: str) -> None:
    """A number of graphs, operators, breaks or recompiles other than expected fails, and so does no graph where none is named."""
    engine(lambda fn: fn)
    with pytest.raises(AssertionError, match=message):
        assert_same_as_eager(lambda x: x + 1, torch.ones(1), **expected)


def test_no_graph_is_not_no_engine(engine: Callable[[Wrap], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no graph is expected, the engine has to have looked at the function at least."""
    engine(lambda fn: fn)
    monkeypatch.setitem(vars(dynexplore), "counters", {"frames": {"total": 0}, "stats": {"recompiles": 0}})
    with pytest.raises(AssertionError, match="not one frame was translated"):
        assert_same_as_eager(lambda x: x, torch.ones(1), graphs=0)


def test_the_counting_backend_counts() -> None:
    """The backend keeps each graph, names what it calls, and counts how often it runs."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.relu(x + 1).sum()

    backend = CountingBackend()
    run = backend(torch.fx.symbolic_trace(Model()), [torch.ones(2)])
    assert run(torch.ones(2)) == 4
    assert (backend.ops, backend.runs) == ([2], 1)
    assert backend.targets() == [["add", "relu", "sum"]]
