"""The explorer as a widget of the notebook: linked panes over one recording, stepped in the browser.

Which idea lives here: the Python side is thin. The data of views/explorer_data.py goes to the browser once, as one JSON
text, and from then on everything happens there, also when the kernel is gone. The widget keeps no recording alive. Where
no widget can run (a saved notebook on a page, a terminal) the static HTML or one line of text stands in for it.

In:  a Recording.
Out: `Explorer(recording)`, to be displayed or composed with other ipywidgets.

PyTorch has no counterpart.
"""

from __future__ import annotations

import json
from typing import Any

import anywidget
import traitlets

from dynexplore.engine.recording import Recording
from dynexplore.views import html_text
from dynexplore.views.explorer_data import explorer_data
from dynexplore.widgets import assets


class Explorer(anywidget.AnyWidget):
    """The explorer of one recording.

    >>> Explorer(Recording(title="f"))
    Explorer(f: 0 steps, 0 graphs, 0 guards)
    """

    _esm = assets.SCRIPT
    _css = assets.STYLE
    data = traitlets.Unicode().tag(sync=True)

    def __init__(self, recording: Recording) -> None:
        self._static = html_text.mimebundle(recording)
        super().__init__(data=json.dumps(explorer_data(recording), ensure_ascii=False, separators=(",", ":")))

    def __repr__(self) -> str:
        return self._static["text/plain"]

    def _repr_mimebundle_(self, **wanted: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**wanted) or ({}, {})
        return {**data, **self._static}, metadata
