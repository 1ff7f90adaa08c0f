"""A recording as one HTML file: opens offline from the disk, is stepped there, and says what it holds.

Which idea lives here: what leaves the notebook is a file that needs nothing else, and whoever passes it on must know
what is in it. It is the same explorer as in the notebook (static/explorer/), with its data beside it; without scripts
the text report is there instead. The page forbids itself to fetch anything.

In:  a Recording.
Out: the text of the file.

PyTorch's counterpart: the report folders of tlparse.
"""

from __future__ import annotations

import json

from dynexplore.engine.recording import Recording
from dynexplore.engine.recording import redacted as without_private_things
from dynexplore.views import html_text, text
from dynexplore.views.explorer_data import explorer_data
from dynexplore.widgets import assets
from dynexplore.widgets.colours import coloured

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 16px auto; padding: 0 16px; max-width: 1800px; font-family: system-ui, sans-serif; }}
h1 {{ font-size: 20px; }}
footer {{ font-size: 12px; margin: 8px; }}
{style}</style></head>
<body><main><h1>{title}</h1>
<div id="explorer"></div>
<noscript>{static}</noscript></main>
<footer>{note}</footer>
<script type="application/json" id="recording">{data}</script>
<script type="module">
{script}
// by this name a person can ask in the browser's console: dynexplore.links.related("node:1:add")
globalThis.dynexplore = mount(document.getElementById("explorer"), JSON.parse(document.getElementById("recording").textContent), null, true);
dynexplore?.root.focus({{ preventScroll: true }});
</script></body></html>
"""


def page(recording: Recording, title: str = "", *, redact: bool = False) -> str:
    """Return the recording as one HTML document; `redact` leaves out tensor elements, string constants and paths."""
    shown = without_private_things(recording) if redact else recording
    return _PAGE.format(
        policy=_POLICY,
        title=html_text.escape(title or shown.title or "recording"),
        style=assets.STYLE,
        static=html_text.preformatted(text.report(shown)),
        note=html_text.escape(shown.holds),
        data=in_script(coloured(explorer_data(shown))),
        script=assets.SCRIPT,
    )


def in_script(data: object) -> str:
    """JSON that may stand inside <script>: no text in it can end the element or begin another.

    >>> in_script(["</script>"])
    '["\\\\u003c/script>"]'
    """
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
