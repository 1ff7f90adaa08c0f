"""The legacy constructors take sizes or data; which of them, the type of the argument says, whether sizes are symbolic or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import graphs_compiled

CONSTRUCTORS: dict[str, Callable[..., torch.Tensor]] = {
    "Tensor": lambda x, *args: torch.Tensor(*args),
    "FloatTensor": lambda x, *args: torch.FloatTensor(*args),
    "LongTensor": lambda x, *args: torch.LongTensor(*args),
    "new": lambda x, *args: x.new(*args),
    "new_tensor": lambda x, *args: x.new_tensor(args[0] if len(args) == 1 else args),
    "tensor": lambda x, *args: torch.tensor(args[0] if len(args) == 1 else args),
}
ARGUMENTS: dict[str, Callable[[torch.Tensor], tuple[Any, ...]]] = {
    "size": lambda x: (x.size(),),
    "slice of a size": lambda x: (x.size()[:1],),
    "sum of sizes": lambda x: (x.size() + x.size()[:1],),
    "numbers": lambda x: (x.size(0), x.shape[1]),
    "tuple": lambda x: (tuple(x.size()),),
    "list": lambda x: ([x.size(0), 2],),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("constructor", CONSTRUCTORS)
def test_a_size_is_sizes_and_a_tuple_is_data(constructor: str, argument: str, dynamic: bool | None) -> None:
    """Shape and dtype are those of eager, with static and with symbolic sizes; data has its values, too."""
    construct, arguments = CONSTRUCTORS[constructor], ARGUMENTS[argument]
    has_values = constructor in ("new_tensor", "tensor") or argument in ("tuple", "list")

    def program(x: torch.Tensor) -> torch.Tensor:
        tensor = construct(x, *arguments(x))
        return tensor * 2 if has_values else torch.zeros_like(tensor)

    compiled = dynexplore.optimize("aot_eager", dynamic=dynamic)(program)
    for rows in (3, 4, 5):
        x = torch.ones(rows, 2)
        expected, actual = program(x), compiled(x)
        assert actual.dtype == expected.dtype
        assert torch.equal(actual, expected)
    assert graphs_compiled() >= 1
