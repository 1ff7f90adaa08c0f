"""A few numbers side by side, as bars: what was measured here and now, each beside the first.

Which idea lives here: a number by itself says little, a bar beside another one says which is larger and by how much. The bars are
drawn from zero, so their lengths can be trusted.

In:  names with their numbers, and what is counted; what a single one of it is called, where things are counted.
Out: `bars_picture(values, unit, one)`, one SVG; `bars_text(values, unit, one)`, the same in words.

PyTorch has no counterpart.
"""

from __future__ import annotations

from collections.abc import Mapping

from dynexplore.views.html_text import escape
from dynexplore.views.svg import labelled

WIDTH, NAMES, ROW, LETTER = 700, 170, 30, 7
"""The picture's width, what of it is for names, the height of a bar's row, and the room that a letter of what is counted takes."""

_STYLE = (
    "svg.bars { max-width: 100%; height: auto; font: 12px system-ui, sans-serif } .bars text { fill: currentColor }"
    " .bars rect { fill: #2f81e0 } .bars rect.first { fill: #888a } .bars .head { font-weight: 600 }"
)


def bars_text(values: Mapping[str, float], unit: str, singular: str = "") -> str:
    """A line for each bar; `singular` is the unit's name where there is a single one of it.

    >>> print(bars_text({"all": 2, "min-cut": 1}, "tensors", "tensor"))
    all: 2 tensors
    min-cut: 1 tensor
    """
    return "\n".join(f"{name}: {_amount(value, unit, singular)}" for name, value in values.items())


def bars_picture(values: Mapping[str, float], unit: str, singular: str = "") -> str:
    """Return the picture as an SVG element with its style; for those who do not see it, its label says the same in words."""
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
