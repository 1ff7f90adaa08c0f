"""Device-side asserts: a CUDA kernel checks its indices itself, and a failure makes the device unusable instead of raising.

The idea: if an operator may raise depending on data, the tensors that the graph mutates are copied before each call, to be
restored if it does. On a GPU the kernel checks an index asynchronously, and a bad one invalidates the CUDA context: nothing could
be restored. So no copy is made there: a key-value cache that each step mutates is not held twice.

In: an ATen operator and its arguments. Out: whether its data is checked on the device only. PyTorch's counterpart: none;
torch.compile restores nothing.
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
    """Whether a call's data is checked only on a GPU. The number of elements that a mask selects is checked on the CPU."""
    if operator._schema.name.partition("::")[2] not in _ON_THE_DEVICE:
        return False
    tensors = [leaf for leaf in pytree.tree_leaves((args, dict(kwargs))) if isinstance(leaf, torch.Tensor)]
    has_masks = operator._schema.name.startswith("aten::index") and any(leaf.dtype in _MASKS for leaf in tensors[1:])
    return all(leaf.is_cuda for leaf in tensors if leaf.dim()) and any(leaf.is_cuda for leaf in tensors) and not has_masks
