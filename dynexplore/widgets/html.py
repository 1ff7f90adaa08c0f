"""A recording as one HTML file: works offline from disk, can be stepped through there, and states its content.

The idea: an exported file must be self-contained, and users who share it must know what is in it. It contains the same explorer as
the notebook (static/explorer/), with its data, compressed; the browser unpacks it. Without JavaScript the text report is shown
instead. A Content-Security-Policy prevents the page from fetching anything.

In: a Recording.
Out: the text of the file.

PyTorch's counterpart: the report folders of tlparse.
"""

from __future__ import annotations

import functools

from dynexplore.recording.recording import Recording
from dynexplore.recording.recording import redacted as without_private_things
from dynexplore.views import text
from dynexplore.views.packing import compressed
from dynexplore.widgets import assets
from dynexplore.widgets.document import POLICY, POLICY_WITH_GRAPHVIZ, document, recording_script

MOST_STATIC = 14_000
"""The maximum number of characters of the report in the page, for browsers without JavaScript."""

_STYLE = """\
body { margin: 0; padding: 0; max-width: none; }
.dynexplore { --dynx-height: max(560px, calc(100vh - 28px)); border-width: 0 0 1px !important; }
footer { margin: 0; padding: 4px 12px; line-height: 20px; }
/* the explorer takes what the line below it leaves, which where it is narrow is two lines */
body:has(.dynx-has-story) { display: flex; flex-direction: column; height: max(588px, 100vh); }
body:has(.dynx-has-story) > main, #explorer:has(.dynx-has-story) {
  flex: 1 1 0; min-height: 0; display: flex; flex-direction: column;
}
#explorer > .dynx-has-story { --dynx-height: 100%; flex: none; }
"""

_START = """\
// by this name a person can ask in the browser's console: dynexplore.links.related("node:1:add")
const recording = await read(document.getElementById("recording").textContent);
globalThis.dynexplore = mount(document.getElementById("explorer"), recording, null, true);
// in a frame of another page the keyboard belongs to that page, until somebody clicks here
if (globalThis.top === globalThis) dynexplore?.root.focus({ preventScroll: true });"""


def page(recording: Recording, title: str = "", *, redact: bool = False, graphviz: bool = False) -> str:
    """Return the recording as one HTML document.

    `redact` leaves out tensor elements, string constants and paths. `graphviz` includes the program that draws diagrams (0.8 MB of
    text), so that groups of a diagram can be opened and closed; without it the page contains one drawing of each graph.
    """
    shown = without_private_things(recording) if redact else recording
    engine = f'<script type="text/plain" id="graphviz">{_engine()}</script>\n' if graphviz else ""
    return document(
        title or shown.title or "recording",
        '<div id="explorer"></div>',
        data=engine + recording_script("recording", shown, draws=not graphviz),
        start=_START,
        static=_beginning(text.report(shown, width=0)),
        holds=shown.holds,
        style=_STYLE,
        policy=POLICY_WITH_GRAPHVIZ if graphviz else POLICY,
        packs=graphviz,
    )


_START_VIEWER = """\
// ?rec=ADDRESS: a page on the same server
const name = new URLSearchParams(location.search).get("rec");
const address = name && new URL(name, location.href);
const isHere = address && address.origin === location.origin && location.protocol !== "file:";
const arrayBuffer = async () => (await fetch(address)).arrayBuffer();
const why = name && !isHere ? `A page opens recordings of its own server only: drop ${name} here.` : "";
viewer(document.getElementById("explorer"), isHere ? { name, arrayBuffer } : null, why);"""


def viewer() -> str:
    """Return a page without a recording: saved ones that are dropped on it are opened there, two are compared."""
    return document(
        "dynexplore",
        '<div id="explorer"></div>',
        data=f'<script type="text/plain" id="graphviz">{_engine()}</script>',
        start=_START_VIEWER,
        static="This page opens recordings with JavaScript.",
        holds="This page has no recording. What is dropped on it stays on this computer.",
        style=_STYLE,
        policy=f"{POLICY_WITH_GRAPHVIZ}; connect-src 'self'",  # for ?rec=
        packs=True,
    )


@functools.cache
def _engine() -> str:
    """Graphviz, encoded like the data: as plain text with escaped quotes it would be a tenth larger."""
    return compressed(assets.graphviz())


def _beginning(report: str) -> str:
    """The beginning of a report, as much as a reader without JavaScript needs: that of a large model has thousands of lines."""
    if len(report) <= MOST_STATIC:
        return report
    beginning = report[: report.rindex("\n", 0, MOST_STATIC)]
    return f"{beginning}\n... and {report[len(beginning) :].count(chr(10))} more lines: scripts show all of it."
