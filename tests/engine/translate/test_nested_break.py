"""Nested graph breaks: a break in a callee ends one graph for all frames around it, and is counted once.

What is compared with eager are values, exceptions with their tracebacks, live stacks and the stack level of warnings, over calls.
"""

from __future__ import annotations

import functools
import sys
import traceback
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from recorded import recorded

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.config import config
from engine_checks import CountingBackend, assert_same_as_eager

X = torch.ones(3)
SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def nested() -> Iterator[None]:
    with config.patch(nested_graph_breaks=True):
        yield


def stack() -> list[tuple[str, int]]:
    """The frames of this file, by name and line."""
    frame: Any = sys._getframe(1)
    entries = []
    while frame is not None:
        if frame.f_code.co_filename == __file__:
            entries.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return entries


def places(error: BaseException) -> list[tuple[str, int | None]]:
    """The lines of this file that an exception came through."""
    return [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__) if entry.filename == __file__]


def leaf(x):
    x = x + 1
    dynexplore.graph_break()
    return x * 2


def middle(x, factor=2):
    x = x * factor
    y = leaf(x)
    return y - x


def two_calls_deep(x):
    y = middle(x + 3)
    return y * x


def twice(x):
    return middle(x) + middle(x * 2, factor=3)


def item(x):
    def scale(x):
        return x * x.sum().item()

    return scale(x + 1) - x


def branch(x):
    def choose(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    return choose(x * 2) * 3


def shows_the_stack(x):
    def inner(x):
        x = x + 1
        SEEN.append(stack())
        return x * 2

    def outer(x):
        return inner(
            x * 2
        )

    return outer(x) + 1


def warns_of_its_caller(x):
    def inner(x):
        x = x + 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("of the caller", stacklevel=2)
        SEEN.append(caught[0].lineno)
        return x * 2

    return inner(x * 3) - 1


def caught_in_the_middle(x):
    def inner(x):
        x = x + 1
        raise ValueError(str(x.sum().item()))

    def outer(x):
        try:
            return inner(x * 2)
        except ValueError as error:
            SEEN.append((str(error), places(error)))
            return x - 1
        finally:
            SEEN.append("left")

    return outer(x + 1) * 2


def caught_by_the_root(x):
    def inner(x):
        dynexplore.graph_break()
        if x.shape[0] == 3:
            raise KeyError("three")
        return x * 2

    def outer(x):
        return inner(x * 2) + 1

    try:
        return outer(x)
    except KeyError as error:
        SEEN.append(places(error))
    return x * 5


@dynexplore.disable
def fails(x):
    raise ValueError(x.shape[0])


def raised_by_the_call_that_breaks(x):
    def inner(x):
        fails(x + 1)
        return x

    try:
        return inner(x * 2)
    except ValueError as error:
        number = error.args[0]
    return x * number


def goes_through(x):
    def inner(x):
        dynexplore.graph_break()
        return [x * 2][1]

    return inner(x + 1) * 2


def in_a_block(x):
    def inner(x):
        with torch.no_grad():
            y = x * 2
            dynexplore.graph_break()
            y = y + int(torch.is_grad_enabled())
        return y * x

    y = inner(x * 3)
    return y + torch.is_grad_enabled()


def around_the_call(x):
    def inner(x):
        y = x * 2
        dynexplore.graph_break()
        return y + int(torch.is_grad_enabled())

    with torch.no_grad():
        y = inner(x)
    return y * x


def counts_in_a_cell(x):
    count, total = 0, x

    def inner(y):
        nonlocal count, total
        count += 1
        total = total + y
        dynexplore.graph_break()
        total = total * 2
        return y + count

    return inner(x + 1) + inner(x), total, count


def closure_of_the_middle(x):
    def outer(x):
        factor = x.shape[0]

        def inner(y):
            nonlocal factor
            factor += 1
            y = y * factor
            dynexplore.graph_break()
            factor *= 2
            return y + factor

        return inner(x) * factor

    return outer(x + 1) + 1


def in_a_loop(x):
    for i in range(6):
        x = middle(x) + i
    return x


def loop_of_the_callee(x):
    def inner(x):
        for i in range(5):
            x = x + i
            dynexplore.graph_break()
        return x

    return inner(x * 2) - x


def unbound_in_the_callee(x):
    def inner(x):
        for _ in range(x.shape[0] - 3):
            y = x
        dynexplore.graph_break()
        return y + x

    return inner(x)


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def step(self, x):
        self.calls += 1
        dynexplore.graph_break()
        return x * self.calls


class Doubled(Counter):
    def step(self, x):
        return super().step(x + 1) * 2


def methods(x):
    counter = Doubled()
    return counter.step(x) + counter.step(x), counter.calls


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) + 1

    return wrapper


@decorated
def through_a_decorator(x):
    x = x * 2
    dynexplore.graph_break()
    return x - 1


def key_of_a_sort(x):
    def key(number):
        dynexplore.graph_break()
        return -number

    return sorted([1, 3, 2], key=key), x + 1


def recursion(x):
    def down(x, n):
        x = x + n
        if n == 0:
            dynexplore.graph_break()
            return x
        return down(x * 2, n - 1) + 1

    return down(x, 3)


def iterators_of_two_frames(x):
    def inner(parts):
        first = next(parts)
        dynexplore.graph_break()
        return first + next(parts)

    parts = iter([x, x * 2, x * 3])
    return inner(parts) * next(parts)


def whole_stack() -> list[str]:
    """The names of all frames, those of torch's own methods too, up to the program."""
    names = [entry.name for entry in traceback.extract_stack()][:-1]
    return names[names.index("modules") :]


class Block(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x):
        x = x * self.factor
        SEEN.append(whole_stack())
        return x + 1


BLOCKS = torch.nn.Sequential(Block(2.0), torch.nn.ReLU(), Block(3.0))
HOOKED = Block(4.0)
HOOKED.register_forward_hook(lambda module, args, result: result * 2)


def modules(x):
    return BLOCKS(x + 1) * 2


def modules_with_hooks(x):
    def modules(x):
        return HOOKED(x) * 2

    return modules(x + 1)


class HookedAndRaises(torch.nn.Module):
    def forward(self, x):
        x = x * 2
        dynexplore.graph_break()
        raise ValueError("behind the break")


RAISES = HookedAndRaises()
RAISES.register_forward_hook(lambda module, args, result: result * 2)


CALLS_ALWAYS = HookedAndRaises()
CALLS_ALWAYS.register_forward_hook(lambda module, args, result: SEEN.append("always"), always_call=True)


def a_hook_that_is_always_called(x):
    return CALLS_ALWAYS(x + 1)


def a_module_with_hooks_raises_behind_a_break(x):
    try:
        return RAISES(x + 1)
    except ValueError as error:
        SEEN.append([(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)])
    return x * 3


class Scaled:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    @property
    def scale(self):
        factor = self.factor * 2
        dynexplore.graph_break()
        return factor + 1

    def __call__(self, x):
        return x * self.scale


class WithFallback(Scaled):
    """Where the getter raises AttributeError, this is asked."""

    def __getattr__(self, name: str) -> Any:
        return 5.0



def called_objects(x):
    return Scaled(2.0)(x + 1) + functools.partial(Scaled(3.0), x)()


def property_with_a_fallback(x):
    class Refuses(WithFallback):
        @property
        def scale(self):
            dynexplore.graph_break()
            raise AttributeError("scale")

    return Refuses(2.0)(x + 1) * 2


def a_wrapper(x):
    return two_calls_deep(x)


def a_wrapper_of_all_arguments(*args, **kwargs):
    return twice(*args, **kwargs)


def behind_a_break_only_a_call(x):
    dynexplore.graph_break()
    return middle(x)


def a_local_called_function(x):
    def inner(x, function):
        x = x * 2
        dynexplore.graph_break()
        return function(x) + 1

    def outer(x, function):
        def inner(x, y):
            y = y + 1
            return function(x, called_inner) - y

        called_inner = torch.sin
        return inner(x, x) * 2

    return outer(x + 1, inner)


PROGRAMS = {
    # program -> graphs and breaks of three calls
    two_calls_deep: (2, 1), twice: (3, 2), item: (2, 1), branch: (2, 1), shows_the_stack: (2, 1), key_of_a_sort: (1, None),
    caught_in_the_middle: (None, None), caught_by_the_root: (None, None),
    raised_by_the_call_that_breaks: (2, 1), goes_through: (2, 2), in_a_block: (2, 1),
    around_the_call: (2, 1), counts_in_a_cell: (3, 2), closure_of_the_middle: (2, 1), in_a_loop: (3, 2), loop_of_the_callee: (3, 2),
    unbound_in_the_callee: (0, None), methods: (3, 2), through_a_decorator: (2, 1), recursion: (None, None),
    modules: (3, 2), modules_with_hooks: (2, 1),
    a_module_with_hooks_raises_behind_a_break: (None, None), a_hook_that_is_always_called: (None, None),
    called_objects: (3, 2), property_with_a_fallback: (None, None),
    warns_of_its_caller: (None, None), iterators_of_two_frames: (2, 1),
    a_local_called_function: (2, 1), a_wrapper: (2, 1), a_wrapper_of_all_arguments: (3, 2), behind_a_break_only_a_call: (2, 2),
}  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager(program: Callable[..., Any]) -> None:
    """The same as eager in three calls and in one with another size, with one graph before a break and one after it."""
    graphs, breaks = PROGRAMS[program]
    assert_same_as_eager(program, X, calls=3, graphs=graphs, breaks=breaks, setup=SEEN.clear, observe=lambda: list(SEEN))
    others = [(torch.ones(4),), (X,)]
    assert_same_as_eager(program, X, then=others, graphs=range(99), setup=SEEN.clear, observe=lambda: list(SEEN))


def test_a_backend_that_fails_behind_the_break_raises_in_the_callee() -> None:
    """The rest is compiled when its frames have ended: the handlers of all of them are asked, the innermost first."""
    compiled: list[Any] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        compiled.append(module)
        if len(compiled) == 2:
            raise KeyboardInterrupt
        return module.forward

    def inner(x):
        try:
            x = x + 1
            dynexplore.graph_break()
            return x * 2
        finally:
            SEEN.append("inner")

    def outer(x):
        try:
            return inner(x) + 1
        except KeyboardInterrupt:
            SEEN.append("outer")
            return x

    def program(x):
        return outer(x * 2)

    SEEN.clear()
    assert torch.equal(dynexplore.optimize(backend)(program)(X), X * 2)
    assert SEEN == ["inner", "outer"]


WITH_A_GLOBAL = """
def leaf(x):
    graph_break()
    x = x + 1

    def inner(y):
        y = y + 1
        graph_break()
        return y * A

    return inner(x)


def program(x, function):
    return function(x) + 1
"""


def test_functions_of_one_code_and_other_globals() -> None:
    """The rest of a callee, and of a function that it makes, reads the globals of the callee of this call."""
    first: dict[str, Any] = {"A": 2, "graph_break": dynexplore.graph_break}
    exec(WITH_A_GLOBAL, first)
    second = {"A": 7, "graph_break": dynexplore.graph_break}
    other = types.FunctionType(first["leaf"].__code__, second)
    optimized = dynexplore.optimize("eager")(first["program"])
    for function in (first["leaf"], other, first["leaf"], other):
        assert torch.equal(optimized(X, function), first["program"](X, function))
    assert dynexplore.counters["graph_break"].total()


def reads_a_number_and_passes_on(x, n):
    n = SCALES[n]
    return breaks_once(x)


def breaks_once(x):
    x = x * 2
    dynexplore.graph_break()
    return x + 1


SCALES = {1: 1, 2: 4, 3: 9}


@pytest.mark.parametrize("is_on", [True, False])
def test_a_frame_that_only_passes_on_has_no_graphs_of_its_own(is_on: bool) -> None:
    """There is nothing to join: what the frame reads compiles the callee no second time."""
    with config.patch(nested_graph_breaks=is_on):
        assert_same_as_eager(reads_a_number_and_passes_on, X, 1, then=[(X, 2), (X, 3)], graphs=2)


class Handle:
    pass


def refers_weakly_after_the_loop(x, n):
    for _ in range(n):
        x = breaks_once(x - 1) / 2
        y = x * 3
    handle = Handle()
    reference = weakref.ref(handle)
    is_alive = reference() is not None
    del handle
    SEEN.append((is_alive, reference() is None))
    return y + 1


def calls_a_loop_whose_last_iteration_is_not_captured(x, n):
    x = x * 5
    y = refers_weakly_after_the_loop(x, n)
    return y - x


@pytest.mark.parametrize(("is_on", "graphs"), [(True, 5), (False, 7)])
def test_a_rest_that_is_separate_in_one_iteration_is_one_graph_in_others(is_on: bool, graphs: int) -> None:
    """The rest after the last iteration needs a frame for each function. Earlier iterations still share their graph."""
    with config.patch(nested_graph_breaks=is_on):
        assert_same_as_eager(
            calls_a_loop_whose_last_iteration_is_not_captured, X, 3, calls=2, then=[(X, 4), (X, 3)], graphs=graphs,
            setup=SEEN.clear, observe=lambda: list(SEEN),
        )  # fmt: skip


WEIGHTS = {f"k{number}.": float(number) for number in range(20)}


def looks_up_and_refers_weakly(x, key):
    x = breaks_once(x - 1) / 2
    x = x * WEIGHTS[key + "."]
    handle = Handle()
    reference = weakref.ref(handle)
    is_alive = reference() is not None
    del handle
    SEEN.append((is_alive, reference() is None))
    return x + 1


def calls_what_is_never_one_graph(x, key):
    x = x * 5
    y = looks_up_and_refers_weakly(x, key)
    return y - x


@pytest.mark.parametrize("limit", [8, 3, 2])
@pytest.mark.parametrize(("is_on", "graphs"), [(True, 3), (False, 5)])
def test_a_rest_that_is_never_one_graph_is_translated_a_bounded_number_of_times(is_on: bool, graphs: int, limit: int) -> None:
    """A constant that it reads changes in each of 20 calls: after two entries with guards, one without serves all of them."""
    SEEN.clear()
    with config.patch(nested_graph_breaks=is_on, cache_size_limit=limit):
        optimized = dynexplore.optimize("eager")(calls_what_is_never_one_graph)
        for number in range(20):
            assert torch.equal(optimized(X, f"k{number}"), calls_what_is_never_one_graph(X, f"k{number}"))
            if number == 2:
                translations = dynexplore.counters["frames"]["total"]
    assert SEEN == [(True, True)] * 40
    assert dynexplore.counters["stats"]["graphs"] == graphs
    assert dynexplore.counters["stats"]["cache_limit"] == 0
    assert dynexplore.counters["frames"]["total"] == translations <= 10


def test_a_call_that_can_be_one_graph_still_is_after_calls_that_cannot() -> None:
    """The entry without guards is tried last, so that it does not hide one that captures more."""

    def rest(x, key):
        x = breaks_once(x - 1) / 2
        x = x * WEIGHTS[key + "."]
        if key != "k0":
            handle = Handle()
            SEEN.append(weakref.ref(handle)() is not None)
            del handle
        return x + 1

    def fn(x, key):
        x = x * 5
        y = rest(x, key)
        return y - x

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(fn)
    runs = []
    for number in (0, 1, 2, 3, 4, 0):
        before = backend.runs
        assert torch.equal(optimized(X, f"k{number}"), fn(X, f"k{number}"))
        runs.append(backend.runs - before)
    assert runs == [2, 3, 3, 3, 3, 2]


def test_the_guards_of_a_separate_callee_name_the_instructions_that_needed_them() -> None:
    """They are those of the attempt that failed, which had gone on after the call; each is recorded once for the entry."""

    def fn(x, key):
        x = breaks_once(x * 5) - x
        x = x * WEIGHTS[key + "."]
        handle = Handle()
        SEEN.append(weakref.ref(handle)() is not None)
        del handle
        return x

    recording = recorded(fn, (X, "k0"))
    looked_up = [guard for guard in recording.of(ev.GuardInstalled) if guard.source == "WEIGHTS['k0.']"]
    failed, kept = [guard for guard in looked_up if guard.frame == looked_up[0].frame]
    assert (failed.attempt, kept.attempt) == (1, 2)
    assert kept.offset == failed.offset
    lines = {offset: line for begin, end, line in fn.__code__.co_lines() for offset in range(begin, end, 2)}
    assert lines[kept.offset] == fn.__code__.co_firstlineno + 2
