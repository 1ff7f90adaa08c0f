"""The explorer as a widget of the notebook: linked panes over one recording, stepped in the browser.

Which idea lives here: the Python side is thin. The data of views/explorer_data.py goes to the browser once, as one JSON
text, and from then on everything happens there, also when the kernel is gone. Of a large recording a cell sends the first view by
itself (views/first_view.py), and the whole takes its place when the cell has ended: nobody waits for 18,000 steps to see one, and a
page that is loaded anew finds whatever is there. From then on the widget keeps no recording alive. Where
no widget can run (a saved notebook on a page, a terminal) the static HTML or one line of text stands in for it.

What needs a live program (what would another input do?) the browser asks as a custom message: `{ask: number, about: name,
...}`. Whoever makes the explorer says who answers which name; static/explorer/live.js is the other end.

In:  a Recording or an Explanation; functions that answer questions (live.py has those of a session).
Out: `Explorer(recording)`, to be displayed or composed with other ipywidgets.

PyTorch has no counterpart.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets

from dynexplore.engine.gc_control import gc_disabled
from dynexplore.recording.recording import Recording
from dynexplore.views import html_text
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.first_view import first_view, is_large
from dynexplore.views.timeline import Timeline
from dynexplore.widgets import assets
from dynexplore.widgets.colours import spelled
from dynexplore.widgets.live import Answerer, CannotAnswer, Seat


class Explorer(anywidget.AnyWidget):
    """The explorer of a recording, or of an explanation: then its session answers what needs the live program.

    `answerers` maps what else can be asked about to who answers it. `later`: where the recording is large only its first view is
    sent, and all of it by `complete()`, for which whoever makes the explorer then has to care.

    >>> Explorer(Recording(title="f"))
    Explorer(f: 0 steps, 0 graphs, 0 guards)
    """

    _esm = assets.SCRIPT
    _css = assets.STYLE
    data = traitlets.Unicode().tag(sync=True)
    interrupted = traitlets.Bool(False).tag(sync=True)  # making what follows the first view was: the page asks for it

    def __init__(self, shown: Any, answerers: Mapping[str, Answerer] | None = None, *, later: bool = False) -> None:
        recording: Recording = getattr(shown, "recording", shown)
        session = getattr(shown, "session", None)
        with gc_disabled():  # it would walk again and again over objects of which none is garbage yet
            timeline = Timeline(recording)
            self._static = html_text.mimebundle(recording, timeline)
            is_later = later and is_large(timeline)
            data = spelled((first_view if is_later else explorer_data)(recording, timeline))
        self._whole = functools.partial(explorer_data, recording, timeline) if is_later else None
        self._seat = Seat(session) if session is not None else None
        seat_answerers = self._seat.answerers if self._seat is not None else {}
        own: dict[str, Answerer] = {"graphviz": _graphviz, "editor": _editor, "rest": self._rest}
        self.answerers: dict[str, Answerer] = {**own, **seat_answerers, **(answerers or {})}
        super().__init__(data=data)
        self.on_msg(self._on_question)

    def complete(self) -> None:
        """Send all of the recording, where only its first view was sent. Where Ctrl-C ends that, the page may ask for it again."""
        if self._whole is None:
            return
        whole, self._whole = self._whole, None
        text = ""
        try:
            with gc_disabled():
                text = spelled(whole())
        finally:
            self._whole = None if text else whole
            self.leave_the_rest()
        self.data = text

    def leave_the_rest(self) -> None:
        """What is not sent by now does not follow by itself: the page says so, and asks for it when somebody wants it."""
        self.interrupted = self._whole is not None

    def end(self) -> None:
        """Let go of it, in the kernel and on the page: nobody looks at it any more."""
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
        """All that follows the first view, which the page then finds in `data`."""
        try:
            self.complete()
        except KeyboardInterrupt:
            raise CannotAnswer("Making the rest of the recording was interrupted again.") from None
        return {}, []

    def _on_question(self, _widget: object, question: dict[str, Any], _buffers: list[memoryview]) -> None:
        """Answer a question of the browser; one that nobody here can answer gets a sentence."""
        answer, about = question.get("ask"), question.get("about", "")
        if answer is None:
            return
        if about not in self.answerers:
            self.send({"answer": answer, "error": f"This explorer cannot answer {about!r}: it has no running program."})
            return
        try:
            body, buffers = self.answerers[about](question)
        except CannotAnswer as error:
            self.send({"answer": answer, "error": str(error)})
        else:
            self.send({**body, "answer": answer}, buffers)


def _graphviz(_question: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """The module that draws diagrams; the browser asks for it once."""
    return {}, [assets.graphviz().encode()]


def _editor(_question: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """The module that edits source; the browser asks for it when somebody edits."""
    return {}, [assets.code_editor().encode()]
