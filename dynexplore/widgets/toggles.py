"""Switches with a picture below them: each change redraws the picture.

The idea: the effect of a setting is best seen by switching it off. A function takes the settings as keyword arguments and returns
an object with an HTML repr; it is called at each change, so the output is always current. If no widget can run (a saved notebook on
a page), the last state is shown instead.

In: a function of keyword arguments, and the initial state of each.
Out: `Toggles(shown, fuse=True)`, to be displayed, or changed from code: `toggles.move(fuse=False)`.

PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets


class Toggles:
    """A row of switches, and the result of `shown(**states)`. `now` is the latest result; `widget` is the displayed widget."""

    def __init__(self, shown: Callable[..., Any], **states: bool) -> None:
        self.shown = shown
        self.now: Any = None
        self._switches = {
            name: ipywidgets.ToggleButton(value=on, description=name.replace("_", " ")) for name, on in states.items()
        }
        self._picture = ipywidgets.HTML()
        self.widget = ipywidgets.VBox([ipywidgets.HBox(list(self._switches.values())), self._picture])
        for switch in self._switches.values():
            switch.observe(self._moved, names="value")
        self._draw()

    @property
    def states(self) -> dict[str, bool]:
        """Which switches are on."""
        return {name: bool(switch.value) for name, switch in self._switches.items()}

    def move(self, **states: bool) -> Any:
        """Set switches, which redraws the picture; return the new result. Raises KeyError for an unknown switch."""
        for name, on in states.items():
            self._switches[name].value = on
        return self.now

    def _moved(self, change: dict[str, Any]) -> None:
        self._draw()

    def _draw(self) -> None:
        self.now = self.shown(**self.states)
        self._picture.value = self.now._repr_html_()

    def _words(self) -> str:
        return "; ".join(f"{name.replace('_', ' ')}: {'on' if on else 'off'}" for name, on in self.states.items())

    def __repr__(self) -> str:
        return f"{self._words()}\n{self.now!r}"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        data = self.widget._repr_mimebundle_(**options) or {}
        return {**data, "text/plain": repr(self), "text/html": f"<p>{self._words()}</p>{self._picture.value}"}
