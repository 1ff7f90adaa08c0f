"""A slider for the size of a call's input: each place to which it is moved is one more call, and one sees what came of it.

Which idea lives here: whether a size is a hit or costs a capture is best learned by trying. Nothing is predicted: the explained
function is called with what the slider says, against the cache that earlier moves left, and the picture of calls against
entries is drawn anew. Where no widget can run (a saved notebook on a page) the state that it was left in stands in for it.

In:  an Explanation, and a function that makes the arguments of a call from a size.
Out: `SizeSlider(explanation, arguments)`, to be displayed or moved by code: `slider.size = 5`.

PyTorch has no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets

from dynexplore.views.calls_picture import calls_picture, calls_text

SHOWN = 5
"""How many of the latest calls are drawn."""


class SizeSlider:
    """A slider from 0 to `largest`, a sentence about the latest call, and the latest calls against the entries.

    `arguments(size)` is a tuple: what the function is called with. The first call is made at once, with `size`. `widget` is what a
    page shows, to be composed with others.
    """

    def __init__(self, explanation: Any, arguments: Callable[[int], tuple[Any, ...]], size: int = 4, largest: int = 12) -> None:
        self.explanation, self.arguments = explanation, arguments
        self._slider = ipywidgets.IntSlider(value=size, min=0, max=largest, description="size")
        self._picture = ipywidgets.HTML()
        self.widget = ipywidgets.VBox([self._slider, self._picture])
        self._slider.observe(self._moved, names="value")
        self._call(size)

    @property
    def size(self) -> int:
        """Where the slider stands; setting it moves the slider, which is a call."""
        return int(self._slider.value)

    @size.setter
    def size(self, size: int) -> None:
        self._slider.value = size

    def _moved(self, change: dict[str, Any]) -> None:
        self._call(change["new"])

    def _call(self, size: int) -> None:
        self.explanation.call(*self.arguments(size))
        self._picture.value = self._html()

    def _html(self) -> str:
        outcome = self.explanation.outcomes[-1]
        return f"<p>size {self.size}: <b>{outcome}</b></p>{calls_picture(self.explanation.recording, SHOWN)}"

    def __repr__(self) -> str:
        return calls_text(self.explanation.recording, SHOWN)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        data = self.widget._repr_mimebundle_(**options) or {}
        return {**data, "text/plain": repr(self), "text/html": self._html()}
