"""Measure how much faster models run with a compiling backend, next to torch.compile.

    python -m dynexplore bench speedup [--quick] [--models bert unet] [--device cuda] [--json OUT]

The backend is "inductor", which needs a C++ compiler. The ratio is the CPU time of a plain call over that of a compiled call;
above 1 is faster. On a GPU (which needs Triton), larger models run in bfloat16, in training under autocast, and with a batch of
1. There the ratio is of wall time until the kernels have finished, and the table also shows kernels, peak memory and first
calls: "cold" starts with an empty cache on disk, "warm" with a full one.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from support import cuda
from support.measuring import best, compilers, forget, geomean
from support.models import MODELS, Model
from support.report import Row, main


def measure(model: Model, options: argparse.Namespace) -> Row:
    """The speed-up of one model."""
    if isinstance(model, cuda.Case):
        return measure_on_gpu(model, options)
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


def measure_on_gpu(case: cuda.Case, options: argparse.Namespace) -> Row:
    """The speed-up of one case, and what it costs."""
    wraps, first, calls = compilers("inductor"), [], {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in ("cold", "warm"):
            forget()
            calls = {name: case.call(wrap) for name, wrap in wraps.items()}
            first.append({name: _first(call, f"{folder}/{name}") for name, call in calls.items()})
    wall = best(calls, options.repeats, cuda.LEAST, cuda.wall_seconds)
    kernels = {name: cuda.kernels(call) for name, call in calls.items()}
    peak = {name: cuda.peak_mib(call) for name, call in calls.items()}
    return {
        "eager ms": wall["eager"] * 1e3,
        "speed-up": wall["eager"] / wall["dynexplore"],
        "torch.compile speed-up": wall["eager"] / wall["torch.compile"],
        "kernels": _three(kernels, "{:.0f}"),
        "peak MiB": _three(peak, "{:.0f}"),
        "cold s": _two(first[0]),
        "warm s": _two(first[1]),
    }


def _first(call: Callable[[], Any], caches: str) -> float:
    with mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": caches}):
        return cuda.wall_seconds(call, 1)


def _two(seconds: dict[str, float]) -> str:
    """Ours, and torch.compile's."""
    return f"{seconds['dynexplore']:.1f} ({seconds['torch.compile']:.1f})"


def _three(figures: dict[str, float], form: str) -> str:
    """Eager, ours, torch.compile's."""
    return " / ".join(form.format(figures[name]) for name in ("eager", "dynexplore", "torch.compile"))


def summary(rows: list[Row]) -> Row:
    """Geometric means."""
    return {name: geomean(row[name] for row in rows) for name in ("speed-up", "torch.compile speed-up")}


if __name__ == "__main__":
    sys.exit(main("Speed-up", measure, summary, {"cpu": MODELS, "cuda": cuda.CASES}))
