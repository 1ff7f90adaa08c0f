"""Measure the overhead of `dynexplore watch` on compilations by torch.compile, with and without steps.

    python -m dynexplore bench watching [--quick] [--models bert unet] [--repeats N] [--backend eager] [--json OUT]

It also checks that torch does the same when it is watched. With backend "eager" there is no compiler, so the share of a watch
is largest; `--backend` selects another one. Each repeat compiles the model from scratch once in each way, in a different order
each time. A ratio compares the shortest times, because other work on the machine can only add time.

"unwatched again" repeats "unwatched". Its distance from 1 is the error of the measurement: a ratio that is no further from 1 is
not significant. "unchanged" checks, separately from the times, that torch's counters, the graphs that its backend receives and
the text of its guards are identical in all of these ways, except for ids of compilations and objects.

"reads" is the CPU time inside the watch's own reads of torch's objects, without steps, over that of an unwatched compile. It varies
much less than the ratios, which compare two runs: it is what "without steps" would exceed 1 by if nothing else ran.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import re
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from support.measuring import forget, geomean, seconds
from support.models import MODELS, Model, written_here
from support.report import Row, main
from torch._dynamo import guards
from torch._dynamo.utils import counters

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
        reads = min(_seconds_of_reads(module, args, kwargs, options.backend) for _ in range(options.repeats))
        seen = [_facts(module, args, kwargs, name) for name in names]
    least = {name: min(times) for name, times in taken.items()}
    ratios = {name: least[name] / least["unwatched"] for name in names[1:]}
    ratios["reads"] = reads / least["unwatched"]
    return {"compile s": least["unwatched"], **ratios, "unchanged": str(all(one == seen[0] for one in seen))}


def _compile(module: Any, args: Any, kwargs: Any, name: str, backend: str) -> float:
    """The CPU time of one compile from nothing. What was recorded is let go outside of it; what was left over is swept before."""
    forget()
    gc.collect()
    with WAYS[name]():
        return seconds(lambda: torch.compile(module, backend=backend)(*args, **kwargs))


def _seconds_of_reads(module: Any, args: Any, kwargs: Any, backend: str) -> float:
    """The CPU time of one compile without steps that is spent in the outermost of the watch's reads."""
    reads_of_a_watch = type(dynexplore.watch(steps=False)._listener._look)
    original, taken, depth = reads_of_a_watch.part, 0.0, 0

    def timed(reads: Any, *args: Any) -> Any:
        nonlocal taken, depth
        depth += 1
        began = time.thread_time()
        try:
            return original(reads, *args)
        finally:
            depth -= 1
            taken += 0.0 if depth else time.thread_time() - began

    with mock.patch.object(reads_of_a_watch, "part", timed):
        _compile(module, args, kwargs, "without steps", backend)
    return taken


def _facts(module: Any, args: Any, kwargs: Any, name: str) -> tuple[Any, list[str], list[str]]:
    """What torch does in one way: its counters, its graphs as text, and the trees of its guards."""
    graphs: list[str] = []
    trees: list[str] = []
    original = guards.CheckFunctionManager.__init__

    def keep(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        graphs.append(graph.print_readable(print_output=False))
        return graph.forward

    def collect(manager: Any, *args: Any, **kwargs: Any) -> None:
        original(manager, *args, **kwargs)
        trees.append(_IN_PASSING.sub("", str(manager.guard_manager)))

    forget()
    counters.clear()
    with mock.patch.object(guards.CheckFunctionManager, "__init__", collect), WAYS[name]():
        torch.compile(module, backend=keep)(*args, **kwargs)
    return {kind: dict(counts) for kind, counts in counters.items() if counts}, graphs, trees


_IN_PASSING = re.compile(r"(?<=__builtins_dict___)\d+|\b_?\d{9,}(_c\d+)?\b|0x[0-9a-f]+")
"""The identity of an object, and what torch counts over the whole process."""


class Block(torch.nn.Module):
    """A block of a transformer, as programs of one file have it."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.attend, self.project = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.widen, self.narrow = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention and a feed-forward part."""
        batch, length, width = x.shape
        parts = self.attend(self.norms[0](x)).split(width, dim=2)
        query, key, value = [part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts]
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(torch.nn.functional.gelu(self.widen(self.norms[1](x))))


def _blocks() -> torch.nn.Module:
    return torch.nn.Sequential(*(Block() for _ in range(8)))


BLOCKS = Model("blocks", "", written_here(_blocks, lambda: torch.randn(2, 16, 64)))


def _ask(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", default="eager", help="what compiles the graphs")


def summary(rows: list[Row]) -> Row:
    """Geometric means, and in how many models nothing changed."""
    means = {name: geomean(row[name] for row in rows) for name in WAYS if name in rows[0]}
    means["reads"] = geomean(row["reads"] for row in rows)
    return {**means, "unchanged": f"{sum(row['unchanged'] == 'True' for row in rows)}/{len(rows)}"}


if __name__ == "__main__":
    sys.exit(main("Watching", measure, summary, {"cpu": [*MODELS, BLOCKS]}, ask=_ask))
