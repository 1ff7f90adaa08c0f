"""Time a training step on several processes: DistributedDataParallel alone, with torch.compile, and with dynexplore.

    python -m dynexplore bench ddp [--quick] [--backends eager inductor] [--processes N] [--json OUT]

Each process has its own GPU (NCCL) if there are enough; otherwise all share the CPU (gloo). The model is a stack of transformer
blocks whose parameters fill several of DDP's buckets. A row is one backend:

    dynexplore, torch.compile    wall time of a step over that of DDP alone, best of the repeats; a step waits for all processes
    ... overlap %                the share of the time of all-reduce kernels during which other kernels run (GPUs only)
    ... difference               the largest difference of a gradient from DDP alone, over the largest gradient

What requires two machines (slow links between them) is not measured.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from support.measuring import quiet
from support.report import Row, rich_is_there, show
from torch import nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import ProfilerActivity, profile

import dynexplore

Span = tuple[float, float]
Step = Callable[[], None]


class Block(nn.Module):
    """Attention and a feed-forward part, each with a residual and a norm."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, length, size), as is the result."""
        batch, length, size = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 8, size // 8).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, size)
        x = x + self.out(seen)
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


# -- in each process ---------------------------------------------------------------------------------------------------


class Process:
    """One of the processes that train together."""

    def __init__(self, rank: int, options: argparse.Namespace) -> None:
        self.options = options
        self.on_gpu = torch.cuda.device_count() >= options.processes
        self.device = torch.device("cuda", rank) if self.on_gpu else torch.device("cpu")
        if self.on_gpu:
            torch.cuda.set_device(self.device)
        dist.init_process_group("nccl" if self.on_gpu else "gloo", rank=rank, world_size=options.processes)

    def measure(self, backend: str) -> Row:
        """The row of one backend."""
        wraps: dict[str, Callable[[Any], Any]] = {
            "eager": lambda model: model,
            "dynexplore": dynexplore.optimize(backend),
            "torch.compile": functools.partial(torch.compile, backend=backend),
        }
        models = {name: self._model() for name in wraps}
        steps = {name: self._step(wraps[name](models[name])) for name in wraps}
        for step in steps.values():
            for _ in range(3):  # DDP puts its buckets in order after the first
                step()
        wall = self._best(steps)
        row: Row = {"backend": backend, "eager ms": wall["eager"] * 1e3}
        row |= {name: wall[name] / wall["eager"] for name in ("dynexplore", "torch.compile")}
        if self.on_gpu:
            row |= {f"{name} overlap %": self._overlap(step) for name, step in steps.items()}
        gradients = {name: self._gradients(models[name], step) for name, step in steps.items()}
        for name in ("dynexplore", "torch.compile"):
            row[f"{name} difference"] = difference(gradients["eager"], gradients[name])
        return row

    def _model(self) -> DDP:
        torch.manual_seed(0)
        blocks = nn.Sequential(*(Block(self.options.size) for _ in range(self.options.blocks))).to(self.device)
        return DDP(blocks, device_ids=[self.device.index] if self.on_gpu else None)

    def _step(self, called: Callable[[torch.Tensor], torch.Tensor]) -> Step:
        torch.manual_seed(1 + dist.get_rank())
        x = torch.randn(self.options.batch, 64, self.options.size, device=self.device)

        def step() -> None:
            called(x).square().mean().backward()

        return step

    def _best(self, steps: dict[str, Step]) -> dict[str, float]:
        found = dict.fromkeys(steps, math.inf)
        for _ in range(self.options.repeats):
            for name, step in steps.items():
                self._wait()
                began = time.perf_counter()
                step()
                self._wait()
                found[name] = min(found[name], time.perf_counter() - began)
        return found

    def _wait(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize()
        dist.barrier()

    def _overlap(self, step: Step) -> float:
        """How many percent of the time of all-reduce kernels another kernel runs, too."""
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            step()
            torch.cuda.synchronize()
        kernels = [event for event in found.events() if event.device_type == torch.autograd.DeviceType.CUDA]
        spans: dict[bool, list[Span]] = {True: [], False: []}
        for event in kernels:
            spans["nccl" in event.name.lower()].append((event.time_range.start, event.time_range.end))
        reduce, others = united(spans[True]), united(spans[False])
        shared = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in reduce for b in others)
        return 100 * shared / max(sum(end - start for start, end in reduce), 1e-9)

    def _gradients(self, model: DDP, step: Step) -> list[torch.Tensor]:
        model.zero_grad()
        step()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def difference(expected: list[torch.Tensor], found: list[torch.Tensor]) -> float:
    """The largest difference between two lists of gradients, over the largest gradient."""
    largest = max(one.abs().max().item() for one in expected)
    return max((one - other).abs().max().item() for one, other in zip(expected, found, strict=True)) / largest


def united(spans: Iterable[Span]) -> list[Span]:
    """Spans of time as spans that do not touch.

    >>> united([(4, 5), (0, 2), (1, 3)])
    [(0, 3), (4, 5)]
    """
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def work(rank: int, options: argparse.Namespace, rows: str) -> None:
    """What each process does; the first one writes down the rows."""
    quiet()
    process = Process(rank, options)
    found = []
    for backend in options.backends:
        torch._dynamo.reset()
        dynexplore.reset()
        found.append(process.measure(backend))
    if rank == 0:
        Path(rows).write_text(json.dumps(found))
    dist.destroy_process_group()


# -- what is asked and shown -------------------------------------------------------------------------------------------


def options_of(words: list[str] | None = None) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="dynexplore bench ddp", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small model, two repeats")
    three = ["eager", "aot_eager", "inductor"]
    parser.add_argument("--backends", nargs="+", default=three, metavar="NAME", help=f"default: {' '.join(three)}")
    parser.add_argument("--processes", type=int, default=max(2, torch.cuda.device_count()), help="default: one a GPU, at least 2")
    parser.add_argument("--blocks", type=int, default=12, help="transformer blocks; default: %(default)s")
    parser.add_argument("--size", type=int, default=1024, help="width of the blocks, a multiple of 8; default: %(default)s")
    parser.add_argument("--batch", type=int, default=32, help="sequences of 64 in each process; default: %(default)s")
    parser.add_argument("--repeats", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the rows to this file")
    options = parser.parse_args(words)
    if unknown := [name for name in options.backends if name not in dynexplore.list_backends()]:
        parser.error(f"there is no backend {unknown[0]!r}; there are: {', '.join(dynexplore.list_backends())}")
    if options.processes < 1 or options.size % 8:
        parser.error("--processes is at least 1, and --size a multiple of 8")
    if options.quick:
        options.blocks, options.size, options.batch, options.repeats = 4, 256, 2, 2
    return options


def main() -> int:
    """Start the processes, show their table."""
    options = options_of()
    if not rich_is_there():
        return 2
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29517")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        spawn(work, (options, str(path)), nprocs=options.processes)
        rows: list[Row] = json.loads(path.read_text())
    title = f"DistributedDataParallel, {options.processes} processes"
    show(title, rows, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
