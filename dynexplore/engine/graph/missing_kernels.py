"""Operators that no CPU kernel carries out for a dtype: fake tensors do not refuse them, real ones do.

The idea: whether there is a kernel for complex numbers, integers or truth values is found out when it runs, and the fake forms of
many operators (`%` and `max` of complex numbers, `softmax` of integers) never ask. A compiler computes such a thing in another way,
or leaves it out where nobody uses its result, and nobody would hear of the refusal. So an operator that is given no floating-point
tensor is tried once, on real tensors of one element: what these refuse for their dtype is refused there and then, as the program
would see it.

In:  an operator of the dispatcher and its arguments. Out: what it raises, or nothing.
PyTorch has no counterpart: there such an operator gives a value, or is left out.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_unflatten


def refuse_what_no_kernel_does(operator: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Raise what real tensors of one element raise because there is no kernel for their dtypes."""
    leaves, shape = tree_flatten((tuple(args), dict(kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if any(tensor.device.type != "cpu" or tensor.layout is not torch.strided for tensor in tensors):
        return
    kinds = tuple((leaf.dtype, leaf.dim()) if isinstance(leaf, torch.Tensor) else _plain(leaf) for leaf in leaves)
    error = _refusal(operator, kinds, tuple(map(type, kinds)), shape)
    if error is not None:
        raise type(error)(str(error))


def may_lack_a_kernel(operator: Any, args: Sequence[object]) -> bool:
    """Whether an operator is worth a trial: one of torch's own that computes, given a complex number, or tensors without floats."""
    has_tensor = has_floats = False
    for arg in args:
        if isinstance(arg, torch.Tensor):
            if arg.is_complex():
                return _computes(operator)
            has_tensor = True
            has_floats |= arg.is_floating_point()
        elif type(arg) is complex:
            return _computes(operator)
    return has_tensor and not has_floats and _computes(operator)


@functools.cache
def _computes(operator: Any) -> bool:
    return operator.namespace == "aten" and not operator.is_view


def _plain(leaf: object) -> object:
    """A value that stands for an argument that is no tensor: a size, or a number whose value is not known, is one."""
    if isinstance(leaf, torch.SymInt | torch.SymFloat | torch.SymBool):
        return 1
    return 1 if type(leaf) is int and abs(leaf) > _LARGEST else leaf


_LARGEST = 8  # no trial takes memory: more than a dimension has no number here


@functools.lru_cache(maxsize=1024)
def _refusal(operator: Any, kinds: tuple[Any, ...], classes: tuple[type, ...], shape: Any) -> Exception | None:
    """What a trial raises, kept. The classes tell 1, 1.0 and True apart, which as keys are the same."""
    with _disable_current_modes(), torch._C.DisableTorchFunctionSubclass(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        leaves = [torch.ones((1,) * kind[1], dtype=kind[0]) if type(kind) is tuple else kind for kind in kinds]
        args, kwargs = tree_unflatten(leaves, shape)
        try:
            operator(*args, **kwargs)
        except (NotImplementedError, RuntimeError) as error:
            if isinstance(error, NotImplementedError) or re.search("complex|Complex|bool|Bool", str(error)):
                return error.with_traceback(None)
        except (IndexError, TypeError, ValueError):  # of the one element, not of its dtype
            pass
    return None
