"""A recording as a file, in the format given by the file's extension; each format states its content.

The idea: users who share a file must know what is in it. So every format contains the same sentence (`Recording.holds`): in the
page's footer, as a key of the JSON, as the last line of the report, as a comment of DOT and SVG.

A `.json` file also contains the data of its page, so that the viewer (html.viewer) shows it without Python. `.json.gz`, the packed
form, is the same, compressed: `Recording.from_json` and the viewer read both.

In: a Recording, or anything with one; a path.
Out: `save(shown, path)`, and `FORMS`.

PyTorch's counterpart: the report folders of tlparse.
"""

from __future__ import annotations

import functools
import gzip
import json
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
from dynexplore.widgets.document import page_data


def _report(recording: Recording) -> str:
    return f"{text.report(recording)}\n\n{recording.holds}\n"


def _dot(recording: Recording) -> str:
    """One digraph per graph, concatenated, which DOT files allow."""
    graphs = (dot.dot(graph.nodes, name=graph.name) for graph in recording.graphs)
    return "\n".join([f"// {recording.holds}", *graphs]) + "\n"


def _json(recording: Recording) -> str:
    """What `to_json` writes, with the data of the page as the last key."""
    plain = {**recording.to_plain(), "page": page_data(recording)}
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _packed(recording: Recording) -> bytes:
    return gzip.compress(_json(recording).encode("utf-8", "surrogatepass"), mtime=0)


PACKED = ".json.gz"

FORMS: dict[str, Callable[[Recording], str | bytes]] = {
    ".html": html.page,
    ".json": _json,
    PACKED: _packed,
    ".txt": _report,
    ".dot": _dot,
    ".svg": lambda recording: svg(recording.graphs, note=recording.holds),
}
"""File extension -> the content of the file."""


def ending_of(path: Path) -> str:
    """The extension that determines the format.

    >>> ending_of(Path("bert.HTML")), ending_of(Path("bert.v2.json.gz"))
    ('.html', '.json.gz')
    """
    return PACKED if path.name.lower().endswith(PACKED) else path.suffix.lower()


def save(shown: Any, path: str | os.PathLike[str], *, redact: bool = False) -> str:
    """Write a recording to a file and return a sentence about its content. Raises ExportError, in one sentence, if it cannot.

    >>> save(Recording(), "graph.pdf")
    Traceback (most recent call last):
        ...
    dynexplore.engine.errors.ExportError: graph.pdf: a recording is saved as .html, .json, .json.gz, .txt, .dot or .svg
    """
    if isinstance(shown, Ranks):
        return write_ranks(shown, Path(path), Path(path).suffix.lower(), redact=redact)
    if isinstance(shown, TwoCaptures):
        return _write_two(shown, Path(path), redact=redact)
    return write(recording_of(shown), Path(path), ending_of(Path(path)), redact=redact)


FORMS_OF_RANKS = (".html", ".txt")
"""The formats that several ranks share."""


def check_form_of_ranks(target: Path, ending: str) -> None:
    """Raise ExportError if several ranks cannot be saved in this format."""
    if ending not in FORMS_OF_RANKS:
        raise dynexplore.exc.ExportError(f"{target}: several ranks can be saved only as .html or .txt; otherwise select one rank")


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
        raise dynexplore.exc.ExportError(f"{target}: two captures can be saved only as {', '.join(forms)}")
    shown = captures.redacted() if redact else captures
    _write(target, form(shown))
    return shown.holds


def _write(target: Path, written: str | bytes) -> None:
    try:
        if isinstance(written, bytes):
            target.write_bytes(written)
        else:
            target.write_text(written, encoding="utf-8")
    except OSError as error:
        raise dynexplore.exc.ExportError(f"{target} cannot be written: {error.strerror}") from None


def check_form(target: Path, ending: str) -> Callable[[Recording], str | bytes]:
    """The format for this extension. Raises ExportError if there is none."""
    if ending not in FORMS:
        *others, last = FORMS
        raise dynexplore.exc.ExportError(f"{target}: a recording can be saved only as {', '.join(others)} or {last}")
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
