"""Ranges in the PyTorch profiler: each run of a compiled graph, each guard check.

The idea: under `config.profiler_ranges` the functions called by modified code are wrapped at compile time, so that a trace shows
where time goes; otherwise nothing is wrapped, at no cost.

In: a callable and a title. Out: the callable inside `torch.profiler.record_function(title)`. PyTorch's counterpart:
torch/_dynamo/guards.py and torch/_inductor/utils.py create such ranges always or by an option.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

GRAPH = "dynexplore graph "
GUARDS = "dynexplore guards "


def ranged(function: Callable[..., Any], title: str) -> Callable[..., Any]:
    """`function` inside a range of the profiler."""

    def run(*inputs: Any) -> Any:
        with torch.profiler.record_function(title):
            return function(*inputs)

    return run
