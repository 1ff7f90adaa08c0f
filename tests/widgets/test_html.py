"""widgets/html.py: how large an exported file may be.

`python -m dynexplore bench explorer` measures the same on models of transformers.
"""

from __future__ import annotations

import linecache

import pytest
import torch
from torch import nn

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.widgets import assets, html


@pytest.fixture(scope="module")
def encoder() -> Recording:
    """As many steps, and as many layers, as a whole BERT of 12 layers: 36 of torch.nn's shorter ones."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = nn.TransformerEncoder(layer, 36, enable_nested_tensor=False).train()
    return dynexplore.explain(model)(torch.randn(2, 24, 64)).recording


def straight(instructions: int) -> Recording:
    """Of one function without a loop or a call, of about so many bytecode instructions."""
    lines = [f"    y{at % 40} = x * {at % 7} + y{(at - 1) % 40}\n    x = x.relu() - 1" for at in range((instructions - 4) // 14)]
    source = "\n".join(["def straight(x):", "    y39 = x", *lines, "    return x + y0", ""])
    linecache.cache["<straight>"] = (len(source), None, source.splitlines(True), "<straight>")
    space: dict[str, object] = {}
    exec(compile(source, "<straight>", "exec"), space)
    return dynexplore.explain(space["straight"])(torch.ones(4)).recording


def size(recording: Recording, *, graphviz: bool) -> int:
    """Bytes of the file."""
    return len(html.page(recording, graphviz=graphviz).encode())


def test_a_whole_model_with_graphviz_is_below_1400_kilobytes(encoder: Recording) -> None:
    """A model with the steps of a 12-layer BERT, with the program that draws its diagrams, is a file of at most 1,400,000 bytes."""
    assert sum(isinstance(event, ev.InstructionStepped) for event in encoder) > 14_000
    assert size(encoder, graphviz=True) < 1_310_000  # a BERT's own names, guards and lines take up to 90 KB more


def test_2000_instructions_without_graphviz_are_below_500_kilobytes() -> None:
    """A function of 2,000 instructions, without that program, is a file of at most 500,000 bytes."""
    assert size(straight(2000), graphviz=False) < 500_000


def test_graphviz_takes_no_more_room_than_its_module(encoder: Recording) -> None:
    """It stands in the file compressed, so that it is not larger there than on the disk, with all its quotes escaped."""
    assert size(encoder, graphviz=True) - size(encoder, graphviz=False) < len(assets.graphviz())
