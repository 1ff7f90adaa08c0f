"""Twelve recordings, one of each kind that the explorer must show well; `RECORDINGS` maps a name to what makes it.

Which idea lives here: the views are looked at with programs as people have them, not with one that fits.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from ranks.made_up import made_up_ranks
from torch import nn

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.errors import BackendCompilerError
from dynexplore.recording.recording import Recording


def recorded(function: Callable[..., Any], *calls: tuple[Any, ...], **options: Any) -> Recording:
    """These calls of it, whose output is kept back."""
    with dynexplore.config.patch(log_level="ERROR"), contextlib.redirect_stdout(io.StringIO()):
        with contextlib.suppress(BackendCompilerError), dynexplore.explain(function, **options) as fn:
            for args in calls:
                fn(*args)
    recording: Recording = fn.explanation.recording
    return recording


class Block(nn.Module):
    """A layer of a transformer; with `chatty` it prints."""

    def __init__(self, width: int = 16, *, chatty: bool = False) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.chatty = chatty

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm1(x)
        attended, _ = self.attention(normed, normed, normed, need_weights=False)
        x = x + attended
        if self.chatty:
            print("attention", x.mean().item())
        return x + self.mlp(self.norm2(x))


def blocks(count: int, *, chatty: bool = False) -> nn.Module:
    return nn.Sequential(*(Block(chatty=chatty and at == 0) for at in range(count)))


def transformer_with_print() -> Recording:
    return recorded(blocks(2, chatty=True), (torch.ones(2, 5, 16),))


def twelve_blocks() -> Recording:
    with torch.no_grad():
        return recorded(blocks(12).eval(), (torch.ones(2, 5, 16),))


MODEL = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def train_step(x: torch.Tensor, target: torch.Tensor, step: int) -> torch.Tensor:
    rate = 0.1 / (1 + step)
    loss = ((MODEL(x) - target) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for parameter in MODEL.parameters():
            parameter -= rate * parameter.grad
            parameter.grad = None
    return loss


def training_with_a_recompile() -> Recording:
    return recorded(train_step, *((torch.ones(size, 4), torch.zeros(size, 2), at) for at, size in enumerate((3, 3, 5, 7))))


def branches(x: torch.Tensor, scale: float) -> torch.Tensor:
    y = torch.relu(x) * scale
    if y.sum() > 1:
        y = y - y.mean()
    return torch.sin(y)


def data_dependent_if() -> Recording:
    return recorded(branches, (torch.ones(3), 2.0), (-torch.ones(3), 2.0))


def halves(x: torch.Tensor, count: int) -> Iterator[torch.Tensor]:
    for _ in range(count):
        x = x / 2
        yield x


def sums_halves(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(x)
    for half in halves(x, 3):
        total = total + half
        print("half", half.sum().item())
    return total


def generator() -> Recording:
    return recorded(sums_halves, (torch.ones(3),))


def with_numpy(x: torch.Tensor) -> torch.Tensor:
    values = x.numpy()
    scaled = np.sqrt(np.abs(values)) + np.linspace(0, 1, 4)
    return torch.from_numpy(scaled).sum() + x.sum()


def numpy() -> Recording:
    return recorded(with_numpy, (torch.ones(4),))


def no_kernel_for_sin(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    if any(node.target is torch.sin for node in module.graph.nodes):
        raise NotImplementedError("my backend has no kernel for sin")
    return module.forward


def failing_backend() -> Recording:
    return recorded(branches, (torch.ones(3), 2.0), backend=no_kernel_for_sin)


def clean() -> Recording:
    return recorded(lambda x: torch.softmax(x @ x.T, -1).sum(), (torch.ones(3, 3),))


def no_torch_compile() -> Recording:
    recording = Recording(title="train.py", engine="torch.compile")
    recording.record(ev.ProgramEnded(frame=0, status=0))
    return recording


def collatz(x: torch.Tensor) -> torch.Tensor:
    n, steps = 27, 0
    while n != 1 and steps < 65:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        x = x + n
        steps = steps + 1
    return x


def long_loop() -> Recording:
    """A loop of about 1,786 steps."""
    return recorded(collatz, (torch.ones(2),))


class Residual(nn.Module):
    """A block of a ResNet."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + x)


def image_model() -> Recording:
    """A classifier of images as timm has them."""
    stem, head = nn.Conv2d(3, 8, 7, stride=2, padding=3), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    model = nn.Sequential(stem, nn.BatchNorm2d(8), nn.ReLU(), *(Residual(8) for _ in range(4)), head).eval()
    with torch.no_grad():
        return recorded(model, (torch.ones(1, 3, 32, 32),))


RECORDINGS: dict[str, Callable[[], Recording]] = {
    one.__name__: one
    for one in (
        transformer_with_print, training_with_a_recompile, data_dependent_if, generator, numpy, failing_backend,
        clean, no_torch_compile, twelve_blocks, long_loop, image_model,
    )
}  # fmt: skip
RECORDINGS["rank"] = lambda: made_up_ranks()[1]
