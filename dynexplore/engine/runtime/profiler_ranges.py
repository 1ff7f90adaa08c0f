"""Ranges in the PyTorch profiler: each run of a compiled graph, each check of guards.

The idea: under `config.profiler_ranges` what the modified code calls is wrapped when it is compiled, so that a trace
shows where time goes; without it nothing is wrapped, at no cost.

In: a callable and a title. Out: a callable that does the same inside `torch.profiler.record_function(title)`.

torch/_dynamo/guards.py and torch/_inductor/utils.py put such ranges in always or by an option.
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
