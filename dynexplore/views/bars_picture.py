"""A bar chart of a few measured numbers, each compared with the first.

The idea: a single number means little; two bars show which is larger and by how much. The bars start at zero, so their lengths
are proportional.

In: names with their numbers, and the unit, in plural and singular if it is countable. Out: `bars_picture(values, unit, one)`,
an SVG; `bars_text(values, unit, one)`, the same as text. PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Mapping

from dynexplore.views.html_text import escape
from dynexplore.views.svg import labelled

WIDTH, NAMES, ROW, LETTER = 700, 170, 30, 7
"""The width of the picture, the width of the names, the height of a row, and the width of a character."""

_STYLE = (
    "svg.bars { max-width: 100%; height: auto; font: 12px system-ui, sans-serif } .bars text { fill: currentColor }"
    " .bars rect { fill: #2f81e0 } .bars rect.first { fill: #888a } .bars .head { font-weight: 600 }"
)


def bars_text(values: Mapping[str, float], unit: str, singular: str = "") -> str:
    """One line per bar; `singular` is the unit's name for a count of one.

    >>> print(bars_text({"all": 2, "min-cut": 1}, "tensors", "tensor"))
    all: 2 tensors
    min-cut: 1 tensor
    """
    return "\n".join(f"{name}: {_amount(value, unit, singular)}" for name, value in values.items())


def bars_picture(values: Mapping[str, float], unit: str, singular: str = "") -> str:
    """Return the picture as an SVG element with its style; its label for screen readers contains the same text."""
    most = max(values.values(), default=0) or 1
    longest = WIDTH - NAMES - LETTER * (len(unit) + 8)
    drawn = []
    for number, (name, value) in enumerate(values.items()):
        length = round(longest * max(value, 0) / most, 1)
        top, kind = ROW * number + 4, ' class="first"' if not number else ""
        drawn.append(
            f'<text class="head" x="{NAMES - 10}" y="{top + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect{kind} x="{NAMES}" y="{top}" width="{length:g}" height="22" rx="2"/>'
            f'<text x="{NAMES + length + 8:g}" y="{top + 15}">{escape(_amount(value, unit, singular))}</text>'
        )
    return labelled("bars", bars_text(values, unit, singular), _STYLE, (WIDTH, ROW * len(values) + 4), drawn)


def _amount(value: float, unit: str, singular: str) -> str:
    return f"{value:.3g} {singular if singular and value == 1 else unit}"
