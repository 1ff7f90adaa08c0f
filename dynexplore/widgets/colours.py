"""The colours of Python source: what Pygments says of each piece, as numbers and letters that the page reads.

Which idea lives here: the data of the explorer is made with the standard library alone (views/explorer_data.py), and the
colours are an addition to it, made here for the notebook and the HTML file alike. The page knows eight kinds of pieces; what
Pygments tells apart beyond them looks the same.

In:  the data of the explorer.
Out: `coloured(data)`, the same with `colours`: code -> for each line, pairs of how many letters and of which kind.

PyTorch has no counterpart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

KINDS: dict[_TokenType, str] = {
    Keyword: "keyword",
    Operator.Word: "keyword",
    String: "string",
    String.Interpol: "",
    Number: "number",
    Comment: "comment",
    Name.Function: "definition",
    Name.Class: "definition",
    Name.Decorator: "decorator",
    Name.Builtin: "builtin",
    Name.Exception: "builtin",
}
"""Pygments' types that have a colour; a type inside one of them has its colour, unless it has a row of its own."""

MOST_LINES = 5000
"""Longer sources stay plain: nobody reads them whole, and the lexer takes a second for so many lines."""


def coloured(data: dict[str, Any]) -> dict[str, Any]:
    """Return the explorer's data with the colours of its sources.

    >>> coloured({"codes": {"1": {"lines": ["def f(x):", "    return 1"]}}})["colours"]
    {'1': [[3, 'keyword', 1, '', 1, 'definition'], [4, '', 6, 'keyword', 1, '', 1, 'number']]}
    """
    return {**data, "colours": {number: pieces(code["lines"]) for number, code in data["codes"].items()}}


def pieces(lines: Sequence[str]) -> list[list[int | str]]:
    """For each line [letters, kind, letters, kind, ...]; what follows the last pair is plain."""
    if len(lines) > MOST_LINES:
        return []
    found: list[list[int | str]] = [[]]
    lexer = PythonLexer(stripnl=False, stripall=False, ensurenl=False)
    for _, kind, text in lexer.get_tokens_unprocessed("\n".join(lines)):
        first, *rest = text.split("\n")
        _extend(found[-1], first, _kind(kind))
        for part in rest:
            found.append([])
            _extend(found[-1], part, _kind(kind))
    for line in found:
        if line and line[-1] == "":
            del line[-2:]
    return found


def _extend(line: list[int | str], text: str, kind: str) -> None:
    if not text:
        return
    if line and line[-1] == kind:
        count = line[-2]
        assert isinstance(count, int)
        line[-2] = count + len(text)
    else:
        line += [len(text), kind]


def _kind(token: _TokenType) -> str:
    at: _TokenType | None = token
    while at is not None:
        if at in KINDS:
            return KINDS[at]
        at = at.parent
    return ""
