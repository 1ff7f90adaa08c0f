"""Count the graphs and graph breaks of models from public repositories: dynexplore with and without nested breaks, torch.compile.

    python -m dynexplore bench graph_counts --sources DIR [--only NAME ...] [--json OUT]

DIR contains a checkout of each repository under its own name: karpathy/nanoGPT, pytorch-labs/gpt-fast, openai/whisper,
vwxyzjn/cleanrl and arogozhnikov/einops. Whisper also needs tiktoken. No file of theirs is changed, and imports of packages that
are missing are left out (environments, loggers). Sizes are small, and weights are random.

Each model is called three times, in a process of its own for each engine: "nested" is dynexplore's default, "frames" has
`nested_graph_breaks=False`, "torch" is torch.compile, and "torch nested" is torch.compile with
`torch._dynamo.config.nested_graph_breaks = True`, which is off by default. A cell is "graphs/breaks" after three calls, and ends
with "!" where the values differ from plain PyTorch's. "limit" stands for a process that was ended after --limit seconds.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import importlib
import importlib.util
import json
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from support.measuring import forget, quiet
from support.report import Row, show_measured

import dynexplore

ENGINES = ("nested", "frames", "torch", "torch nested")
CALLS = 3

Make = Callable[[Path], tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]]
MODELS: dict[str, Make] = {}


def model(name: str) -> Callable[[Make], Make]:
    """Enter a maker of a function and of the arguments of its calls."""
    return lambda make: MODELS.setdefault(name, make)


# -- nanoGPT, gpt-fast, whisper ---------------------------------------------------------------------------------------------------


def nanogpt(sources: Path) -> Any:
    """Two layers of nanoGPT."""
    of = names_of(sources / "nanoGPT" / "model.py")
    return of["GPT"](of["GPTConfig"](block_size=32, vocab_size=65, n_layer=2, n_head=2, n_embd=32, dropout=0.0, bias=False))


@model("nanoGPT forward")
def nanogpt_forward(sources: Path) -> tuple[Any, Any]:
    """A training step's forward."""
    return nanogpt(sources), lambda call: (torch.randint(65, (2, 16)), torch.randint(65, (2, 16)))


@model("nanoGPT generate")
def nanogpt_generate(sources: Path) -> tuple[Any, Any]:
    """Four tokens: the loop around the model is captured as well."""
    gpt = nanogpt(sources).eval()
    return gpt.generate, lambda call: (torch.randint(65, (1, 8)), 4, 1.0, 5)


def gpt_fast(sources: Path) -> tuple[Any, dict[str, Any]]:
    """Two layers of gpt-fast, and what its generate.py defines."""
    sys.path.insert(0, str(sources / "gpt-fast"))
    of = importlib.import_module("model")
    size = of.ModelArgs(block_size=64, vocab_size=100, n_layer=2, n_head=2, dim=32, intermediate_size=64)
    llama = of.Transformer(size).eval().requires_grad_(False)
    return llama, names_of(sources / "gpt-fast" / "generate.py")


@model("gpt-fast decode_one_token")
def gpt_fast_decode(sources: Path) -> tuple[Any, Any]:
    """What gpt-fast itself compiles."""
    llama, of = gpt_fast(sources)
    llama.setup_caches(1, 32)

    def decode(at: torch.Tensor, token: torch.Tensor) -> Any:
        return of["decode_one_token"](llama, token, at, temperature=0.8, top_k=10)

    return decode, lambda call: (torch.tensor([8 + call]), torch.randint(100, (1, 1)))


@model("gpt-fast generate")
def gpt_fast_generate(sources: Path) -> tuple[Any, Any]:
    """All of its generation loop."""
    llama, of = gpt_fast(sources)

    def generate(prompt: torch.Tensor) -> Any:
        return of["generate"](llama, prompt, 4, 1, interactive=False, draft_model=None, temperature=0.8, top_k=10)[0]

    return generate, lambda call: (torch.randint(100, (6,)).int(),)


def whisper(sources: Path, **options: Any) -> tuple[Any, Any]:
    """Whisper's decoding of encoded audio, with two narrow layers on each side."""
    sys.path.insert(0, str(sources / "whisper"))
    of = importlib.import_module("whisper")
    width = {"n_audio_state": 64, "n_audio_head": 2, "n_audio_layer": 2, "n_text_state": 64, "n_text_head": 2, "n_text_layer": 2}
    sizes = of.model.ModelDimensions(n_mels=80, n_audio_ctx=1500, n_vocab=51865, n_text_ctx=448, **width)
    speech = of.model.Whisper(sizes).eval()
    speech.decoder.positional_embedding.data.normal_(0, 0.02)  # the package leaves it uninitialized
    chosen = of.DecodingOptions(language="en", fp16=False, sample_len=4, **options)

    def decode(features: torch.Tensor) -> Any:
        return of.decoding.decode(speech, features, chosen)

    return decode, lambda call: (torch.randn(1, 1500, 64),)


@model("whisper decode")
def whisper_greedy(sources: Path) -> tuple[Any, Any]:
    """Greedy."""
    return whisper(sources)


@model("whisper decode, beams")
def whisper_beams(sources: Path) -> tuple[Any, Any]:
    """Beam search."""
    return whisper(sources, beam_size=2)


# -- cleanrl ----------------------------------------------------------------------------------------------------------------------


def space(*shape: int, high: float = 1.0) -> Any:
    """As much of a gymnasium space as the agents read."""
    numpy = importlib.import_module("numpy")
    return types.SimpleNamespace(shape=shape, n=4, high=numpy.full(shape, high), low=numpy.full(shape, -high))


def agent(sources: Path, file: str, name: str, shape: tuple[int, ...]) -> Any:
    """A class of one of cleanrl's files, for an environment of these observations."""
    envs = types.SimpleNamespace(single_observation_space=space(*shape), single_action_space=space(2))
    return names_of(sources / "cleanrl" / "cleanrl" / file)[name](envs)


@model("cleanrl PPO")
def ppo(sources: Path) -> tuple[Any, Any]:
    """Actor and critic, with a distribution."""
    return agent(sources, "ppo.py", "Agent", (6,)).get_action_and_value, lambda call: (torch.randn(3, 6),)


@model("cleanrl PPO, LSTM")
def ppo_lstm(sources: Path) -> tuple[Any, Any]:
    """A loop of LSTM steps."""

    def arguments(call: int) -> tuple[Any, ...]:
        return torch.randn(4, 1, 84, 84), (torch.zeros(1, 2, 128), torch.zeros(1, 2, 128)), torch.zeros(4)

    return agent(sources, "ppo_atari_lstm.py", "Agent", (1, 84, 84)).get_action_and_value, arguments


@model("cleanrl SAC")
def sac(sources: Path) -> tuple[Any, Any]:
    """An actor that samples."""
    return agent(sources, "sac_continuous_action.py", "Actor", (6,)).get_action, lambda call: (torch.randn(3, 6),)


@model("cleanrl PPO, Transformer-XL")
def trxl(sources: Path) -> tuple[Any, Any]:
    """A transformer with memory; positions by einops."""
    sys.path.insert(0, str(sources / "einops"))
    of = names_of(sources / "cleanrl" / "cleanrl" / "ppo_trxl" / "ppo_trxl.py")
    size = of["Args"](
        trxl_num_layers=2, trxl_num_heads=2, trxl_dim=32, trxl_memory_length=8, trxl_positional_encoding="absolute",
        reconstruction_coef=0.0,
    )  # fmt: skip
    actor = of["Agent"](size, space(6), (3, 2), 16)

    def arguments(call: int) -> tuple[Any, ...]:
        return torch.randn(3, 6), torch.randn(3, 8, 2, 32), torch.ones(3, 8, dtype=torch.bool), torch.arange(8).repeat(3, 1)

    return actor.get_action_and_value, arguments


# -- einops -----------------------------------------------------------------------------------------------------------------------


@model("einops layers")
def einops_layers(sources: Path) -> tuple[Any, Any]:
    """The network of einops' README, and its mixing layer."""
    sys.path.insert(0, str(sources / "einops"))
    of, nn = importlib.import_module("einops.layers.torch"), torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 6, kernel_size=5), nn.MaxPool2d(kernel_size=2), of.Reduce("b c (h h2) (w w2) -> b c h w", "max", h2=2, w2=2),
        of.EinMix("b c h w -> b k h w", weight_shape="c k", bias_shape="k", c=6, k=8), of.Rearrange("b c h w -> b (c h w)"),
        nn.Linear(72, 10),
    ), lambda call: (torch.randn(2, 3, 16, 16),)  # fmt: skip


@model("einops functions")
def einops_functions(sources: Path) -> tuple[Any, Any]:
    """Attention with rearrange, repeat, reduce, einsum, pack and unpack."""
    sys.path.insert(0, str(sources / "einops"))
    of = importlib.import_module("einops")

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.first = torch.nn.Linear(16, 48), torch.nn.Parameter(torch.randn(16))

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            x = of.rearrange(image, "b c h w -> b h w c")
            x, shapes = of.pack([of.repeat(self.first, "c -> b c", b=len(x)), x], "b * c")
            q, k, v = of.rearrange(self.qkv(x), "b t (n h c) -> n b h t c", n=3, h=2)
            scores = of.einsum(q, k, "b h i c, b h j c -> b h i j").softmax(-1)
            out = of.rearrange(of.einsum(scores, v, "b h i j, b h j c -> b h i c"), "b h t c -> b t (h c)")
            first, rest = of.unpack(out, shapes, "b * c")
            return first + of.reduce(rest, "b h w c -> b c", "mean")  # type: ignore[no-any-return]

    return Attention(), lambda call: (torch.randn(2, 16, 4, 4 + call),)


# -- counting ---------------------------------------------------------------------------------------------------------------------


def names_of(path: Path) -> dict[str, Any]:
    """What a script defines, without its main part and without imports of packages that are not installed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [statement for statement in tree.body if _is_kept(statement)]
    module = sys.modules[path.stem] = types.ModuleType(path.stem)
    module.__file__ = str(path)
    exec(compile(tree, str(path), "exec"), module.__dict__)
    return vars(module)


def _is_kept(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return "__name__" not in ast.unparse(statement.test)
    imported = [statement.module or ""] if isinstance(statement, ast.ImportFrom) else (
        [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
    )  # fmt: skip
    return all(importlib.util.find_spec(name.partition(".")[0]) is not None for name in imported)


def counted(name: str, engine: str, sources: Path) -> Row:
    """Graphs and breaks after three calls of a model under an engine, and what the calls returned."""
    here = Path(__file__).resolve().parent  # its coverage.py is not the package of that name, which others import
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != here]
    forget()
    torch.manual_seed(0)
    function, arguments = MODELS[name](sources)
    graphs = 0

    def backend(graph: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        nonlocal graphs
        graphs += 1
        return graph.forward

    breaks = dynexplore.counters["graph_break"]
    call: Callable[..., Any] = function
    if engine in ("nested", "frames"):
        dynexplore.config.nested_graph_breaks = engine == "nested"
        call = dynexplore.optimize(backend)(function)
    elif engine != "plain":
        torch._dynamo.config.nested_graph_breaks = engine == "torch nested"
        breaks = torch._dynamo.utils.counters["graph_break"]
        call = torch.compile(function, backend=backend)
    results, before = [], sum(breaks.values())
    for number in range(CALLS):
        torch.manual_seed(number)
        results.append(numbers_of(call(*arguments(number))))
    return {"graphs": graphs, "breaks": sum(breaks.values()) - before, "results": results}


def numbers_of(value: Any) -> Any:
    """A result as nested lists."""
    if isinstance(value, torch.Tensor):
        return value.detach().tolist()
    if dataclasses.is_dataclass(value):
        return [numbers_of(getattr(value, field.name)) for field in dataclasses.fields(value)]
    return [numbers_of(item) for item in value] if isinstance(value, (list, tuple)) else repr(value)


def row_of(name: str, sources: Path, limit: float) -> Row:
    """A model under each engine, in processes of their own."""
    plain = in_own_process(name, "plain", sources, limit)
    row: Row = {"model": name}
    if isinstance(plain, str):
        return {**row, "failed": plain}
    for engine in ENGINES:
        counts = in_own_process(name, engine, sources, limit)
        row[engine] = counts if isinstance(counts, str) else (
            f"{counts['graphs']}/{counts['breaks']}{'' if counts['results'] == plain['results'] else '!'}"
        )  # fmt: skip
        print(f"{name}, {engine}: {row[engine]}", file=sys.stderr, flush=True)
    return row


def in_own_process(name: str, engine: str, sources: Path, limit: float) -> Any:
    """What `counted` gives in a process of its own; the last line of its error where it fails."""
    command = [sys.executable, __file__, "--sources", str(sources), "--count", name, engine]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return "limit"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else (lines or ["failed"])[-1][:120]


def main(arguments: Sequence[str] | None = None) -> int:
    """Count each model."""
    options = _options(arguments)
    if options.sources is None:
        print("graph_counts: models of public repositories are counted from checkouts: --sources DIR (see --help)")
        return 0
    if options.count:
        quiet()
        counts = counted(*options.count, options.sources)
        print(f"\n{json.dumps(counts)}")
        return 0
    rows = functools.partial(map, functools.partial(row_of, sources=options.sources, limit=options.limit), options.only or MODELS)
    return show_measured("Graphs and breaks", lambda: list(rows()), options.json)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, help="a folder with a checkout of each repository")
    parser.add_argument("--only", nargs="+", choices=list(MODELS), help="only these")
    parser.add_argument("--limit", type=float, default=600, metavar="S", help="seconds that a process may take (600)")
    parser.add_argument("--count", nargs=2, metavar=("NAME", "ENGINE"), help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the rows here as well")
    options = parser.parse_args(arguments)
    options.sources = options.sources and options.sources.resolve()
    return options


if __name__ == "__main__":
    sys.exit(main())
