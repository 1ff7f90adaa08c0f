"""A recording as one HTML file: opens offline from the disk, is stepped there, and says what it holds.

Which idea lives here: what leaves the notebook is a file that needs nothing else, and whoever passes it on must know
what is in it. It is the same explorer as in the notebook (static/explorer/), with its data beside it, compressed: the browser
unpacks it. Without scripts the text report is there instead. The page forbids itself to fetch anything.

In:  a Recording.
Out: the text of the file.

PyTorch's counterpart: the report folders of tlparse.
"""

from __future__ import annotations

import json
import re

from dynexplore.recording.recording import Recording
from dynexplore.recording.recording import redacted as without_private_things
from dynexplore.views import html_text, svg, text
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.groups import grouped, start_closed
from dynexplore.views.packing import compressed
from dynexplore.widgets import assets
from dynexplore.widgets.colours import coloured

_POLICY = "default-src 'none'; script-src 'unsafe-inline'{more}; style-src 'unsafe-inline'"

_WITH_GRAPHVIZ = " 'wasm-unsafe-eval' blob:"
"""What a page may do besides when it holds graphviz: compile WebAssembly, and import the module that the page itself made."""

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

_BESIDES = re.compile(r"<!--.*?-->\n?|<title>.*?</title>\n?|(?<=<text) xml:space=\"preserve\"", re.DOTALL)
"""What of a drawing the explorer does not use."""

MOST_STATIC = 40_000
"""So many letters of the report stand in the page for those who run no scripts."""

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 8px auto; padding: 0 16px; max-width: 1800px; font-family: system-ui, sans-serif; }}
h1 {{ position: absolute; clip-path: inset(50%); }} /* the headline says it, for those who see it */
.dynexplore {{ --dynx-height: max(600px, calc(100vh - 60px)); --dynx-tab-height: max(160px, 22vh); }}
footer {{ font-size: 12px; margin: 8px; }}
{style}</style></head>
<body><main><h1>{title}</h1>
<div id="explorer"></div>
<noscript>{static}</noscript></main>
<footer>{note}</footer>
{graphviz}<script type="text/plain" id="recording">{data}</script>
<script type="module">
{script}
// by this name a person can ask in the browser's console: dynexplore.links.related("node:1:add")
const recording = await read(document.getElementById("recording").textContent);
globalThis.dynexplore = mount(document.getElementById("explorer"), recording, null, true);
dynexplore?.root.focus({{ preventScroll: true }});
</script></body></html>
"""


def page(recording: Recording, title: str = "", *, redact: bool = False, graphviz: bool = False) -> str:
    """Return the recording as one HTML document.

    `redact` leaves out tensor elements, string constants and paths. `graphviz` puts the program that draws diagrams into it
    (0.8 MB), so that groups of a diagram open and close there; without it the page holds one drawing of each graph.
    """
    shown = without_private_things(recording) if redact else recording
    data = explorer_data(shown)
    if not graphviz:
        data["diagrams"] = diagrams(shown)
    return _PAGE.format(
        policy=_POLICY.format(more=_WITH_GRAPHVIZ if graphviz else ""),
        title=html_text.escape(title or shown.title or "recording"),
        style=assets.STYLE,
        static=html_text.preformatted(_beginning(text.report(shown))),
        note=html_text.escape(shown.holds),
        graphviz=f'<script type="application/json" id="graphviz">{in_script(assets.graphviz())}</script>\n' if graphviz else "",
        data=compressed(coloured(data)),
        script=assets.SCRIPT,
    )


def _beginning(report: str) -> str:
    """As much of a report as somebody without scripts would read: that of a large model has thousands of lines."""
    if len(report) <= MOST_STATIC:
        return report
    kept = report[: report.rindex("\n", 0, MOST_STATIC)]
    return f"{kept}\n... and {report[len(kept) :].count(chr(10))} more lines: scripts show all of it."


def diagrams(recording: Recording) -> dict[int, list[str]]:
    """For each frame a drawing of each of its graphs, with as many groups closed as it takes to fit."""
    drawn: dict[int, list[str]] = {entered.frame: [] for entered in recording.frames}
    wanted = [(graph, start_closed(grouped(graph.nodes))) for graph in recording.graphs]
    for (graph, _), drawing in zip(wanted, svg.drawings(wanted), strict=True):
        size = f'width="{drawing.width:g}" height="{drawing.height:g}"'
        body = _BESIDES.sub("", drawing.body)
        drawn[graph.frame].append(f'<svg xmlns="{_SVG}" xmlns:xlink="{_XLINK}" {size} {body}</svg>')
    return drawn


def in_script(data: object) -> str:
    """JSON that may stand inside <script>: no text in it can end the element or begin another.

    >>> in_script(["</script>"])
    '["\\\\u003c/script>"]'
    """
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
