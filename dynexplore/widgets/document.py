"""The HTML document around explorers: works offline from disk, fetches nothing, and states its content.

The idea: a page consists of its static parts, the recordings as compressed data that the browser unpacks, the explorer's script,
and the lines that start it. Without JavaScript the text report is shown instead. A Content-Security-Policy prevents the page from
fetching anything.

In: the parts of a page; recordings. Out: the text of the file.

PyTorch's counterpart: the report folders of tlparse.
"""

from __future__ import annotations

import json
import re

from dynexplore.recording.recording import Recording
from dynexplore.views import html_text, svg
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.groups import grouped, start_closed
from dynexplore.views.names import input_names
from dynexplore.views.packing import compressed
from dynexplore.widgets import assets
from dynexplore.widgets.colours import coloured

_POLICY = "default-src 'none'; script-src 'unsafe-inline'{more}; style-src 'unsafe-inline'"

POLICY = _POLICY.format(more="")
"""The policy of a page without graphviz: run inline scripts, fetch nothing."""

POLICY_WITH_GRAPHVIZ = _POLICY.format(more=" 'wasm-unsafe-eval' blob:")
"""The policy of a page with graphviz: also compile WebAssembly, and import the module that the page itself creates."""

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

_BESIDES = re.compile(r"<!--.*?-->\n?|<title>.*?</title>\n?|(?<=<text) xml:space=\"preserve\"", re.DOTALL)
"""The parts of a drawing that the explorer does not use."""

_STYLE = """\
:root { color-scheme: light dark; }
body { margin: 8px auto; padding: 0 16px; max-width: 1800px; font: 13px/1.45 system-ui, sans-serif; }
button, select { font: inherit; }
@media (prefers-color-scheme: dark) { body { background: #17191c; } } /* as the explorer: it has no edge */
h1 { position: absolute; clip-path: inset(50%); } /* the headline says it, for those who see it */
nav { margin: 12px 0; }
.dynexplore { --dynx-height: max(600px, calc(100vh - 60px)); }
footer { font-size: 13px; margin: 8px; }
"""

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{style}</style></head>
<body><main><h1>{title}</h1>
{body}
<noscript>{static}</noscript></main>
<footer>{holds}</footer>
{data}
<script type="module">
{script}
{start}
</script></body></html>
"""


_UNPACKS = """\
{unpacks}
const packed = document.getElementById("script");
const whole = document.createElement("script");
whole.type = "module";
whole.textContent = JSON.parse(await inflated(packed.textContent));
const started = new Promise((done) => packed.addEventListener("started", done));
document.head.append(whole);
await started;"""

_STARTED = 'document.getElementById("script").dispatchEvent(new Event("started"));'


def document(
    title: str,
    body: str,
    *,
    data: str,
    start: str,
    static: str,
    holds: str,
    style: str = "",
    policy: str = POLICY,
    packs: bool = False,
) -> str:
    """Return one HTML document: its body, data and lines of JavaScript that start it; `title`, `static` and `holds` are text.
    `packs` compresses the script as well, for pages with large data.
    """
    script = assets.SCRIPT
    if packs:
        data += f'\n<script type="text/plain" id="script">{compressed(chr(10).join((script, start, _STARTED)))}</script>'
        script, start = "", _UNPACKS.format(unpacks=assets.unpacking())
    return _PAGE.format(
        policy=policy,
        title=html_text.escape(title),
        style=f"{_STYLE}{style}{assets.STYLE}",
        body=body,
        static=html_text.preformatted(static),
        holds=html_text.escape(holds),
        data=data,
        script=script,
        start=start,
    )


def recording_script(name: str, recording: Recording, *, draws: bool = True) -> str:
    """A recording as the element with that id; with a drawing of each graph if the page does not contain graphviz."""
    return f'<script type="text/plain" id="{name}">{page_data(recording, draws=draws)}</script>'


def page_data(recording: Recording, *, draws: bool = False) -> str:
    """The data of a recording's explorer, compressed."""
    data = explorer_data(recording)
    if draws:
        data["diagrams"] = diagrams(recording)
    return compressed(coloured(data))


def diagrams(recording: Recording) -> dict[int, list[str]]:
    """For each frame a drawing of each of its graphs, with as many groups collapsed as necessary to fit."""
    drawn: dict[int, list[str]] = {entered.frame: [] for entered in recording.frames}
    named = {entered.frame: input_names(recording, entered) for entered in recording.frames}
    requests = [(graph, start_closed(grouped(graph.nodes)), named[graph.frame]) for graph in recording.graphs]
    for (graph, *_), drawing in zip(requests, svg.drawings(requests, across=True), strict=True):
        size = f'width="{drawing.width:g}" height="{drawing.height:g}"'
        body = _BESIDES.sub("", drawing.body)
        drawn[graph.frame].append(f'<svg xmlns="{_SVG}" xmlns:xlink="{_XLINK}" {size} {body}</svg>')
    return drawn


def in_script(data: object) -> str:
    """JSON that is safe inside <script>: no text in it can end the element or begin another.

    >>> in_script(["</script>"])
    '["\\\\u003c/script>"]'
    """
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
