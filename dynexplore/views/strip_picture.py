"""A picture of what a run became: graphs, graph breaks, recompiles and cache hits, in the order in which they happened.

The idea: one glance at a recording. A box is a graph with its number and its operators; a diamond is a graph break, an arrow that
turns a recompile, a dot a call that was served from the cache. Below stand the lines that broke. The signs are those of the
explorer. It is what a saved notebook shows, and a link to an explorer: a few kilobytes, drawn without a browser.

In: a recording. Out: `strip_picture(recording)`, an SVG; `strip_text(recording)`, the same as text. PyTorch's counterpart: none.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.break_places import own_line
from dynexplore.views.counts import plural
from dynexplore.views.headline import cause_of
from dynexplore.views.html_text import escape
from dynexplore.views.svg import labelled

WIDTH, GRAPH, SIGN, ROW = 620, 96, 30, 52
_ROWS, _REASONS, _LETTERS = 3, 3, 84
"""The picture's width, that of a graph and of a sign, the distance of rows; the most rows, reasons, and characters of a line."""

_STYLE = (
    "svg.strip { max-width: 100%; height: auto; font: 13px system-ui, sans-serif } .strip text { fill: currentColor }"
    " .strip .head { font-weight: 600 } .strip rect { fill: #0b63c522; stroke: #0b63c5; stroke-width: 1.5 }"
    " .strip .failed { fill: #d1242f18; stroke: #d1242f } .strip .broke { fill: #d1242f }"
    " .strip .again { fill: #9a6700; font-size: 17px } .strip .hit { fill: #0b63c5 } .strip .hit tspan { fill: currentColor }"
)


@dataclass(frozen=True)
class Sign:
    """One thing that happened: a "graph" or a backend that "failed", "broke", "again" (a recompile) or "hit"; `count` is the number
    of a graph, and of hits one after the other.
    """

    kind: str
    count: int = 0
    detail: str = ""


def signs(recording: Recording) -> list[Sign]:
    """What happened, in order; cache hits that follow each other are one sign."""
    result: list[Sign] = []
    for sign in _in_order(recording):
        if sign.kind == "hit" and result and result[-1].kind == "hit":
            sign = Sign("hit", result.pop().count + 1)
        result.append(sign)
    return result


def _in_order(recording: Recording) -> Iterator[Sign]:
    number = 0
    broken: list[int] = []  # the frames that broke: the graph before a break is compiled later
    sizes = {graph.name: graph.op_count for graph in recording.graphs}
    for _, event in recording.besides_steps:
        if isinstance(event, ev.SubgraphCompiled) and event.graph in sizes:
            number += 1
            yield Sign("graph", number, plural(sizes[event.graph], "operator"))
        elif isinstance(event, ev.BackendFailed):
            yield Sign("failed", 0, "backend failed")
        elif isinstance(event, ev.GraphBroke):
            broken.append(event.frame)
        elif isinstance(event, ev.FrameFinished):
            yield from [Sign("broke")] * broken.count(event.frame)
            broken = [frame for frame in broken if frame != event.frame]
        elif isinstance(event, ev.Recompiled):
            yield Sign("again")
        elif isinstance(event, ev.CacheHit):
            yield Sign("hit", 1)
    yield from [Sign("broke")] * len(broken)


def reasons(recording: Recording) -> list[str]:
    """Where and why the graph broke, each line once."""
    result: dict[str, int] = {}
    for broke in recording.breaks:
        place = own_line(broke, recording)
        reason = f"{f'line {place.line}: ' if place else ''}{cause_of(broke)}"
        result[reason] = result.get(reason, 0) + 1
    return [reason + (f" ({count} times)" if count > 1 else "") for reason, count in result.items()]


_SIGNS = {"broke": ("◆", "graph break"), "again": ("↻", "recompile"), "hit": ("●", "cache hit")}


def strip_text(recording: Recording) -> str:
    """The picture as text: what happened in one line, the lines that broke below."""
    words = [
        f"graph {sign.count} ({sign.detail})"
        if sign.kind == "graph"
        else plural(sign.count, "cache hit")
        if sign.kind == "hit"
        else _SIGNS.get(sign.kind, ("✕", sign.detail))[1]
        for sign in signs(recording)
    ]
    return "\n".join([", ".join(words) or "nothing was captured", *reasons(recording)])


def strip_picture(recording: Recording, *, width: int = WIDTH, brief: bool = False) -> str:
    """Return the picture as an SVG element with its style; its label for screen readers contains the same text. `brief` omits the
    lines that broke.
    """
    boxes, rows, left_out = _layout(signs(recording), width)
    drawn = [_drawn(sign, x, ROW * row + 4) for sign, x, row in boxes]
    why = [] if brief else reasons(recording)
    lines = [f"... and {left_out} more"] if left_out else []
    shown = {sign.kind for sign, *_ in boxes}
    lines.append("    ".join(f"{letter} {words}" for kind, (letter, words) in _SIGNS.items() if kind in shown))
    lines += [part for reason in why[:_REASONS] for part in textwrap.wrap(reason.replace("`", ""), _LETTERS)]
    if len(why) > _REASONS:
        lines.append(f"... and {plural(len(why) - _REASONS, 'more line')}")
    lines = [line for line in lines if line]
    top = ROW * rows + 18
    drawn += [
        f'<text xml:space="preserve" x="4" y="{top + 19 * at}">{escape(line)}</text>' for at, line in enumerate(lines)
    ]
    return labelled("strip", strip_text(recording), _STYLE, (width, top + 19 * len(lines) - 6), drawn)


def _layout(shown: Sequence[Sign], limit: int) -> tuple[list[tuple[Sign, int, int]], int, int]:
    """Each sign with its x and its row, the number of rows, and of the signs that have no place."""
    boxes: list[tuple[Sign, int, int]] = []
    x, row = 4, 0
    for at, sign in enumerate(shown):
        width = GRAPH if sign.kind in ("graph", "failed") else SIGN
        if x + width > limit - 4:
            x, row = 4, row + 1
        if row == _ROWS:
            return boxes, row, len(shown) - at
        boxes.append((sign, x, row))
        x += width + 6
    return boxes, row + 1 if boxes else 0, 0


def _drawn(sign: Sign, x: int, top: int) -> str:
    if sign.kind in ("graph", "failed"):
        title = f"graph {sign.count}" if sign.kind == "graph" else "✕"
        return (
            f'<rect class="{sign.kind}" x="{x}" y="{top}" width="{GRAPH}" height="40" rx="5"/>'
            f'<text class="head" x="{x + 8}" y="{top + 17}">{title}</text><text x="{x + 8}" y="{top + 33}">{sign.detail}</text>'
        )
    count = f'<tspan> {sign.count}</tspan>' if sign.count > 1 else ""
    middle = f'x="{x + SIGN // 2}" y="{top + 25}" text-anchor="middle"'
    return f'<text class="{sign.kind}" {middle}>{_SIGNS[sign.kind][0]}{count}</text>'
