"""Measure how much of real models runs inside graphs, next to torch.compile.

    python -m dynexplore bench coverage [--quick] [--models bert unet] [--json OUT]

"operators" and "time" are the shares of a call that run inside dynexplore's graphs, according to PyTorch's profiler. Graphs and
calls (call nodes in all graphs) appear next to those of torch.compile with backend "eager".
"""

from __future__ import annotations

import argparse
import sys

import torch
from support.measuring import Counting, forget
from support.models import Model
from support.report import Row, main

import dynexplore


def measure(model: Model, options: argparse.Namespace) -> Row:
    """The shares of one model."""
    module, args, kwargs = model.make()
    counted = {"dynexplore": Counting(), "torch.compile": Counting()}
    with torch.no_grad():
        found = dynexplore.coverage(module, *args, **kwargs)
        forget()
        dynexplore.optimize(counted["dynexplore"])(module)(*args, **kwargs)
        torch.compile(module, backend=counted["torch.compile"])(*args, **kwargs)
    return {
        "operators %": 100 * found.of_operators,
        "time %": 100 * found.of_time,
        "graphs": counted["dynexplore"].graphs,
        "calls": counted["dynexplore"].operators,
        "torch.compile graphs": counted["torch.compile"].graphs,
        "torch.compile calls": counted["torch.compile"].operators,
    }


def summary(rows: list[Row]) -> Row:
    """Means and sums."""
    sums = {name: sum(row[name] for row in rows) for name in rows[0] if name.endswith(("graphs", "calls"))}
    means = {name: sum(row[name] for row in rows) / len(rows) for name in ("operators %", "time %")}
    return {**means, **sums}


if __name__ == "__main__":
    sys.exit(main("Coverage", measure, summary))
