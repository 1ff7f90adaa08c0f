"""What each process of a distributed test runs: `torchrun --nproc-per-node 2 tests/ddp_programs.py PROGRAM FOLDER`.

Which idea lives here: each program trains a model twice in the same processes, with DistributedDataParallel alone and with
it under the engine, from the same weights and on the same data (which differ from rank to rank), and writes down what
both did. The test reads that (tests/engine/runtime/test_distributed.py) and compares.

In:  the name of a group of programs, and the folder to write to. Out: FOLDER/rank<N>.json.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import dynexplore
from dynexplore.engine.runtime.observed_backend import ObservedBackend

KILOBYTE = 1 / 1024  # in the unit of bucket_cap_mb


# -- models --------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """A transformer block: attention and a feed-forward part, each with a residual and a norm."""

    def __init__(self, size: int = 32, heads: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.heads, self.dropout = heads, nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, size = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, size // self.heads).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, size)
        x = x + self.dropout(self.out(seen))
        return x + self.dropout(self.down(nn.functional.gelu(self.up(self.norm2(x)))))


class Tied(nn.Module):
    """The first and the last layer share their weight; the one in the middle is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.extra = nn.Linear(32, 32)
        self.last.weight = self.first.weight
        self.middle.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.extra(torch.relu(self.middle(torch.relu(self.first(x)))))))


class Convolutions(nn.Module):
    """Convolutions with batch norm, whose buffers DDP sends around, and activations in place."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for channels in (3, 16, 16):
            layers += [nn.Conv2d(channels, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean((2, 3)))


class Branches(nn.Module):
    """Which branch is used, and so which parameters get no gradient, depends on an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.left, self.right = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor, left: bool = True) -> torch.Tensor:
        x = self.trunk(x)
        return self.left(x) if left else self.right(x)


class Modes(nn.Module):
    """Layers inside an autocast block, and one whose result takes no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for layer in self.layers[:3]:
                x = torch.tanh(layer(x))
        with torch.no_grad():
            shift = x.float().mean()
        return self.layers[4](torch.relu(self.layers[3](x.float() - shift)))


class Broken(nn.Module):
    """A graph break in the middle: two graphs, each split by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = mlp(), mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.before(x)
        dynexplore.graph_break()
        return self.after(x)


def mlp() -> nn.Sequential:
    """Four layers of 4,224 bytes of parameters each."""
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Linear(32, 32), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


# -- one training, with and without the engine ---------------------------------------------------------------


@dataclass
class Training:
    """What is trained, and how."""

    model: Callable[[], nn.Module]
    data: Callable[[int], tuple[Any, ...]]
    options: dict[str, Any] = field(default_factory=lambda: {"bucket_cap_mb": 8 * KILOBYTE})
    backend: str = "eager"
    steps: int = 20
    wrap: str = "ddp"  # what is optimized: the DDP module, a function that calls it, or the module inside
    accumulate: bool = False
    join: bool = False

    def run(self, *, engine: bool) -> dict[str, Any]:
        """Train; what came of it, as numbers."""
        torch.manual_seed(7)
        model = self.model()
        inner = dynexplore.optimize(self.backend)(model) if engine and self.wrap == "inside" else model
        ddp = DDP(inner, **self.options)
        called = self._called(ddp, engine)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
        with ddp.join() if self.join else contextlib.nullcontext():
            losses = [self._step(ddp, called, optimizer, step) for step in range(self._own_steps())]
        return {
            "losses": losses,
            "gradients": {
                name: None if p.grad is None else p.grad.to_dense().flatten().tolist() for name, p in model.named_parameters()
            },
            "state": {name: value.double().flatten().tolist() for name, value in model.state_dict().items()},
            "buckets": str(ddp._get_ddp_logging_data().get("rebuilt_bucket_sizes", "")),
        }

    def _called(self, ddp: DDP, engine: bool) -> Callable[..., Any]:
        def whole(*inputs: Any) -> torch.Tensor:
            return result_of(ddp(*inputs)).float()

        if not engine or self.wrap == "inside":
            return whole
        if self.wrap == "function":
            return dynexplore.optimize(self.backend)(whole)  # type: ignore[no-any-return]
        optimized = dynexplore.optimize(self.backend, nopython=self.wrap == "fullgraph")(ddp)
        return lambda *inputs: result_of(optimized(*inputs)).float()

    def _own_steps(self) -> int:
        return self.steps - 2 * dist.get_rank() if self.join else self.steps

    def _step(self, ddp: DDP, called: Callable[..., Any], optimizer: torch.optim.Optimizer, step: int) -> float:
        torch.manual_seed(100 * step + dist.get_rank())
        inputs = self.data(step)
        hold_back = self.accumulate and step % 2 == 0
        with ddp.no_sync() if hold_back else contextlib.nullcontext():
            loss = called(*inputs).square().mean()
            loss.backward()
        if not hold_back:
            optimizer.step()
            if step < self.steps - 1 and not self.join:
                optimizer.zero_grad()
        return loss.item()


class Checkpointed(nn.Module):
    """Two of three parts are computed again in backward."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(mlp() for _ in range(3))

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        for part in self.parts[:2]:
            x = checkpoint(part, x, use_reentrant=False)
        return {"last": [self.parts[2](x)], "size": x.shape[0]}


class Words(nn.Module):
    """An embedding with sparse gradients, and a loop over blocks with a graph break in each."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(50, 32, sparse=True, mode="sum")
        self.blocks = nn.ModuleList(Stop() for _ in range(3))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.table(words)
        for block in self.blocks:
            x = block(x)
        return x


class Stop(nn.Module):
    """A block with a graph break: the loop around it captures nothing, each block is a frame of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = torch.relu(self.up(x))
        dynexplore.graph_break()
        return x + self.down(wide)


def rows(step: int) -> tuple[Any, ...]:
    return (torch.randn(6, 32),)


def growing_rows(step: int) -> tuple[Any, ...]:
    return (torch.randn(4 + step % 5, 32),)


def sequences(step: int) -> tuple[Any, ...]:
    return (torch.randn(2, 5, 32),)


def images(step: int) -> tuple[Any, ...]:
    return (torch.randn(4, 3, 8, 8),)


def sides(step: int) -> tuple[Any, ...]:
    return torch.randn(6, 32), (step + dist.get_rank()) % 2 == 0


def result_of(output: Any) -> torch.Tensor:
    """The tensor in what a model returns, times one."""
    tensor: torch.Tensor = output["last"][0] if isinstance(output, dict) else output
    return tensor * 1.0


def words(step: int) -> tuple[Any, ...]:
    return (torch.randint(50, (6, 4)),)


SMALL = 8 * KILOBYTE
TRAININGS: dict[str, Training] = {
    "mlp": Training(mlp, rows),
    "mlp aot_eager": Training(mlp, rows, backend="aot_eager"),
    "block": Training(Block, sequences),
    "block aot_eager": Training(Block, sequences, backend="aot_eager"),
    "dropout": Training(lambda: Block(dropout=0.2), sequences, wrap="function", steps=6),
    "fullgraph": Training(Block, sequences, wrap="fullgraph", steps=4),
    "function": Training(mlp, rows, wrap="function", steps=6),
    "inside": Training(mlp, rows, wrap="inside", backend="aot_eager", steps=6),
    "batch norm": Training(Convolutions, images, backend="aot_eager", steps=6),
    "batch norm, eager": Training(Convolutions, images, steps=6),
    "tied and frozen": Training(Tied, rows, {"bucket_cap_mb": KILOBYTE / 16}, "aot_eager", 6),
    "checkpoint": Training(Checkpointed, rows, {"bucket_cap_mb": SMALL, "static_graph": True}, "aot_eager", 4),
    "sparse": Training(Words, words, backend="aot_eager", steps=4),
    "unused": Training(Branches, sides, {"bucket_cap_mb": SMALL, "find_unused_parameters": True}, "aot_eager", 8),
    "bucket views": Training(mlp, rows, {"bucket_cap_mb": SMALL, "gradient_as_bucket_view": True}, "aot_eager", 6),
    "static graph": Training(mlp, rows, {"bucket_cap_mb": SMALL, "static_graph": True}, "aot_eager", 6),
    "no_sync": Training(mlp, rows, backend="aot_eager", steps=6, accumulate=True),
    "modes": Training(Modes, rows, backend="aot_eager", steps=4),
    "sizes": Training(mlp, growing_rows, backend="aot_eager", steps=8),
    "a break": Training(Broken, rows, backend="aot_eager", steps=4),
    "join": Training(mlp, rows, backend="aot_eager", steps=8, join=True),
    "default buckets": Training(mlp, rows, {}, "aot_eager", 4),
}
COMPILED: dict[str, Training] = {
    "block inductor": Training(Block, sequences, backend="inductor"),
    "batch norm inductor": Training(Convolutions, images, backend="inductor", steps=4),
    "sizes inductor": Training(mlp, growing_rows, backend="inductor", steps=8),
}


def train(trainings: dict[str, Training]) -> dict[str, Any]:
    """Both runs of each training, and what the engine's recording says of the graphs."""
    found = {}
    for name, training in trainings.items():
        dynexplore.reset()
        plain = training.run(engine=False)
        with watching() as pieces:
            optimized = training.run(engine=True)
        counts = dynexplore.counters.snapshot()
        found[name] = {"plain": plain, "engine": optimized, "pieces": pieces, "counters": counts}
    return found


@contextlib.contextmanager
def watching() -> Iterator[list[Any]]:
    """The pieces of each graph that is compiled meanwhile: [parameters, buckets, nodes] of each piece of each graph."""
    graphs: list[Any] = []
    whole = ObservedBackend.compiled

    def noting(backend: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
        compiled = whole(backend, graph, *args, **kwargs)
        graphs.append([[list(piece.parameters), list(piece.buckets), list(piece.nodes)] for piece in graph.pieces])
        return compiled

    ObservedBackend.compiled = noting
    try:
        yield graphs
    finally:
        ObservedBackend.compiled = whole


def overlap() -> dict[str, list[str]]:
    """What happened in one backward, in order: backward of a piece begun and ended, all-reduce begun; split and whole."""
    return {str(split): _backward_events(split) for split in (True, False)}


def _backward_events(split: bool) -> list[str]:
    dynexplore.reset()
    torch.manual_seed(7)
    ddp = DDP(mlp(), bucket_cap_mb=SMALL)
    with dynexplore.config.patch(optimize_ddp=split):
        called = dynexplore.optimize("aot_eager")(ddp)
        for _ in range(2):  # buckets are built again after the first
            called(torch.randn(6, 32)).sum().backward()
    loss = called(torch.randn(6, 32)).sum()
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        loss.backward()
    found = []
    for event in profiler.events():
        if event.name == "CompiledFunctionBackward":
            found += [(event.time_range.start, "backward begins"), (event.time_range.end, "backward ends")]
        if event.name == "c10d::allreduce_":
            found.append((event.time_range.start, "all-reduce begins"))
    return [what for _, what in sorted(found)]


def death() -> None:
    """Rank 1 dies in the third step, between forward and backward; rank 0 goes on."""
    ddp = DDP(mlp(), bucket_cap_mb=SMALL)
    called = dynexplore.optimize("aot_eager")(ddp)
    for step in range(5):
        loss = called(torch.randn(6, 32)).sum()
        assert dynexplore.counters["stats"]["graphs"] == 1
        if step == 2 and dist.get_rank() == 1:
            os._exit(3)
        loss.backward()


@dataclass
class Early:
    """A model that is compiled, and trained for a step, before there is a group of processes; then it trains inside DDP."""

    model: Callable[[], nn.Module]
    inside: bool = False  # its parts are optimized, and not the model
    models: list[nn.Module] = field(default_factory=list)  # the plain one and the one under the engine
    graphs: int = 0
    backend: str = "aot_eager"

    def prepare(self) -> None:
        """No group yet: plain and compiled are one and the same."""
        for engine in (False, True):
            torch.manual_seed(7)
            model: Any = self.model()
            if engine and self.inside:
                for number, part in enumerate(model):
                    model[number] = dynexplore.optimize(self.backend)(part)
            elif engine:
                model = dynexplore.optimize(self.backend)(model)
            model(torch.ones(6, 32)).square().mean().backward()
            model.zero_grad()
            self.models.append(model)
        self.graphs = dynexplore.counters["stats"]["graphs"]

    def run(self) -> dict[str, Any]:
        """The same again in DDP: two trainings of four steps."""
        with watching() as pieces:
            plain, engine = (Training(lambda: model, rows, steps=4, wrap="inside").run(engine=False) for model in self.models)
        for found in (plain, engine):  # the parts' names are those of the wrapped
            found["gradients"] = dict(enumerate(found["gradients"].values()))
            found["state"] = dict(enumerate(found["state"].values()))
        return {"plain": plain, "engine": engine, "pieces": pieces, "graphs": self.graphs}


EARLY = {
    "whole": Early(mlp),
    "broken": Early(Broken),
    "parts": Early(lambda: nn.Sequential(*(mlp() for _ in range(2))), inside=True),
}


def main(group: str, folder: str) -> None:
    """Join the group of processes, run, and write down what was found."""
    warnings.simplefilter("error", UserWarning)
    dynexplore.config.raise_engine_errors = True
    dynexplore.config.log_level = "ERROR"
    torch.set_num_threads(1)
    if group == "early":
        for early in EARLY.values():
            early.prepare()
    meeting_place = os.environ.get("DDP_MEETING_PLACE", "env://")
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    timeout = datetime.timedelta(seconds=30 if group == "death" else 150)  # a busy machine is no dead process
    dist.init_process_group("gloo", init_method=meeting_place, rank=rank, world_size=size, timeout=timeout)
    found = GROUPS[group]()
    Path(folder, f"rank{dist.get_rank()}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


GROUPS: dict[str, Callable[[], Any]] = {
    "trainings": lambda: {"trainings": train(TRAININGS), "overlap": overlap()},
    "compiled": lambda: {"trainings": train(COMPILED)},
    "death": death,
    "early": lambda: {"trainings": {name: early.run() for name, early in EARLY.items()}},
}

if __name__ == "__main__":
    main(*sys.argv[1:])
