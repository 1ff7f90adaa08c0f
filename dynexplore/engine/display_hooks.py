"""Display hooks for the layers above the engine: show a recording in a notebook, write it to a file.

The idea: a recording can be displayed (`_repr_mimebundle_`; `_display_` by marimo) and saved (`save`), but its appearance is the
task of views/ and widgets/, which the engine does not import. So the engine has a registry for these functions, and the public
package (dynexplore/__init__.py) registers functions that import those layers on first use.

In: `connect`, called by the public package. Out: `mimebundle(shown)`, `explorer(shown)` and `save(shown, path)`, called by
Recording and Explanation; `table`, for the engine's own counts; `Displayable`, whose subclasses are displayed by `words` and
`picture`: events and other single records. PyTorch's counterpart: none.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

Bundle = dict[str, Any] | tuple[dict[str, Any], dict[str, Any]]
"""Data by MIME type, or data and metadata, as IPython expects them."""


class DisplayHooks(Protocol):
    """The functions that display and write recordings."""

    def mimebundle(self, shown: Any) -> Bundle:
        """A notebook's display of a recording or an explanation; empty if its repr is enough."""

    def explorer(self, shown: Any) -> Any:
        """The explorer of a recording or an explanation, for a notebook that asks for an object and not for data by MIME type."""

    def save(self, shown: Any, path: str | os.PathLike[str], *, redact: bool) -> str:
        """Write it in the format of the extension of `path`; returns one sentence that describes the file's contents."""

    def memory(self, shown: Any) -> str:
        """The memory of a recording's graphs as pictures, in HTML."""

    def table(self, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], title: str) -> str:
        """Plain text as an HTML table under a title; only the title if there are no rows."""

    def words(self, shown: Any) -> str:
        """One or more records as plain text."""

    def picture(self, shown: Any) -> str:
        """One or more records as HTML."""


_connected: list[DisplayHooks] = []


def connect(hooks: DisplayHooks) -> None:
    """Use `hooks` to display and write from now on."""
    _connected[:] = [hooks]


def connected() -> DisplayHooks:
    """The registered hooks. RuntimeError if there are none."""
    if not _connected:
        raise RuntimeError("nothing is connected that could show or write a recording: import dynexplore first")
    return _connected[0]


class Displayable:
    """An object that views/ renders as text: `print` it, or let a notebook display it. Its repr is unchanged."""

    __slots__ = ()

    def __str__(self) -> str:
        return connected().words(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return connected().picture(self)
