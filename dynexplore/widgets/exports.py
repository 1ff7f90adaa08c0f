"""A recording as a file, in the form that the file's ending names; each form says what it holds.

Which idea lives here: whoever passes a file on must know what is in it. So every form carries the same sentence
(`Recording.holds`): in the page's footer, as a key of the JSON, as the last line of the report, as a comment of DOT and
SVG.

In:  a Recording, or anything with one; a path.
Out: `save(shown, path)`, and `FORMS`.

PyTorch's counterpart: the report folders of tlparse.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynexplore
from dynexplore.recording.recording import Recording, redacted
from dynexplore.views import dot, text
from dynexplore.views.svg import svg
from dynexplore.widgets import html


def recording_of(shown: Any) -> Recording:
    """The recording itself, or that of an explanation. TypeError for anything else."""
    recording = getattr(shown, "recording", shown)
    if not isinstance(recording, Recording):
        raise TypeError(f"a Recording or an Explanation was expected, not {type(shown).__name__}")
    return recording


def _report(recording: Recording) -> str:
    return f"{text.report(recording)}\n\n{recording.holds}\n"


def _dot(recording: Recording) -> str:
    """One digraph per graph, one after the other, as a DOT file may hold them."""
    graphs = (dot.dot(graph.nodes, name=graph.name) for graph in recording.graphs)
    return "\n".join([f"// {recording.holds}", *graphs]) + "\n"


FORMS: dict[str, Callable[[Recording], str]] = {
    ".html": html.page,
    ".json": Recording.to_json,
    ".txt": _report,
    ".dot": _dot,
    ".svg": lambda recording: svg(recording.graphs, note=recording.holds),
}
"""Ending of a file -> the text of the file."""


def save(shown: Any, path: str | os.PathLike[str], *, redact: bool = False) -> str:
    """Write a recording to a file and return what the file holds. ExportError, in one sentence, when it cannot be.

    >>> save(Recording(), "graph.pdf")
    Traceback (most recent call last):
        ...
    dynexplore.engine.errors.ExportError: graph.pdf: a recording is saved as .html, .json, .txt, .dot or .svg
    """
    return write(recording_of(shown), Path(path), Path(path).suffix.lower(), redact=redact)


def check_form(target: Path, ending: str) -> Callable[[Recording], str]:
    """The form of this ending. ExportError when there is none."""
    if ending not in FORMS:
        *others, last = FORMS
        raise dynexplore.exc.ExportError(f"{target}: a recording is saved as {', '.join(others)} or {last}")
    return FORMS[ending]


def write(recording: Recording, target: Path, ending: str, *, redact: bool, graphviz: bool = False) -> str:
    """`save`, in the form of this ending, whatever the file is called. `graphviz`: an HTML file draws its diagrams itself."""
    form = check_form(target, ending)
    if graphviz and ending == ".html":
        form = functools.partial(html.page, graphviz=True)
    if redact and not recording.redacted:
        recording = redacted(recording)
    try:
        target.write_text(form(recording), encoding="utf-8")
    except OSError as error:
        raise dynexplore.exc.ExportError(f"{target} cannot be written: {error.strerror}") from None
    return recording.holds
