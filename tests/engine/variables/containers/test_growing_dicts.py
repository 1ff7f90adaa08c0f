"""Dicts that grow between calls: a function that reads one key of a registry relies on that key alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dynexplore
from engine_checks import CountingBackend

REGISTRY: dict[Any, Any] = {}


class Adapters(nn.Module):
    """Layers and numbers by name, as adapters of language models have them."""

    def __init__(self) -> None:
        super().__init__()
        self.scaling = {"a": 2.0}
        self.layers = nn.ModuleDict({"a": nn.Linear(3, 3)})
        self.active = "a"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers[self.active](x) * self.scaling[self.active]


READS: dict[str, Callable[[Any, Any], Any]] = {
    "a global": lambda x, d: x * REGISTRY["a"],
    "an argument": lambda x, d: x * d["a"],
    "get": lambda x, d: x * d.get("a", 1),
    "get of what is absent": lambda x, d: x * d.get("b", 1),
    "in": lambda x, d: x * 2 if "a" in d else x,
    "not in": lambda x, d: x * 2 if "b" not in d else x,
    "a number": lambda x, d: x * d[0],
    "a key of its own put": lambda x, d: x * {**{}, "a": d["a"]}["a"],
}


@pytest.mark.parametrize("name", READS)
def test_a_key_that_is_read_is_guarded_alone(name: str) -> None:
    """Other keys come and go; the one that is read recompiles when it changes."""
    read, backend = READS[name], CountingBackend()
    optimized, x = dynexplore.optimize(backend)(read), torch.ones(3)
    content: dict[Any, Any] = {"a": 2.0, 0: 3.0}
    REGISTRY.clear()
    REGISTRY.update(content)
    for place in range(20):
        assert torch.equal(optimized(x, content), read(x, content))
        content[f"k{place}"] = REGISTRY[f"k{place}"] = place
    assert len(backend.graphs) == 1
    content["a"] = REGISTRY["a"] = content["b"] = content[0] = 5.0
    assert torch.equal(optimized(x, content), read(x, content))
    del content["a"], content["b"]
    content["a"] = REGISTRY["a"] = 7.0
    assert torch.equal(optimized(x, content), read(x, content))


def test_a_module_dict_that_grows() -> None:
    """A layer that is read by its name is guarded, and no other."""
    model, backend = Adapters(), CountingBackend()
    optimized, x = dynexplore.optimize(backend)(model), torch.ones(3)
    for place in range(12):
        assert torch.equal(optimized(x), model(x))
        model.layers[f"k{place}"] = nn.Linear(3, 3)
        model.scaling[f"k{place}"] = float(place)
    assert len(backend.graphs) == 1
    model.layers["a"] = nn.Linear(3, 3)
    assert torch.equal(optimized(x), model(x))


@pytest.mark.parametrize("odd", [True, 1.0, 1 + 0j], ids=repr)
def test_a_key_that_equals_the_one_that_was_absent(odd: Any) -> None:
    """1 is there, too, when True comes."""
    optimized = dynexplore.optimize("eager")(READS["a number"])
    backend = CountingBackend()
    asks = dynexplore.optimize(backend)(lambda x, d: x * 2 if 1 in d else x)
    content: dict[Any, Any] = {0: 3.0}
    x = torch.ones(3)
    assert torch.equal(optimized(x, content), x * 3) and torch.equal(asks(x, content), x)
    content[odd] = None
    assert torch.equal(asks(x, content), x * 2)
    assert backend.graphs
