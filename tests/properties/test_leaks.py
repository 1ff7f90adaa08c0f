"""Functions are compiled, called, dropped and collected, over and over: what the process holds reaches a plateau.

The idea: whatever a round makes (functions, code objects, modified code, graphs, guards, tensors, frames) has to be gone after it.
Each round makes the program anew, from its text, so that nothing is found again in a cache. After some rounds to warm up, the
objects are counted by type, and so are the blocks of CPython's allocator (a code object is in no list of the collector),
references to objects that live long, and the resident memory. A type of which each round leaves one more leaks; what plain Python
leaves, too, is not the engine's.

In:  the programs below and drawn ones, as functions that make the function and its calls. Out: what grew, by name.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import io
import itertools
import linecache
import resource
import sys
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
import torch
from properties.program_files import drawn_once
from properties.random_programs import CALLS, first_arguments, namespace_of
from torch._subclasses import FakeTensorMode
from torch.fx import graph_module

import dynexplore
from dynexplore.engine.graph import fake_dispatch_cache
from dynexplore.engine.native import installed, region_depth
from dynexplore.engine.phases import times
from engine_checks import graphs_compiled

TEXTS = {
    "straight": "def program(x):\n    return torch.relu(x) + 1",
    "branch": "def program(x):\n    y = x * 2\n    if y.sum() > 0:\n        y = y - 1\n    return y / 3",
    "break in a loop": "def program(x):\n    for i in range(3):\n        x = x + i\n        print(i)\n    return x",
    "closure": (
        "def program(x):\n    total = [x]\n    def add(y):\n        total.append(y)\n        return y + 1\n"
        "    dynexplore.graph_break()\n    return add(x), total"
    ),
    "generator": (
        "def numbers(x):\n    for i in range(3):\n        yield x * i\n"
        "def program(x):\n    made = numbers(x + 1)\n    first = next(made)\n    dynexplore.graph_break()\n"
        "    return first, list(made)"
    ),
    "caught": (
        "def program(x):\n    try:\n        return x @ torch.ones(7, 7)\n    except RuntimeError as error:\n"
        "        return x - 1, str(error)"
    ),
    "raises": "def program(x):\n    y = x + 1\n    dynexplore.graph_break()\n    raise ValueError(y)",
    "backend raises": "def program(x):\n    return (x + 1).view(-1, 1000003)",
    "class": (
        "class Scale:\n    def __init__(self, by):\n        self.by = by\n    def __call__(self, x):\n        return x * self.by\n"
        "def program(x):\n    scale = Scale(2)\n    dynexplore.graph_break()\n    scale.by = x\n    return scale(x), scale"
    ),
    "class statement": "def program(x):\n    class Local:\n        factor = x\n    return Local.factor + 1, Local",
    "module": (
        "layer = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Dropout(0.5))\n"
        "def program(x):\n    return layer(x.new_ones(2, 3)).sum() + x.sum()"
    ),
    "gradients": (
        "def program(x):\n    leaf = x.detach().clone().requires_grad_()\n    loss = (leaf * 2).sum()\n    loss.backward()\n"
        "    return leaf.grad"
    ),
    "globals": (
        "STATE = {}\nCOUNT = 0\ndef program(x):\n    global COUNT\n    COUNT += 1\n    STATE[COUNT] = x\n    return x + COUNT"
    ),
    "recursion": "def program(x, depth=3):\n    return x if depth == 0 else program(x * 2, depth - 1)",
    "cycle": "def program(x):\n    items = [x]\n    items.append(items)\n    dynexplore.graph_break()\n    return x + 1, items",
    "with": "def program(x):\n    with torch.no_grad():\n        y = x + 1\n        dynexplore.graph_break()\n        return y * 2",
    "no grad region": "@dynexplore.disable\ndef plain(x):\n    return x.tolist()\ndef program(x):\n    return plain(x + 1), x * 2",
    "inner region": (
        "def inner(x):\n    return x * 3\ndef program(x):\n    return dynexplore.optimize('eager')(inner)(x + 1) * 2"
    ),
    "item": "def program(x):\n    return x * x.sum().item()",
    "lambda default": "def program(x):\n    return sorted([3, 1, 2], key=lambda n, x=x: -n), x + 1",
}  # fmt: skip
"""Functions whose capture keeps something for a while: frames, exceptions, cells, generators, regions, gradients."""

ROUNDS = 8
SERIES = 4
BLOCKS = 20  # of 30 to 100 bytes: names and texts that are new in each round stay in tables of CPython and of torch
SIZES = (3, 4, 5)  # the second makes the size dynamic, the third is a hit

Make = Callable[[], tuple[Callable[..., Any], list[tuple[Any, ...]]]]


def made_from(text: str) -> Make:
    """The program of a text of `TEXTS` and its calls, made anew each time."""

    def make() -> tuple[Callable[..., Any], list[tuple[Any, ...]]]:
        names: dict[str, Any] = {"torch": torch, "dynexplore": dynexplore, "__name__": "leaking"}
        exec(compile(text, "<leaking>", "exec"), names)
        return names["program"], [(torch.arange(float(size)),) for size in SIZES]

    return make


def made_by_seed(seed: int) -> Make:
    """A drawn program (random_programs.py) and its calls, made anew each time."""
    text, calls = drawn_once(seed)

    def make() -> tuple[Callable[..., Any], list[tuple[Any, ...]]]:
        names = namespace_of(text)
        first = first_arguments(names)
        return names["program"], [first, *(CALLS[call](names, first) for call in calls)]

    return make


# -- a round, and what it leaves --------------------------------------------------------------------------------------

LONG_LIVED = (torch.relu, torch.Tensor, torch.float32, torch.ops.aten.add.Tensor, dynexplore.optimize, dynexplore.graph_break, len)
"""Objects that are there before and after: a reference too many to one of them is a leak that no list of objects shows."""


def run_round(make: Make, wrap: Callable[[Any], Any]) -> list[weakref.ref[Any]]:
    """Make the program, call it, drop it; weak references to what has to be gone."""
    program, calls = make()
    function = wrap(program)
    watched = [
        weakref.ref(program),
        weakref.ref(program.__code__),
        *(weakref.ref(arg) for call in calls for arg in call if _dies(arg)),
    ]
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls:
            with contextlib.suppress(Exception):
                function(*call)
    return watched


def _dies(value: object) -> bool:
    return isinstance(value, torch.Tensor | FunctionType | CodeType)


def own_backend(program: Any) -> Any:
    """A region with a backend of its own, so that nothing is shared with another round."""
    return dynexplore.optimize(lambda graph, inputs: graph.forward)(program)


Held = collections.Counter[str]


def held() -> Held:
    """What the process holds: objects by type, blocks of the allocator, references to objects that live long."""
    collect()
    names = (f"{type(value).__module__}.{type(value).__qualname__}" for value in gc.get_objects())
    counts = Held(map(sys.intern, names))  # so that one count has no more blocks than another has
    counts.update({f"references to {value!r}": sys.getrefcount(value) for value in LONG_LIVED})
    counts["blocks"] = sys.getallocatedblocks()
    return counts


def collect() -> None:
    """Collect garbage, and empty what keeps so many of the latest, which is full after thousands of rounds only."""
    gc.unfreeze()  # else what was made before the first test, such as caches of functions, is in no list
    for _ in range(3):
        _empty_bounded_caches()
        gc.collect()


def _empty_bounded_caches() -> None:
    FakeTensorMode.cache_clear()  # torch's, which `dynexplore.reset()` and `torch._dynamo.reset()` empty
    fake_dispatch_cache._cache.clear()
    times.clear()
    linecache.clearcache()  # torch.fx leaves the source of each graph there, and in its loader; under torch.compile, too
    graph_module._loader.eval_cache.clear()
    for value in gc.get_objects():
        if type(value) is functools._lru_cache_wrapper and value.cache_parameters()["maxsize"] is not None:
            value.cache_clear()


def growth(make: Make, wrap: Callable[[Any], Any], rounds: int) -> dict[str, float]:
    """What each round leaves behind, by name, if all series of rounds do so alike: a cache that is still filling is no leak, and
    neither are things of a whole series.
    """
    for _ in range(rounds):
        run_round(make, wrap)
    graphs = graphs_compiled()
    counts = [held()]
    for _ in range(SERIES):
        watched = [reference for _ in range(rounds) for reference in run_round(make, wrap)]
        counts.append(held())
        alive = collections.Counter(type(value).__name__ for reference in watched if (value := reference()) is not None)
        counts[-1].update({f"alive: {name}": count for name, count in alive.items()})
    left = {name: min(more[name] - less[name] for less, more in itertools.pairwise(counts)) / rounds for name in counts[-1]}
    if sys.version_info >= (3, 12):  # which keeps each name that a code object contains forever: here those of the graphs
        left["blocks"] -= (graphs_compiled() - graphs) / rounds / SERIES
    return {name: count for name, count in left.items() if count >= _least(name)}


def _least(name: str) -> float:
    return BLOCKS if name == "blocks" else 0.5


def leaks(make: Make, rounds: int) -> dict[str, float]:
    """What a round under the engine leaves, less what a round of plain Python leaves."""
    growing = growth(make, own_backend, rounds)
    if not growing:
        return growing
    plain = growth(make, lambda program: program, rounds)
    excess = {name: count - plain.get(name, 0) for name, count in growing.items()}
    return {name: count for name, count in excess.items() if count >= _least(name)}


def _shape_environments() -> int:
    return sum(type(value).__name__ == "OwnShapeEnv" for value in gc.get_objects())


# -- the tests --------------------------------------------------------------------------------------------------------


def test_nothing_of_a_program_outlives_it() -> None:
    """One round of each program: its functions, its code and its tensors are gone, and no region is left."""
    collect()
    environments = _shape_environments()
    watched = [(name, reference) for name, text in TEXTS.items() for reference in run_round(made_from(text), own_backend)]
    collect()
    assert [(name, value) for name, reference in watched if (value := reference()) is not None] == []
    assert _shape_environments() - environments <= 2  # torch's caches hold the latest
    assert graphs_compiled() >= len(TEXTS)
    assert not installed()
    assert region_depth() == 0


@pytest.mark.soak
@pytest.mark.parametrize("name", TEXTS)
def test_what_a_program_leaves_reaches_a_plateau(name: str) -> None:
    """Objects of every type, allocator blocks and references to objects that live long."""
    assert leaks(made_from(TEXTS[name]), ROUNDS) == {}
    assert graphs_compiled() >= ROUNDS


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_what_a_drawn_program_leaves_reaches_a_plateau(seed: int) -> None:
    """The same for the programs of test_random_programs.py."""
    assert leaks(made_by_seed(seed), ROUNDS) == {}


@pytest.mark.soak
def test_resident_memory_reaches_a_plateau(capfd: pytest.CaptureFixture[str]) -> None:
    """All programs in turn: the second half of the rounds adds less than 4 KB a program."""
    sizes = []
    for _ in range(3):
        for _ in range(ROUNDS):
            for text in TEXTS.values():
                run_round(made_from(text), own_backend)
        collect()
        sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024)
    with capfd.disabled():
        print(f"\nresident: {sizes} KB", end="")
    assert sizes[2] - sizes[1] < 4 * ROUNDS * len(TEXTS)
    assert graphs_compiled() >= ROUNDS * len(TEXTS)
