"""Calls against cache entries, as a picture: who served each call, and which guard said no to it.

Which idea lives here: compiled code is kept in entries, and an entry serves the calls that its guards let through. So a row is
a call, a column an entry, and where they meet stands what came of it: the entry *serves*, it says *no* and why, or it was *made*
for this call. Read downwards, a column is the life of an entry; read across, a row is one question asked of each of them.

In:  a recording.
Out: `rows(recording)`, the calls in order; `calls_picture(recording)`, one SVG; `calls_text(recording)`, the same in words.

PyTorch's counterpart: TORCH_LOGS="recompiles", which logs a line for each miss.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from dynexplore.recording.recording import Recording
from dynexplore.views.cache_timeline import FrameCall, calls
from dynexplore.views.changes import as_the_program_says, change
from dynexplore.views.html_text import escape
from dynexplore.views.svg import labelled

HEAD, COLUMN, ROW, TOP = 178, 184, 76, 26
"""The width of a row's head and of an entry's column, the height of a row, and that of the columns' heads."""

_LETTERS, _LINES = 24, 3
"""How many letters fit into a line of a box, and how many lines below its first."""

_STYLE = (
    "svg.calls { max-width: 100%; height: auto; font: 12px system-ui, sans-serif } .calls text { fill: currentColor }"
    " .calls .code { font-family: monospace; font-size: 11px } .calls .head { font-weight: 600 }"
    " .calls rect { stroke-width: 1.5 } .calls .serves { fill: #1a7f3722; stroke: #1a7f37 }"
    " .calls .made { fill: #0b63c522; stroke: #0b63c5 }"
    " .calls .no { fill: #d1242f18; stroke: #d1242f; stroke-dasharray: 4 3 }"
    " .calls path { stroke: #8886; stroke-width: 1 }"
)


@dataclass(frozen=True)
class Answer:
    """What an entry had to do with a call. `kind` is "serves", "no" or "made"; `why` says which guard refused, in words."""

    entry: int
    kind: str
    why: str = ""


@dataclass(frozen=True)
class Row:
    """One call, or one more frame of it: what it was called with, what came of it, and the answers of entries."""

    title: str
    detail: str
    answers: tuple[Answer, ...]


def rows(recording: Recording, latest: int | None = None) -> list[Row]:
    """The calls in order, a row for each frame; of `latest` calls only, if it is given."""
    picture_rows: list[Row] = []
    every = calls(recording)
    for call in every if latest is None else every[-latest:]:
        for number, frame in enumerate(call.frames):
            detail = frame.function if number else call.arguments
            picture_rows.append(Row(f"call {call.number}: {frame.outcome}", detail, _answers(recording, frame)))
    return picture_rows


def _answers(recording: Recording, frame: FrameCall) -> tuple[Answer, ...]:
    refused = [Answer(entry, "no", str(change(as_the_program_says(recording, failed)))) for entry, failed in frame.missed.items()]
    if frame.entry >= 0:
        refused.append(Answer(frame.entry, "serves" if frame.outcome == "hit" else "made"))
    return tuple(refused)


def calls_text(recording: Recording, latest: int | None = None) -> str:
    """The picture in words, a line for each call and for each answer."""
    lines = []
    for row in rows(recording, latest):
        lines.append(f"{row.title} ({row.detail})")
        lines += [f"  entry {answer.entry} {_verb(answer)}" for answer in row.answers]
    return "\n".join(lines)


def _verb(answer: Answer) -> str:
    words = {"serves": "serves", "no": "says no", "made": "is made"}[answer.kind]
    return f"{words}: {answer.why}" if answer.why else words


def calls_picture(recording: Recording, latest: int | None = None) -> str:
    """Return the picture as an SVG element with its style; for those who do not see it, its label says the same in words."""
    shown = rows(recording, latest)
    entries = sorted({answer.entry for row in shown for answer in row.answers})
    width, height = HEAD + COLUMN * len(entries), TOP + ROW * len(shown)
    drawn = [_column_head(place, entry) for place, entry in enumerate(entries)]
    drawn += [_row(row, number, entries, width) for number, row in enumerate(shown)]
    return labelled("calls", calls_text(recording, latest), _STYLE, (width, height), drawn)


def _column_head(place: int, entry: int) -> str:
    return f'<text class="head" x="{HEAD + COLUMN * place + 10}" y="17">entry {entry}</text>'


def _row(row: Row, number: int, entries: Sequence[int], width: int) -> str:
    top = TOP + ROW * number
    head = (
        f'<path d="M0 {top} H{width}"/><text class="head" x="4" y="{top + 20}">{escape(row.title)}</text>'
        f"{_lines(row.detail, 4, top + 37)}"
    )
    return head + "".join(_answer(answer, HEAD + COLUMN * entries.index(answer.entry), top) for answer in row.answers)


def _answer(answer: Answer, x: int, top: int) -> str:
    words = {"serves": "serves", "no": "no", "made": "made for this call"}[answer.kind]
    return (
        f'<rect class="{answer.kind}" x="{x + 3}" y="{top + 5}" width="{COLUMN - 8}" height="{ROW - 10}" rx="5"/>'
        f'<text class="head" x="{x + 10}" y="{top + 20}">{words}</text>'
        f"{_lines(answer.why.replace('`', ''), x + 10, top + 35)}"
    )


def _lines(text: str, x: int, top: int) -> str:
    """The text in as many lines as there is room for; what does not fit ends in an ellipsis."""
    lines = textwrap.wrap(text, _LETTERS, max_lines=_LINES, placeholder="…")
    return "".join(f'<text class="code" x="{x}" y="{top + 15 * number}">{escape(line)}</text>' for number, line in enumerate(lines))
