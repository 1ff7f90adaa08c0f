"""traces/values_in_scope.py: a value is looked up without running code of the program, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynexplore.traces.values_in_scope import UNKNOWN, value_at

pytestmark = pytest.mark.plain("values of a scope made by hand")


class Raises:
    """Whatever is asked of it raises."""

    def __eq__(self, other: object) -> bool:
        raise OSError("asked whether it is equal")

    def __hash__(self) -> int:
        return hash("n")


class HasProperty:
    """The instance dict has another value than the attribute."""

    def __init__(self) -> None:
        vars(self).update(n=1, m=2)

    @property
    def n(self) -> int:
        raise OSError("a property was read")


class HasDictProperty:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise OSError("the property __dict__ was read")


class LooksUp:
    def __init__(self) -> None:
        vars(self)["n"] = 1

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            return object.__getattribute__(self, name)
        raise OSError("an attribute was looked up")


class Counted(dict[str, int]):
    def __getitem__(self, key: str) -> int:
        raise OSError("an item was looked up")


CASES: dict[str, tuple[Any, str, Any]] = {
    "attribute": (HasProperty(), "L['v'].m", 2),
    "module": (torch, "L['v'].nn", torch.nn),
    "child": (torch.nn.Sequential(torch.nn.ReLU()), "L['v']._modules['0'].inplace", False),
    "item": ([{"n": 3}], "L['v'][0]['n']", 3),
    "property": (HasProperty(), "L['v'].n", UNKNOWN),
    "dict property": (HasDictProperty(), "L['v'].n", UNKNOWN),
    "getattribute": (LooksUp(), "L['v'].n", UNKNOWN),
    "key with __eq__": ({Raises(): 1}, "L['v']['n']", UNKNOWN),
    "dict subclass": (Counted(n=1), "L['v']['n']", UNKNOWN),
    "slot of a function": (lambda: 1, "L['v'].__code__", UNKNOWN),
    "class": (HasProperty, "L['v'].n", UNKNOWN),
}


@pytest.mark.parametrize("name", CASES)
def test_no_code_of_the_program_runs(name: str) -> None:
    """Plain places have a value; where Python would run code of the program, none is known."""
    value, source, expected = CASES[name]
    found = value_at(source, ({"v": value}, {}))
    assert found is expected or found == expected
