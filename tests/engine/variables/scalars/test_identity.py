"""Which object a value is: asked with `is`, or in passing by `==`, `in`, keys and members; the next call may bring others."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import graphs_compiled


class Plain:
    """Compared by identity."""


class Compared:
    """Its own comparison asks for identity, too."""

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


MAKERS: dict[str, Callable[[], Any]] = {
    "object": Plain,
    "object with its own comparison": Compared,
    "list": list,
    "dict": dict,
    "tuple": lambda: tuple([1, []]),
    "function": lambda: lambda: 0,
    "class": lambda: type("Made", (), {}),
    "module": lambda: torch.nn.Linear(1, 1),
    "tensor": lambda: torch.ones(1),
    "generator of random numbers": torch.Generator,
    "exception": lambda: ValueError(1),
    "text": lambda: "".join(["ab", "c"]),
    "one letter": lambda: "".join(["", "a"]),
    "large int": lambda: int("100000"),
    "small int": lambda: int("7"),
    "float": lambda: float("2.5"),
    "nan": lambda: float("nan"),
    "bytes": lambda: bytes([1, 2, 3]),
}
QUESTIONS: dict[str, Callable[..., Any]] = {
    "is": lambda x, a, b: (x * 2, a is b, a is not b),
    "operator.is_": lambda x, a, b: (x * 2, operator.is_(a, b), operator.is_not(a, b)),
    "decides": lambda x, a, b: x * 2 if a is b else x * 3,
    "==": lambda x, a, b: (x * 2, a == b, a != b),
    "in a list": lambda x, a, b: (x * 2, a in [b], [b].count(a)),
    "in a tuple": lambda x, a, b: (x * 2, (a, 1) == (b, 1)),
    "a key": lambda x, a, b: (x * 2, a in {b: 1}, {a: 1, b: 2}[a]),
    "a member": lambda x, a, b: (x * 2, len({a, b})),
    "behind a break": lambda x, a, b: (x * 2, print(end=""), x * 3, a is b),
}
NOT_HASHABLE = ("list", "dict", "tuple")
NAN_IS_A_KEY = "a nan is a key by its identity, which is lost where it becomes a constant"


def answers(function: Callable[..., Any], calls: list[tuple[Any, Any]]) -> list[str]:
    """What each call gives or raises."""
    told = []
    for first, second in calls:
        try:
            told.append(repr(function(torch.ones(2), first, second)))
        except (TypeError, RuntimeError) as error:
            told.append(repr(error))
    return told


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", MAKERS)
def test_an_answer_about_identity_is_that_of_this_call(kind: str, question: str) -> None:
    """One object twice after two, and two after one object twice, in any order."""
    if question in ("a key", "a member") and (kind in NOT_HASHABLE or kind == "nan"):
        pytest.skip(NAN_IS_A_KEY if kind == "nan" else "it has no hash")
    body = QUESTIONS[question]
    one, other = MAKERS[kind](), MAKERS[kind]()
    for calls in ([(one, other), (one, one), (other, other), (other, one)], [(one, one), (one, other), (other, one)]):
        dynexplore.reset()
        captured = dynexplore.optimize("eager")(body)
        assert answers(captured, calls) == answers(body, calls)
        assert graphs_compiled() >= 1


TEXT = "a text with spaces"


def test_a_literal_is_one_object() -> None:
    """An equal text from elsewhere is another object than the one that stands in the program, and the program's own is itself."""

    def body(x, a):
        return x * 2, a is TEXT

    calls = [(torch.ones(2), TEXT), (torch.ones(2), "".join([*TEXT])), (torch.ones(2), TEXT)]
    captured = dynexplore.optimize("eager")(body)
    assert [captured(*call)[1] for call in calls] == [True, False, True]
    assert graphs_compiled() == 2


def test_objects_that_are_fixed_need_no_guard_about_each_other() -> None:
    """Keys whose identity is guarded anyway are different for good: one entry, no DISTINCT."""
    layers = [torch.nn.Linear(2, 2) for _ in range(3)]

    def body(x):
        seen = {layer: number for number, layer in enumerate(layers)}
        return layers[1](x) * seen[layers[2]]

    explanation = dynexplore.explain(body, torch.ones(2))
    assert len(explanation.graphs) == 1
    assert not [guard for guard in explanation.guards if guard.kind == "DISTINCT"]


def test_an_object_has_one_dictionary() -> None:
    """`vars(obj)` and `obj.__dict__` are the same object, whichever is asked first, and that of another object is another one."""
    held = Plain()

    def body(x):
        made = Plain()
        asked = held.__dict__
        same = [vars(held) is held.__dict__, held.__dict__ is held.__dict__, asked is vars(held), vars(made) is made.__dict__]
        made.x = x
        return x + len(vars(made)), same, vars(made) is vars(held), vars(made)["x"] is x

    captured = dynexplore.optimize("eager")(body)
    for _ in range(2):
        x = torch.ones(2)
        total, *answers = captured(x)
        assert total.tolist() == [2.0, 2.0]
        assert answers == [[True] * 4, False, True]
    assert graphs_compiled() == 1


def addresses(x, a, b):
    one, other = id(a), id(b)
    return x + 1, one == other, id(a) == one, {one: "same"}.get(other), a is b


@pytest.mark.parametrize("make", (list, dict, set, lambda: (1, [2]), object, torch.nn.ReLU, lambda: torch.ones(1)))
def test_the_address_of_a_container_is_that_of_the_object(make):
    """Equal lists are rebuilt while tracing: these have other addresses than the program's."""
    one = make()
    compiled = dynexplore.optimize("eager")(addresses)
    for a, b in ((one, one), (make(), make()), (one, one), (one, make())):
        assert compiled(torch.ones(1), a, b)[1:] == addresses(torch.ones(1), a, b)[1:]
    assert graphs_compiled()


def truths(x, y):
    one, other = bool(x), bool(y)
    return x + 1, one is True, False is other, one is other, one is one, [1 if truth is True else 2 for truth in (one, other)]


def test_a_truth_that_the_graph_tells_is_true_or_false():
    """`bool(x) is True`: CPython has two truth values, and each of them once."""
    compiled = dynexplore.optimize("eager")(truths)
    for x, y in ((1.0, 0.0), (0.0, 0.0), (2.0, 3.0), (0.0, 1.0)):
        args = torch.tensor(x), torch.tensor(y)
        assert compiled(*args) == truths(*args)
    assert graphs_compiled()


def test_parts_of_a_result_that_are_arguments():
    """Functions of several tensors give back those that need no change; what is written to them is written to the argument."""

    def broadcast(x, y):
        first, second = torch.broadcast_tensors(x, y)
        third, fourth = torch.atleast_1d([x, y])
        (alone,) = torch.broadcast_tensors(x)
        alone.add_(1)
        return first is x, second is y, third is x, fourth is y, alone is x, first + second

    for x, y in ((torch.ones(2), torch.ones(2)), (torch.ones(2), torch.ones(1)), (torch.ones(()), torch.ones(2))):
        assert str(dynexplore.optimize("eager")(broadcast)(x.clone(), y)) == str(broadcast(x.clone(), y))
    assert graphs_compiled()


LITERALS: dict[str, tuple[str, str]] = {
    "str": ("'xyzpdq'", "a[:k - 997] + a[3:]"),
    "str of one letter": ("'x'", "'xy'[:k - 999]"),
    "empty str": ("''", "'xy'[k:]"),
    "bytes": ("b'abc'", "a[:k - 999] + a[1:]"),
    "int": ("1001", "k + 1"),
    "small int": ("5", "k - 995"),
    "float": ("1.5", "k / 2 * 3 / 1000"),
    "minus zero": ("0.0", "0.0 * -k"),
    "complex": ("1000j", "k * 1j"),
    "tuple": ("(1, 1001)", "(1, k + 1)"),
    "bool": ("True", "k == 1000"),
}


@pytest.mark.parametrize("literal", LITERALS)
@pytest.mark.parametrize("leaves", ["torch._dynamo.graph_break()", "pass", "y = y + 1 if y.sum() > 0 else y - 1"])
def test_a_computed_constant_is_not_the_literal(literal: str, leaves: str) -> None:
    """In the frame, behind a graph break, and in what is returned; nor are two computed ones the same object."""
    first, computed = LITERALS[literal]
    body = f"y = x + 1\n    a = {first}\n    b = {computed}\n    c = {computed}\n    {leaves}"
    names: dict[str, Any] = {"torch": torch}
    exec(f"def program(x, k):\n    {body}\n    return y, a, b, c, b, a is b, b is c, b is b\n", names)
    program = names["program"]
    expected = program(torch.ones(2), 1000)[1:]
    compiled = dynexplore.optimize("eager")(program)
    for _ in range(3):
        values = compiled(torch.ones(2), 1000)[1:]
        assert values == expected
        assert [one is other for one in values for other in values] == [one is other for one in expected for other in expected]
    assert graphs_compiled() > 0
