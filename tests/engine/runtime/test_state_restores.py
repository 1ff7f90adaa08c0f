"""Every kind of state that a call can change, and every tool that runs a call more than once: each run begins alike, and the
program does not see that it ran more than once.
"""

from __future__ import annotations

import array
import collections
import contextlib
import contextvars
import enum
import functools
import io
import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import dynexplore
from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.watching.remedy_process import Results

pytestmark = [
    pytest.mark.lenses,
    pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # what torch.compile cannot trace
    # torch.compile asks for a class of typing that Python 3.14 warns about, when it meets a value of few kinds
    pytest.mark.filterwarnings("ignore:'_UnionGenericAlias' is deprecated:DeprecationWarning"),
    pytest.mark.plain("keeps and puts back state around any run"),
]

State = dict[str, Any]
KINDS: dict[str, tuple[str, str]] = {
    "element of an array": ("a = np.zeros(2)", "a[0] += 1; n = float(a[0])"),
    "array that is a view": ("base = np.zeros((4, 4)); a = base[::2, 1]", "a[0] += 1; n = float(base[0, 1])"),
    "array of objects": ("a = np.array([0, None], dtype=object)", "a[0] = a[0] + 1; n = a[0]"),
    "list in an array": ("a = np.array([None, 1], dtype=object); a[0] = []", "a[0].append(1); n = len(a[0])"),
    "array of records": ("a = np.zeros(2, dtype=[('x', 'i4'), ('y', 'f8')])", "a['x'][0] += 1; n = int(a['x'][0])"),
    "attribute that is an array": ("class H: pass\nh = H(); h.a = np.zeros(2)", "h.a[0] += 1; n = float(h.a[0])"),
    "array.array": ("a = array.array('d', [0.0])", "a[0] += 1; n = a[0]"),
    "class attribute": ("class K: n = 0", "K.n += 1; n = K.n"),
    "new class attribute": ("class K: pass", "K.n = getattr(K, 'n', 0) + 1; n = K.n"),
    "class attribute of an instance": ("class K: n = 0\nk = K()", "type(k).n += 1; n = K.n"),
    "attribute of a base": ("class K: n = 0\nclass D(K): pass\nd = D()", "K.n += 1; n = K.n"),
    "attribute of a metaclass": ("class M(type): n = 0\nclass K(metaclass=M): pass", "M.n += 1; n = M.n"),
    "list of a class": ("class K: log = []", "K.log.append(1); n = len(K.log)"),
    "class method": ("class K:\n    n = 0\n    @classmethod\n    def up(cls): cls.n += 1; return cls.n", "n = K.up()"),
    "counter of instances": ("class K:\n    n = 0\n    def __init__(self): K.n += 1", "k = K(); n = K.n"),
    "member of an enum": ("class E(enum.Enum): A = 1\nE.A.hits = 0", "E.A.hits += 1; n = E.A.hits"),
    "attribute of a function": ("def g(): g.n += 1; return g.n\ng.n = 0", "n = g()"),
    "new attribute of a function": ("def g(): g.n = getattr(g, 'n', 0) + 1; return g.n", "n = g()"),
    "global list": ("l = []", "l.append(1); n = len(l)"),
    "global dict": ("d = {'n': 0}", "d['n'] += 1; n = d['n']"),
    "global number": ("c = 0", "global c; c += 1; n = c"),
    "defaultdict": ("d = collections.defaultdict(int)", "d['a'] += 1; n = d['a']"),
    "Counter": ("d = collections.Counter()", "d['a'] += 1; n = d['a']"),
    "cache of a function": (
        "calls = []\n@functools.lru_cache\ndef g(k): calls.append(k); return len(calls)",
        "n = g(3) + (calls.append(0) or len(calls))",
    ),
    "context variable": ("v = contextvars.ContextVar('v', default=0)", "v.set(v.get() + 1); n = v.get()"),
    "attribute of a thread": ("t = threading.local(); t.n = 0", "t.n += 1; n = t.n"),
    "environment variable": (
        "k = 'DYNEXPLORE_N'",
        "os.environ[k] = os.environ.get(k, '') + 'a'; n = len(os.environ[k])",
    ),
    "tensor": ("t = torch.zeros(2)", "t.add_(1); n = t[0]"),
    "random numbers": ("", "n = random.random()"),
    "random numbers of numpy": ("", "n = float(np.random.rand())"),
    "a generator of numpy": ("r = np.random.default_rng(0)", "n = float(r.random())"),
    "a RandomState of numpy": ("r = np.random.RandomState(0)", "n = float(r.rand())"),
    "a generator of torch": ("r = torch.Generator()", "n = torch.rand(2, generator=r)[0]"),
}  # fmt: skip
"""Name -> the program's statements before the call, and those of the call, which bind `n`: another value in each call."""

NEW = ("element of an array", "class attribute", "attribute of a function", "a generator of numpy")
"""Those of every run of the tests in which a compiler runs."""

ITERATORS: dict[str, tuple[str, str]] = {
    "itertools.count": ("i = itertools.count(1)", "n = next(i)"),
    "itertools.cycle": ("i = itertools.cycle([1, 2, 3, 4])", "n = next(i)"),
    "iterator of a list": ("i = iter([1, 2, 3, 4, 5])", "n = next(i)"),
    "running generator": ("i = (k for k in range(1, 99))", "n = next(i)"),
}
"""The same for what nobody can set back."""


def program(before: str, inside: str) -> tuple[Callable[..., Any], State]:
    """A function with the statements of a kind, and its globals."""
    namespace: State = {
        "__name__": "program", "np": np, "torch": torch, "array": array, "collections": collections, "os": os, "random": random,
        "functools": functools, "itertools": itertools, "enum": enum, "contextvars": contextvars, "threading": threading,
    }  # fmt: skip
    is_global = inside.startswith("global")
    rest = inside.removeprefix("global c; ") if is_global else inside
    text = f"{before}\ndef f(x):\n" + ("    global c\n" if is_global else "") + f"    {rest}\n    return x * n\n"
    exec(compile(text, "<program>", "exec"), namespace)  # the test is in another module than the program
    return namespace["f"], namespace


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    monkeypatch.delenv("DYNEXPLORE_N", raising=False)
    torch._dynamo.reset()
    yield
    os.environ.pop("DYNEXPLORE_N", None)


def values_of(call: Callable[..., Any], times: int = 3) -> list[float]:
    return [float(call(torch.ones(2))[0]) for _ in range(times)]


def plain_values(kind: tuple[str, str]) -> list[float]:
    """The values of three calls in a program of its own."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state(), os.environ.get("DYNEXPLORE_N")
    values = values_of(program(*kind)[0])
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    os.environ.pop("DYNEXPLORE_N", None)
    return values


@pytest.mark.parametrize("name", KINDS)
def test_each_run_begins_alike_and_afterwards_nothing_has_changed(name: str) -> None:
    """Three runs return what the first call returns, and the program's own calls afterwards what they would without them."""
    expected = plain_values(KINDS[name])
    assert len(set(expected)) == 3
    f, _ = program(*KINDS[name])
    start = CallSnapshot(f, (torch.ones(2),), {})
    for _ in range(3):
        (x,), _kwargs = start.fresh()
        assert float(f(x)[0]) == expected[0]
    start.fresh()
    assert values_of(f) == expected


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in NEW else pytest.mark.soak) for name in KINDS])
def test_diagnose_finds_nothing(name: str) -> None:
    """A right program, compared: not called nondeterministic; and the program does not notice."""
    expected = plain_values(KINDS[name])
    f, _ = program(*KINDS[name])
    diagnosis = dynexplore.diagnose(f, torch.ones(2), backend="eager", engine="dynexplore")
    assert (diagnosis.failing, diagnosis.unsteady) == (None, "")
    assert values_of(f) == expected


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in (*NEW, *ITERATORS) else pytest.mark.soak) for name in {**KINDS, **ITERATORS}]
)
def test_a_watch_that_checks_calls_changes_none(name: str) -> None:
    """The values of the compiled calls are those without the check, which reports no difference that is not there."""
    kind = {**KINDS, **ITERATORS}[name]
    f, _ = program(*kind)
    unchecked = values_of(torch.compile(f, backend="eager"))
    _again(f)
    g, _ = program(*kind)
    with contextlib.redirect_stdout(io.StringIO()), dynexplore.watch(steps=False, check=True) as seen:
        checked = values_of(torch.compile(g, backend="eager"))
    assert checked == unchecked
    _again(f)
    assert not seen.wrong_calls or unchecked != plain_values(kind)
    assert (name in ITERATORS) is any("advance an iterator" in notice for notice in seen.notices)


def _again(_: Any) -> None:
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    os.environ.pop("DYNEXPLORE_N", None)
    torch._dynamo.reset()


@pytest.mark.parametrize("name", ITERATORS)
def test_an_iterator_is_named(name: str) -> None:
    """`diagnose` does not say that such a call is right or wrong: it says why its runs differ."""
    f, _ = program(*ITERATORS[name])
    diagnosis = dynexplore.diagnose(f, torch.ones(2), backend="eager", engine="dynexplore")
    words = str(diagnosis).replace("\n", " ").replace("    ", "")
    assert diagnosis.unsteady and "The call can advance the iterator `i`, which cannot be set back between runs." in words


@pytest.mark.parametrize("kind", ["array", "class", "function", "object"])
def test_arguments_that_hold_state(kind: str) -> None:
    """An array is copied and compared; a class and a function are shared by all runs, and restored."""

    class Count:
        n = 0

    def advance() -> int:
        advance.n += 1  # type: ignore[attr-defined]
        return int(advance.n)  # type: ignore[attr-defined]

    advance.n = 0  # type: ignore[attr-defined]

    def f(x: torch.Tensor, state: Any) -> torch.Tensor:
        if kind == "array":
            state[0] += 1
            return x * float(state[0])
        if kind == "function":
            return x * state()
        state.n += 1
        return x * state.n

    states = {"array": np.zeros(2), "class": Count, "function": advance, "object": Count()}
    diagnosis = dynexplore.diagnose(f, torch.ones(2), states[kind], backend="eager", engine="dynexplore")
    assert (diagnosis.failing, diagnosis.unsteady) == (None, "")
    assert f(torch.ones(2), states[kind])[0] == 1


def test_a_wrong_array_is_told() -> None:
    """A backend with a fault changes an array that the program holds."""
    counts = np.zeros(2)

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + len(counts)

    def adds_more(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*values: Any) -> Any:
            counts[1] += 1
            return graph(*values)

        return run

    diagnosis = dynexplore.diagnose(f, torch.ones(2), backend=adds_more, engine="torch.compile")
    assert diagnosis.failing is not None and "`counts`" in diagnosis.failing.failure


def test_what_a_wrong_call_has_changed_stays() -> None:
    """The search for the operator runs the call again, from its start; the program goes on after the real call."""

    class Count:
        n = 0

    total = torch.zeros(2)

    def f(x: torch.Tensor) -> torch.Tensor:
        Count.n += 1
        total.add_(1)
        return x * Count.n

    def wrong(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return lambda *values: [value * 1.5 if isinstance(value, torch.Tensor) else value for value in graph(*values)]

    with dynexplore.watch(steps=False, check=True) as seen:
        values = values_of(torch.compile(f, backend=wrong))
    assert values == [1.5, 3.0, 4.5] and len(seen.wrong_calls) == 3
    assert (Count.n, total.tolist()) == (3, [3.0, 3.0])


def loses_an_append() -> tuple[Callable[..., Any], list[int]]:
    """A function whose append torch.compile does not replay (torch 2.13, 2.14): a method of an object made in the call does it."""
    log: list[int] = []

    class Helper:
        def touch(self) -> None:
            log.append(1)

    def f(x: torch.Tensor) -> torch.Tensor:
        Helper().touch()
        return x + 1

    return f, log


def test_a_side_effect_that_is_lost_is_told() -> None:
    """By `diagnose` and by a watch that checks calls, with the name of the list, although all tensors are right."""
    f, log = loses_an_append()
    values_of(torch.compile(f, backend="eager"), 2)
    lost = len(log) < 2
    diagnosis = dynexplore.diagnose(f, torch.ones(2), backend="eager", engine="torch.compile")
    own = dynexplore.diagnose(f, torch.ones(2), backend="eager", engine="dynexplore")
    assert own.failing is None and (diagnosis.failing is not None) is lost
    with dynexplore.watch(steps=False, check=True) as seen:
        values_of(torch.compile(loses_an_append()[0], backend="eager"), 2)
    words = "after the call, `len(log)`: 1 expected, 0 found"
    assert [words in str(wrong) for wrong in seen.wrong_calls] == ([True, True] if lost else [])
    assert not lost or (diagnosis.failing is not None and words in diagnosis.failing.failure)


@pytest.mark.parametrize("change", [1, 2])
def test_a_tried_remedy_is_compared_by_what_the_program_holds(change: int) -> None:
    """Two programs with equal results are not the same if arrays or attributes of classes differ at the end."""

    class Count:
        n = 0

    counts = np.zeros(2)

    def ends(by: int) -> list[Any]:
        Count.n = 0
        counts[:] = 0

        def f(x: torch.Tensor) -> torch.Tensor:
            Count.n += by
            counts[0] += by
            return x

        results = Results(9)
        results.around(torch.compile(f, backend="eager"))(torch.ones(2))
        return [results.state(), f(torch.ones(1)) is not None]

    assert (ends(1) == ends(change)) is (change == 1)
