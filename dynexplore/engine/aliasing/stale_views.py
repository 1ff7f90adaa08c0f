"""Stale views: views without a grad_fn whose base was mutated with one after they were made.

The idea: autograd regenerates the grad_fn of such a view when `grad_fn` or `is_leaf` is read for the first time. Until then an
in-place operator refuses the view as a leaf. So reading them has an effect that the program sees, and a capture must not do it: the
creation meta of the view and the operator `aten.is_leaf` tell as much. A write to such a view breaks the graph.

In:  real tensors. Out: answers; none of these functions has an effect.
torch/csrc/autograd/variable.cpp (VariableHooks::grad_fn). PyTorch's Dynamo reads `is_leaf` of every input.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_autograd: Any = torch._C._autograd
_IS_LEAF: Any = torch.Tensor.is_leaf.__get__  # type: ignore[attr-defined]


def has_stale_grad_fn(tensor: torch.Tensor) -> bool:
    """Whether a view has no grad_fn yet, and gets one as soon as `grad_fn` or `is_leaf` is read.

    Until then an in-place operator refuses it as a leaf. So whoever reads them changes what the program sees.

    >>> base, w = torch.ones(2), torch.ones(2, requires_grad=True)
    >>> view = base.view(2)
    >>> _ = base.mul_(w)
    >>> has_stale_grad_fn(view), view.is_leaf, has_stale_grad_fn(view)
    (True, False, False)
    """
    base, autograd, is_leaf = tensor._base, _autograd, torch.ops.aten.is_leaf.default
    if base is None or not tensor.requires_grad or autograd._get_creation_meta(tensor) != autograd.CreationMeta.DEFAULT:
        return False
    return is_leaf(tensor) and not is_leaf(base)  # unlike the attribute, the operator regenerates nothing


def is_leaf_unless_stale(tensor: torch.Tensor) -> bool | None:
    """`tensor.is_leaf`; None for a stale view, which is left as it is."""
    return None if has_stale_grad_fn(tensor) else tensor.is_leaf


class StaleGradFnUnread(TorchFunctionMode):
    """While torch makes the fake tensor of a stale view it reads `is_leaf`: the answer is False, and the view is left as it is."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == _IS_LEAF and has_stale_grad_fn(args[0]):
            return False
        return func(*args, **(kwargs or {}))
