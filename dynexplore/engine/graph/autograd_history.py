"""The history that autograd keeps of fake tensors: which of its nodes stand behind them, and which leaves.

The idea: operators run on fake tensors while a graph is captured, so autograd notes them as it does for real ones. What backward
would go through can be read from there before there is a number.

In:  fake tensors. Out: autograd's nodes behind them (`history`), and those of them that hand a gradient to a leaf (`leaves`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch


def history(tensors: Iterable[Any]) -> Iterator[Any]:
    """Autograd's nodes behind these values, each once; what is no tensor, or has no history, has none."""
    waiting = [tensor.grad_fn for tensor in tensors if isinstance(tensor, torch.Tensor)]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        waiting += [following for following, _ in node.next_functions]


def leaves(tensors: Iterable[Any]) -> set[Any]:
    """The nodes at which the history ends because a leaf takes its gradient there.

    >>> x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    >>> len(leaves([x.sin(), x * w])), len(leaves([x.sin()])), len(leaves([x]))
    (2, 1, 0)
    """
    return {node for node in history(tensors) if hasattr(node, "variable")}
