"""A function that was interpreted is what it was, its code and its defaults, however it was reached; also functions of C."""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import math
import operator
import subprocess
import sys
import types
from typing import Any

import pytest
import torch
from programs.before_and_after import seen

import dynexplore
from engine_checks import graphs_compiled

NINE = (lambda *args, **kwargs: 9).__code__


def helper(k: int = 2, *, j: int = 1) -> int:
    return k + j


class K:
    scale = 2

    def area(self, k: int = 2, *, j: int = 1) -> int:
        return k + j

    @property
    def size(self) -> int:
        return 3

    @classmethod
    def made(cls) -> int:
        return 3

    @staticmethod
    def still() -> int:
        return 3


def test_code_of_a_global_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """`helper.__code__ = ...`"""
    seen(lambda x: x * helper(), lambda: monkeypatch.setattr(helper, "__code__", NINE), before=3, after=9)


def test_code_of_a_closure() -> None:
    """A function that is made anew by each call of its maker is guarded by its code."""

    def inner() -> int:
        return 3

    seen(lambda x: x * inner(), lambda: setattr(inner, "__code__", NINE), before=3, after=9)


@pytest.mark.parametrize("name", ["area", "size", "made", "still"])
def test_code_of_what_stands_in_a_class(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method, a property's getter, a class method, a static method."""
    raw = vars(K)[name]
    function = getattr(raw, "fget", None) or getattr(raw, "__func__", raw)
    k = K()

    def fn(x: torch.Tensor) -> torch.Tensor:
        found = getattr(k, name)
        return x * (found if name == "size" else found())

    seen(fn, lambda: monkeypatch.setattr(function, "__code__", NINE), before=3, after=9)


def test_code_of_a_forward() -> None:
    """The forward of a module's class."""

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    def other(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 9

    net = Net()
    seen(lambda x: net(x), lambda: setattr(Net.forward, "__code__", other.__code__), before=2, after=9)


@pytest.mark.parametrize("change", [("__defaults__", (8,)), ("__kwdefaults__", {"j": 7})])
def test_defaults_of_a_function(change: tuple[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Positional and keyword-only defaults, of a function and of a method."""
    seen(lambda x: x * helper(), lambda: monkeypatch.setattr(helper, *change), before=3, after=9)
    k = K()
    seen(lambda x: x * k.area(), lambda: monkeypatch.setattr(K.area, *change), before=3, after=9)


def test_a_keyword_default_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dict of keyword-only defaults can be written to."""
    assert helper.__kwdefaults__ is not None
    seen(lambda x: x * helper(), lambda: monkeypatch.setitem(helper.__kwdefaults__, "j", 7), before=3, after=9)


@pytest.mark.parametrize(
    ("module", "name"), [(math, "sqrt"), (operator, "add"), (torch, "relu"), (torch.nn.functional, "relu")]
)
def test_a_library_function_that_is_replaced(module: types.ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mock in place of a function of Python or torch."""
    programs = {
        "sqrt": lambda x: x * math.sqrt(9.0),
        "add": lambda x: x * operator.add(1, 2),
        "relu": lambda x: (torch.relu(x) if module is torch else torch.nn.functional.relu(x)) * 3,
    }
    three = {"relu": lambda x: x * 3}.get(name, lambda *args: 9)
    seen(programs[name], lambda: monkeypatch.setattr(module, name, three), before=3, after=9)


def test_what_a_function_of_torch_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """`nn.ReLU.forward` calls `F.relu` in the globals of its own module."""
    relu = torch.nn.ReLU()
    seen(lambda x: relu(x) * 3, lambda: monkeypatch.setattr(torch.nn.functional, "relu", lambda x, inplace: x * 3),
         before=3, after=9)


def test_the_forward_of_a_class_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """`nn.ReLU.forward = ...`"""
    relu = torch.nn.ReLU()
    seen(lambda x: relu(x) * 3, lambda: monkeypatch.setattr(torch.nn.ReLU, "forward", lambda self, x: x * 3), before=3, after=9)


def test_the_call_of_a_module_class() -> None:
    """A class that gets a `__call__` of its own."""

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    net = Net()
    seen(lambda x: net(x), lambda: setattr(Net, "__call__", lambda self, x: x * 9), before=2, after=9)


def test_a_method_of_every_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.Tensor.sum = ...`"""
    seen(lambda x: x * x.sum(), lambda: monkeypatch.setattr(torch.Tensor, "sum", lambda self: 9), before=3, after=9)


OPERATORS = """
import torch
import dynexplore

def sets_an_item(x):
    x = x.clone()
    x[0] = 5
    return x

for name, fn in {
    "__add__": lambda x: x + x, "__radd__": lambda x: 2 + x, "__neg__": lambda x: -x, "__lt__": lambda x: x < 2,
    "__getitem__": lambda x: x[0], "__iadd__": lambda x: x.clone().__iadd__(x), "__setitem__": sets_an_item,
}.items():
    for backend in ("eager", "aot_eager"):
        dynexplore.reset()
        compiled = dynexplore.optimize(backend)(fn)
        assert torch.equal(compiled(torch.ones(3)), fn(torch.ones(3))), (name, backend, "before")
        assert dynexplore.counters["stats"]["graphs"] == 1, "nothing was captured"
        own = vars(torch.Tensor).get(name)
        setattr(torch.Tensor, name, lambda self, *others: torch.full_like(self, 9))
        assert torch.equal(compiled(torch.ones(3)), fn(torch.ones(3))), (name, backend, "replaced")
        setattr(torch.Tensor, name, own) if own else delattr(torch.Tensor, name)
        assert torch.equal(compiled(torch.ones(3)), fn(torch.ones(3))), (name, backend, "put back")
"""


def test_an_operator_of_every_tensor() -> None:
    """`torch.Tensor.__add__ = ...`: what a compiler made of the graph does not ask the class again.

    In a process of its own: a class that had a `__getitem__` of Python's once is a sequence to C for ever.
    """
    done = subprocess.run([sys.executable, "-c", OPERATORS], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]


def test_code_of_what_a_rule_answers_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`nn.Module.__call__` is not interpreted, and has the code that it had at first all the same."""
    net = torch.nn.ReLU()
    seen(lambda x: x * net(x), lambda: monkeypatch.setattr(torch.nn.Module.__call__, "__code__", NINE), before=1, after=9)


@pytest.mark.parametrize(("name", "use"), [
    ("__len__", len), ("__getitem__", lambda cls: cls["A"]),
])  # fmt: skip
def test_code_of_a_method_of_enumerations(name: str, use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`EnumType.__len__.__code__ = ...` counts for each enumeration."""

    class Colour(enum.Enum):
        A = 2

    def number(x: torch.Tensor) -> torch.Tensor:
        used = use(Colour)
        return x * (9 if type(used) is int and used == 9 else 2)

    seen(number, lambda: monkeypatch.setattr(vars(enum.EnumMeta)[name], "__code__", NINE), before=2, after=9)


def test_the_positions_of_a_class_pattern_are_the_classes_to_change() -> None:
    """`case Point(1, other)` asks `__match_args__` of the class in each call; they may be swapped."""

    class Point:
        __match_args__ = ("left", "right")

        def __init__(self) -> None:
            self.left, self.right = 1, 2

    point = Point()

    def matches(x):
        match point:
            case Point(1, other):
                return x * other
            case Point(other, 1):
                return x - other
        return x

    optimized = dynexplore.optimize("eager")(matches)
    for names in (("left", "right"), ("right", "left"), ("left", "right")):
        Point.__match_args__ = names
        assert torch.equal(optimized(torch.ones(2)), matches(torch.ones(2))), names
    assert graphs_compiled() == 2


def test_defaults_of_a_named_tuple() -> None:
    """What a call of the class leaves out comes from its `__new__`; `_field_defaults` only tells of them."""
    point = collections.namedtuple("point", "a b", defaults=[3])
    seen(lambda x: x * point(1).b, lambda: setattr(point.__new__, "__defaults__", (8,)), before=3, after=8)
    seen(lambda x: x * sum(point(2)), lambda: setattr(point.__new__, "__defaults__", (1, 2)), before=10, after=4)


def wrapping(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


SIGNATURE_CHANGES = {
    "defaults": lambda function: setattr(function, "__defaults__", (7,)),
    "keyword defaults": lambda function: setattr(function, "__kwdefaults__", {"j": 9}),
    "code": lambda function: setattr(function, "__code__", (lambda k=1, extra=2, *, j=1: 0).__code__),
    "another signature": lambda function: setattr(function, "__signature__", inspect.signature(lambda k=5, *, j=6: 0)),
    "what it wraps": lambda function: setattr(function, "__wrapped__", lambda k=50, *, j=60, i=0: 0),
}


@pytest.mark.parametrize("change", SIGNATURE_CHANGES.values(), ids=SIGNATURE_CHANGES)
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("held", [False, True])
def test_a_signature_is_made_of_code_and_defaults(change: Any, wrapped: bool, held: bool) -> None:
    """`inspect.signature` reads code, defaults, `__signature__` and, through `__wrapped__`, those of other functions."""
    inner = types.FunctionType(helper.__code__, {}, "asked", helper.__defaults__)
    inner.__kwdefaults__ = {"j": 1}
    asked = wrapping(inner) if wrapped else inner
    owner = types.SimpleNamespace(asked=asked)

    def of_cell(x):
        signature = inspect.signature(asked)
        return x * len(signature.parameters), str(signature)

    def of_attribute(x):
        signature = inspect.signature(owner.asked)
        return x * len(signature.parameters), [value.default for value in signature.parameters.values()]

    body = of_attribute if held else of_cell
    captured = dynexplore.optimize("eager")(body)
    for changes in (False, False, True):
        if changes:
            change(inner)
        (scaled, text), (expected, its_text) = captured(torch.ones(2)), body(torch.ones(2))
        assert (scaled.tolist(), text) == (expected.tolist(), its_text)
    assert graphs_compiled() >= 1
