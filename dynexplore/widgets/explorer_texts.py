"""What an explorer sends of a recording, as texts: each is made once, and kept with the recording.

The idea: a notebook shows the same recording again and again: the cell runs again, a second cell shows it, the page asks for the
rest. All that is sent depends on the recording alone (the theme, sizes and switches belong to the page), so the recording keeps
the texts, the first view as well as all data, because the next display sends both. They are released at the first query after the
recording has changed, and together with it. A saved page has anchors that differ between two outputs; these are inserted at each
display.

In: a Recording. Out: `ExplorerTexts(recording)`. PyTorch's counterpart: none.
"""

from __future__ import annotations

import functools
import secrets

from dynexplore.recording.recording import Recording
from dynexplore.views.explorer_data import Plain, explorer_data
from dynexplore.views.first_view import first_view, is_large
from dynexplore.views.html_text import next_prefix
from dynexplore.views.notebook_output import mimebundle
from dynexplore.views.timeline import Timeline
from dynexplore.widgets.colours import spelled


class ExplorerTexts:
    """The texts of one display of a recording; the timeline, from which all are made, is computed at most once for it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @functools.cached_property
    def _timeline(self) -> Timeline:
        return Timeline(self._recording)

    def is_large(self) -> bool:
        """Whether its first view is sent separately."""
        return self._recording.once("explorer: is large", lambda: is_large(self._timeline))

    def first_view(self) -> str:
        """The data of the first view."""
        return self._recording.once("explorer: first view", lambda: self._spelled(first_view(self._recording, self._timeline)))

    def whole(self) -> str:
        """All data."""
        return self._recording.once("explorer: all data", lambda: self._spelled(explorer_data(self._recording, self._timeline)))

    def static(self) -> dict[str, str]:
        """What is shown where no widget runs, with anchors of its own."""
        prefix, bundle = self._recording.once("explorer: static", self._static)
        return {**bundle, "text/html": bundle["text/html"].replace(prefix, next_prefix())}

    def _static(self) -> tuple[str, dict[str, str]]:
        """The prefix of anchors that each display replaces by its own, and the texts with it: letters and digits, which no text of
        the recording has by chance, and which HTML leaves as they are in `href` and in `id`.
        """
        prefix = f"anchor{secrets.token_hex(16)}"
        return prefix, mimebundle(self._recording, self._timeline, prefix)

    def _spelled(self, data: Plain) -> str:
        pieces_of: dict[str, list[str]] = self._recording.once("explorer: colours", dict)  # of both the first view and all data
        return spelled(data, pieces_of)
