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

from dynexplore.widgets.controls import Controls


class Toggles:
    """A row of switches, and the result of `shown(**states)`. `now` is the latest result; `widget` is the displayed widget."""

    def __init__(self, shown: Callable[..., Any], **states: bool) -> None:
        self.shown = shown
        self.now: Any = None
        self.widget = Controls(states, self._drawn)
        self.widget.draw()

    @property
    def states(self) -> dict[str, bool]:
        """Which switches are on."""
        return {name: bool(on) for name, on in self.widget.values.items()}

    def move(self, **states: bool) -> Any:
        """Set switches, which redraws the picture; return the new result. Raises KeyError for an unknown switch."""
        self.widget.move(**states)
        return self.now

    def _drawn(self) -> str:
        self.now = self.shown(**self.states)
        html: str = self.now._repr_html_()
        return html

    def _words(self) -> str:
        return "; ".join(f"{name.replace('_', ' ')}: {'on' if on else 'off'}" for name, on in self.states.items())

    def __repr__(self) -> str:
        return f"{self._words()}\n{self.now!r}"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return self.widget.bundle(repr(self), f"<p>{self._words()}</p>{self.widget.html}", **options)

    def _display_(self) -> Controls:
        """Used by marimo to display the result of a cell."""
        return self.widget
