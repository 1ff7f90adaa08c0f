"""Records as text and HTML tables: the display of `recording.breaks`, `recording.graphs[0]` and the like.

The idea: each kind of record has a few relevant columns; several records are a table of these columns, one record is a list
with a line per column. A kind without such columns is shown field by field. A graph is drawn.

In: the result of a query to a recording (recording/shown.py). Out: `words(shown)`, plain text; `picture(shown)`, HTML.
PyTorch's counterpart: none.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.attempts import AttemptView
from dynexplore.recording.real_values import RealStep
from dynexplore.recording.recording import GraphView, Recording
from dynexplore.recording.shown import Printed, Shown
from dynexplore.views import html_report, text
from dynexplore.views.break_places import place_words
from dynexplore.views.counts import plural
from dynexplore.views.html_text import MOST_ROWS
from dynexplore.views.svg import svg

Columns = tuple[tuple[str, ...], Callable[[Any, Recording | None], tuple[str, ...]]]
"""The names of the columns, and the cells of one record; the recording is passed if several are shown."""

MOST_LINES = 60
"""The most rows of a table that are printed."""


def terminal_width() -> int:
    """The width of the terminal in characters; 0 if stdout is not a terminal, and text is not wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else 0


def words(shown: Any) -> str:
    """The plain text of a query result."""
    if isinstance(shown, Shown):
        return _table_text(shown)
    if isinstance(shown, GraphView):
        return text.graph(shown)
    if isinstance(shown, RealStep):
        return "\n".join([_step_line(shown.step), text.table(_REAL, _real_rows(shown), terminal_width())])
    header, cells = _columns(shown)
    width = max(map(len, header))
    return "\n".join([_kind(shown), *(f"  {name:<{width}}  {cell}" for name, cell in zip(header, cells, strict=True) if cell)])


def picture(shown: Any) -> str:
    """The same as HTML: a table, preceded for a graph by a drawing."""
    if isinstance(shown, Shown):
        header, rows = _table(shown, MOST_ROWS + 1)
        title = plural(len(shown), shown.noun) if shown else f"no {shown.noun}s"
        return html_report.report(html_report.rows(header, rows, title) if shown else html_report.line(title))
    if isinstance(shown, GraphView):
        title, *_ = text.graph(shown).splitlines()
        return html_report.report(html_report.line(title), html_report.drawing(svg([shown], note=title)))
    if isinstance(shown, RealStep):
        return html_report.report(html_report.rows(_REAL, _real_rows(shown), _step_line(shown.step)))
    if isinstance(shown, Printed):
        return html_report.report(html_report.code(str(shown)))
    header, cells = _columns(shown)
    return html_report.report(html_report.rows(("", ""), [row for row in zip(header, cells, strict=True) if row[1]], _kind(shown)))


# -- several records ---------------------------------------------------------------------------------------------------


def _table_text(shown: Shown[Any]) -> str:
    if not shown:
        return f"no {shown.noun}s"
    header, rows = _table(shown, MOST_LINES)
    more = len(shown) - len(rows)
    return text.table(header, rows, terminal_width()) + (f"\n... and {more} more" if more else "")


def _table(shown: Shown[Any], most: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The columns, preceded by the index of each record in the tuple."""
    if not shown:
        return (), []
    header, row = COLUMNS.get(type(shown[0]), (("",), lambda item, _: (str(item),)))
    return ("", *header), [(f"[{at}]", *row(item, shown.recording)) for at, item in enumerate(shown[:most])]


def _place(file: str, line: int) -> str:
    return f"{PurePath(file).name}:{line}" if file else ""


def _instruction(step: ev.InstructionStepped) -> str:
    return f"{step.op} {step.arg}".strip()


def _guard(guard: ev.GuardInstalled, _: Recording | None) -> tuple[str, ...]:
    return str(guard.frame), " ".join(filter(None, (guard.scope, guard.source))), guard.kind, guard.expected, guard.reason


COLUMNS: dict[type, Columns] = {
    ev.FrameEntered: (
        ("frame", "function", "defined at"),
        lambda item, _: (str(item.frame), item.code.qualname, _place(item.code.file, item.code.first_line)),
    ),
    ev.InstructionStepped: (
        ("frame", "instruction", "stack after it"),
        lambda item, _: (str(item.frame), _instruction(item), ", ".join(view.node or view.text for view in item.stack)),
    ),
    GraphView: (
        ("graph", "frame", "operators", "nodes"),
        lambda item, _: (item.name, str(item.frame), str(item.op_count), ev.clip(", ".join(node.name for node in item.nodes), 70)),
    ),
    ev.GuardInstalled: (("frame", "source", "kind", "expected", "because"), _guard),
    ev.GraphBroke: (
        ("kind", "where", "why it breaks", "what to do"),
        lambda item, recording: (item.kind, place_words(item, recording), item.reason, item.fix),
    ),
    ev.ResumeFunctionCreated: (
        ("frame", "function", "resumes at", "takes"),
        lambda item, _: (str(item.frame), item.name, f"offset {item.offset}", ", ".join(item.parameters)),
    ),
    ev.DivergenceDetected: (("frame", "what differs"), lambda item, _: (str(item.frame), item.sentence)),
    AttemptView: (
        ("attempt", "outcome", "why", "nodes", "graph breaks"),
        lambda item, _: (str(item.number), item.outcome, item.reason, str(len(item.nodes)), str(len(item.breaks))),
    ),
}
"""Kind of record -> its columns."""


# -- one record --------------------------------------------------------------------------------------------------------

_REAL = ("", "symbolic", "real")


def _step_line(step: ev.InstructionStepped) -> str:
    return f"{_instruction(step)} (frame {step.frame})"


def _real_rows(shown: RealStep) -> list[tuple[str, ...]]:
    """The stack, its top first, and the locals."""
    slots = enumerate(zip(shown.step.stack, shown.stack, strict=True))
    stack = [(f"stack {at}", view.text, str(real)) for at, (view, real) in slots]
    return [*reversed(stack), *((name, "", str(real)) for name, real in shown.locals.items())]


def _columns(shown: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of a record, or its fields."""
    if type(shown) in COLUMNS:
        header, row = COLUMNS[type(shown)]
        return header, row(shown, None)
    names = tuple(field.name for field in dataclasses.fields(shown))
    return names, tuple(_cell(getattr(shown, name)) for name in names)


def _cell(value: Any) -> str:
    if isinstance(value, ev.CodeView):
        return f"{value.qualname} ({_place(value.file, value.first_line)})"
    if isinstance(value, ev.ValueView):
        return value.text
    if isinstance(value, tuple):
        return ", ".join(map(_cell, value))
    return ev.clip(str(value))


def _kind(shown: Any) -> str:
    """The class name as words: `graph broke`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(shown).__name__).lower()
