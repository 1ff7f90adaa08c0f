"""The layers between a program and the machine, as a picture: one call under one layer more each time, and the first that fails.

Which idea lives here: a wrong value may come from any layer, so one asks them in order. As long as the answers agree the fault
is further to the right; the first box that differs is to blame, and what stands to its right has learnt it from there.

In:  of each layer its name, its verdict ("ok", "fails", ...), and what is wrong.
Out: `layers_picture(layers)`, one SVG; `layers_text(layers)`, the same in words.

PyTorch has no counterpart.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from dynexplore.engine.events import WIDTH, wrapped
from dynexplore.views.html_text import escape
from dynexplore.views.svg import labelled

BOX, GAP, HIGH, LETTERS = 160, 34, 50, 100
"""The width of a box, what is left free between two, a box's height, and how many letters stand in a line below."""

_STYLE = (
    "svg.layers { max-width: 100%; height: auto; font: 12px system-ui, sans-serif } .layers text { fill: currentColor }"
    " .layers .head { font-weight: 600 } .layers rect { stroke-width: 1.5 } .layers .ok { fill: #1a7f3722; stroke: #1a7f37 }"
    " .layers .fails { fill: #d1242f18; stroke: #d1242f } .layers .other { fill: none; stroke: #888 }"
    " .layers path { fill: none; stroke: #888; stroke-width: 1.5 } .layers .tip { fill: #888; stroke: none }"
)


@dataclass(frozen=True)
class Layer:
    """One layer, and what came of the call under it."""

    name: str
    verdict: str
    failure: str = ""


def layers_text(layers: Sequence[Layer], width: int = WIDTH) -> str:
    """A line for each layer; `width` as in `events.wrapped`.

    >>> print(layers_text([Layer("capture", "ok"), Layer("backend", "fails", "another value")]))
    capture: ok
    backend: fails: another value
    """
    layer_lines = (f"{layer.name}: {layer.verdict}{f': {layer.failure}' if layer.failure else ''}" for layer in layers)
    return "\n".join(wrapped(line, 2, width) for line in layer_lines)


def layers_picture(layers: Sequence[Layer]) -> str:
    """Return the picture as an SVG element with its style; for those who do not see it, its label says the same in words."""
    failure = next((layer.failure for layer in layers if layer.failure), "")
    lines = textwrap.wrap(failure, LETTERS, max_lines=3, placeholder="…")
    drawn = [_box(layer, place) for place, layer in enumerate(layers)]
    drawn += [f'<text x="4" y="{HIGH + 26 + 16 * number}">{escape(line)}</text>' for number, line in enumerate(lines)]
    width, height = (BOX + GAP) * len(layers) - GAP + 8, HIGH + 14 + 16 * len(lines)
    return labelled("layers", layers_text(layers, width=0), _STYLE, (width, height), drawn)


def _box(layer: Layer, place: int) -> str:
    x = 4 + (BOX + GAP) * place
    kind = layer.verdict if layer.verdict in ("ok", "fails") else "other"
    arrow = f'<path d="M{x - GAP} {HIGH // 2 + 4} h{GAP - 8}"/><path class="tip" d="M{x - 1} {HIGH // 2 + 4} l-8 -4 v8 z"/>'
    return (
        f'{arrow if place else ""}<rect class="{kind}" x="{x}" y="4" width="{BOX}" height="{HIGH}" rx="5"/>'
        f'<text class="head" x="{x + 10}" y="25">{escape(layer.name)}</text>'
        f'<text x="{x + 10}" y="43">{escape(layer.verdict)}</text>'
    )
