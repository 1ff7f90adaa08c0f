"""The output of a recording in a notebook where no widget runs: what a saved notebook shows.

The idea: most people see a notebook without its kernel, on a page or opened again. It shows the headline, a picture of what
happened and the annotated source at once, the rest as sections. JupyterLab shows one form of an output, its widget, and of a
widget whose kernel has ended only "model not found". So there the static form is an output of its own before the widget; its style
hides it while the widget is there, and hides the widget's error otherwise.

In: a Recording. Out: `mimebundle(recording)`; `separate_output(html, plain)`, the same as an output before the widget's.
PyTorch's counterpart: none.
"""

from __future__ import annotations

from typing import Any

from dynexplore.recording.recording import Recording
from dynexplore.views import html_text, text
from dynexplore.views.strip_picture import strip_picture
from dynexplore.views.timeline import Timeline

MOST_ROWS = 50
"""The most rows of a table: they are saved with each output."""

_STYLE = """
@keyframes dynx-late { from { max-height: 0; overflow: hidden; visibility: hidden; } }
.dynx-saved { animation: dynx-late 2.5s step-end backwards; }
.jp-OutputArea-child:has(.dynx-saved):has(+ .jp-OutputArea-child .dynexplore),
.jp-OutputArea-child:has(.dynx-saved) + .jp-OutputArea-child:has(> .jp-OutputArea-output.jupyter-widgets) { display: none; }
""".strip()
"""A widget is there after some tenths of a second, JupyterLab looks for one for two seconds; the output itself has the class only
where its text is the error.
"""


def mimebundle(recording: Recording, timeline: Timeline | None = None, prefix: str = "") -> dict[str, Any]:
    """Return one line of text, equal in every run, and a fragment with unique anchors, or with those of `prefix`. `timeline` is the
    recording's, if the caller has already computed it.
    """
    fragment = html_text.fragment(recording, prefix or html_text.next_prefix(), timeline, MOST_ROWS, strip_picture(recording))
    return {"text/plain": text.summary(recording), "text/html": fragment}


def separate_output(html: str, plain: str) -> dict[str, Any]:
    """Return the same as an output before that of the widget."""
    return {"text/plain": plain, "text/html": f'<div class="dynx-saved"><style>{_STYLE}</style>{html}</div>'}
