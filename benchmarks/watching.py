"""What watching torch.compile costs: the CPU time of a watched compile over that of an unwatched one, with the steps and without.

    python -m dynexplore bench watching [--quick] [--models bert unet] [--repeats N] [--json OUT]

Backend "eager": what torch.compile itself does, and no compiler behind it. Each repeat compiles the model three times from nothing,
in another order each time; a ratio is that of the medians. "unwatched" is the spread of the unwatched compiles themselves, the
highest over the lowest: a ratio within it says nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
from support.measuring import forget, geomean, seconds
from support.models import Model
from support.report import Row, main

import dynexplore

WAYS: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "unwatched": contextlib.nullcontext,
    "with steps": dynexplore.watch,
    "without steps": lambda: dynexplore.watch(steps=False),
}


def measure(model: Model, options: argparse.Namespace) -> Row:
    """The compiles of one model."""
    module, args, kwargs = model.make()
    taken: dict[str, list[float]] = {name: [] for name in WAYS}
    names = list(WAYS)
    with torch.no_grad():
        _compile(module, args, kwargs, "with steps")  # imports, and what a process does once
        for repeat in range(options.repeats):
            turn = repeat % len(names)
            for name in names[turn:] + names[:turn]:
                taken[name].append(_compile(module, args, kwargs, name))
    middle = {name: statistics.median(times) for name, times in taken.items()}
    return {
        "compile s": middle["unwatched"],
        "unwatched": max(taken["unwatched"]) / min(taken["unwatched"]),
        **{name: middle[name] / middle["unwatched"] for name in names[1:]},
    }


def _compile(module: Any, args: Any, kwargs: Any, name: str) -> float:
    """The CPU time of one compile from nothing. What was recorded is let go outside of it."""
    forget()
    with WAYS[name]():
        return seconds(lambda: torch.compile(module, backend="eager")(*args, **kwargs))


def summary(rows: list[Row]) -> Row:
    """Geometric means."""
    return {name: geomean(row[name] for row in rows) for name in list(rows[0])[2:]}


if __name__ == "__main__":
    sys.exit(main("Watching", measure, summary))
