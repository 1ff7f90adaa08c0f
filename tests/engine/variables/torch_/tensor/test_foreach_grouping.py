"""Tensors sorted by device and dtype: what clipping of gradients does before it calls foreach operators."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, get_total_norm
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

from engine_checks import assert_same_as_eager


def with_gradients(*dtypes: torch.dtype) -> list[torch.Tensor]:
    made = [torch.full((number + 2,), 2.0 - number, dtype=dtype, requires_grad=True) for number, dtype in enumerate(dtypes)]
    for leaf in made:
        leaf.grad = torch.arange(len(leaf), dtype=leaf.dtype) + 0.5
    return made


def clips_norm(*leaves: Any) -> Any:
    norm = clip_grad_norm_(iter(leaves), 1.0, foreach=True)
    return norm, [leaf.grad for leaf in leaves]


def clips_values(*leaves: Any) -> Any:
    clip_grad_value_(leaves, 1.0, foreach=True)
    return [leaf.grad for leaf in leaves]


def total(*leaves: Any) -> Any:
    return get_total_norm([leaf.grad for leaf in leaves], foreach=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [clips_norm, clips_values, total])
@pytest.mark.parametrize("dtypes", [(torch.float32,) * 2, (torch.float32, torch.float64, torch.float32)], ids=["one", "two"])
def test_gradients_are_clipped_in_the_graph(fn: Any, dtypes: tuple[torch.dtype, ...], backend: str) -> None:
    """One graph, with the groups in the order of the C function; the second call has other gradients."""
    again = with_gradients(*dtypes)
    for leaf in again:
        leaf.grad *= 0.01
    assert_same_as_eager(fn, *with_gradients(*dtypes), then=[again], backend=backend, graphs=1, breaks=0)


def test_places_of_tensors_and_of_none() -> None:
    """The places say which tensor is where; a row may lack tensors."""

    def groups(x: Any, y: Any) -> Any:
        found = _group_tensors_by_device_and_dtype([[x, y, x], [None, x * 2, None]], with_indices=True)
        told = [(str(device), dtype, [len(row) for row in rows], places) for (device, dtype), (rows, places) in found.items()]
        return told, x + 1

    assert_same_as_eager(groups, torch.ones(2), torch.ones(2, dtype=torch.float64), graphs=1, breaks=0)
