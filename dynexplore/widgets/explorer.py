"""The explorer as a notebook widget: linked panes over one recording, stepped in the browser.

The idea: the Python side is thin. The data of views/explorer_data.py goes to the browser once, as one JSON text, and everything
else happens there, even without a kernel. For a large recording a cell first sends only the first view (views/first_view.py), and
replaces it by the complete data when the cell has ended: nobody waits for 18,000 steps to see one, and a reloaded page finds
whatever has been sent. After that the widget keeps no reference to the recording, which keeps the texts for the next explorer
(explorer_texts.py). If no widget can run (a saved notebook on a page, a terminal), the static HTML or one line of text is shown
instead.

Questions that need the live program (what would another input do?) are custom messages from the browser: `{ask: number, about:
name, ...}`. The creator of the explorer maps names to functions; static/explorer/live.js is the other end.

In: a Recording or an Explanation; functions that answer questions (live.py has those of a session).
Out: `Explorer(recording)`, to be displayed or composed with other ipywidgets.

PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets

from dynexplore.engine.gc_control import gc_disabled
from dynexplore.recording.recording import Recording
from dynexplore.widgets import assets
from dynexplore.widgets.explorer_texts import ExplorerTexts
from dynexplore.widgets.live import Answerer, CannotAnswer, Seat


class Explorer(anywidget.AnyWidget):
    """The explorer of a recording, or of an explanation, whose session answers questions about the live program.

    `answerers` maps further question names to functions. `later`: for a large recording send only its first view; the creator of
    the explorer must then call `complete()` to send the rest.

    >>> Explorer(Recording(title="f"))
    Explorer(f: 0 steps, 0 graphs, 0 guards)
    """

    _esm = assets.SCRIPT
    _css = assets.STYLE
    data = traitlets.Unicode().tag(sync=True)
    interrupted = traitlets.Bool(False).tag(sync=True)  # if computing the rest was: the page requests it on demand

    def __init__(self, shown: Any, answerers: Mapping[str, Answerer] | None = None, *, later: bool = False) -> None:
        recording: Recording = getattr(shown, "recording", shown)
        session = getattr(shown, "session", None)
        texts = ExplorerTexts(recording)
        with gc_disabled():  # the collector would traverse the objects repeatedly, although none is garbage yet
            self._static = texts.static()
            is_later = later and texts.is_large()
            data = texts.first_view() if is_later else texts.whole()
        self._whole = texts.whole if is_later else None
        self._seat = Seat(session) if session is not None else None
        seat_answerers = self._seat.answerers if self._seat is not None else {}
        own: dict[str, Answerer] = {"graphviz": _graphviz, "editor": _editor, "rest": self._rest}
        self.answerers: dict[str, Answerer] = {**own, **seat_answerers, **(answerers or {})}
        super().__init__(data=data)
        self.on_msg(self._on_question)

    def complete(self) -> None:
        """Send the complete recording, if only its first view was sent. If Ctrl-C interrupts that, the page may request it
        again.
        """
        if self._whole is None:
            return
        whole, self._whole = self._whole, None
        text = ""
        try:
            with gc_disabled():
                text = whole()
        finally:
            self._whole = None if text else whole
            self.leave_the_rest()
        self.data = text

    def leave_the_rest(self) -> None:
        """Do not send the rest automatically: the page says so, and requests it on demand."""
        self.interrupted = self._whole is not None

    def end(self) -> None:
        """Close it, in the kernel and on the page, because it is not displayed any more."""
        self._whole = None
        if self._seat is not None:
            self._seat.leave()
        self.layout.close()
        self.close()

    def __repr__(self) -> str:
        return str(self._static["text/plain"])

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        return {**data, **self._static}, metadata

    def _rest(self, _question: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Answer with everything after the first view, which the page then finds in `data`."""
        try:
            self.complete()
        except KeyboardInterrupt:
            raise CannotAnswer("Making the rest of the recording was interrupted again.") from None
        return {}, []

    def _on_question(self, _widget: object, question: dict[str, Any], _buffers: list[memoryview]) -> None:
        """Answer a question of the browser; one that has no answerer gets a sentence."""
        answer, about = question.get("ask"), question.get("about", "")
        if answer is None:
            return
        if about not in self.answerers:
            self.send({"answer": answer, "error": f"This explorer cannot answer {about!r}: it has no running kernel."})
            return
        try:
            body, buffers = self.answerers[about](question)
        except CannotAnswer as error:
            self.send({"answer": answer, "error": str(error)})
        else:
            self.send({**body, "answer": answer}, buffers)


def _graphviz(_question: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """The module that draws diagrams; the browser requests it once."""
    return {}, [assets.graphviz().encode()]


def _editor(_question: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """The module that edits source; the browser requests it at the first edit."""
    return {}, [assets.code_editor().encode()]
