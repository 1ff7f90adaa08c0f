"""Hooks for the rooms above the engine: showing a recording in a notebook, writing it to a file.

Which idea lives here: a recording can be displayed (`_repr_mimebundle_`) and saved (`save`), but how it looks is the
business of views/ and widgets/, which the engine does not know. So the engine has two places for functions, and the
front door (dynexplore/__init__.py) puts functions there that bring in those rooms when they are first needed.

In:  `connect`, called by the front door.
Out: `mimebundle(shown)` and `save(shown, path)`, called by Recording and Explanation; `table`, by what the engine itself counts;
     `Displayable`, whose subclasses are shown by `words` and `picture`: events and other single records.

PyTorch has no counterpart.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

Bundle = dict[str, Any] | tuple[dict[str, Any], dict[str, Any]]
"""Data by MIME type, or data and metadata where there are any: as IPython takes them."""


class DisplayHooks(Protocol):
    """The functions that show and write recordings."""

    def mimebundle(self, shown: Any) -> Bundle:
        """What a notebook displays for a recording or an explanation; empty where its repr does."""

    def save(self, shown: Any, path: str | os.PathLike[str], *, redact: bool) -> str:
        """Write it in the form that the ending of `path` names; one sentence that says what the file holds."""

    def memory(self, shown: Any) -> str:
        """The memory of a recording's graphs as pictures, in HTML."""

    def table(self, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], title: str) -> str:
        """Plain text as an HTML table under a title; without rows the title alone."""

    def words(self, shown: Any) -> str:
        """Single records, or several, in plain text."""

    def picture(self, shown: Any) -> str:
        """Single records, or several, in HTML."""


_connected: list[DisplayHooks] = []


def connect(hooks: DisplayHooks) -> None:
    """Use `hooks` for showing and writing from now on."""
    _connected[:] = [hooks]


def connected() -> DisplayHooks:
    """The hooks in use. RuntimeError when there are none."""
    if not _connected:
        raise RuntimeError("nothing is connected that could show or write a recording: import dynexplore first")
    return _connected[0]


class Displayable:
    """Something that is told in words by views/: `print` it, or let a notebook show it. Its repr stays what it is."""

    __slots__ = ()

    def __str__(self) -> str:
        return connected().words(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return connected().picture(self)
