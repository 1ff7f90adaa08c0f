"""What the memory of a graph is said to be, held against real runs: hooks of saved tensors, and storages that live."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils._python_dispatch
from torch import nn
from torch.utils._pytree import tree_leaves

import dynexplore
from dynexplore.recording.memory import GraphMemory

pytestmark = pytest.mark.filterwarnings(r"ignore:.torch\.jit\..* is deprecated:DeprecationWarning")  # torch's own, on import


class Block(nn.Module):
    """A small transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)
        self.one, self.two = nn.LayerNorm(32), nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.one(x)).view(2, 10, 3, 4, 8).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) / 8**0.5).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(2, 10, 32))
        return x + self.down(torch.nn.functional.gelu(self.up(self.two(x))))


def mlp() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 5)), torch.randn(16, 20)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    return Block(), torch.randn(2, 10, 32)


def convnet() -> tuple[nn.Module, torch.Tensor]:
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4),
    )  # fmt: skip
    return layers, torch.randn(2, 3, 20, 20)


MODELS = pytest.mark.parametrize("make", (mlp, transformer, convnet))


def memory_of(fn: Callable[..., Any], *args: Any, backend: str = "aot_eager", **options: Any) -> GraphMemory:
    with dynexplore.config.patch(artifacts=("memory",)):
        (memory,) = dynexplore.explain(fn, *args, backend=backend, **options).recording.memory
    return memory


class LiveStorages(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts the bytes of the storages that live while operators run, and remembers the most."""

    def __init__(self, *known: Any) -> None:
        super().__init__()
        self.live: dict[int, int] = {}
        self.peak = 0
        for tensor in tree_leaves(known):
            self.add(tensor)

    def add(self, tensor: Any) -> None:
        storage = tensor.untyped_storage() if isinstance(tensor, torch.Tensor) else None
        if storage is not None and storage._cdata not in self.live:
            self.live[storage._cdata] = storage.nbytes()
            weakref.finalize(storage, self.live.pop, storage._cdata)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **kwargs or {})
        for tensor in tree_leaves(result):
            self.add(tensor)
        self.peak = max(self.peak, sum(self.live.values()))
        return result


def measured_peaks(model: nn.Module, x: torch.Tensor) -> tuple[int, int]:
    """The most bytes that live while the halves that AOTAutograd makes run on real tensors, forward and backward."""
    common = pytest.importorskip("torch._dynamo.backends.common")
    minimal = pytest.importorskip("torch._functorch.partitioners").min_cut_rematerialization_partition
    peaks: dict[str, int] = {}

    def half(stage: str, graph: torch.fx.GraphModule, examples: Any) -> Any:
        def run(values: list[Any]) -> Any:
            with LiveStorages(values, list(model.parameters()), list(model.buffers()), x) as storages:
                results = torch.fx.Interpreter(graph).boxed_run(values)
            peaks[stage] = storages.peak
            return results

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    compiled = common.aot_autograd(
        fw_compiler=functools.partial(half, "forward"), bw_compiler=functools.partial(half, "backward"), partition_fn=minimal
    )
    dynexplore.optimize(compiled)(model)(x).backward(torch.ones(()).expand(model(x).shape))
    return peaks["forward"], peaks["backward"]


@MODELS
def test_kept_bytes_are_those_of_the_storages_that_hooks_see(make: Callable[[], tuple[nn.Module, torch.Tensor]]) -> None:
    """Every storage that is packed for backward counts once, however many views of it are packed."""
    model, x = make()
    memory = memory_of(model, x)
    storages: dict[int, Any] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storages[tensor.untyped_storage()._cdata] = tensor.untyped_storage()
        return tensor

    compiled = dynexplore.optimize("aot_eager")(model)
    compiled(x)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        compiled(x)
    assert memory.saved_bytes == sum(storage.nbytes() for storage in storages.values())
    assert 0 < memory.extra_saved_bytes < memory.saved_bytes


@MODELS
def test_peaks_are_those_of_storages_that_live(make: Callable[[], tuple[nn.Module, torch.Tensor]]) -> None:
    """The most bytes at a node of forward and of backward are within 10 % of what lives in a real run."""
    model, x = make()
    memory = memory_of(model, x)
    said = [max(node.live for node in stage.nodes) for stage in memory.stages]
    for mine, real in zip(said, measured_peaks(model, x), strict=True):
        assert mine == pytest.approx(real, rel=0.1)


def test_views_and_writes_in_place_are_no_memory() -> None:
    """A view, a view of a view, and a write into one of them share a storage, which lives until the last of them is used."""

    def views(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        z = y.view(-1)[2:].t()
        z.mul_(2)
        w = x * 3
        return (z.sum() + w.sum()).reshape(1)

    memory = memory_of(views, torch.ones(4, 4), backend="eager")
    assert memory.stages[0].stage == "captured" and not memory.knows_backward
    assert [node.name for node in memory.nodes if node.allocated == 64] == ["add", "mul"]
    assert memory.peak is not None and (memory.inputs, memory.peak.bytes) == (64, 64 + 64 + 64 + 4)
    assert memory.peak.place.endswith(f"test_graph_memory.py:{views.__code__.co_firstlineno + 5})"), memory.peak.place


def test_sizes_that_vary_are_expressions() -> None:
    """Bytes are of the call that was recorded, the expression beside them holds for all sizes."""
    memory = memory_of(lambda x: (x * 2).relu(), torch.ones(6, 4), backend="eager", dynamic=True)
    peak = memory.peak
    assert peak is not None and peak.bytes == 3 * 96
    names = [name for name in peak.node.size.replace("*", " ").split() if name.startswith("s")]
    assert names and peak.node.size.startswith("12*"), peak.node.size


def test_without_gradients_nothing_is_kept() -> None:
    """Inference has a forward alone; so has a graph that was only captured."""
    memory = memory_of(lambda x: x.cos().sin(), torch.ones(3))
    assert [stage.stage for stage in memory.stages] == ["forward"] and memory.saved == ()
    assert "nothing is saved for backward" in list(memory.lines())


def test_what_forward_keeps_is_not_counted_twice_in_backward() -> None:
    """Backward begins with inputs, what is kept besides, and the gradient of the result."""
    memory = memory_of(torch.exp, torch.ones(4, requires_grad=True))
    forward, backward = memory.stages
    assert (forward.inputs, memory.saved_bytes, memory.extra_saved_bytes) == (16, 16, 16)
    assert backward.nodes[0].live == 16 + 16 + 16 + 16  # x, exp(x), the gradient that comes in, the one that goes out

