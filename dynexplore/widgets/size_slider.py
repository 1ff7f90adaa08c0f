"""A slider for the size of a call's input: each slider position makes a call, and shows its outcome.

The idea: whether a size hits or recompiles is best learned by trying. Nothing is predicted: the explained function is called with
the slider's size, against the cache left by earlier positions, and the picture of calls and entries is redrawn. If no widget can
run (a saved notebook on a page), the last state is shown instead.

In: an Explanation, and a function that creates the arguments of a call from a size.
Out: `SizeSlider(explanation, arguments)`, to be displayed or moved from code: `slider.size = 5`.

PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynexplore.views.calls_picture import calls_picture, calls_text
from dynexplore.widgets.controls import Controls

SHOWN = 5
"""The number of calls drawn, the latest."""


class SizeSlider:
    """A slider from 0 to `largest`, a sentence about the latest call, and the latest calls against the entries.

    `arguments(size)` returns a tuple: the arguments of the call. The first call is made at once, with `size`. `widget` is the
    displayed widget, for composition with others.
    """

    def __init__(self, explanation: Any, arguments: Callable[[int], tuple[Any, ...]], size: int = 4, largest: int = 12) -> None:
        self.explanation, self.arguments = explanation, arguments
        self.widget = Controls({"size": size}, self._called, {"size": largest})
        self.widget.draw()

    @property
    def size(self) -> int:
        """The slider's position; setting it moves the slider, which makes a call."""
        return int(self.widget.values["size"])

    @size.setter
    def size(self, size: int) -> None:
        self.widget.move(size=size)

    def _called(self) -> str:
        self.explanation.call(*self.arguments(self.size))
        return self._html()

    def _html(self) -> str:
        outcome = self.explanation.outcomes[-1]
        return f"<p>size {self.size}: <b>{outcome}</b></p>{calls_picture(self.explanation.recording, SHOWN)}"

    def __repr__(self) -> str:
        return calls_text(self.explanation.recording, SHOWN)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return self.widget.bundle(repr(self), self._html(), **options)

    def _display_(self) -> Controls:
        """Used by marimo to display the result of a cell."""
        return self.widget
