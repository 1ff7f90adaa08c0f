"""An exception while a graph runs belongs to who raised it: it leaves as in eager, once, with the side effects before it.

Theme: a table of who raises (an operator of the graph, hooks of saved tensors, a custom operator, a dispatch mode, a signal
handler, Ctrl-C) x the backend x whether a `try` of the program stands around it x side effects before and behind it. Compared
with plain Python are the value or exception, the side effects, how often the code of the program was called, and the traceback."""

from __future__ import annotations

import contextlib
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import dynexplore

BACKENDS = ["eager", "aot_eager"]
needs_compiler = pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="Inductor wants a C++ compiler")


class Refused(Exception):
    """Raised by the program's code below."""


@dataclass
class Script:
    """What the program's code does in its calls, and what it was called with."""

    raises_at: int
    raise_it: Callable[[], object]
    calls: list[str] = field(default_factory=list)

    def call(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) == self.raises_at:
            self.raise_it()


def refuse() -> None:
    raise Refused("no")


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def time_out() -> None:
    signal.raise_signal(signal.SIGUSR1)


def handler(number: int, frame: object) -> None:
    raise TimeoutError("too late")


SCRIPT: list[Script] = []


@torch.library.custom_op("tests_graph_calls::scripted", mutates_args=())
def scripted(x: torch.Tensor) -> torch.Tensor:
    SCRIPT[-1].call("operator")
    return x.sin()


@scripted.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


scripted.register_autograd(lambda ctx, g: g * 2)


class Scripted(TorchDispatchMode):
    """A mode under which frames are compiled."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.cos.default:
            SCRIPT[-1].call("mode")
        return func(*args, **(kwargs or {}))


# -- what runs in the graph: name -> function of a tensor that is called twice ---------------------------------------

IN_THE_GRAPH: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "hook": lambda x: x.exp(),
    "operator": lambda x: torch.ops.tests_graph_calls.scripted(x),
    "mode": lambda x: x.cos(),
}


@contextlib.contextmanager
def surroundings(who: str) -> Iterator[None]:
    """What the caller has entered."""
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with contextlib.ExitStack() as stack:
            if who == "hook":
                stack.enter_context(saved_tensors_hooks(lambda tensor: (SCRIPT[-1].call("pack"), tensor)[1], lambda tensor: tensor))
            if who == "mode":
                stack.enter_context(Scripted())
            yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def pure(operator, x, log, owner):
    first = operator(x)
    return operator(first) + 1


def with_effects(operator, x, log, owner):
    log.append("before")
    owner.state = 1
    first = operator(x)
    log.append("between")
    owner.state = 2
    second = operator(first)
    log.append("behind")
    owner.state = 3
    return second


def in_a_try(operator, x, log, owner):
    log.append("before")
    first = x * 2
    try:
        first = operator(x)
        log.append("between")
        first = operator(first)
        log.append("behind")
    except (Refused, TimeoutError, KeyboardInterrupt) as error:
        log.append(type(error).__name__)
        owner.state = 5
    finally:
        log.append("finally")
    return first * 3


def in_a_callee(operator, x, log, owner):
    def inner(y):
        log.append("inner")
        z = operator(y)
        log.append("inner behind")
        return z

    return inner(inner(x)) + 1


class Owner:
    """Has attributes."""

    state = 0


@dataclass
class Outcome:
    """What a call leaves behind."""

    value: Any
    raised: Any
    log: list[str]
    state: int
    calls: list[str]
    places: list[tuple[str, int]]


def run(function, who: str, raises_at: int, raise_it, program) -> Outcome:
    SCRIPT.append(Script(raises_at, raise_it))
    x, log, owner = torch.full((3,), 0.5, requires_grad=True), [], Owner()
    value, raised, places = None, None, []
    try:
        with surroundings(who):
            value = function(IN_THE_GRAPH[who], x, log, owner)
    except BaseException as error:
        raised = type(error), error.args, type(error.__context__)
        entries = traceback.walk_tb(error.__traceback__)
        places = [(frame.f_code.co_name, line) for frame, line in entries if frame.f_code.co_filename == __file__][1:]
    if value is not None:
        value.sum().backward()
        value = value.tolist(), x.grad.tolist()
    return Outcome(value, raised, log, owner.state, SCRIPT.pop().calls, places)


PROGRAMS = [pure, with_effects, in_a_try, in_a_callee]
RAISES = [refuse, time_out, interrupt]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("raise_it", RAISES, ids=lambda raise_it: raise_it.__name__)
@pytest.mark.parametrize("who", list(IN_THE_GRAPH))
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("raises_at", [1, 2])
def test_code_of_the_program_raises_once(backend, who, raise_it, program, raises_at):
    """Value, exception, side effects, calls and lines are those of plain Python, in the first call and in later ones."""
    dynexplore.reset()
    compiled = dynexplore.optimize(backend)(program)
    expected = run(program, who, raises_at, raise_it, program)
    never = run(program, who, 0, raise_it, program)
    known_otherwise = backend == "aot_eager" and who in ("hook", "mode")  # a compiler's graph is one operation to autograd
    for at, wanted in ((0, never), (raises_at, expected), (raises_at, expected), (0, never)):
        outcome = run(compiled, who, at, raise_it, program)
        assert (outcome.value, outcome.raised) == (wanted.value, wanted.raised)
        if not known_otherwise or raises_at == 1:
            assert (outcome.log, outcome.state) == (wanted.log, wanted.state)
        if not known_otherwise:
            assert outcome.calls == wanted.calls
        if not known_otherwise or raises_at == 1:
            assert outcome.places == wanted.places
    assert dynexplore.counters["stats"]["graphs"] >= 1


@needs_compiler
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("raise_it", RAISES, ids=lambda raise_it: raise_it.__name__)
@pytest.mark.parametrize("raises_at", [1, 2])
def test_a_custom_operator_raises_once_in_the_code_of_inductor(raise_it, raises_at):
    """The exception leaves as in plain Python, from the line of its node (with side effects before it: DIFF40)."""
    dynexplore.reset()
    compiled = dynexplore.optimize("inductor")(pure)
    for at in (0, raises_at, raises_at, 0):
        outcome, wanted = (run(function, "operator", at, raise_it, pure) for function in (compiled, pure))
        assert (outcome.raised, outcome.calls, outcome.places) == (wanted.raised, wanted.calls, wanted.places)
    assert dynexplore.counters["stats"]["graphs"] == 1


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operator_of_the_graph_that_refuses(backend, program):
    """Under hooks of saved tensors, too, it raises what eager raises, and no hook is called twice."""
    index = torch.tensor([0, 9])

    def operator(x):
        return x.exp()[index]

    def outcome(function):
        calls, log, owner = [], [], Owner()
        x = torch.ones(3, requires_grad=True)
        with saved_tensors_hooks(lambda tensor: (calls.append(1), tensor)[1], lambda tensor: tensor), pytest.raises(IndexError):
            function(operator, x, log, owner)
        return log, owner.state, len(calls) if backend == "eager" else None

    dynexplore.reset()
    compiled = dynexplore.optimize(backend)(program)
    expected = outcome(program)
    assert outcome(compiled) == expected
    assert outcome(compiled) == expected
    assert dynexplore.counters["stats"]["graphs"] >= 1


FUNCTIONS = {
    "one operator": lambda x: x * 2,
    "two": lambda x: x.sin().cos(),
    "power": lambda x: x.pow(2).pow(2),
    "effect": lambda x: (SEEN.append(1), x.sin().cos())[1],
    "module": torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 4)),
}
SEEN: list[int] = []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_early_stop_of_a_checkpoint_around_a_compiled_function(backend, name):
    """`checkpoint(compiled, x, use_reentrant=False)` ends its recomputation by an exception of a hook; gradients are eager's."""
    function = FUNCTIONS[name]

    def gradient(function):
        SEEN.clear()
        x = torch.linspace(0, 1, 12).reshape(3, 4).requires_grad_()
        checkpoint(function, x, use_reentrant=False).sum().backward()
        return x.grad, len(SEEN)

    dynexplore.reset()
    compiled = dynexplore.optimize(backend)(function)
    expected = gradient(function)
    for _ in range(3):
        grad, effects = gradient(compiled)
        torch.testing.assert_close(grad, expected[0])
        assert effects == expected[1]
    assert dynexplore.counters["stats"]["graphs"] >= 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_unpack_hook_raises_in_backward(backend):
    """What an unpack hook raises in the caller's backward is what the caller gets, once."""
    calls = []

    def unpack(tensor):
        calls.append(1)
        raise Refused

    def function(x, log):
        log.append(1)
        return x.sin() * 2

    dynexplore.reset()
    log = []
    with saved_tensors_hooks(lambda tensor: tensor, unpack):
        y = dynexplore.optimize(backend)(function)(torch.ones(3, requires_grad=True), log)
    with pytest.raises(Refused):
        y.sum().backward()
    assert (log, calls) == ([1], [1])
    assert dynexplore.counters["stats"]["graphs"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_was_written_before_stays(backend):
    """Inputs that were written to before the program's code raised have been written to once."""

    def function(x, log):
        log.append("before")
        x.add_(1)
        y = torch.ops.tests_graph_calls.scripted(x)
        log.append("behind")
        x.add_(10)
        return y

    dynexplore.reset()
    compiled = dynexplore.optimize(backend)(function)
    for at in (0, 1, 1, 0):
        outcomes = []
        for each in (function, compiled):
            x, log = torch.ones(3), []
            SCRIPT.append(Script(at, refuse))
            with contextlib.suppress(Refused):
                each(x, log)
            outcomes.append((x.tolist(), log, SCRIPT.pop().calls))
        assert outcomes[0] == outcomes[1]
    assert dynexplore.counters["stats"]["graphs"] >= 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [pure, with_effects, in_a_try], ids=lambda program: program.__name__)
def test_a_signal_between_two_operators(backend, program):
    """What the handler of a timer raises while a graph runs is raised once, and neither swallowed nor followed by more work."""

    def operator(x):
        for _ in range(40):
            x = x + 1
        return x

    dynexplore.reset()
    compiled = dynexplore.optimize(backend)(program)
    x = torch.zeros(20_000)
    compiled(operator, x, [], Owner())
    counts = []

    def count(number, frame):
        counts.append(1)
        raise TimeoutError("too late")

    def call_until_it_comes():
        """A frame of its own: in CPython 3.13 what a handler raises at a loop's jump back leaves a `with` of the same frame."""
        log, owner = [], Owner()
        while not counts:
            log.clear()
            compiled(operator, x, log, owner)

    before = signal.signal(signal.SIGALRM, count)
    try:
        for round in range(40):
            counts.clear()
            with pytest.raises(TimeoutError) if program is not in_a_try else contextlib.suppress(TimeoutError):
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + round * 0.00005)
                call_until_it_comes()
            assert counts == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert dynexplore.counters["stats"]["graphs"] >= 1
