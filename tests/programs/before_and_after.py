"""What a function gives before and after a change that its arguments do not show.

In: a function, a change of what it reaches, the numbers by which a tensor of ones is multiplied before and after.
Out: an assertion that both come out, and that there was one graph more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import dynexplore
from engine_checks import CountingBackend

X = torch.ones(3)


def seen(fn: Callable[..., Any], change: Callable[[], object], *args: Any, before: float, after: float, graphs: int = 2) -> None:
    """Called twice, changed, called twice: the answers, and how many graphs were compiled over all."""
    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(fn)
    for answer, make in ((before, lambda: None), (after, change)):
        make()
        for _ in range(2):
            assert compiled(X, *args).tolist() == [answer] * 3 == fn(X, *args).tolist()
    assert len(backend.graphs) == graphs
