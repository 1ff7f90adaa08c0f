"""What a GPU adds to a benchmark: models of the sizes that people train there, and time that waits for the kernels.

In: `CASES`, each a model in one of three `Mode`s, and a call. Out: wall time, kernels, peak memory of a call.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from support.models import Made, Model, UNet, timm_model, transformer, written_here

MIB = 2**20
LEAST = 0.05
"""Seconds that a measurement lasts at least."""


@dataclass(frozen=True)
class Mode:
    """How a model is run: the rows of its input, and whether it is trained."""

    name: str
    batch: int
    trains: bool


MODES = (Mode("inference", 32, False), Mode("training", 16, True), Mode("batch 1", 1, False))
"""Inference in bfloat16, training under autocast to bfloat16, and a batch of 1, where launching the kernels takes the time."""


@dataclass(frozen=True)
class Case(Model):
    """A model in a mode, on the GPU."""

    mode: Mode = MODES[0]

    def call(self, wrap: Callable[[Any], Any]) -> Callable[[], Any]:
        """A call of the model as `wrap` gives it; a training step ends with the gradients."""
        module, args, kwargs = to_cuda(self.make())
        if not self.mode.trains:
            module = module.bfloat16()
            args, kwargs = tree_map(lambda leaf: leaf.bfloat16() if leaf.is_floating_point() else leaf, (args, kwargs))
            return torch.no_grad()(functools.partial(wrap(module), *args, **kwargs))
        return functools.partial(_step, wrap(module.train()), module, args, kwargs)


def _step(wrapped: Callable[..., Any], module: torch.nn.Module, args: Any, kwargs: Any) -> None:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        (first, *_) = tree_leaves(wrapped(*args, **kwargs))
    first.float().square().mean().backward()
    module.zero_grad(set_to_none=True)


def to_cuda(made: Made) -> Made:
    """A model and its inputs on the GPU."""
    module, args, kwargs = made
    return module.cuda(), *tree_map(lambda leaf: leaf.cuda(), (args, kwargs))


def wall_seconds(call: Callable[[], Any], count: int) -> float:
    """The wall time of so many calls, up to the end of their kernels."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(count):
        call()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def kernels(call: Callable[[], Any]) -> int:
    """How many kernels a call launches; copies and fills of memory are none."""
    with contextlib.redirect_stderr(None), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    on_gpu = [event for event in profile.events() or () if event.device_type == torch.autograd.DeviceType.CUDA]
    return sum(not event.name.startswith(("Memcpy", "Memset")) for event in on_gpu)


def peak_mib(call: Callable[[], Any]) -> float:
    """The most memory that a call holds at a time above what was there before."""
    before = torch.cuda.memory_allocated() / MIB
    return highest_mib(call) - before


def highest_mib(call: Callable[[], Any]) -> float:
    """The most memory that is allocated at a time while a call runs."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / MIB


_WIDE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}


def _tokens(batch: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(0, 1000, (batch, 256), generator=torch.Generator().manual_seed(0))}


def _pixels(batch: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(batch, 3, 224, 224, generator=torch.Generator().manual_seed(0))}


def _cases() -> list[Case]:
    cases = []
    for mode in MODES:
        tokens, pixels = functools.partial(_tokens, mode.batch), functools.partial(_pixels, mode.batch)
        for name, package, make in (
            ("bert", "transformers", transformer("BertModel", "BertConfig", tokens, **_WIDE, vocab_size=1000)),
            ("gpt2", "transformers", transformer("GPT2LMHeadModel", "GPT2Config", tokens, vocab_size=1000, use_cache=False)),
            ("vit", "transformers", transformer("ViTModel", "ViTConfig", pixels, **_WIDE)),
            ("resnet50", "timm", timm_model("resnet50", 224, mode.batch)),
        ):
            cases.append(Case(f"{name}, {mode.name}", package, make, mode))
    return cases


CASES = _cases()


class Decoder(torch.nn.Module):
    """A language model that needs torch alone: causal blocks of torch's own, and a score for each word."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, batch_first=True, norm_first=True)
        self.embed, self.head = torch.nn.Embedding(8000, 768), torch.nn.Linear(768, 8000)
        self.blocks = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Scores of the next word."""
        mask = torch.nn.Transformer.generate_square_subsequent_mask(words.shape[1], device=words.device)
        return self.head(self.blocks(self.embed(words), mask=mask, is_causal=True))  # type: ignore[no-any-return]


def _encoder() -> torch.nn.Module:
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)


TRAINED: list[Model] = [
    *(case for case in CASES if case.mode.trains),
    Model("encoder", "", written_here(_encoder, lambda: torch.randn(16, 256, 768))),
    Model("decoder", "", written_here(Decoder, lambda: torch.randint(0, 8000, (8, 256)))),
    Model("unet", "", written_here(functools.partial(UNet, 64), lambda: torch.randn(16, 3, 256, 256))),
]
"""Models that are trained, those that need torch alone among them."""
