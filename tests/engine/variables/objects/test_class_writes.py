"""What is written to a class through one of its objects is read through its name, and the other way round, in the same call."""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

from engine_checks import assert_same_as_eager


class Plain:
    kind = 1


class Dict(dict):
    kind = 1


class Listed(list):
    kind = 1


class Ordered(collections.OrderedDict):
    kind = 1


class Queue(collections.deque):
    kind = 1


class Text(str):
    kind = 1


class Number(int):
    kind = 1


class Module(torch.nn.Module):
    kind = 1


class Failure(Exception):
    kind = 1


class Named(NamedTuple):
    field: int


RECEIVERS: dict[str, Callable[[], Any]] = {
    "Plain": Plain,
    "Dict": lambda: Dict(a=1),
    "Listed": lambda: Listed([1]),
    "Ordered": lambda: Ordered(a=1),
    "Queue": lambda: Queue([1]),
    "Text": lambda: Text("a"),
    "Number": lambda: Number(3),
    "Module": Module,
    "Failure": lambda: Failure(1),
    "Named": lambda: Named(1),
}
WRITES = {
    "type()": "type(o).kind = number",
    "__class__": "o.__class__.kind = number",
    "setattr": "setattr(type(o), 'kind', number)",
    "by name": "CLASS.kind = number",
    "by name after type()": "type(o).kind = 0; CLASS.kind = number",
    "type() after by name": "CLASS.kind = 0; type(o).kind = number",
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("receiver", RECEIVERS)
def test_a_write_to_a_class_is_read_by_every_way_to_it(receiver: str, write: str) -> None:
    """Over four calls with other numbers, and the class as it was left."""
    make = RECEIVERS[receiver]
    cls: Any = type(make())
    names: dict[str, Any] = {"CLASS": cls}
    body = f"    {WRITES[write]}\n    return x + 1, CLASS.kind, type(o).kind, o.kind, o.__class__.kind\n"
    exec(f"def program(x, o, number):\n{body}", names)

    def setup() -> None:
        cls.kind = 1

    x = torch.ones(2)
    calls = [(x, make(), number) for number in (12, 13, 12)]
    assert_same_as_eager(names["program"], x, make(), 11, then=calls, setup=setup, observe=lambda: cls.kind)
    setup()


def deleted(x: torch.Tensor, o: Plain) -> Any:
    del type(o).kind
    return x + 1, hasattr(Plain, "kind")


def handled(x: torch.Tensor, number: int) -> Any:
    x = x + 1
    try:
        raise Failure
    except Failure as error:
        sys.exc_info()[0].kind = number  # type: ignore[union-attr]
        return x, Failure.kind, error.kind


def raised(x: torch.Tensor, o: Plain, number: int) -> Any:
    x = x + 1
    type(o).kind = number
    raise Failure(Plain.kind)


def _restore() -> None:
    Plain.kind = Failure.kind = 1


def test_other_ways_to_a_class() -> None:
    """An attribute that is deleted, the class of the exception being handled, and a value that only an exception carries out."""
    x = torch.ones(2)
    try:
        assert_same_as_eager(deleted, x, Plain(), setup=_restore, observe=lambda: hasattr(Plain, "kind"))
        assert_same_as_eager(handled, x, 5, then=[(x, 6), (x, 7)], setup=_restore, observe=lambda: Failure.kind)
        assert_same_as_eager(
            raised,
            x,
            Plain(),
            5,
            then=[(x, Plain(), 6), (x, Plain(), 7)],
            graphs=range(4),
            setup=_restore,
            observe=lambda: Plain.kind,
        )
    finally:
        _restore()


def on_the_tensor_class(x: torch.Tensor, number: int) -> Any:
    x = x + 1
    type(x).kind = number  # type: ignore[attr-defined]
    return x, torch.Tensor.kind, x.kind  # type: ignore[attr-defined]


def test_a_write_to_torchs_class_is_read_by_tensors() -> None:
    """An attribute that the program adds to torch.Tensor."""

    def setup() -> None:
        torch.Tensor.kind = 1  # type: ignore[attr-defined]

    setup()
    x = torch.ones(2)
    try:
        assert_same_as_eager(
            on_the_tensor_class,
            x,
            5,
            then=[(x, 6), (x, 7), (x, 6)],
            setup=setup,
            observe=lambda: torch.Tensor.kind,  # type: ignore[attr-defined]
        )
    finally:
        del torch.Tensor.kind  # type: ignore[attr-defined]
