"""Sparse and nested tensors, made in the frame or passed to it: what a program reads of them is what eager reads.

A fake sparse tensor has no entries, whatever the real one has; the graph breaks before one would be asked.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager

X = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, -1.0], [4.0, 5.0, 6.0]])
TWICE = torch.tensor([[0, 0, 2], [1, 1, 2]])

MAKERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "to_sparse": lambda x: x.to_sparse(),
    "to_sparse rows": lambda x: x.to_sparse(1),
    "sum": lambda x: x.to_sparse() + x.to_sparse(),
    "cat": lambda x: torch.cat([x.to_sparse(), x.to_sparse()]),
    "transpose": lambda x: x.to_sparse().t(),
    "uncoalesced": lambda x: torch.sparse_coo_tensor(TWICE, x[0], (3, 3)),
    "selected": lambda x: x.to_sparse()[1],
    "mask": lambda x: x.sparse_mask((x > 1).float().to_sparse()),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: torch.block_diag(x, x).to_sparse_bsr((2, 2)),
}

READERS: dict[str, Callable[[Any], Any]] = {
    "_nnz": lambda s: s._nnz(),
    "is_coalesced": lambda s: s.is_coalesced(),
    "coalesce": lambda s: (lambda once: (once, once is s, once.is_coalesced()))(s.coalesce()),
    "indices": lambda s: s.coalesce().indices().shape,
    "values": lambda s: [value * 2 for value in (s.coalesce() if s.layout is torch.sparse_coo else s).values()],
    "col_indices": lambda s: len(s.col_indices()),
    "row_indices": lambda s: len(s.row_indices()),
    "dims": lambda s: (s.sparse_dim(), s.dense_dim(), s.shape, s.layout, s.is_sparse, s.is_sparse_csr),
    "a branch": lambda s: "many" if s._nnz() > 2 else "few",
    "to_dense": lambda s: s.to_dense() + 1,
    "product": lambda s: s @ torch.ones(s.shape[-1], 2),
}


@pytest.fixture(autouse=True, scope="module")
def _torch_has_warned() -> None:
    """Torch warns of sparse tensors once a process, so that only the first of two runs would."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make in MAKERS.values():
            make(X)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("make", MAKERS)
def test_sparse_tensors_made_in_the_frame(make: str, read: str) -> None:
    """Each is made before a break, read after it, and the operators around are in graphs. An error is that of eager."""

    def f(x: torch.Tensor) -> Any:
        y = x * 1
        sparse = MAKERS[make](y)
        return READERS[read](sparse), y.sum()

    assert_same_as_eager(f, X, then=[(X.t().contiguous(),), (torch.eye(3),)])


@pytest.mark.parametrize("read", ["unbind", "size", "padded"])
def test_nested_tensors(read: str) -> None:
    """A view of a nested tensor reaches the frame as one of its own."""

    def read_it(nested: torch.Tensor) -> Any:
        if read == "unbind":
            return [part.shape for part in nested.unbind()], [part + 1 for part in nested.unbind()]
        return nested.size(0) if read == "size" else torch.nested.to_padded_tensor(nested, 0.0)

    def f(x: torch.Tensor) -> Any:
        y = x + 1
        return read_it(torch.nested.as_nested_tensor([y, y[:2]])), y.sum()

    assert_same_as_eager(f, X, calls=2)
