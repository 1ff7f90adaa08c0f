"""A picture of calls against cache entries: which entry each call hit, and which guard of the others failed.

The idea: compiled code is stored in cache entries, and an entry is reused for the calls for which its guards pass. A row is a call,
a column an entry, and a cell the outcome: a *hit*, a *guard failed* (with the reason), or *compiled* for this call.
A column is the history of an entry, a row is one cache lookup.

In: a recording. Out: `rows(recording)`, the calls in order; `calls_picture(recording)`, an SVG; `calls_text(recording)`, the
same as text. PyTorch's counterpart: TORCH_LOGS="recompiles", which logs a line per miss.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from dynexplore.recording.recording import Recording
from dynexplore.views.cache_timeline import FrameCall, calls, names_of_frames
from dynexplore.views.changes import as_the_program_says, change
from dynexplore.views.html_text import escape
from dynexplore.views.svg import labelled

HEAD, COLUMN, ROW, TOP = 178, 184, 76, 26
"""The width of a row header and of an entry's column, the height of a row, and that of the column headers."""

_LETTERS, _LINES = 24, 3
"""The most characters per line, and lines below the first in a box."""

_STYLE = (
    "svg.calls { max-width: 100%; height: auto; font: 12px system-ui, sans-serif } .calls text { fill: currentColor }"
    " .calls .code { font-family: monospace; font-size: 11px } .calls .head { font-weight: 600 }"
    " .calls rect { stroke-width: 1.5 } .calls .hit { fill: #1a7f3722; stroke: #1a7f37 }"
    " .calls .compiled { fill: #0b63c522; stroke: #0b63c5 }"
    " .calls .miss { fill: #d1242f18; stroke: #d1242f; stroke-dasharray: 4 3 }"
    " .calls path { stroke: #8886; stroke-width: 1 }"
)


_WORDS = {"hit": "cache hit", "miss": "guard failed", "compiled": "compiled"}
"""The outcomes of an entry for a call, in words."""


@dataclass(frozen=True)
class Answer:
    """The outcome of an entry for a call. `kind` is a key of `_WORDS`; `why` describes the guard that failed."""

    entry: int
    kind: str
    why: str = ""


@dataclass(frozen=True)
class Row:
    """One call, or one more frame of it: its arguments, its outcome, and the outcomes of entries."""

    title: str
    detail: str
    answers: tuple[Answer, ...]


def rows(recording: Recording, latest: int | None = None) -> list[Row]:
    """The calls in order, one row per frame; if `latest` is given, only so many of the last calls."""
    picture_rows: list[Row] = []
    every, names = calls(recording), names_of_frames(recording)
    for call in every if latest is None else every[-latest:]:
        for number, frame in enumerate(call.frames):
            detail = names.get(frame.frame, frame.function) if number else call.arguments
            picture_rows.append(Row(f"call {call.number}: {frame.outcome}", detail, _answers(recording, frame)))
    return picture_rows


def _answers(recording: Recording, frame: FrameCall) -> tuple[Answer, ...]:
    answers = [Answer(entry, "miss", str(change(as_the_program_says(recording, failed)))) for entry, failed in frame.missed.items()]
    if frame.entry >= 0:
        answers.append(Answer(frame.entry, "hit" if frame.outcome == "hit" else "compiled"))
    return tuple(answers)


def calls_text(recording: Recording, latest: int | None = None) -> str:
    """The picture as text: a line per call and per outcome of an entry."""
    lines = []
    for row in rows(recording, latest):
        lines.append(f"{row.title} ({row.detail})")
        lines += [f"  entry {answer.entry}: {_outcome(answer)}" for answer in row.answers]
    return "\n".join(lines)


def _outcome(answer: Answer) -> str:
    return f"{_WORDS[answer.kind]}: {answer.why}" if answer.why else _WORDS[answer.kind]


def calls_picture(recording: Recording, latest: int | None = None) -> str:
    """Return the picture as an SVG element with its style; its label for screen readers contains the same text."""
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
    return (
        f'<rect class="{answer.kind}" x="{x + 3}" y="{top + 5}" width="{COLUMN - 8}" height="{ROW - 10}" rx="5"/>'
        f'<text class="head" x="{x + 10}" y="{top + 20}">{_WORDS[answer.kind]}</text>'
        f"{_lines(answer.why.replace('`', ''), x + 10, top + 35)}"
    )


def _lines(text: str, x: int, top: int) -> str:
    """The text broken into the available lines; longer text ends in an ellipsis."""
    lines = textwrap.wrap(text, _LETTERS, max_lines=_LINES, placeholder="…")
    return "".join(f'<text class="code" x="{x}" y="{top + 15 * number}">{escape(line)}</text>' for number, line in enumerate(lines))
