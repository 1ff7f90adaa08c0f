"""A picture of several processes on one time axis: a lane per process, a row per kind of work.

The idea: whether two activities overlap in time is visible only on a common time axis. A bar is an activity with a beginning
and an end; overlapping bars of one row are stacked.

In: bars: lane, row, name, beginning and end in seconds of one clock. Out: `clock_picture(bars)`, an SVG; `clock_text(bars)`,
the same as text. PyTorch's counterpart: the Chrome trace that torch.profiler exports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynexplore.views.html_text import escape
from dynexplore.views.svg import labelled

WIDTH, LEFT_EDGE, RIGHT, TOP, ROW, HIGH, BETWEEN = 760, 150, 14, 8, 30, 20, 14
"""The picture's width, the margins, the heights of a row and of a bar, and the gap between two lanes."""

_LETTER = 6.6
_COLOURS = ("#0b63c5", "#c06a00", "#1a7f37", "#8250df")
_STYLE = (
    "svg.clock { max-width: 100%; height: auto; font: 12px system-ui, sans-serif } .clock text { fill: currentColor }"
    " .clock .head { font-weight: 600 } .clock .code { font-size: 11px } .clock rect { fill-opacity: .25; stroke-width: 1.5 }"
    " .clock path { stroke: #8888 }"
)


@dataclass(frozen=True)
class Bar:
    """An activity with beginning and end in seconds."""

    lane: str
    row: str
    name: str
    begins: float
    ends: float


def clock_text(bars: Sequence[Bar]) -> str:
    """One line per bar, ordered by beginning; times are relative to the first one.

    >>> print(clock_text([Bar("rank 0", "sent", "bucket 0", 3.0, 3.5), Bar("rank 0", "backward", "piece 2", 2.9, 3.1)]))
    0.0 to 200.0 ms: rank 0, backward, piece 2
    100.0 to 600.0 ms: rank 0, sent, bucket 0
    """
    zero = min((bar.begins for bar in bars), default=0)
    ordered = sorted(bars, key=lambda bar: (bar.begins, bar.lane))
    return "\n".join(f"{_ms(bar.begins - zero)} to {_ms(bar.ends - zero)} ms: {bar.lane}, {bar.row}, {bar.name}" for bar in ordered)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


def clock_picture(bars: Sequence[Bar]) -> str:
    """Return the picture as an SVG element with its style; its label for screen readers contains the same text."""
    rows = list(dict.fromkeys(bar.row for bar in bars))
    zero, end = min((bar.begins for bar in bars), default=0), max((bar.ends for bar in bars), default=1)
    scale = (WIDTH - LEFT_EDGE - RIGHT) / ((end - zero) or 1)
    drawn, top = [], TOP
    for lane in sorted({bar.lane for bar in bars}):
        drawn.append(f'<text class="head" x="4" y="{top + 14}">{escape(lane)}</text><path d="M0 {top - 4} H{WIDTH}"/>')
        for number, row in enumerate(rows):
            drawn.append(f'<text x="{LEFT_EDGE - 10}" y="{top + 14}" text-anchor="end">{escape(row)}</text>')
            lines = _lines([bar for bar in bars if (bar.lane, bar.row) == (lane, row)])
            for line in lines:
                drawn += [_bar(bar, LEFT_EDGE + scale * (bar.begins - zero), scale, top, number) for bar in line]
                top += HIGH + 2
            top += ROW - HIGH - 2 if lines else ROW
        top += BETWEEN
    height = top + 18
    drawn.append(f'<text x="{LEFT_EDGE}" y="{height - 6}">0</text>')
    drawn.append(f'<text x="{WIDTH - RIGHT}" y="{height - 6}" text-anchor="end">{_ms(end - zero)} ms</text>')
    return labelled("clock", clock_text(bars), _STYLE, (WIDTH, height), drawn)


def _lines(bars: Sequence[Bar]) -> list[list[Bar]]:
    """The bars of a row, stacked in as few lines as possible without overlaps."""
    lines: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda bar: bar.begins):
        free = next((line for line in lines if line[-1].ends <= bar.begins), None)
        if free is None:
            lines.append([bar])
        else:
            free.append(bar)
    return lines


def _bar(bar: Bar, x: float, scale: float, top: int, row: int) -> str:
    width = max(scale * (bar.ends - bar.begins), 2)
    colour = _COLOURS[row % len(_COLOURS)]
    fits = len(bar.name) * _LETTER < width
    words = f'<text class="code" x="{x + 4:.1f}" y="{top + 14}">{escape(bar.name)}</text>' if fits else ""
    return (
        f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{HIGH}" rx="2" fill="{colour}" stroke="{colour}">'
        f"<title>{escape(bar.name)}, {_ms(bar.ends - bar.begins)} ms</title></rect>{words}"
    )
