"""The models of the benchmarks: built from configurations with random weights, small enough for two cores, nothing downloaded.

In: a name. Out: `Model(name, package, make)`; `make()` gives a module in eval mode and its inputs. Those of transformers and
timm need these packages; the others are written here, in the styles that TorchBench has.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Model:
    """A model that can be made. `package` is what it needs besides torch ("" for nothing)."""

    name: str
    package: str
    make: Callable[[], Made]


# -- transformers ----------------------------------------------------------------------------------------------------

_SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 200}


_GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 200}
_T5 = {"d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 4, "d_kv": 16, "vocab_size": 200}
_VIT = {"image_size": 32, "patch_size": 8, **{name: size for name, size in _SMALL.items() if name != "vocab_size"}}


def transformer(model_class: str, config_class: str, inputs: Callable[[], dict[str, Any]], **config: Any) -> Callable[[], Made]:
    """How a model of transformers is made from a configuration, with random weights."""

    def make() -> Made:
        transformers = importlib.import_module("transformers")
        torch.manual_seed(0)
        made = getattr(transformers, model_class)(getattr(transformers, config_class)(**config))
        return made.eval(), (), inputs()

    return make


def tokens() -> dict[str, Any]:
    return {"input_ids": torch.randint(0, 200, (2, 24), generator=torch.Generator().manual_seed(0))}


def _two_sequences() -> dict[str, Any]:
    return {**tokens(), "decoder_input_ids": tokens()["input_ids"][:, :8]}


def _pixels() -> dict[str, Any]:
    return {"pixel_values": torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))}


# -- timm ------------------------------------------------------------------------------------------------------------


def timm_model(name: str, size: int = 64, batch: int = 1) -> Callable[[], Made]:
    """How a model of timm is made, with random weights, for images of this size."""

    def make() -> Made:
        timm = importlib.import_module("timm")
        torch.manual_seed(0)
        return timm.create_model(name, pretrained=False, num_classes=10).eval(), (torch.randn(batch, 3, size, size),), {}

    return make


# -- written here ----------------------------------------------------------------------------------------------------


class Tagger(nn.Module):
    """A recurrent tagger over packed words, as older code has them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.lstm = nn.LSTM(32, 32, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(64, 7)

    def forward(self, words: Any) -> Any:
        """Scores for each word."""
        hidden, _ = self.lstm(self.embed(words))
        return F.log_softmax(self.head(hidden), dim=-1)


class Recommender(nn.Module):
    """Embeddings of categories, a tower of numbers, their interactions."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(50, 16, mode="sum") for _ in range(6))
        self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(16 + 21, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())

    def forward(self, numbers: Any, categories: Any) -> Any:
        """A probability for each row."""
        rows = [self.bottom(numbers)] + [table(part) for table, part in zip(self.tables, categories, strict=True)]
        stacked = torch.stack(rows, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        upper = torch.triu_indices(len(rows), len(rows), offset=1)
        return self.top(torch.cat([rows[0], products[:, upper[0], upper[1]]], dim=1))


class UNet(nn.Module):
    """Down, up, and the connections between."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        sizes = [3, width, 2 * width, 4 * width]
        self.down = nn.ModuleList(self._block(a, b) for a, b in itertools.pairwise(sizes))
        self.up = nn.ModuleList(self._block(b + a, a) for a, b in reversed(list(itertools.pairwise(sizes[1:]))))
        self.head = nn.Conv2d(width, 1, 1)

    @staticmethod
    def _block(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU())

    def forward(self, x: Any) -> Any:
        """A mask."""
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        kept.pop()
        for block in self.up:
            other = kept.pop()
            x = F.interpolate(x, size=other.shape[-2:], mode="nearest")
            if x.shape[1] + other.shape[1] > block[0].in_channels:
                x = x[:, : block[0].in_channels - other.shape[1]]
            x = block(torch.cat([x, other], dim=1))
        return torch.sigmoid(self.head(x))


class Chatty(nn.Module):
    """A model with habits that break graphs: a print, a number read out, a branch on a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: Any) -> Any:
        """Breaks in every layer."""
        for layer in self.layers:
            x = torch.tanh(layer(x))
            if x.sum() > 1e6:
                x = x / x.abs().max().item()
        return x


def written_here(make_module: Callable[[], nn.Module], *inputs: Callable[[], Any]) -> Callable[[], Made]:
    """How a module that needs torch alone is made, with its inputs."""

    def make() -> Made:
        torch.manual_seed(0)
        return make_module().eval(), tuple(one() for one in inputs), {}

    return make


def _categories() -> list[torch.Tensor]:
    return [torch.randint(0, 50, (8, 3)) for _ in range(6)]


MODELS = [
    Model("bert", "transformers", transformer("BertModel", "BertConfig", tokens, **_SMALL)),
    Model("gpt2", "transformers", transformer("GPT2LMHeadModel", "GPT2Config", tokens, **_GPT2)),
    Model("t5", "transformers", transformer("T5Model", "T5Config", _two_sequences, **_T5)),
    Model("llama", "transformers", transformer("LlamaForCausalLM", "LlamaConfig", tokens, **_SMALL)),
    Model("vit", "transformers", transformer("ViTModel", "ViTConfig", _pixels, **_VIT)),
    Model("resnet18", "timm", timm_model("resnet18")),
    Model("mobilenetv3", "timm", timm_model("mobilenetv3_small_050")),
    Model("convnext", "timm", timm_model("convnext_atto")),
    Model("mixer", "timm", timm_model("mixer_s32_224", 224)),
    Model("tagger", "", written_here(Tagger, lambda: torch.randint(0, 100, (4, 12)))),
    Model("recommender", "", written_here(Recommender, lambda: torch.randn(8, 13), _categories)),
    Model("unet", "", written_here(UNet, lambda: torch.randn(1, 3, 32, 32))),
    Model("chatty", "", written_here(Chatty, lambda: torch.randn(4, 16))),
]
QUICK = ("bert", "resnet18", "tagger", "recommender", "unet", "chatty")


def chosen(names: list[str] | None, quick: bool, among: Sequence[Model] = MODELS) -> tuple[list[Model], list[str]]:
    """The models to run, and one sentence for each that cannot be made. Raises ValueError for an unknown name.

    A name with a comma is one variant of a model ("bert, batch of 1"); what stands before the comma chooses all its variants.
    """
    of_name: dict[str, list[Model]] = {}
    for model in among:
        for name in dict.fromkeys((model.name, model.name.partition(",")[0])):
            of_name.setdefault(name, []).append(model)
    for name in names or []:
        if name not in of_name:
            raise ValueError(f"there is no model {name!r}; there are: {', '.join(model.name for model in among)}")
    quickly = [model for model in among if not quick or model.name.partition(",")[0] in QUICK]
    wanted = [model for name in names for model in of_name[name]] if names else quickly
    missing = [model for model in wanted if model.package and importlib.util.find_spec(model.package) is None]
    sentences = [f"{model.name} is left out: it needs the package {model.package}, which is not installed" for model in missing]
    return [model for model in wanted if model not in missing], sentences
