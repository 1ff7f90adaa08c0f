"""A recording as static HTML: the text views as tables that a browser, GitHub or nbconvert can display.

The idea: this is the view without scripts, which a notebook shows if widgets cannot run, and a saved notebook always shows.
Sections expand by `<details>`, rows link to each other by anchors, colors follow the notebook's theme or else the system's.
Nothing is fetched, no script runs, every text is escaped.

In: a Recording. Out: `fragment(recording)` to embed in a page, `page(recording)` as a whole document. PyTorch's counterpart: the
report directories of tlparse.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Sequence

from dynexplore.engine import events as ev
from dynexplore.recording.recording import GraphView, Recording
from dynexplore.views import text
from dynexplore.views.annotated import annotated
from dynexplore.views.counts import plural
from dynexplore.views.headline import headline
from dynexplore.views.names import goes_on
from dynexplore.views.timeline import Timeline

MOST_ROWS = 2000
"""The most rows of a table, so that a browser stays fast; a note counts the rest."""

STYLE = """
.dynx { font: 13px/1.45 system-ui, sans-serif; color: var(--jp-content-font-color1, CanvasText); }
.dynx { color-scheme: light dark; }
.dynx table { border-collapse: collapse; margin: 4px 0 8px; }
.dynx.dynx.dynx th, .dynx.dynx.dynx td { text-align: left; vertical-align: top; padding: 1px 10px 1px 0;
  font: 12px/1.5 Courier, monospace; white-space: pre-wrap; border: 0; }
.dynx.dynx.dynx th { border-bottom: 1px solid var(--jp-border-color1, GrayText); }
.dynx tr:target td { background: var(--jp-warn-color3, Mark); color: CanvasText; }
.dynx pre { font: 12px/1.5 Courier, monospace; margin: 4px 0 8px; white-space: pre-wrap; }
.dynx summary { cursor: pointer; font-weight: 600; margin: 4px 0; }
.dynx summary:focus-visible, .dynx a:focus-visible { outline: 2px solid Highlight; outline-offset: 2px; }
.dynx p { margin: 2px 0; }
.dynx details { margin-left: 12px; }
.dynx .side { display: flex; flex-wrap: wrap; gap: 0 32px; }
.dynx a { color: var(--jp-content-link-color, LinkText); }
""".strip()


PAGE_STYLE = "margin: 24px auto; padding: 0 24px; max-width: 1500px; color-scheme: light dark; font-family: system-ui, sans-serif"


def page(recording: Recording, title: str = "", *, note: str = "") -> str:
    """Return the recording as one self-contained HTML document; `note` is its footer."""
    return document(title or recording.title or "recording", fragment(recording), note)


def document(title: str, body: str, note: str = "") -> str:
    """Return a fragment of HTML as one HTML document; `note` is its footer."""
    name = escape(title)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>{name}</title>"
    end = f"<footer>{escape(note)}</footer>" if note else ""
    shown = f"<main><h1>{name}</h1>{body}</main>{end}"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body style="{PAGE_STYLE}">{shown}</body></html>\n'


_fragments = itertools.count(1)


def next_prefix() -> str:
    """Return a prefix for the anchors of one more fragment on a page."""
    return f"dynx{next(_fragments)}"


def preformatted(shown: str) -> str:
    """Return plain text as HTML in the common style."""
    return f'<div class="dynx"><style>{STYLE}</style><pre>{escape(shown)}</pre></div>'


def fragment(
    recording: Recording, prefix: str = "dynx", timeline: Timeline | None = None, most: int = MOST_ROWS, picture: str = ""
) -> str:
    """Return the recording as HTML to embed in a page. Two fragments on one page need two prefixes, for anchors. `timeline` is the
    recording's, if the caller has already computed it; at most `most` rows of a frame's table are shown. `picture` is markup, and
    comes after the headline.
    """
    timeline = timeline or Timeline(recording)
    parts = [section("Explanation", f"<pre>{escape(text.explanation(recording, width=0))}</pre>", is_open=False)]
    parts.append(section("Frames", f"<pre>{escape(text.frames(recording))}</pre>", is_open=False))
    parts.append(section("Calls and cache entries", _calls(recording), is_open=False))
    for entered in recording.frames:
        parts.append(_Frame(recording, timeline, entered, prefix, most).section())
    return f'<div class="dynx"><style>{STYLE}</style>{_story(recording, picture)}{"".join(parts)}</div>'


def _story(recording: Recording, picture: str) -> str:
    """The part that is always expanded: the headline, the picture, and the annotated source."""
    summary, *more = headline(recording).lines
    lines = [f"<p><strong>{escape(summary)}</strong></p>", *(f"<p>{escape(line)}</p>" for line in more)]
    source = annotated(recording)
    return "".join(lines) + picture + (f"<pre>{escape(source)}</pre>" if source else "")


def escape(value: str) -> str:
    """Text escaped for any position in HTML, quotes included; control characters are replaced.

    >>> escape('<b title="x">&\\x00')
    '&lt;b title=&quot;x&quot;&gt;&amp;\\ufffd'
    """
    if not value.isprintable():
        value = "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in value)
    return html.escape(value)


class _Frame:
    """The section of one frame: its source, bytecode, graph, guards, breaks and steps."""

    def __init__(self, recording: Recording, timeline: Timeline, entered: ev.FrameEntered, prefix: str, most: int) -> None:
        self.most = most
        self.recording, self.timeline, self.entered = recording, timeline, entered
        self.frame = entered.frame
        self.code = recording.original_code(entered.frame)
        self.anchor = f"{prefix}-{entered.frame}"

    def section(self) -> str:
        graphs = [graph for graph in self.recording.graphs if graph.frame == self.frame]
        guards = [guard for guard in self.recording.guards if guard.frame == self.frame]
        breaks = self.recording.of_frame(self.frame, ev.GraphBroke)
        parts = [self._source()]
        parts += [f"<pre>{escape(text.break_details(self.recording, broke, width=0))}</pre>" for broke in breaks]
        parts += [self._graph(graph) for graph in graphs]
        if guards:
            parts.append(section(plural(len(guards), "guard"), self._guards(guards)))
        parts.append(section("Bytecode", self._bytecode(), is_open=False))
        parts += [self._resume_function(resume) for resume in self.recording.of_frame(self.frame, ev.ResumeFunctionCreated)]
        parts.append(section("Steps", self._steps(), is_open=False))
        title = f"Frame {self.frame}: {text.frame_place(self.recording, self.entered)}"
        return section(title, "".join(parts), is_open=False)

    def _source(self) -> str:
        code = self.code
        lines = enumerate(code.source.splitlines(), code.first_line)
        listed = "\n".join(f"{number:>5}  {line}" for number, line in lines)
        return f"<pre>{escape(listed)}</pre>" if listed else "<p>no source</p>"

    def _graph(self, graph: GraphView) -> str:
        header = ("opcode", "name", "target", "args", "kwargs", "result", "module", "offset", "line")
        rows = [
            [
                *map(escape, (node.op, node.name, node.target, node.args, node.kwargs, f"{node.dtype}{node.shape}")),
                escape(node.module),
                self._link(node),
                str(node.line or ""),
            ]
            for node in graph.nodes[: self.most]
        ]
        title = f"{graph.name}: {plural(graph.op_count, 'operator')}"
        return section(title, self._table(header, rows, left_out=len(graph.nodes) - self.most))

    def _guards(self, guards: Sequence[ev.GuardInstalled]) -> str:
        header = ("", "source", "kind", "expected", "check", "used at", "because")
        rows = [
            [
                str(guard.index),
                escape(f"{guard.scope} {guard.source}".strip()),
                *map(escape, (guard.kind, guard.expected, guard.expression)),
                self._link(guard),
                escape(guard.reason),
            ]
            for guard in guards[: self.most]
        ]
        return self._table(header, rows, left_out=len(guards) - self.most)

    def _bytecode(self) -> str:
        modified = self.recording.modified_code(self.frame)
        original = self._table(("line", "offset", "original", ""), self._rows(self.code, "i"), self._ids("i"))
        if modified is None:
            return original
        header = ("line", "offset", "modified", "", "role", "from")
        return f'<div class="side">{original}{self._table(header, self._rows(modified, "m"), self._ids("m"))}</div>'

    def _rows(self, code: ev.CodeView, kind: str) -> Iterable[Sequence[str]]:
        for row in code.rows:
            cells = [str(row.line or ""), str(row.offset), escape(row.op), escape(row.arg)]
            if kind == "m":
                origin = f'<a href="#{self.anchor}-i{row.origin}">{row.origin}</a>' if row.origin >= 0 else ""
                cells += [escape(row.role), origin]
            yield cells

    def _ids(self, kind: str) -> Iterable[str]:
        code = self.code if kind == "i" else self.recording.modified_code(self.frame)
        return [f"{self.anchor}-{kind}{row.offset}" for row in code.rows] if code else []

    def _resume_function(self, resume: ev.ResumeFunctionCreated) -> str:
        title = f"{resume.name}({', '.join(resume.parameters)}), which continues {goes_on(resume.code, resume.offset)}"
        header = ("line", "offset", "instruction", "", "role", "from")
        return section(title, self._table(header, self._rows(resume.code, "m")), is_open=False)

    def _steps(self) -> str:
        states = self.timeline.of_frame(self.frame)
        header = ("", "offset", "instruction", "stack", "changes")
        shown = ([escape(cell) for cell in text.step_row(state)] for state in states[: self.most])
        return self._table(header, shown, left_out=len(states) - self.most)

    def _table(self, header: Sequence[str], rows: Iterable[Sequence[str]], ids: Iterable[str] = (), left_out: int = 0) -> str:
        return table(header, rows, ids, left_out, self.most)

    def _link(self, event: ev.InstructionEvent) -> str:
        """The offset of an event, linked to its instruction if that is in the frame's own code."""
        if event.offset < 0:
            return ""
        if event.inline:
            code = self.recording.code_of(event)
            return escape(f"{event.offset} in {code.qualname}" if code else str(event.offset))
        return f'<a href="#{self.anchor}-i{event.offset}">{event.offset}</a>'


def section(title: str, body: str, *, is_open: bool = True) -> str:
    """Return a collapsible section with a title."""
    return f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>{body}</details>"


def _calls(recording: Recording) -> str:
    return table(text.CALLS_HEADER, [[escape(cell) for cell in row] for row in text.call_rows(recording)])


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], ids: Iterable[str] = (), left_out: int = 0, most: int = MOST_ROWS
) -> str:
    """Return a table whose cells are HTML already, with at most `most` rows; `ids` are the anchors of its rows, `left_out` is the
    number of rows that the caller already omitted.
    """
    all_rows = list(rows)
    anchors = list(ids)
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    lines = []
    for number, row in enumerate(all_rows[:most]):
        anchor = f' id="{escape(anchors[number])}"' if number < len(anchors) else ""
        lines.append(f"<tr{anchor}>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>")
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    left_out = max(left_out, len(all_rows) - most)
    return f"{whole}<p>... and {left_out} more rows</p>" if left_out > 0 else whole
