"""TailCall: modified code hands on to another function, and the hook calls it in the frame's place."""

from __future__ import annotations

import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import pytest

from dynexplore.engine.native import CacheStore, Entry, FrameState, Region, RegionCall, TailCall, finish_call

pytestmark = pytest.mark.plain("speaks to the C extension, below what `disable` switches off")


def in_place_of(original: Any, modified: Any, seen: list[Any] | None = None) -> Region:
    """A region in which frames of one function run the code of another, which has the same arguments."""

    def convert(state: FrameState) -> Entry | None:
        if seen is not None:
            seen.append((state.code.co_name, state.resumed_from))
        return Entry(None, modified.__code__, (), modified.__code__.co_argcount) if state.code is original.__code__ else None

    return Region(CacheStore(), convert)


def original(x, going_on=TailCall):
    return "never"


def rest(x):
    return x, sys._getframe(1).f_code.co_name


def refuses(x):
    raise LookupError(x)


def hands_on(x, going_on):
    return going_on(rest, x)


def hands_on_to_what_refuses(x, going_on):
    return going_on(refuses, x)


def caller(x):
    return original(x)


def test_the_function_is_called_where_the_frame_was() -> None:
    """The caller of a frame that ends with a TailCall gets the result of the function, and is the frame behind it."""
    assert RegionCall(caller, in_place_of(original, hands_on))(5) == (5, "caller")
    assert RegionCall(original, in_place_of(original, hands_on))(5)[0] == 5


def test_tracebacks_leave_out_the_frame_that_has_ended() -> None:
    """An exception of the function passes the caller next."""
    with pytest.raises(LookupError) as caught:
        RegionCall(caller, in_place_of(original, hands_on_to_what_refuses))(5)
    assert [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)][1:] == ["caller", "refuses"]


def test_a_million_calls_do_not_nest() -> None:
    """What goes on may end with a TailCall in turn: neither Python's nor C's stack grows, and nothing is kept."""

    def counts(x, going_on):
        return x if x == 0 else going_on(types.FunctionType(original.__code__, globals(), "", (TailCall,)), x - 1)

    run = RegionCall(original, in_place_of(original, counts))
    assert run(10) == 0
    before = sys.getallocatedblocks()
    assert run(100_000) == 0
    assert sys.getallocatedblocks() - before < 1_000


def test_the_callback_is_told_what_a_frame_goes_on_from() -> None:
    """A frame that a TailCall started knows the modified code; any other frame knows of none, also below such a one."""

    def with_callee(x):
        return rest(x)

    def hands_on_to_that(x, going_on):
        return going_on(x[0], x[1])

    seen: list[Any] = []
    RegionCall(caller, in_place_of(original, hands_on_to_that, seen))((with_callee, 1))
    ours = {"caller", "original", "with_callee", "rest"}  # an audit hook of another package runs frames of its own
    assert [frame for frame in seen if frame[0] in ours] == [
        ("caller", None), ("original", None), ("with_callee", hands_on_to_that.__code__), ("rest", None)
    ]  # fmt: skip


def test_the_function_alone_holds_its_arguments() -> None:
    """An argument that is deleted dies then: neither the TailCall nor the frame that has ended holds it."""
    died: list[str] = []

    class DeferredEvent:
        def __del__(self):
            died.append("died")

    def deletes(x):
        del x
        return list(died)

    def makes(x, going_on):
        return going_on(x[0], x[1]())

    assert RegionCall(caller, in_place_of(original, makes))((deletes, DeferredEvent)) == ["died"]


def takes(x, *others):
    return x


def finishes(x):
    return finish_call(TailCall(takes, x))


def finishes_under_a_hook(x):
    return RegionCall(finishes, in_place_of(original, hands_on))(x)


def finishes_twice(x):
    return finish_call(TailCall(finishes, finish_call(TailCall(finishes_under_a_hook, x))))


def raises_after_one(x):
    finish_call(TailCall(takes, x))
    raise LookupError


@pytest.mark.parametrize("function", [takes, finishes, finishes_under_a_hook, finishes_twice, raises_after_one])
@pytest.mark.parametrize("hooked", [False, True])
def test_a_call_within_a_call_keeps_no_argument(function: Any, hooked: bool) -> None:
    """Whether the hook sees both functions, one of them or none: when they have returned, nothing holds their arguments."""

    def outermost(x):
        return finish_call(TailCall(function, x))

    run = RegionCall(outermost, in_place_of(original, hands_on)) if hooked else outermost
    argument = object()
    before = sys.getrefcount(argument)
    for _ in range(5):
        if function is raises_after_one:
            with pytest.raises(LookupError):
                run(argument)
        else:
            assert run(argument) is argument
    assert sys.getrefcount(argument) == before


def test_only_functions_and_positional_arguments() -> None:
    """A TailCall says what it takes, and what it is."""
    make: Callable[..., Any] = TailCall
    assert repr(make(rest, 1)) == "<the rest of rest>"
    for wrong in (lambda: make(), lambda: make(len, 1), lambda: make(rest, x=1)):
        with pytest.raises(TypeError, match="TailCall takes a function and its positional arguments"):
            wrong()
