"""Sliders and switches with HTML below them, as one widget for every front end that runs anywidgets.

The idea: ipywidgets' own sliders and buttons need the front end's copy of them, which JupyterLab and Notebook have, and marimo does
not. An anywidget brings its front end along. The kernel is asked at each move, and what it returns is shown below the controls.

In: the controls, their initial values, and a function that is called at each move and returns HTML.
Out: `Controls(...)`, to be displayed, or moved from code: `controls.move(size=5)`.

PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

import anywidget
import traitlets

from dynexplore.widgets import assets

_STATIC = resources.files(__package__) / "static"


class Controls(anywidget.AnyWidget):
    """A row of controls, and the HTML that `drawn` returned last.

    `values` are their values by name; a number has a slider from 0 to `most[name]`, anything else is a switch.
    """

    _esm = assets.joined(lambda path: (_STATIC / path).read_text(encoding="utf-8"), "controls/controls.js")
    _css = (_STATIC / "controls" / "controls.css").read_text(encoding="utf-8")
    controls: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    values: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)
    html = traitlets.Unicode().tag(sync=True)

    def __init__(self, values: Mapping[str, Any], drawn: Callable[[], str], most: Mapping[str, int] | None = None) -> None:
        rows = [{"name": name, "label": name.replace("_", " ")} for name in values]
        controls = [{**row, "most": most[row["name"]]} if most and row["name"] in most else row for row in rows]
        super().__init__(controls=controls, values=dict(values))
        self._drawn = drawn
        self.observe(self._moved, names="values")

    def move(self, **values: Any) -> None:
        """Set values, each of which is a move if it differs. Raises KeyError for an unknown name."""
        for name, value in values.items():
            if self.values[name] != value:
                self.values = {**self.values, name: value}

    def draw(self) -> None:
        """Show what the function returns now."""
        self.html = self._drawn()

    def _moved(self, change: dict[str, Any]) -> None:
        self.draw()

    def bundle(self, plain: str, html: str, **options: Any) -> dict[str, Any]:
        """What a notebook displays: the widget, or these two where it does not run."""
        data, _ = super()._repr_mimebundle_(**options) or ({}, {})
        return {**data, "text/plain": plain, "text/html": html}
