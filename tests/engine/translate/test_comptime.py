"""comptime: what is known while a function is captured can be looked at from inside the function, ours and torch's own."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore import comptime, exc
from engine_checks import assert_same_as_eager, graphs_compiled

X = torch.arange(4.0)
TORCHS: Any = importlib.import_module("torch._dynamo.comptime").comptime
SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


def captured(fn: Any, *args: Any, **options: Any) -> Any:
    """The result under the engine, in one graph."""
    result = dynexplore.optimize("eager", nopython=True, **options)(fn)(*args)
    assert graphs_compiled() == 1
    return result


def test_a_function_sees_the_locals_once_and_nothing_is_in_the_graph() -> None:
    """`comptime(fn)` is called while capturing, with fakes for tensors; a call from the cache does not call it."""

    def fn(x: Any) -> Any:
        y = x.sin()
        number = 3
        comptime(lambda ctx: SEEN.append((ctx.get_local("y").as_fake().shape, ctx.get_local("number").as_python_constant())))
        return y + number

    assert_same_as_eager(fn, X, graphs=1, ops=1, breaks=0)
    assert (torch.Size([4]), 3) in SEEN
    fast = dynexplore.optimize("eager")(fn)
    SEEN.clear()
    fast(X)
    fast(X)
    assert len(SEEN) <= 1


@pytest.mark.parametrize("at_compile_time", [comptime, TORCHS], ids=["ours", "torch's"])
def test_the_short_forms_print(at_compile_time: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Each prints what is known at its place, and leaves nothing in the graph; torch's own does the same."""

    def inner(z: Any) -> Any:
        at_compile_time.print_bt()
        return z * 2

    def fn(x: Any) -> Any:
        y = x.sin()
        at_compile_time.print_locals()
        at_compile_time.print_graph()
        at_compile_time.print_guards()
        at_compile_time.print(y)
        at_compile_time.print_disas()
        return inner(y) + at_compile_time.print_value_stack_and_return(x)

    result = captured(fn, X)
    printed = capsys.readouterr().out
    assert torch.equal(result, X.sin() * 2 + X)
    parts = ("y = TensorVariable(float32[4] cpu)", "x.sin()", "x TENSOR_MATCH", "-->", "inner\n", "fn\n", "- TensorVariable(")
    for part in parts:
        assert part in printed, part


def test_in_plain_python_the_fallback_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Outside of a capture `comptime(fn, fallback)` calls the second function, and the short forms do nothing."""

    def fn(x: Any) -> Any:
        comptime(lambda ctx: SEEN.append("captured"), lambda: SEEN.append("plain"))
        comptime.print_graph()
        return x + 1

    fn(X)
    assert SEEN == ["plain"] and not capsys.readouterr().out
    captured(fn, X)
    assert SEEN == ["plain", "captured"]


def test_a_decorated_function_sees_what_it_closes_over() -> None:
    """Constants as they are, tensors as what is known of them."""

    def fn(x: Any) -> Any:
        y, number, text = x.sin(), 3, "a"

        @comptime
        def _(ctx: Any) -> None:
            SEEN.append((y.size(0), y.python_type(), number, text))

        return y + number

    assert torch.equal(captured(fn, X), X.sin() + 3)
    assert SEEN == [(4, torch.Tensor, 3, "a")]


def test_graph_break() -> None:
    """The graph ends where the program asks for it, with ctx and with the short form; in an inner function too."""

    def inner(y: Any) -> Any:
        comptime(lambda ctx: ctx.graph_break("here"))
        return y * 2

    def fn(x: Any) -> Any:
        y = x.sin()
        comptime.graph_break()
        return inner(y + 1)

    assert_same_as_eager(fn, X, graphs=3, breaks=["DX208"] * 2)


def test_a_size_is_forced_to_be_a_number() -> None:
    """`force_static` makes a symbolic size the number that it is, with a guard; without it one graph serves all sizes."""

    def fn(x: Any) -> Any:
        comptime(lambda ctx: SEEN.append(ctx.get_local("n").is_dynamic()) if "n" in ctx._locals(0) else None)
        n = x.shape[0]
        comptime(lambda ctx: SEEN.append(ctx.get_local("n").is_dynamic()))
        comptime.force_static(n)
        comptime.assert_static(x.shape[0])
        return x * n

    fast = dynexplore.optimize("eager", dynamic=True)(fn)
    assert torch.equal(fast(X), X * 4)
    assert SEEN == [True]
    assert torch.equal(fast(torch.ones(7)), torch.ones(7) * 7)
    assert graphs_compiled() == 2


def test_what_the_function_raises_reaches_the_program() -> None:
    """As ComptimeError with the exception as its cause: a failed `assert_static` is no bug of the engine."""

    def fn(x: Any) -> Any:
        comptime.assert_static(x.shape[0])
        return x + 1

    with pytest.raises(exc.ComptimeError, match="AssertionError: expected a number that does not vary") as caught:
        dynexplore.optimize("eager", dynamic=True)(fn)(X)
    assert isinstance(caught.value.__cause__, AssertionError)


def test_the_caller_is_seen_with_a_stack_level() -> None:
    """`stacklevel=1` and `parent()` look at the frame that called this one."""

    def inner(z: Any) -> Any:
        comptime(lambda ctx: SEEN.append(ctx.get_local("outer", stacklevel=1).as_python_constant()))
        comptime(lambda ctx: SEEN.append(ctx.parent().get_local("outer").as_python_constant()))
        return z

    def fn(x: Any) -> Any:
        outer = 5
        return inner(x) * outer

    assert torch.equal(captured(fn, X), X * 5)
    assert SEEN == [5, 5]
