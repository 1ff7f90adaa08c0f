"""A wrong rule of a container's method is flagged at its call."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from second_opinion.planted import first_of, recorded, rule_for_method

from dynexplore.engine.variables.containers.sequence import ListVariable
from dynexplore.engine.variables.scalars.constant import ConstantVariable

NONE = ConstantVariable(None)


def does_nothing(ctx: Any, self: Any, args: Any, kwargs: Any) -> Any:
    return NONE


def first_in(ctx: Any, self: Any, args: Any, kwargs: Any) -> Any:
    self.items.insert(0, args[-1])
    return NONE


def pops_the_first(ctx: Any, self: Any, args: Any, kwargs: Any) -> Any:
    return self.items.pop(0)


def sorts_backwards(ctx: Any, self: Any, args: Any, kwargs: Any) -> Any:
    self.items.sort(key=lambda item: -item.as_constant())
    return NONE


def clears(ctx: Any, self: Any, args: Any, kwargs: Any) -> Any:
    self.items.clear()
    return NONE


def takes_the_default(ctx: Any, self: Any, args: Any, kwargs: Any) -> Any:
    return args[1]


def adds_another(ctx: Any, self: Any, args: Any, kwargs: Any) -> Any:
    self.put(ctx, ConstantVariable(9))
    return NONE


def items_of_method(python_type: Callable[..., Any], method: str, *args: Any) -> Callable[..., Any]:
    """A program that makes a container, calls one of its methods and returns both."""

    def program(x: torch.Tensor) -> Any:
        made = python_type([x * 2, x * 3])
        return getattr(made, method)(*args), made

    return program


def numbers(x: torch.Tensor) -> Any:
    found = [3, 1, 2]
    found.sort()
    return x * found[0]


def appended(x: torch.Tensor) -> Any:
    found = [x]
    found.append(x * 2)
    return found


def appended_to_an_argument(x: torch.Tensor, items: list[Any]) -> Any:
    items.append(x * 2)
    return x + 1


def extended(x: torch.Tensor) -> Any:
    found = [x]
    found.extend((x * 2, x * 3))
    return found


def inserted(x: torch.Tensor) -> Any:
    found = [x, x * 2]
    found.insert(1, x * 3)
    return found


def popped(x: torch.Tensor) -> Any:
    found = [x, x * 2]
    return found.pop() + 1


def reversed_in_place(x: torch.Tensor) -> Any:
    found = [x, x * 2]
    found.reverse()
    return found


def cleared(x: torch.Tensor) -> Any:
    found = [x, x * 2]
    found.clear()
    return found, x + 1


def updated(x: torch.Tensor) -> Any:
    found = {"a": x}
    found.update({"a": x * 2}, b=x * 3)
    return found


def defaulted(x: torch.Tensor) -> Any:
    found = {"a": x}
    return found.setdefault("a", x * 2), found.setdefault("b", x * 3)


def popped_key(x: torch.Tensor) -> Any:
    found = {"a": x, "b": x * 2}
    return found.pop("a", x * 5), found


def left(x: torch.Tensor) -> Any:
    found = deque([x], maxlen=3)
    found.appendleft(x * 2)
    return found


def rotated(x: torch.Tensor) -> Any:
    found = deque([x, x * 2, x * 3])
    found.rotate(1)
    return found[0]


def a_member_more(x: torch.Tensor) -> Any:
    found: set[int] = set()
    found.add(2)
    return x * sum(found)


def a_member_less(x: torch.Tensor) -> Any:
    found = {1, 2}
    found.discard(2)
    return x * sum(found)


def copied(x: torch.Tensor) -> Any:
    found = [x, x * 2]
    return found.copy()[1] + 1


METHOD_RULES: list[tuple[type[Any], str, Any, Callable[..., Any], tuple[Any, ...]]] = [
    (list, "append", first_in, appended, ()),
    (list, "append", does_nothing, appended_to_an_argument, ([],)),
    (list, "extend", does_nothing, extended, ()),
    (list, "insert", first_in, inserted, ()),
    (list, "pop", pops_the_first, popped, ()),
    (list, "sort", sorts_backwards, numbers, ()),
    (list, "reverse", does_nothing, reversed_in_place, ()),
    (list, "clear", does_nothing, cleared, ()),
    (list, "copy", lambda ctx, self, args, kwargs: ListVariable(self.items[::-1]), copied, ()),
    (dict, "update", does_nothing, updated, ()),
    (dict, "setdefault", takes_the_default, defaulted, ()),
    (dict, "pop", takes_the_default, popped_key, ()),
    (deque, "appendleft", clears, left, ()),
    (deque, "rotate", does_nothing, rotated, ()),
    (set, "add", adds_another, a_member_more, ()),
    (set, "discard", does_nothing, a_member_less, ()),
]


@pytest.mark.parametrize(
    ("python_type", "name", "rule", "program", "more"), METHOD_RULES, ids=[f"{row[0].__name__}.{row[1]}" for row in METHOD_RULES]
)
def test_a_wrong_rule_of_a_method_is_flagged_at_its_call(
    python_type: type[Any], name: str, rule: Any, program: Callable[..., Any], more: tuple[Any, ...]
) -> None:
    """What a method does to its receiver, and what it gives, is what CPython's own method does and gives."""
    assert recorded(program, torch.ones(2), *more).divergences == ()
    with rule_for_method(python_type, name, rule):
        found, step = first_of(recorded(program, torch.ones(2), *more))
    assert (found.where, step.op.removesuffix("_KW")) == ("step", "CALL")
    assert found.expected != found.actual


class Pair:
    def __init__(self, x: torch.Tensor) -> None:
        self.a, self.b = x, x * 2


class PairOfDict(dict[str, Any]):
    def __init__(self, x: torch.Tensor) -> None:
        super().__init__(key=x)
        self.a, self.b = x, x * 2


OF_ATTRIBUTES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "get": lambda d: d.get("a"),
    "get_absent": lambda d: d.get("c"),
    "getitem": lambda d: d["a"],
    "in": lambda d: "a" in d,
    "len": len,
    "bool": bool,
    "list": list,
    "sorted": sorted,
    "dict": dict,
    "copy": lambda d: d.copy(),
    "values": lambda d: list(d.values()),
    "items": lambda d: list(d.items()),
    "loop": lambda d: [key for key in d],
    "loop_over_values": lambda d: [value for value in d.values()],
    "next": lambda d: next(iter(d)),
    "unpack": lambda d: {**d},
    "or": lambda d: d | {"c": 1},
    "equal": lambda d: d == {},
    "equal_keys": lambda d: d.keys() == {"a"},
    "pop": lambda d: d.pop("a"),
    "setdefault": lambda d: d.setdefault("c", 1),
    "update": lambda d: d.update(c=1),
}


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("python_type", [Pair, PairOfDict])
@pytest.mark.parametrize("name", OF_ATTRIBUTES)
def test_no_operation_of_an_unread_dict_of_attributes_is_flagged(name: str, python_type: type[Any], is_new: bool) -> None:
    """What a `__dict__` holds is not known to the check before it is read, which is not an empty dict."""

    def program(x: torch.Tensor, pair: Any) -> Any:
        pair = python_type(x) if is_new else pair
        return OF_ATTRIBUTES[name](pair.__dict__), x + 1

    x = torch.ones(2)
    recording = recorded(program, x, None if is_new else python_type(x))
    assert recording.graphs and recording.divergences == ()
