"""Docstrings as the house writes them, turned into what Sphinx reads.

Our docstrings are plain prose, with code in single backticks and examples after `>>>`. Sphinx reads reStructuredText, where a
lone `*` begins emphasis and a name that ends in `_` is a link. So prose is escaped, code becomes a literal, and the first
line of an example gets the empty line before it that makes it one.
"""

from __future__ import annotations

import re
from typing import Any

_CODE = re.compile(r"`([^`\n]+)`")
_SPECIAL = re.compile(r"([*|\\]|(?<=\w)_(?=\W|$))")


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", _rewrite)
    return {"parallel_read_safe": True}


def _rewrite(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = rewritten(lines)


def rewritten(lines: list[str]) -> list[str]:
    """The lines of a docstring as reStructuredText."""
    made: list[str] = []
    is_example = False
    text = _join_code("\n".join(lines)).split("\n")
    for line in text:
        if line.lstrip().startswith(">>>"):
            if not is_example:
                made.append("")
            is_example = True
        elif not line.strip():
            is_example = False
        if is_example:
            made.append(line)
        else:
            _prose(line, made)
    return made


def _join_code(text: str) -> str:
    """Code that was wrapped between two backticks stands on one line."""
    return re.sub(r"`([^`\n]*)\n\s*([^`\n]*)`(?=[\s.,;:)]|$)", lambda m: f"`{m[1]} {m[2]}`" if m[1] and m[2] else m[0], text)


def _prose(line: str, made: list[str]) -> None:
    parts = _CODE.split(line)
    words = [f"``{part}``" if number % 2 else _SPECIAL.sub(r"\\\1", part) for number, part in enumerate(parts)]
    stripped = line.strip()
    # a list begins a paragraph, an indented explanation of an argument needs none
    if stripped.startswith("- ") and made and made[-1].strip() and not made[-1].strip().startswith("- "):
        made.append("")
    heading = re.fullmatch(r"(\s*)(Args|Attributes|Returns|Raises):", line)
    if heading:
        made += ["", f"{heading[1]}{heading[2]}:", ""]
        return
    made.append("".join(words))
