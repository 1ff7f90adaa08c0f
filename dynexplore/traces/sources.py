"""The program's source lines for a log, if its files still exist.

The idea: a log names files and lines, but does not contain source. On the machine where the program is, the function at such a line
is read from its file as text; nothing is imported or run. A log is untrusted and may name any file of this machine: so a file is
read only if it is Python, and only a function is shown that starts at or contains that line and has the name in the log.

In: a file, a line, and the name of a function.
Out: `Sources.function(...)`: its qualified name, first line and lines; None if it is not found.

PyTorch's counterpart: none; tlparse shows no source.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from pathlib import Path

MOST = 4_000_000
"""The maximum size in bytes of a file that is read."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function in its file; `first` is the line at which its text starts, that of its first decorator."""

    qualname: str
    first: int
    text: str


class Sources:
    """The files that were read, each once."""

    def __init__(self) -> None:
        self._functions: dict[str, list[tuple[int, int, str, str]]] = {}
        self._lines: dict[str, list[str]] = {}

    def function(self, file: str, line: int, name: str) -> Function | None:
        """The innermost function of that name that contains a line."""
        if file not in self._functions:
            self._functions[file] = self._read(file)
        rows = [row for row in self._functions[file] if row[0] <= line <= row[1] and row[2] == name]
        if not rows:
            return None
        first, last, _, qualname = max(rows)
        return Function(qualname, first, "\n".join(self._lines[file][first - 1 : last]))

    def _read(self, file: str) -> list[tuple[int, int, str, str]]:
        path = Path(file)
        try:
            if path.suffix != ".py" or not path.is_file() or path.stat().st_size > MOST:
                return []
            text = path.read_text(encoding="utf-8")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            return []
        self._lines[file] = text.splitlines()
        return _functions(tree, "")


def _functions(tree: ast.AST, path: str) -> list[tuple[int, int, str, str]]:
    """First and last line, name and qualified name of each function in the tree."""
    rows = []
    for node in ast.iter_child_nodes(tree):
        inner = path
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            rows.append((first, node.end_lineno or node.lineno, node.name, path + node.name))
            inner = f"{path}{node.name}.<locals>."
        elif isinstance(node, ast.Lambda):
            rows.append((node.lineno, node.end_lineno or node.lineno, "<lambda>", f"{path}<lambda>"))
        elif isinstance(node, ast.ClassDef):
            inner = f"{path}{node.name}."
        rows += _functions(node, inner)
    return rows
