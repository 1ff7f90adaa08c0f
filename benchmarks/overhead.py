"""Measure the engine's overhead in capture and in warm calls, with backend "eager", next to torch.compile.

    python -m dynexplore bench overhead [--quick] [--models bert unet] [--json OUT]

Both use backend "eager". The capture is the CPU time of the first call minus that of a plain call; warm is the time of a later
call over that of a plain call (below 1 is faster).
"""

from __future__ import annotations

import argparse
import functools
import sys

import torch
from support.measuring import best, compilers, geomean, seconds
from support.models import Model
from support.report import Row, main


def measure(model: Model, options: argparse.Namespace) -> Row:
    """Capture and warm calls of one model."""
    module, args, kwargs = model.make()
    with torch.no_grad():
        module(*args, **kwargs)
        wrapped = {name: wrap(module) for name, wrap in compilers("eager").items()}
        first = {name: seconds(functools.partial(call, *args, **kwargs)) for name, call in wrapped.items()}
        warm = best({name: functools.partial(call, *args, **kwargs) for name, call in wrapped.items()}, options.repeats)
    capture = {name: first[name] - first["eager"] for name in ("torch.compile", "dynexplore")}
    return {
        "eager ms": warm["eager"] * 1e3,
        "capture s": capture["dynexplore"],
        "torch.compile capture s": capture["torch.compile"],
        "capture ratio": capture["dynexplore"] / max(capture["torch.compile"], 1e-9),
        "warm": warm["dynexplore"] / warm["eager"],
        "torch.compile warm": warm["torch.compile"] / warm["eager"],
    }


def summary(rows: list[Row]) -> Row:
    """Geometric means."""
    return {name: geomean(row[name] for row in rows) for name in ("capture ratio", "warm", "torch.compile warm")}


if __name__ == "__main__":
    sys.exit(main("Overhead", measure, summary))
