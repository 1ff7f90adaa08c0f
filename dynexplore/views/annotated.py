"""Annotated source: the graphs that contain each line of the program, and where and why a graph breaks.

The idea: people think in terms of their source. A line belongs to a graph if one of its nodes came from an instruction there,
or from an inlined call there: the line `y = self.norm(x)` is in the graph that contains the operators of `norm`. Graphs are
numbered from 1 in compilation order. A break is shown at the line that broke, with cause and remedy, and at the lines that
called it, without them.

In: a Recording. Out: `Annotations(recording)`, queried per code object; `annotated(recording)`, the functions as text.
PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.headline import cause_in_the_program, remedy_of
from dynexplore.views.names import is_entry, is_library, plain_name, user_codes
from dynexplore.views.timeline import line_of

MOST_LINES = 200
"""The most lines of a function that are shown in a text."""

MOST_FUNCTIONS = 8
"""The most functions that are shown in a text."""

Line = tuple[int, int]
"""The id of a code object, and a line number."""


@dataclass(frozen=True, slots=True)
class BreakMark:
    """A graph break at a line: the position of its event, cause and remedy; `begin` and `end` are the columns of the expression
    that broke (-1: unknown).
    """

    position: int
    cause: str
    remedy: str
    begin: int = -1
    end: int = -1


class Annotations:
    """The marks of each line of each code object. `graphs` and `breaks` are indexed by (code id, line)."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.graphs: dict[Line, list[int]] = {}
        self.breaks: dict[Line, list[BreakMark]] = {}
        self._entered = {(e.frame, e.attempt, e.callee): e for e in recording.of(ev.InlineEntered)}
        self._lines: dict[int, dict[int, int]] = {}
        self._by_file: dict[str, list[ev.CodeView]] = {}
        for code in recording.codes.values():
            self._by_file.setdefault(code.file, []).append(code)
        for number, graph in enumerate(recording.graphs, 1):
            for node in graph.nodes:
                if node.op.startswith("call_"):
                    for line in self._places(node):
                        _once(self.graphs.setdefault(line, []), number)
        for position, event in recording.besides_steps:
            if isinstance(event, ev.GraphBroke):
                self._note_break(position, event)

    def of_code(self, code: ev.CodeView) -> dict[int, tuple[list[int], list[BreakMark]]]:
        """Line -> the numbers of the graphs that contain it, and the breaks there; lines without either are omitted.

        The source of a function, or of a cell, contains the functions defined in it: their lines are marked there as well.
        """
        marks: dict[int, tuple[list[int], list[BreakMark]]] = {}
        for view in (code, *self._defined_in(code)):
            for line in range(view.first_line, view.first_line + view.source.count("\n") + 1):
                graphs, breaks = self.graphs.get((view.id, line), []), self.breaks.get((view.id, line), [])
                if graphs or breaks:
                    before = marks.get(line, ([], []))
                    causes = {mark.cause for mark in before[1]}
                    new = [mark for mark in breaks if mark.cause not in causes]
                    marks[line] = sorted({*before[0], *graphs}), [*before[1], *new]
        return marks

    def _defined_in(self, code: ev.CodeView) -> Iterator[ev.CodeView]:
        """The functions whose source is part of this one's, compared by file, lines and text, because file names are not unique."""
        lines = [line.strip() for line in code.source.splitlines()]
        for other in self._by_file.get(code.file, ()):
            at = other.first_line - code.first_line
            if 0 <= at < len(lines) and 0 < len(other.source) < len(code.source):
                own = [line.strip() for line in other.source.splitlines()]
                if lines[at : at + len(own)] == own:
                    yield other

    def _places(self, event: ev.InstructionEvent) -> Iterator[Line]:
        """The line of an event, and those of the calls that lead to it."""
        at: ev.InstructionEvent | None = event
        while at is not None:
            caller = self._entered.get((at.frame, at.attempt, at.inline)) if at.inline else None
            code = caller.code if caller else self._code_of_frame(at.frame)
            line = (self._line(code, at.offset) if at.offset >= 0 else line_of(at, code)) if code else 0
            if code and line:
                yield code.id, line
            at = caller

    def _places_in_chain(self, broke: ev.GraphBroke) -> Iterator[tuple[int, int]]:
        """The lines of a break that ends one graph for a frame and its callees."""
        called = [event.code for event in self.recording.of_frame(broke.frame, ev.InlineEntered)]
        own = self._code_of_frame(broke.frame)
        for frame in reversed(broke.user_stack):
            codes = ([own] if own is not None else []) + called
            code = next((code for code in codes if (code.file, code.qualname) == (frame.file, frame.function)), None)
            if code is not None:
                yield code.id, frame.line

    def _code_of_frame(self, frame: int) -> ev.CodeView | None:
        return self.recording.original_code(frame) if self.recording.of_frame(frame, ev.FrameEntered) else None

    def _line(self, code: ev.CodeView, offset: int) -> int:
        if code.id not in self._lines:
            self._lines[code.id] = {row.offset: row.line for row in code.rows}
        return self._lines[code.id].get(offset, 0)

    def _note_break(self, position: int, broke: ev.GraphBroke) -> None:
        """Mark the line that broke, in whichever function it is, and the line of this frame that leads there."""
        at = broke.user_stack[-1] if broke.user_stack else None
        begin, end = _letters(at) if at else (-1, -1)
        full = BreakMark(position, cause_in_the_program(broke, at.code if at else ""), remedy_of(broke), begin, end)
        for code, line in self._places_in_chain(broke) if broke.nested else self._places(broke):
            marks = self.breaks.setdefault((code, line), [])
            mark = full
            if at is not None and line != at.line and not is_library(at.file):  # a line of a library is not shown itself
                cause = f"{plain_name(at.function)} breaks the graph at line {at.line}"
                mark = BreakMark(position, cause, "")
            if all(other.cause != mark.cause for other in marks):
                marks.append(mark)


def _once(numbers: list[int], number: int) -> None:
    if number not in numbers:
        numbers.append(number)


def _letters(frame: ev.UserFrame) -> tuple[int, int]:
    if frame.column < 0 or frame.end_column <= frame.column:
        return -1, -1
    return ev.letters(frame.code, frame.column), ev.letters(frame.code, frame.end_column)


# -- as text -----------------------------------------------------------------------------------------------------------


def annotated(recording: Recording) -> str:
    """The user's functions with line numbers, the number of the graph that contains each line, `!` and the cause at breaks."""
    annotations = Annotations(recording)
    shown = [code for code in user_codes(recording) if code.source and not is_entry(code)]
    marked = [code for code in shown if annotations.of_code(code)] or shown[:1]
    parts = [_function(code, annotations) for code in _outermost(marked)[:MOST_FUNCTIONS]]
    if len(marked) > MOST_FUNCTIONS:
        parts.append(f"... and {len(marked) - MOST_FUNCTIONS} more functions")
    return "\n\n".join(parts)


def _outermost(codes: list[ev.CodeView]) -> list[ev.CodeView]:
    """The code objects whose source is not contained in that of another one."""

    def lines(code: ev.CodeView) -> tuple[int, int]:
        return code.first_line, code.first_line + len(code.source.splitlines()) - 1

    def within(code: ev.CodeView, other: ev.CodeView) -> bool:
        (begin, end), (outer, last) = lines(code), lines(other)
        return code.file == other.file and code is not other and outer <= begin and end <= last and (outer, last) != (begin, end)

    return [code for code in codes if not any(within(code, other) for other in codes)]


def _function(code: ev.CodeView, annotations: Annotations) -> str:
    marks = annotations.of_code(code)
    lines = [f"{plain_name(code.qualname)}, {code.file} line {code.first_line}"]
    source = code.source.splitlines()
    for number, text in enumerate(source[:MOST_LINES], code.first_line):
        graphs, breaks = marks.get(number, ([], []))
        sign = "!" if breaks else str(graphs[0]) + ("+" if len(graphs) > 1 else "") if graphs else ""
        lines.append(f"{number:>5} {sign:<2}  {text}".rstrip())
        lines += [line for mark in breaks for line in _note(mark)]
    if len(source) > MOST_LINES:
        lines.append(f"          ... and {len(source) - MOST_LINES} more lines")
    return "\n".join(lines)


def _note(mark: BreakMark) -> Iterator[str]:
    """The lines below a source line: a marker at the broken expression, the cause, the remedy."""
    indent = " " * 10
    if 0 <= mark.begin < mark.end:
        yield indent + " " * mark.begin + "^" * (mark.end - mark.begin)
    yield f"{indent}! graph break: {mark.cause}"
    if mark.remedy:
        yield f"{indent}  {mark.remedy}"
