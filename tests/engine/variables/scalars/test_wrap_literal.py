"""Numbers of numpy that the caller passes: one graph serves all of a type, as an element of data is another one in each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import dynexplore
from engine_checks import graphs_compiled
from sameness import differences

KINDS = (np.int64, np.int8, np.uint8, np.float32, np.float64, np.float16)
DTYPES = (torch.float32, torch.int64, torch.bfloat16)
NUMBERS = (3, 5, 2, 7, 1, 4)

ONE_GRAPH: dict[str, Callable[[Any, Any], Any]] = {
    "beside a tensor": lambda x, y: (x * y, y * x, x + y, y - x, torch.add(x, x, alpha=2), torch.where(x > 0, x, y)),
    "computed": lambda x, y: (x + (y + 1), y + 1, y * y, 2 * y, 1.5 - y, y / 2, y // 2, y % 3, x * 2),
    "carried": lambda x, y: (x + 1, y, f"{y}", str(y), repr(y), y is y, [y][0] is y),
    "its type": lambda x, y: (x + 1, y.dtype, y.nbytes, isinstance(y, np.integer), isinstance(y, float)),
    "item": lambda x, y: x + y.item(),
    "arguments": lambda x, y: (x.clone().fill_(y), torch.full((2,), y), x.float().clamp(min=y)),
    "sum": lambda x, y: x + sum([y, y]),
    "in a tuple": lambda x, y: (lambda pair: x + pair[0] * pair[1])((y, y)),
}
SEVERAL_GRAPHS: dict[str, Callable[[Any, Any], Any]] = {
    "compared": lambda x, y: x * 2 if y > 3 else x,
    "compared as a value": lambda x, y: (x + 1, y > 3, y == 3),
    "a tensor of it": lambda x, y: (x * 2, torch.tensor(y), torch.as_tensor(y), torch.tensor([y, y])),
    "converted": lambda x, y: (x + int(y), x + float(y)),
    "a size": lambda x, y: x.expand(int(y) + 1, 2, 3)[0],
    "a key": lambda x, y: {y: x + 1},
    "the greatest": lambda x, y: x + max(y, 3),
    "a magnitude": lambda x, y: (abs(y), x + 1),
    "a function of numpy": lambda x, y: x * np.sqrt(abs(y)),
    "too small a type": lambda x, y: (x + 1, y + 100 if y.dtype != np.int8 else y),
}


def _compare(fn: Callable[[Any, Any], Any], kind: Any, dtype: torch.dtype) -> None:
    compiled = dynexplore.optimize("eager")(fn)
    for number in NUMBERS:
        x = torch.arange(-2, 4).reshape(2, 3).to(dtype)
        expected, result = fn(x, kind(number)), compiled(x, kind(number))
        assert not list(differences({"value": expected}, {"value": result})), number


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph_serves_all_numbers(name: str, kind: Any) -> None:
    """What is computed, carried along or made an input of the graph has the value, dtype and class of eager in each call."""
    for dtype in DTYPES:
        dynexplore.reset()
        _compare(ONE_GRAPH[name], kind, dtype)
        assert graphs_compiled() == 1, dtype


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SEVERAL_GRAPHS)
def test_where_the_value_decides(name: str, kind: Any) -> None:
    """Where Python needs the value, a call with another number has eager's result."""
    _compare(SEVERAL_GRAPHS[name], kind, torch.float32)
    assert graphs_compiled()


def test_a_module_s_own_number_is_a_constant() -> None:
    """A number of numpy that is an attribute of a module is a constant of the graph."""

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = np.float32(0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    module = Scaled()
    compiled = dynexplore.optimize("eager")(module)
    for scale in (0.5, 0.25):
        module.scale = np.float32(scale)
        assert torch.equal(compiled(torch.ones(2)), module(torch.ones(2)))
    assert graphs_compiled() == 2
