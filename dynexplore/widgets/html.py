"""A recording as one HTML file: opens offline from the disk, and says what it holds.

Which idea lives here: what leaves the notebook is a file that needs nothing else, and whoever passes it on must know
what is in it. The page itself comes from views/html_text.py.

In:  a Recording.
Out: the text of the file.

PyTorch's counterpart: the report folders of tlparse.
"""

from __future__ import annotations

from dynexplore.engine.recording import Recording
from dynexplore.engine.recording import redacted as without_private_things
from dynexplore.views import html_text


def page(recording: Recording, title: str = "", *, redact: bool = False) -> str:
    """Return the recording as one HTML document; `redact` leaves out tensor elements, string constants and paths."""
    shown = without_private_things(recording) if redact else recording
    return html_text.page(shown, title, note=contents(shown))


def contents(recording: Recording) -> str:
    """What a file made of this recording holds, in one sentence.

    >>> contents(Recording())
    'This file holds source code, bytecode, file names and values of the recorded call.'
    """
    if recording.redacted:
        return "This file holds source code and bytecode; tensor elements, string constants and paths were left out."
    return "This file holds source code, bytecode, file names and values of the recorded call."
