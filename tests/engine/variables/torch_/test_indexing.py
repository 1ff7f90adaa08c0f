"""engine/variables/torch_/indexing.py: each kind of item in a subscript, alone and beside others, read and written."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from recorded import recorded

import dynexplore
from dynexplore.engine.variables.torch_.indexing import ITEM_KINDS
from engine_checks import CountingBackend

SELECT, ITEM = torch.select, operator.getitem

T = torch.tensor(1)
ROWS = torch.tensor([2, 0])

READS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "data-dependent int": (lambda x, i: x[T], []),  # aliasing/lower_indexing.py lowers it for the backend
    "slice": (lambda x, i: x[1:, ::2], [ITEM]),
    "symbolic int": (lambda x, i: x[:, i], [SELECT, ITEM]),
    "symbolic int alone": (lambda x, i: x[i], [SELECT]),
    "symbolic int twice": (lambda x, i: x[i, ..., i], [SELECT, SELECT, ITEM]),
    "symbolic int beside None": (lambda x, i: x[None, i], [SELECT, ITEM]),
    "symbolic int beside a tensor of integers": (lambda x, i: x[ROWS, i], [SELECT, ITEM]),
    "symbolic int beside a data-dependent int": (lambda x, i: x[T, i], [SELECT]),
    "tensor of integers": (lambda x, i: x[ROWS], [ITEM]),
    "int": (lambda x, i: x[1, 2], [ITEM]),
    "None": (lambda x, i: x[None], [ITEM]),
    "...": (lambda x, i: x[..., 0], [ITEM]),
    "other": (lambda x, i: x[True], [ITEM]),
}


def graphs_of(function: Callable[..., Any]) -> CountingBackend:
    """The backend that got the graphs of two calls, the second with another number; each result is eager's."""
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(function)
    for number in (1, 2, 0):
        x = torch.arange(36.0).reshape(4, 3, 3)
        expected, here = x.clone(), x.clone()
        assert torch.equal(compiled(here, number), function(expected, number)) and torch.equal(here, expected)
    return backend


@pytest.mark.parametrize("name", READS)
def test_reads(name: str) -> None:
    """A symbol is selected, all else is the program's own subscript."""
    read, targets = READS[name]
    graph = graphs_of(lambda x, i: read(x, i) * 2).graphs[-1]
    assert [node.target for node in graph.graph.nodes if node.target in (SELECT, ITEM)] == targets


def write(set_item: Callable[..., None]) -> Callable[..., Any]:
    def function(x: Any, i: int) -> Any:
        set_item(x, i)
        return x + 1

    return function


def into_symbol(x: Any, i: int) -> None:
    x[:, i] = 7


def into_data_dependent_row(x: Any, i: int) -> None:
    x[T, 1:] = 7


def into_data_dependent_slice(x: Any, i: int) -> None:
    x[0, T:] = 7


def into_rows(x: Any, i: int) -> None:
    x[ROWS] = 7


@pytest.mark.parametrize("set_item", [into_symbol, into_data_dependent_row, into_data_dependent_slice, into_rows])
def test_writes(set_item: Callable[..., None]) -> None:
    """Each write is captured in one graph without a break, with the results of eager; the backend may be skipped (BE26)."""
    graphs_of(write(set_item))
    r = recorded(write(set_item), (torch.ones(4, 3, 3), 1))
    assert len(r.graphs) == 1 and not r.breaks


@pytest.mark.plain("compares two tables, without a frame")
def test_all_kinds_are_read() -> None:
    """The table of this file has each kind of item, but for the slice that is only written to."""
    assert {kind.name for kind in ITEM_KINDS} - set(READS) == {"data-dependent slice"}
