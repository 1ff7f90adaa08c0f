"""A size that only data told is 0, 1 or more: one graph where that makes no difference, and never a wrong result where it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled


def rows_above(x: Any, mask: Any) -> Any:
    (chosen,) = torch.where(mask)
    return x[chosen] @ x.t() + 1, x[chosen].sum(0), x[chosen].shape[0] * 2


def columns_of_nonzero(x: Any, mask: Any) -> Any:
    _, chosen = torch.where(torch.stack([mask, mask]))
    return x[None, chosen].reshape(-1, 4) * 2


def asks_for_none(x: Any, mask: Any) -> Any:
    (chosen,) = torch.where(mask)
    return x + 1 if chosen.shape[0] == 0 else x[chosen] * 2


def asks_for_one(x: Any, mask: Any) -> Any:
    (chosen,) = torch.where(mask)
    return x[chosen] + 100 if len(chosen) == 1 else x[chosen] * 2


def squeezes(x: Any, mask: Any) -> Any:
    (chosen,) = torch.where(mask)
    y = x[chosen].squeeze()
    return y * 2, y.dim(), y.shape


def broadcasts(x: Any, mask: Any) -> Any:
    (chosen,) = torch.where(mask)
    return x[chosen][:, None] + x[chosen][None, :, :1], x[chosen] + torch.ones(1, 4)


def turns_and_asks(x: Any, mask: Any) -> Any:
    (chosen,) = torch.where(mask)
    y = x[chosen].t()
    return y * 2, y.is_contiguous(), y.stride()


def writes_to_a_copy_or_a_view(x: Any, mask: Any) -> Any:
    (chosen,) = torch.where(mask)
    rows = x[chosen]
    flat = rows.t().reshape(-1)
    flat.add_(1)
    return rows, flat


def counts_two(x: Any, mask: Any) -> Any:
    (chosen,) = torch.where(mask)
    (others,) = torch.where(~mask)
    return torch.cat([x[chosen], x[others]]), x[chosen].mean(0).nan_to_num(7.0)


ONE_GRAPH = {rows_above: 1, columns_of_nonzero: 2}  # and how many there are, with that of what stands before the break
OF_EACH_OWN = [asks_for_none, asks_for_one, squeezes, broadcasts, turns_and_asks, writes_to_a_copy_or_a_view, counts_two]
ORDERS = [(3, 0, 1, 4, 2, 1, 0), (0, 3, 1, 0, 5), (1, 0, 6, 1), (6, 1, 0, 3)]


def _arguments(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(24.0).reshape(6, 4) + 1, torch.arange(6) % 6 < count


@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_sizes_0_and_1_are_served_by_the_graph_of_other_sizes(program: Callable[..., Any]) -> None:
    """Operators do the same for each number of rows: what was compiled for three of them serves none and one."""
    then = [_arguments(count) for count in (0, 1, 5, 0)]
    assert_same_as_eager(program, *_arguments(3), then=then, graphs=ONE_GRAPH[program], recompiles=0)


@pytest.mark.parametrize("counts", ORDERS, ids=str)
@pytest.mark.parametrize("program", [*ONE_GRAPH, *OF_EACH_OWN], ids=lambda program: program.__name__)
def test_any_order_of_sizes_is_as_in_eager(program: Callable[..., Any], counts: tuple[int, ...]) -> None:
    """Squeezing, broadcasting, views that are copies for other sizes, and what the program itself asks."""
    assert_same_as_eager(program, *_arguments(counts[0]), then=[_arguments(count) for count in counts[1:]])


@pytest.mark.parametrize("program", [rows_above, squeezes, broadcasts], ids=lambda program: program.__name__)
def test_a_compiler_that_asks_for_the_size_gets_it(program: Callable[..., Any]) -> None:
    """What AOTAutograd asks becomes guards, and a size 0 or 1 gets a graph of its own."""
    compiled = dynexplore.optimize("aot_eager")(program)
    for count in (3, 0, 1, 4, 0):
        torch.testing.assert_close(compiled(*_arguments(count)), program(*_arguments(count)))
    assert graphs_compiled() > 1
