"""The history that autograd keeps of fake tensors: which of its nodes stand behind them, and which leaves.

The idea: operators run on fake tensors while a graph is captured, so autograd notes them as it does for real ones. What backward
would go through can be read from there before there is a number.

In:  fake tensors. Out: autograd's nodes behind them (`history`), and whether they all hand gradients to the same leaves
(`same_leaves`): one walk for all of them, in which each node is given the leaves of those behind it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator
from typing import Any

import torch


def history(tensors: Iterable[Any]) -> Iterator[Any]:
    """Autograd's nodes behind these values, each once; what is no tensor, or has no history, has none."""
    waiting = [known_grad_fn(tensor) for tensor in tensors if isinstance(tensor, torch.Tensor)]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        waiting += [following for following, _ in node.next_functions]


def known_grad_fn(tensor: torch.Tensor) -> Any:
    """The node that made a tensor; None where there is none, or autograd refuses to say."""
    return tensor.grad_fn if may_be_asked(tensor) else None


def may_be_asked(tensor: torch.Tensor) -> bool:
    """Whether autograd says what made a tensor; of a view made without gradients it does not, once its memory was written to."""
    try:
        _ = tensor.grad_fn
    except RuntimeError:
        return False
    return True


def is_made_without_gradients(value: Any) -> bool:
    """Whether it is a view that was made where no gradients are noted, be it of what has a history.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     view = x[:1]
    >>> is_made_without_gradients(view), is_made_without_gradients(x[:1])
    (True, False)
    """
    if not isinstance(value, torch.Tensor) or not value._is_view():
        return False
    autograd: Any = torch._C._autograd
    return bool(autograd._get_creation_meta(value) == autograd.CreationMeta.NO_GRAD_MODE)


def same_leaves(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether backward from each of these tensors gives a gradient to the same leaves; a leaf itself has none behind it.

    >>> x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    >>> same_leaves([x.sin(), x.cos()]), same_leaves([x.sin(), x * w]), same_leaves([x.sin(), x])
    (True, False, False)
    """
    behind: dict[Any, int] = {None: 0}
    return len({_leaves_behind(known_grad_fn(tensor), behind) for tensor in tensors}) <= 1


def _leaves_behind(start: Any, behind: dict[Any, int]) -> int:
    """The leaves behind a node, each of them one bit; `behind` holds what is known of other nodes, and gets what is found."""
    waiting = [start]
    while waiting:
        node = waiting[-1]
        following = [one for one, _ in node.next_functions] if node not in behind else ()
        unknown = [one for one in following if one not in behind]
        if unknown:  # they come first, and the node is looked at again
            waiting += unknown
            continue
        waiting.pop()
        if node not in behind:
            own = 1 << len(behind) if hasattr(node, "variable") else 0
            behind[node] = functools.reduce(operator.or_, (behind[one] for one in following), own)
    return behind[start]
