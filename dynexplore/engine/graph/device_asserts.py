"""Device-side asserts: a CUDA kernel checks its indices itself, and a failure ends the use of the device instead of raising.

The idea: where data decides whether an operator raises, what the graph writes is copied before each call, so that it can be put
back when one does. On a GPU an index is looked at while the kernel runs, nobody waits for the answer, and a bad one is the end of
it: nothing could be put back. So there it is not copied: a cache of keys and values, which each step writes to, is not held twice.

In:  an operator of the dispatcher and its arguments. Out: whether its data is checked on the device alone.
PyTorch has no counterpart: torch.compile puts nothing back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.utils._pytree as pytree

_ON_THE_DEVICE = frozenset({
    "embedding", "embedding_bag", "_embedding_bag", "_embedding_bag_forward_only", "index", "index_put", "index_put_",
    "_index_put_impl_", "index_select", "index_add", "index_add_", "index_copy", "index_copy_", "index_fill", "index_fill_",
    "index_reduce", "index_reduce_", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce",
    "scatter_reduce_", "take", "put", "put_", "nll_loss_forward", "nll_loss2d_forward", "multi_margin_loss",
    "multilabel_margin_loss_forward", "binary_cross_entropy", "floor_divide", "remainder", "fmod",
})  # fmt: skip
_MASKS = (torch.bool, torch.uint8)


def is_checked_on_the_device(operator: torch._ops.OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Whether a call's data is looked at on a GPU alone. How many elements a mask chooses, the CPU is told, and compares."""
    if operator._schema.name.partition("::")[2] not in _ON_THE_DEVICE:
        return False
    tensors = [leaf for leaf in pytree.tree_leaves((args, dict(kwargs))) if isinstance(leaf, torch.Tensor)]
    has_masks = operator._schema.name.startswith("aten::index") and any(leaf.dtype in _MASKS for leaf in tensors[1:])
    return all(leaf.is_cuda for leaf in tensors if leaf.dim()) and any(leaf.is_cuda for leaf in tensors) and not has_masks
