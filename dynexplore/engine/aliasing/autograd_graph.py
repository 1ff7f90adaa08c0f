"""Autograd's graph behind fake tensors: grad_fn nodes, leaves, saved tensors, creation metas.

The idea: operators run on fake tensors while a graph is captured, so autograd records them like real ones. What backward would do
can be read from that record before any number exists. Terms:

- *grad_fn*: the node of autograd's graph that computed a tensor; a *leaf* has none, and gets a gradient
- *saved tensors*: what a node keeps for backward, each with the value of the *version counter* at that time. Each mutation bumps
  the counter of a storage, and backward raises if a saved tensor's version has changed. A mutation through `.data` bumps no counter
- *creation meta*: how autograd decides whether a view may be mutated: in which grad mode it was created, and by which operator. A
  *no_grad view*, created with grad mode off, has no grad_fn, though its base may have one

In: fake tensors. Out: answers; no function here has an effect. `have_same_grad_leaves` walks the graph once for all tensors and
computes for each node the leaves that it reaches. PyTorch's counterpart: torch/csrc/autograd/variable.h (CreationMeta) and
torch/csrc/autograd/saved_variable.cpp.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from dynexplore.engine.aliasing.stale_views import has_stale_grad_fn

_AUTOGRAD: Any = torch._C._autograd


def grad_nodes(tensors: Iterable[Any]) -> Iterator[Any]:
    """The autograd nodes reachable from these values, each once; non-tensors and tensors without a grad_fn have none."""
    waiting = [grad_fn_of(tensor) for tensor in tensors if isinstance(tensor, torch.Tensor)]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        waiting += [following for following, _ in node.next_functions]


def grad_fn_of(tensor: torch.Tensor) -> Any:
    """The node that computed a tensor; None if there is none, or autograd refuses to return it."""
    return tensor.grad_fn if grad_fn_is_accessible(tensor) else None


def grad_fn_is_accessible(tensor: torch.Tensor) -> bool:
    """Whether autograd returns the grad_fn: for a no_grad view it raises after the storage was mutated."""
    if has_stale_grad_fn(tensor):
        return True
    try:
        _ = tensor.grad_fn
    except RuntimeError:
        return False
    return True


def is_no_grad_view(value: Any) -> bool:
    """Whether it is a view created in `no_grad`, even of a tensor that requires grad.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     view = x[:1]
    >>> is_no_grad_view(view), is_no_grad_view(x[:1])
    (True, False)
    """
    return _has_creation_meta(value, _AUTOGRAD.CreationMeta.NO_GRAD_MODE)


def is_one_of_several_views(value: Any) -> bool:
    """Whether one operator returned it together with other views; autograd lets nobody mutate such a view.

    >>> x = torch.ones(4, requires_grad=True)
    >>> is_one_of_several_views(x.split(2)[0]), is_one_of_several_views(x[:2])
    (True, False)
    """
    return _has_creation_meta(value, _AUTOGRAD.CreationMeta.MULTI_OUTPUT_NODE)


def _has_creation_meta(value: Any, creation_meta: Any) -> bool:
    return isinstance(value, torch.Tensor) and value._is_view() and _AUTOGRAD._get_creation_meta(value) == creation_meta


def ends_ahead_of_base(value: Any) -> bool:
    """Whether it is a view whose autograd history ends before its base: at a view created in `no_grad`.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     view = x[:1]
    >>> ends_ahead_of_base(view.view(-1)), ends_ahead_of_base(x[:1])
    (True, False)
    """
    if not isinstance(value, torch.Tensor) or not (value.requires_grad and value._is_view()) or grad_fn_of(value) is None:
        return False
    base: Any = value._base
    base_grad_fn = grad_fn_of(base)
    return not any(node == base_grad_fn or getattr(node, "variable", None) is base for node in grad_nodes([value]))


def have_same_grad_leaves(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether backward from each of these tensors reaches the same leaves; a tensor that is itself a leaf reaches none.

    >>> x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    >>> have_same_grad_leaves([x.sin(), x.cos()]), have_same_grad_leaves([x.sin(), x * w]), have_same_grad_leaves([x.sin(), x])
    (True, False, False)
    """
    behind: dict[Any, int] = {None: 0}
    return len({_leaves_behind(grad_fn_of(tensor), behind) for tensor in tensors}) <= 1


def _leaves_behind(start: Any, behind: dict[Any, int]) -> int:
    """The leaves that a node reaches, as a bit set; `behind` memoizes the results of other nodes."""
    waiting = [start]
    while waiting:
        node = waiting[-1]
        following = [grad_fn for grad_fn, _ in node.next_functions] if node not in behind else ()
        unknown = [grad_fn for grad_fn in following if grad_fn not in behind]
        if unknown:  # visit those first, then this node again
            waiting += unknown
            continue
        waiting.pop()
        if node not in behind:
            own = 1 << len(behind) if hasattr(node, "variable") else 0
            behind[node] = functools.reduce(operator.or_, (behind[grad_fn] for grad_fn in following), own)
    return behind[start]


# -- saved tensors -----------------------------------------------------------------------------------------------------


def has_stale_saved_tensors(outputs: Iterable[Any]) -> bool:
    """Whether something that autograd saved for the backward of these tensors was mutated since.

    Saved tensors know the version at which they were saved, and raise when accessed at another one.

    >>> x = torch.ones(2, requires_grad=True)
    >>> y = x.exp()
    >>> has_stale_saved_tensors([y]), has_stale_saved_tensors([y.add_(1)])
    (False, True)
    """
    return any(map(_has_stale_tensors, grad_nodes(outputs)))


def _has_stale_tensors(node: Any) -> bool:
    if node.name() == "CopySlices":  # a mutation of a view: its saved tensors are not accessible, so assume stale
        return True
    try:
        for name in _saved_names(type(node)):
            getattr(node, name)
    except RuntimeError:
        return True
    return False


def _saved_names(kind: type[Any]) -> tuple[str, ...]:
    """The attributes of a type of autograd node that hold its saved tensors."""
    if kind not in _names:
        _names[kind] = tuple(name for name in dir(kind) if name.startswith("_saved_") or name == "saved_tensors")
    return _names[kind]


_names: dict[type[Any], tuple[str, ...]] = {}
