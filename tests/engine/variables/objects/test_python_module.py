"""What a module of torch or of the standard library holds may change: what an inlined function of it writes stays, and what
somebody else writes is seen. Which object a name of it stands for is a fact about the process, what is in that object is not.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch
from torch.nn.utils import parametrize

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

X = torch.ones(2)

LIBRARY = """
import collections
listed, named, members, pair, last = [], {}, set(), ([], {}), collections.deque()

def globals_of_the_module(x):
    listed.append(x); named[len(named)] = x; members.add(len(members)); last.append(x); pair[0].append(x); pair[1][len(pair[1])] = x
    return x + len(listed), len(named), len(members), len(last), len(pair[0]), len(pair[1])

def defaults(x, all=[], *, by_number={}):
    all.append(x); by_number[len(by_number)] = x
    return x + len(all), len(by_number)

def made():
    calls, count, before = [], 0, None
    def cells(x):
        nonlocal count, before
        earlier, before = before, count
        calls.append(x); count += 1
        return x + len(calls), count, earlier
    return cells
cells = made()

def attributes(x):
    attributes.calls.append(x); attributes.count = attributes.calls.__len__()
    return x + len(attributes.calls), attributes.count
attributes.calls = []

class Counter:
    def methods(self, x, all=[]):
        all.append(x)
        return x + len(all)
counter = Counter()

def methods(x):
    return counter.methods(x)

def read(x):
    return x + len(listed), list(listed), sorted(named.items()), 3 in members
"""


@pytest.fixture
def library(monkeypatch):
    """A module whose name says that it belongs to torch."""
    module = types.ModuleType("torch.made_by_a_test")
    exec(compile(LIBRARY, "made_by_a_test.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.mark.parametrize("name", ["globals_of_the_module", "defaults", "cells", "attributes", "methods"])
def test_what_an_inlined_function_of_a_library_writes_is_there_in_the_next_call(library, name):
    """What its globals, defaults, cells and attributes hold is changed as in plain Python."""
    exec(f"def reached_by_name(x): return {name}(x)", library.__dict__)
    optimized = dynexplore.optimize("eager")(lambda x: library.reached_by_name(x))
    captured = [str(optimized(X)) for _ in range(3)]
    again = types.ModuleType("plain")
    exec(LIBRARY, again.__dict__)
    assert captured == [str(getattr(again, name)(X)) for _ in range(3)]
    assert graphs_compiled()


def test_what_is_put_into_the_containers_of_a_library_is_seen(library):
    """The list is the same object in each call, and holds something else."""
    optimized = dynexplore.optimize("eager")(lambda x: library.read(x))
    changes = (lambda: library.listed.append(1), lambda: library.named.update(k=2), lambda: library.members.add(3))
    for change in (list, *changes):
        change()
        assert str(optimized(X)) == str(library.read(X))
    assert graphs_compiled()


def test_a_divergence_that_is_registered_later_is_used():
    """torch keeps divergences in a dict of its own, and remembers which it found."""
    class Mine(torch.distributions.Normal):
        pass

    p, q = Mine(0.0, 1.0), Mine(1.0, 1.0)
    optimized = dynexplore.optimize("eager")(lambda x: torch.distributions.kl_divergence(p, q) + x)
    assert torch.equal(optimized(X), X + 0.5)
    kl = torch.distributions.kl
    kl.register_kl(Mine, Mine)(lambda p, q: torch.tensor(7.0))
    try:
        assert torch.equal(optimized(X), X + 7)
    finally:
        kl._KL_REGISTRY.pop((Mine, Mine))
        kl._KL_MEMOIZE.clear()
    assert torch.equal(optimized(X), X + 0.5)
    assert graphs_compiled()


def test_a_parametrization_that_is_cached_is_computed_once_on_both_sides_of_a_break():
    """The cache is a dict of torch's, and is empty again behind the block."""
    class Counted(torch.nn.Module):
        calls = 0

        def forward(self, weight):
            Counted.calls += 1
            return weight * 2

    layer = parametrize.register_parametrization(torch.nn.Linear(2, 2), "weight", Counted())
    Counted.calls = 0

    def twice(x):
        with parametrize.cached():
            first = layer.weight
            dynexplore.graph_break()
            return first is layer.weight, layer(x)

    assert dynexplore.optimize("eager")(twice)(X)[0]
    assert Counted.calls == 1
    assert not parametrize._cache
    assert graphs_compiled()


class Watched(types.ModuleType):
    """Every access is noted."""

    def __getattribute__(self, name: str) -> Any:
        ACCESSES.append(("get", name))
        return types.ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        ACCESSES.append(("set", name))
        types.ModuleType.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        ACCESSES.append(("delete", name))
        types.ModuleType.__delattr__(self, name)


ACCESSES: list[tuple[str, str]] = []
WATCHED = Watched("watched")


class Lazy(types.ModuleType):
    kind = 1

    @property
    def computed(self) -> int:
        return 7


LAZY = types.ModuleType("lazy")


def watched(x: torch.Tensor) -> Any:
    x = x + 1
    WATCHED.name = 12
    name = WATCHED.name
    del WATCHED.name
    return x, name


def watched_of_this_call(x: torch.Tensor) -> Any:
    x = x + 1
    module = Watched("made")
    module.name = 12
    return x, module.name


def class_replaced(x: torch.Tensor) -> Any:
    """As a module does that loads its attributes lazily: `sys.modules[__name__].__class__ = Lazy`."""
    x = x + 1
    before = hasattr(LAZY, "kind")
    LAZY.__class__ = Lazy
    inside = LAZY.__class__ is Lazy, hasattr(LAZY, "kind"), type(LAZY) is Lazy, LAZY.computed
    LAZY.__class__ = types.ModuleType
    return x, before, inside, LAZY.__class__ is types.ModuleType, hasattr(LAZY, "kind")


@pytest.mark.parametrize("program", [watched, watched_of_this_call, class_replaced])
def test_the_class_of_a_module(program: Any) -> None:
    """Nothing but the program's own accesses reaches the methods of the class, and a new class is that of the next access."""
    assert_same_as_eager(program, torch.ones(2), calls=2, setup=ACCESSES.clear, observe=lambda: list(ACCESSES))


ANNOTATED = (
    "module.change()", "hasattr(module, '__annotations__')", "getattr(module, '__annotations__', 3)", "module.__annotations__",
    "module.__annotations__ == {} and '__annotations__' in vars(module)", "module.__eq__(3)", "hasattr(module, '__repr__')",
    "callable(module.__dir__)",
)  # fmt: skip


@pytest.mark.parametrize("question", ANNOTATED)
@pytest.mark.parametrize("content", ["", "number: int = 3", "__annotations__ = {'own': 1}"])
def test_annotations_of_a_module(question: str, content: str) -> None:
    """`__annotations__` is no global and no builtin unless the module has it; asking the module for it puts it there."""
    outcomes = []
    for engine in (lambda fn: fn, dynexplore.optimize("eager")):
        module = types.ModuleType("annotated")
        exec(content + "\ndef change():\n    __annotations__[1] = 2\n    return 5\n", module.__dict__)
        names: dict[str, Any] = {"module": module}
        body = f"try: answer = {question}\n    except NameError as error: answer = str(error)"
        exec(f"def program(x):\n    x = x + 1\n    {body}\n    return x * 2, answer\n", names)
        answers = [engine(names["program"])(X)[1] for _ in range(2)]
        outcomes.append((str(answers), "__annotations__" in vars(module)))
    assert outcomes[0] == outcomes[1]
    assert graphs_compiled() > 0


ANSWERING = """
answered = []
def __getattr__(name):
    if name[:2] == "__":
        raise AttributeError(name)
    answered.append(name)
    if name.startswith("missing"):
        raise AttributeError(name)
    if name.startswith("wrong"):
        raise ValueError(name)
    if name == "lazy":
        globals()[name] = len(answered)
    return len(answered)
def add():
    answered.append(0)
    return len(answered)
"""


def imported(x, module):
    from answering import found

    return x * found, list(module.answered)


def imported_and_missing(x, module):
    try:
        from answering import missing  # noqa: F401
    except ImportError as error:
        return x + 1, type(error), list(module.answered)


def imported_submodule(x, module):
    from answering import missing_submodule

    return x + 1, missing_submodule.__name__, list(module.answered)


def imported_lazily(x, module):
    from answering import lazy
    from answering import lazy as again

    return x * lazy, again, list(module.answered)


def read_twice(x, module):
    return x * module.found, module.found, list(module.answered)


def with_defaults(x, module):
    return x * getattr(module, "missing", 3), hasattr(module, "missing"), hasattr(module, "found"), list(module.answered)


def caught(x, module):
    try:
        return module.wrong
    except ValueError as error:
        return x + 1, str(error), list(module.answered)


def loaded_lazily(x, module):
    return x * module.lazy, module.lazy, list(module.answered)


def replaced(x, module):
    module.__getattr__ = lambda name: 9
    return x * module.found, list(module.answered)


def deleted(x, module):
    had = "__getattr__" in vars(module)
    if had:
        del module.__getattr__
    return x * getattr(module, "found", 4), list(module.answered), had, hasattr(module, "__getattr__")


def through_a_function(x, module):
    return x * module.add(), list(module.answered)


@pytest.mark.parametrize("name", ["answering", "json.answering"])
@pytest.mark.parametrize(
    "program",
    [
        imported, imported_and_missing, imported_submodule, imported_lazily, read_twice, with_defaults, caught, loaded_lazily,
        replaced, deleted, through_a_function,
    ],
)  # fmt: skip
def test_the_getattr_of_a_module_is_called_as_often_as_in_plain_python(program, name, monkeypatch):
    """In each call, and never while the function is compiled, also if the module has the name of one of a library."""
    monkeypatch.setitem(sys.modules, f"{name}.missing_submodule", types.ModuleType(f"{name}.missing_submodule"))
    results = []
    for function in (program, dynexplore.optimize("eager")(program)):
        module = types.ModuleType(name)
        exec(ANSWERING, module.__dict__)
        monkeypatch.setitem(sys.modules, "answering", module)
        results.append([str(function(X, module)) for _ in range(3)])
    assert results[0] == results[1]
    assert graphs_compiled()


def test_a_submodule_that_a_library_imports_when_it_is_read_breaks_no_graph(monkeypatch):
    """torch and numpy import submodules in the `__getattr__` of their packages; the attribute is in the dict afterwards."""
    package = types.ModuleType("json")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "json.lazy", types.ModuleType("json.lazy"))
    body = "import sys\ndef __getattr__(name):\n    globals()[name] = sys.modules['json.' + name]\n    return globals()[name]"
    exec(body, vars(package))

    def program(x):
        return x + 1, package.lazy.__name__

    optimized = dynexplore.optimize("eager", nopython=True)(program)
    assert str(optimized(X)) == str((X + 1, "json.lazy"))
    package.lazy = types.ModuleType("replaced")
    assert str(optimized(X)) == str((X + 1, "replaced"))
    assert graphs_compiled()


def test_a_library_without_such_a_name_breaks_no_graph():
    """`hasattr(torch, "new_in_a_later_version")`: torch's own `__getattr__`, which is not traced, is asked once."""

    def program(x):
        return x + 1, hasattr(torch, "no_such_thing"), getattr(torch, "no_such_thing", 3), hasattr(torch, "sin")

    assert_same_as_eager(program, X, graphs=1, breaks=0, calls=2)
