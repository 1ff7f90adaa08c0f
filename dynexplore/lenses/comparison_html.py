"""A comparison as static HTML: the table of facts, then one expandable row per method with its graphs and differences.

The idea: a notebook displays it without scripts and without network access, and the collapsed page fits on one screen. The
`dot` program draws the diagrams if it is installed; otherwise the DOT text is shown.

In: `Compared`. Out: an HTML fragment; every text is escaped, colors follow the notebook's theme. PyTorch's counterpart: none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dynexplore.lenses import comparison_text
from dynexplore.lenses.outcome import Compared, Graph, Outcome
from dynexplore.views import html_text
from dynexplore.views.counts import plural
from dynexplore.views.html_text import escape
from dynexplore.views.packages import MissingPackage, needed

STYLE = """
.dynx .method { margin-left: 0; overflow-x: auto; }
.dynx .method > summary > span { font-weight: 400; }
.dynx .method p, .dynx .method ul { margin: 2px 0 4px 18px; padding: 0; max-width: 76ch; }
.dynx .method svg { max-width: 100%; height: auto; }
.dynx.dynx.dynx td.wrong { font-weight: 700; color: var(--jp-error-color1, #d32f2f); }
.dynx.dynx.dynx td.right { color: var(--jp-success-color0, light-dark(#1b5e20, #81c784)); }
.dynx.dynx.dynx td.failed { color: var(--jp-warn-color0, light-dark(#8a5200, #ffb74d)); }
.dynx svg .edge path { stroke: currentColor; } .dynx svg .edge polygon { stroke: currentColor; fill: currentColor; }
.dynx svg .cluster text { fill: currentColor; }
""".strip()

MOST_DRAWN = 150
"""The largest graph, in nodes, that is drawn into the page; a larger picture would be unreadable. Its DOT text is shown instead."""


def fragment(compared: Compared) -> str:
    """The whole comparison as an HTML fragment."""
    title = f"<p><b>{escape(compared.title)}</b>, captured in {len(compared.outcomes)} ways</p>"
    legend = "".join(f"<p>{words}</p>" for words in comparison_text.legend(compared))
    note = f"<p>{escape(compared.note)}</p>" if compared.note else ""
    methods = "".join(_method(outcome) for outcome in compared.outcomes)
    style = f"<style>{html_text.STYLE}\n{STYLE}</style>"
    return f'<div class="dynx">{style}{title}{_facts(compared)}{legend}{note}{methods}</div>'


def _facts(compared: Compared) -> str:
    return _table(comparison_text.header(compared), comparison_text.facts(compared))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


_MARKS = {"same": "right", "same (recaptured)": "right", "failed": "failed", "refuses": "failed"}


def _cell(words: str) -> str:
    mark = "wrong" if words.startswith("WRONG") else _MARKS.get(words)
    return f'<td class="{mark}">{escape(words)}</td>' if mark else f"<td>{escape(words)}</td>"


def _method(outcome: Outcome) -> str:
    remarks = "".join(f"<li><b>{escape(label)}</b> {escape(words)}</li>" for label, words in comparison_text.remarks(outcome))
    graphs = "".join(_graph(graph) for graph in outcome.graphs)
    about = f"<p>{escape(outcome.how)}</p><p>{escape(outcome.purpose)}</p><ul>{remarks}</ul>"
    summary = f"<summary>{escape(outcome.name)}: <span>{escape(_in_short(outcome))}</span></summary>"
    return f'<details class="method">{summary}{about}{graphs}</details>'


def _in_short(outcome: Outcome) -> str:
    """The failure in short; without one, how the method works."""
    if outcome.failed:
        return f"failed: {outcome.failure}"
    wrong = next((verdict for verdict in outcome.verdicts if verdict.outcome == "wrong"), None)
    return f"wrong on the call {wrong.call}: {wrong.words}" if wrong else outcome.how


def _graph(graph: Graph) -> str:
    header, rows = comparison_text.columns(graph)
    cut = rows[: html_text.MOST_ROWS]
    more = f"<p>... and {len(rows) - len(cut)} more rows</p>" if len(rows) > len(cut) else ""
    title = f"{graph.name}: {plural(graph.call_count, 'call')}"
    table = f"<details><summary>{escape(title)}</summary>{_table(header, cut)}{more}</details>"
    return f"{table}<details><summary>diagram</summary>{_drawing(graph)}</details>"


def _drawing(graph: Graph) -> str:
    """The diagram as SVG, or the DOT text if it cannot be drawn."""
    try:
        source, graphviz = graph.dot(), needed("graphviz", "Drawing a graph")
    except MissingPackage as missing:
        return f"<p>{escape(str(missing))}</p>"
    if len(graph.nodes) > MOST_DRAWN:
        return f"<pre>{escape(source)}</pre>"
    try:
        svg = str(graphviz.Source(source).pipe(format="svg", encoding="utf-8"))
    except (graphviz.ExecutableNotFound, graphviz.CalledProcessError):
        return f"<p>the program dot is not installed, so here is its input</p><pre>{escape(source)}</pre>"
    return _without_ids(svg[svg.index("<svg") :])


def _without_ids(svg: str) -> str:
    """Remove the ids: several diagrams on one page must not share ids, and nothing here refers to them."""
    return re.sub(r'\sid="[^"]*"', "", svg)
