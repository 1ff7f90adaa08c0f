"""What watching torch.compile costs: the CPU time of a watched compile over that of an unwatched one, with the steps and without.

    python -m dynexplore bench watching [--quick] [--models bert unet] [--repeats N] [--backend eager] [--json OUT]

Backend "eager": what torch.compile itself does, and no compiler behind it, so that a watch costs the greatest share; `--backend`
takes another one. Each repeat compiles the model once in each way, from nothing, in another order each time; a ratio is that of the
shortest times, for what else a machine does can only add to them.
"unwatched again" is nothing other than "unwatched", measured as the ways beside it are: how far it is from 1 is what the
measurement itself is worth, and a ratio no further from 1 than that says nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
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
    "unwatched again": contextlib.nullcontext,
    "with steps": dynexplore.watch,
    "without steps": lambda: dynexplore.watch(steps=False),
}


def measure(model: Model, options: argparse.Namespace) -> Row:
    """The compiles of one model."""
    module, args, kwargs = model.make()
    taken: dict[str, list[float]] = {name: [] for name in WAYS}
    names = list(WAYS)
    with torch.no_grad():
        _compile(module, args, kwargs, "with steps", options.backend)  # imports, and what a process does once
        for repeat in range(options.repeats):
            turn = repeat % len(names)
            for name in names[turn:] + names[:turn]:
                taken[name].append(_compile(module, args, kwargs, name, options.backend))
    least = {name: min(times) for name, times in taken.items()}
    return {"compile s": least["unwatched"], **{name: least[name] / least["unwatched"] for name in names[1:]}}


def _compile(module: Any, args: Any, kwargs: Any, name: str, backend: str) -> float:
    """The CPU time of one compile from nothing. What was recorded is let go outside of it; what was left over is swept before."""
    forget()
    gc.collect()
    with WAYS[name]():
        return seconds(lambda: torch.compile(module, backend=backend)(*args, **kwargs))


def _ask(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", default="eager", help="what compiles the graphs")


def summary(rows: list[Row]) -> Row:
    """Geometric means."""
    return {name: geomean(row[name] for row in rows) for name in WAYS if name in rows[0]}


if __name__ == "__main__":
    sys.exit(main("Watching", measure, summary, ask=_ask))
