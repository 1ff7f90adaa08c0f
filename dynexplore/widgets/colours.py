"""Syntax highlighting of Python source: Pygments' tokens, encoded as numbers and letters that the page decodes.

The idea: the explorer's data is created with the standard library alone (views/explorer_data.py); highlighting is an optional
addition, made here for both the notebook and the HTML file. The page has eight token kinds; finer distinctions of Pygments are
dropped.

In: the data of the explorer.
Out: `coloured(data)`, the same with `colours`: code -> for each line a text like "3k1.1d", the number of characters of each kind
     ("." is plain); the names of the kinds are in static/explorer/panes/source.js.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

from dynexplore.views.packages import MissingPackage, needed
from dynexplore.views.packing import packed

KINDS = {
    "Keyword": "k",
    "Operator.Word": "k",
    "Literal.String": "s",
    "Literal.String.Interpol": ".",
    "Literal.Number": "n",
    "Comment": "c",
    "Name.Function": "d",
    "Name.Class": "d",
    "Name.Decorator": "a",
    "Name.Builtin": "b",
    "Name.Exception": "b",
}
"""Pygments token types that are highlighted; a subtype has its parent's color, unless it has its own row."""

MOST_LINES = 5000
"""Longer sources are not highlighted: nobody reads them whole, and lexing this many lines takes a second."""


def coloured(data: dict[str, Any], pieces_of: dict[str, list[str]] | None = None) -> dict[str, Any]:
    """Return the explorer's data with its sources highlighted; without Pygments they stay plain. `pieces_of` are those of
    sources that were highlighted before, by code; new ones are added.

    >>> coloured({"codes": {"1": {"lines": ["def f(x):", "    return 1"]}}})["colours"]
    {'1': ['3k1.1d', '4.6k1.1n']}
    """
    pieces_of = {} if pieces_of is None else pieces_of
    try:
        pieces_of.update({number: pieces(code["lines"]) for number, code in data["codes"].items() if number not in pieces_of})
    except MissingPackage:
        return {**data, "colours": {}}
    return {**data, "colours": {number: pieces_of[number] for number in data["codes"]}}


def spelled(data: dict[str, Any], pieces_of: dict[str, list[str]] | None = None) -> str:
    """The explorer's data, highlighted and packed, as the text sent to a notebook; `pieces_of` is that of `coloured`."""
    return json.dumps(packed(coloured(data, pieces_of)), ensure_ascii=False, separators=(",", ":"))


def pieces(lines: Sequence[str]) -> list[str]:
    """For each line, the number of characters of each kind; the rest of the line is plain."""
    if len(lines) > MOST_LINES:
        return []
    by_line: list[list[tuple[int, str]]] = [[]]
    lexer = needed("pygments.lexers.python", "Colouring a source").PythonLexer(stripnl=False, stripall=False, ensurenl=False)
    for _, token, text in lexer.get_tokens_unprocessed("\n".join(lines)):
        kind = _kind(token)
        first, *rest = text.split("\n")
        _extend(by_line[-1], len(first), kind)
        for part in rest:
            by_line.append([])
            _extend(by_line[-1], len(part), kind)
    return [_spelled(line) for line in by_line]


def _extend(line: list[tuple[int, str]], count: int, kind: str) -> None:
    if line and line[-1][1] == kind:
        line[-1] = (line[-1][0] + count, kind)
    elif count:
        line.append((count, kind))


def _spelled(line: list[tuple[int, str]]) -> str:
    while line and line[-1][1] == ".":
        line.pop()
    return "".join(f"{count}{kind}" for count, kind in line)


@functools.cache
def _kind(token: tuple[str, ...]) -> str:
    """The letter for a Pygments token type, which is the tuple of its names, outermost first."""
    for count in range(len(token), 0, -1):
        kind = KINDS.get(".".join(token[:count]))
        if kind is not None:
            return kind
    return "."
