"""What the rooms above the engine do for a recording: show it in a notebook, write it to a file.

Which idea lives here: a recording can be displayed (`_repr_mimebundle_`) and saved (`save`), but how it looks is the
business of views/ and widgets/, which the engine does not know. So the engine has two places for functions, and the
front door (dynexplore/__init__.py) puts functions there that bring in those rooms when they are first needed.

In:  `connect`, called by the front door.
Out: `mimebundle(shown)` and `save(shown, path)`, called by Recording and Explanation.

PyTorch has no counterpart.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

Bundle = dict[str, Any] | tuple[dict[str, Any], dict[str, Any]]
"""Data by MIME type, or data and metadata where there are any: as IPython takes them."""


class Outlets(Protocol):
    """Who shows and writes recordings."""

    def mimebundle(self, shown: Any) -> Bundle:
        """What a notebook displays for a recording or an explanation; empty where its repr does."""

    def save(self, shown: Any, path: str | os.PathLike[str], *, redact: bool) -> str:
        """Write it in the form that the ending of `path` names; one sentence that says what the file holds."""


_connected: list[Outlets] = []


def connect(outlets: Outlets) -> None:
    """From now on `outlets` shows and writes."""
    _connected[:] = [outlets]


def connected() -> Outlets:
    """Who shows and writes now. RuntimeError when nobody does."""
    if not _connected:
        raise RuntimeError("nothing is connected that could show or write a recording: import dynexplore first")
    return _connected[0]
