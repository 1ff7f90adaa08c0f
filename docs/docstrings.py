"""Docstrings as the house writes them, turned into what Sphinx reads.

Our docstrings are plain prose, with code in single backticks and examples after `>>>`. Sphinx reads reStructuredText, where a
lone `*` begins emphasis and a name that ends in `_` is a link. So prose is escaped, code becomes a literal, and the first
line of an example gets the empty line before it that makes it one. What is said of each parameter after `Args:` becomes a list.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

_CODE = re.compile(r"`([^`\n]+)`")
_SPECIAL = re.compile(r"([*|\\]|(?<=\w)_(?=\W|$))")


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", _rewrite)
    return {"parallel_read_safe": True}


def _rewrite(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = rewritten(lines, _parameters(obj))


def _parameters(obj: Any) -> list[str]:
    try:
        return list(inspect.signature(obj).parameters)
    except (TypeError, ValueError):
        return []


def rewritten(lines: list[str], parameters: Sequence[str] = ()) -> list[str]:
    """The lines of a docstring as reStructuredText; `parameters` are those of the signature."""
    made: list[str] = []
    lines = list(_with_fields(lines, parameters))[:-1]
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


def _with_fields(lines: list[str], parameters: Sequence[str]) -> Iterator[str]:
    """The paragraph that begins with `Args:`, one field for each parameter that it names."""
    paragraph: list[str] | None = None
    for line in [*lines, ""]:
        if paragraph is None and parameters and line.startswith("Args:"):
            paragraph = []
        if paragraph is None:
            yield line
        elif line.strip():
            paragraph.append(line.strip())
        else:
            yield from _fields(" ".join(paragraph).removeprefix("Args:").strip(), parameters)
            yield ""
            paragraph = None


def _fields(text: str, parameters: Sequence[str]) -> Iterator[str]:
    names = "|".join(sorted(map(re.escape, parameters), key=len, reverse=True))
    parts = re.split(rf"(?:^|(?<=[.;] ))({names}): ", text)
    if parts[0].strip():
        yield parts[0].strip()
        yield ""
    for name, words in zip(parts[1::2], parts[2::2], strict=True):
        yield f":param {name}: {words.strip()}"


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
    made.append("".join(words))
