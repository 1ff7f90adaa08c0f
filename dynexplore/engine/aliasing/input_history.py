"""Autograd history of inputs: in-place operators that extend it, which no rollback can undo.

The idea: an in-place operator that writes a tensor requiring grad becomes part of the autograd graph that the caller's tensor
carries (its grad_fn). Rollback (rollback.py) restores the data of such a tensor. It restores the history only where there was none:
`detach_()` makes a tensor a leaf again. A view shares the history of its base, and a grad_fn cannot be set to an earlier one: if
plain Python ran such a segment again, the operator would be in the history twice, and the gradients would be wrong.

So from the first such write on, an operator that raises must not make the segment run again: its exception propagates, with the
writes before it done as in eager. Where a handler or an earlier side effect requires a second run, the graph breaks before the
operator (translate/operations.py).

In: the inputs of a graph, real and fake, and the storages that each operator mutates. Out: `is_extended`.
torch/csrc/autograd/variable.h (`set_history`, `rebase_history`). PyTorch's Dynamo never runs a segment again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from dynexplore.engine.aliasing.autograd_graph import grad_fn_of
from dynexplore.engine.aliasing.stale_views import has_stale_grad_fn, is_leaf_unless_stale
from dynexplore.engine.aliasing.storage import storage_of


class _Input(NamedTuple):
    fake: torch.Tensor
    grad_fn: Any  # of the fake tensor, before the graph


class InputHistory:
    """Of one graph under construction: whether it extends the history of an input for good."""

    def __init__(self) -> None:
        self.is_extended = False
        self._inputs: dict[int, list[_Input]] = {}  # by storage: those whose history cannot be restored

    def note_input(self, value: torch.Tensor, fake: torch.Tensor) -> None:
        """Note an input, before any operator of the graph writes to it."""
        if not has_restorable_history(value) and not has_stale_grad_fn(value):  # operators refuse to write to a stale view
            self._inputs.setdefault(storage_of(fake), []).append(_Input(fake, grad_fn_of(fake)))

    def note_mutation(self, storages: Iterable[int]) -> None:
        """Note that an operator has mutated these storages."""
        if self.is_extended or not torch.is_grad_enabled():
            return
        inputs = [entry for storage in storages for entry in self._inputs.get(storage, ())]
        self.is_extended = any(has_stale_grad_fn(entry.fake) or grad_fn_of(entry.fake) is not entry.grad_fn for entry in inputs)


def has_restorable_history(tensor: torch.Tensor) -> bool:
    """Whether `restore_history` can undo what in-place operators add: a tensor of its own that has no history yet.

    >>> x = torch.ones(2, requires_grad=True)
    >>> has_restorable_history(torch.ones(2)), has_restorable_history(torch.ones(2)[:1]), has_restorable_history(x * 2)
    (True, False, False)
    """
    return bool(is_leaf_unless_stale(tensor)) and not tensor._is_view()


def restore_history(tensor: torch.Tensor) -> None:
    """Make a tensor that was a leaf without a gradient a leaf again.

    >>> x = torch.ones(2).mul_(torch.ones(2, requires_grad=True))
    >>> restore_history(x)
    >>> x.is_leaf, x.requires_grad
    (True, False)
    """
    if not tensor.is_leaf:
        tensor.detach_()
