"""How much faster models run with a compiler behind the graphs; beside torch.compile, in one run.

    python -m dynexplore bench speedup [--quick] [--models bert unet] [--json OUT]

Backend "inductor" (needs a C++ compiler): CPU time of a plain call over that of a compiled one; above 1 is faster.
"""

from __future__ import annotations

import argparse
import functools
import sys

import torch
from support.measuring import best, compilers, geomean
from support.models import Model
from support.report import Row, main


def measure(model: Model, options: argparse.Namespace) -> Row:
    """The speed-up of one model."""
    module, args, kwargs = model.make()
    with torch.no_grad():
        calls = {name: functools.partial(wrap(module), *args, **kwargs) for name, wrap in compilers("inductor").items()}
        for call in calls.values():
            call()
        warm = best(calls, options.repeats)
    return {
        "eager ms": warm["eager"] * 1e3,
        "speed-up": warm["eager"] / warm["dynexplore"],
        "torch.compile speed-up": warm["eager"] / warm["torch.compile"],
    }


def summary(rows: list[Row]) -> Row:
    """Geometric means."""
    return {name: geomean(row[name] for row in rows) for name in ("speed-up", "torch.compile speed-up")}


if __name__ == "__main__":
    sys.exit(main("Speed-up", measure, summary))
