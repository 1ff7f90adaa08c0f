"""A recording as a file, in the format given by the file's extension; each format states its content.

The idea: users who share a file must know what is in it. So every format contains the same sentence (`Recording.holds`): in the
page's footer, as a key of the JSON, as the last line of the report, as a comment of DOT and SVG.

In: a Recording, or anything with one; a path.
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
from dynexplore.ranks.ranks import Ranks
from dynexplore.recording.recording import Recording, recording_of, redacted
from dynexplore.two_engines.two_captures import TwoCaptures
from dynexplore.views import dot, text
from dynexplore.views.svg import svg
from dynexplore.widgets import engines_page, html, ranks_page


def _report(recording: Recording) -> str:
    return f"{text.report(recording)}\n\n{recording.holds}\n"


def _dot(recording: Recording) -> str:
    """One digraph per graph, concatenated, which DOT files allow."""
    graphs = (dot.dot(graph.nodes, name=graph.name) for graph in recording.graphs)
    return "\n".join([f"// {recording.holds}", *graphs]) + "\n"


FORMS: dict[str, Callable[[Recording], str]] = {
    ".html": html.page,
    ".json": Recording.to_json,
    ".txt": _report,
    ".dot": _dot,
    ".svg": lambda recording: svg(recording.graphs, note=recording.holds),
}
"""File extension -> the text of the file."""


def save(shown: Any, path: str | os.PathLike[str], *, redact: bool = False) -> str:
    """Write a recording to a file and return a sentence about its content. Raises ExportError, in one sentence, if it cannot.

    >>> save(Recording(), "graph.pdf")
    Traceback (most recent call last):
        ...
    dynexplore.engine.errors.ExportError: graph.pdf: a recording is saved as .html, .json, .txt, .dot or .svg
    """
    if isinstance(shown, Ranks):
        return write_ranks(shown, Path(path), Path(path).suffix.lower(), redact=redact)
    if isinstance(shown, TwoCaptures):
        return _write_two(shown, Path(path), redact=redact)
    return write(recording_of(shown), Path(path), Path(path).suffix.lower(), redact=redact)


FORMS_OF_RANKS = (".html", ".txt")
"""The formats that several ranks share."""


def check_form_of_ranks(target: Path, ending: str) -> None:
    """Raise ExportError if several ranks cannot be saved in this format."""
    if ending not in FORMS_OF_RANKS:
        raise dynexplore.exc.ExportError(f"{target}: several ranks are saved as .html or .txt; name one rank for another form")


def write_ranks(ranks: Ranks, target: Path, ending: str, *, redact: bool) -> str:
    """Write several ranks as one page, or as text. Raises ExportError for another extension, or an unwritable file."""
    check_form_of_ranks(target, ending)
    shown = ranks.redacted() if redact else ranks
    _write(target, ranks_page.page(shown) if ending == ".html" else f"{shown}\n\n{shown.holds}\n")
    return shown.holds


def _write_two(captures: TwoCaptures, target: Path, *, redact: bool) -> str:
    """Write two captures as one page, as text or as JSON."""
    forms: dict[str, Callable[[TwoCaptures], str]] = {
        ".html": engines_page.page,
        ".txt": lambda shown: f"{shown}\n\n{shown.holds}\n",
        ".json": TwoCaptures.to_json,
    }
    form = forms.get(target.suffix.lower())
    if form is None:
        raise dynexplore.exc.ExportError(f"{target}: two captures are saved as {', '.join(forms)}")
    shown = captures.redacted() if redact else captures
    _write(target, form(shown))
    return shown.holds


def _write(target: Path, written: str) -> None:
    try:
        target.write_text(written, encoding="utf-8")
    except OSError as error:
        raise dynexplore.exc.ExportError(f"{target} cannot be written: {error.strerror}") from None


def check_form(target: Path, ending: str) -> Callable[[Recording], str]:
    """The format for this extension. Raises ExportError if there is none."""
    if ending not in FORMS:
        *others, last = FORMS
        raise dynexplore.exc.ExportError(f"{target}: a recording is saved as {', '.join(others)} or {last}")
    return FORMS[ending]


def write(recording: Recording, target: Path, ending: str, *, redact: bool, graphviz: bool = False) -> str:
    """Like `save`, in the format for this extension, whatever the file name. `graphviz`: an HTML file draws its diagrams itself."""
    form = check_form(target, ending)
    if graphviz and ending == ".html":
        form = functools.partial(html.page, graphviz=True)
    if redact and not recording.redacted:
        recording = redacted(recording)
    _write(target, form(recording))
    return recording.holds
