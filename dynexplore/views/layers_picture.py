"""A picture of the layers between a program and the hardware: one call with one more layer at a time, up to the first failure.

The idea: a wrong value may come from any layer, so the layers are tested in order. As long as the results agree, the fault is
further to the right; the first box that differs is the culprit, and those to its right inherit its error.

In: for each layer its name, its verdict ("ok", "fails", ...), and a description of the error. Out: `layers_picture(layers)`, an
SVG; `layers_text(layers)`, the same as text. PyTorch's counterpart: none.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from dynexplore.engine.events import WIDTH, wrapped
from dynexplore.views.html_text import escape
from dynexplore.views.svg import labelled

BOX, GAP, HIGH, LETTERS = 160, 34, 50, 100
"""The width of a box, the gap between two, the height of a box, and the most characters in a line below."""

_STYLE = (
    "svg.layers { max-width: 100%; height: auto; font: 12px system-ui, sans-serif } .layers text { fill: currentColor }"
    " .layers .head { font-weight: 600 } .layers rect { stroke-width: 1.5 } .layers .ok { fill: #1a7f3722; stroke: #1a7f37 }"
    " .layers .fails { fill: #d1242f18; stroke: #d1242f } .layers .other { fill: none; stroke: #888 }"
    " .layers path { fill: none; stroke: #888; stroke-width: 1.5 } .layers .tip { fill: #888; stroke: none }"
)


@dataclass(frozen=True)
class Layer:
    """One layer, and the outcome of the call with it."""

    name: str
    verdict: str
    failure: str = ""


def layers_text(layers: Sequence[Layer], width: int = WIDTH) -> str:
    """One line per layer; `width` as in `events.wrapped`.

    >>> print(layers_text([Layer("capture", "ok"), Layer("backend", "fails", "another value")]))
    capture: ok
    backend: fails: another value
    """
    layer_lines = (f"{layer.name}: {layer.verdict}{f': {layer.failure}' if layer.failure else ''}" for layer in layers)
    return "\n".join(wrapped(line, 2, width) for line in layer_lines)


def layers_picture(layers: Sequence[Layer]) -> str:
    """Return the picture as an SVG element with its style; its label for screen readers contains the same text."""
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
