"""A script as the command line runs it: a function, with the arguments and the path that Python would give it.

Which idea lives here: a script runs unchanged, once, under whatever looks at it; its own failure is printed as Python would
print it and becomes a status, so that the report still follows. Its own words are kept apart from the command's options.

In:  the path of a script, its arguments. Out: a function that runs it, and the status it ended with.

PyTorch has no counterpart.
"""

from __future__ import annotations

import ast
import contextlib
import runpy
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import dynexplore


class Mistake(Exception):
    """The command cannot be carried out; the message says why in one sentence."""


class Program:
    """A script as a function: run as `python SCRIPT.py ARGS` would, its end remembered and not passed on."""

    def __init__(self, script: Path) -> None:
        self.script = script
        self.status = 0

    def as_function(self) -> Callable[[], None]:
        """A function of the script's file, named like it (what the engine explains and puts in its title), that runs it.

        Its own frame is no part of what is explained; what it calls is. So nothing of this package's may stand between
        the two: frames of this package run with all that they call as plain Python.
        """

        run = self._runner()
        code = run.__code__.replace(co_filename=str(self.script), co_name=self.script.name, co_qualname=self.script.name)
        program = types.FunctionType(code, run.__globals__, self.script.name, None, run.__closure__)
        return dynexplore.skip(program)

    def run(self) -> None:
        """Run it, with this engine off."""
        self._runner()()

    def _runner(self) -> types.FunctionType:
        def run() -> None:
            try:
                runpy.run_path(str(self.script), run_name="__main__")
            except SystemExit as end:
                self.exited(end)
            except Exception as error:
                self.failed(error)

        return cast(types.FunctionType, run)

    def _is_own(self, code: types.CodeType) -> bool:
        """Whether it is code of the script, and not the function that stands for it."""
        return code.co_filename == str(self.script) and code.co_name != self.script.name

    def exited(self, end: SystemExit) -> None:
        """The script ended itself; the report still follows."""
        self.status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)

    def failed(self, error: Exception) -> None:
        """The script raised: print its own frames only, as Python would; the report still follows."""
        frames = error.__traceback__
        while frames is not None and not self._is_own(frames.tb_frame.f_code):
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames or error.__traceback__)
        self.status = 1


def uses_torch_compile(script: Path) -> bool:
    """Whether a script, or a file beside it that it imports, names `torch.compile`, or calls the `.compile()` of some object.

    Asked before it runs, for an engine that is not asked must not be in the way. What calls torch.compile from further off is
    noticed when the script has ended.
    """
    waiting: list[Path] = [script]
    seen: set[Path] = set()
    while waiting:
        file = waiting.pop()
        if file in seen or not file.is_file():
            continue
        seen.add(file)
        try:
            nodes = list(ast.walk(ast.parse(file.read_bytes())))
        except SyntaxError:  # running it will say so
            continue
        if any(map(_is_torch_compile, nodes)):
            return True
        waiting += [script.parent / f"{name.partition('.')[0]}.py" for node in nodes for name in _imported(node)]
    return False


def _is_torch_compile(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "torch" and any(name.name == "compile" for name in node.names)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return (node.value.id, node.attr) == ("torch", "compile")
    is_method = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute)
    return is_method and node.value.func.attr == "compile"  # type: ignore[attr-defined]


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [name.name for name in node.names] if isinstance(node, ast.Import) else []


@contextlib.contextmanager
def as_python_starts_it(script: Path, args: Sequence[str]) -> Iterator[None]:
    """What `python SCRIPT.py ARGS` sets up: the script's own arguments, and its folder first on the path."""
    path, argv = list(sys.path), list(sys.argv)
    sys.path.insert(0, str(script.resolve().parent))
    sys.argv[:] = [str(script), *args]
    try:
        yield
    finally:
        sys.path[:], sys.argv[:] = path, argv


OWN_OPTIONS = {
    "explain": (("--redact", "--graphviz", "--no-real"), ("--html", "--json", "--save", "--engine")),
    "watch": (("--redact", "--graphviz", "--artifacts", "--no-steps"), ("--html", "--json", "--save", "--engine", "--ranks")),
    "diagnose": ((), ("--html", "--backend", "--tolerance", "--engine")),
    "minify": ((), ("--html", "--backend", "--tolerance", "--after", "--out", "--engine")),
    "breaks": ((), ("--html", "--engine")),
    "coverage": ((), ("--html", "--engine", "--backend")),
    "compare": (("--engines",), ("--html", "--json", "--methods", "--seconds")),
}
"""Commands that take a script and its arguments -> their own options: those that stand alone, those with a value."""


def script_words_last(words: Sequence[str]) -> list[str]:
    """The command's own options moved before the script, wherever they stand before a `--`.

    >>> script_words_last(["explain", "s.py", "3", "--html", "out.html", "--", "--json"])
    ['explain', '--html', 'out.html', 's.py', '3', '--json']
    """
    if not words or words[0] not in OWN_OPTIONS:
        return list(words)
    alone, with_value = OWN_OPTIONS[words[0]]
    rest = list(words[1:])
    after: list[str] = []
    if "--" in rest:
        cut = rest.index("--")
        rest, after = rest[:cut], rest[cut + 1 :]
    own: list[str] = []
    others: list[str] = []
    while rest:
        word = rest.pop(0)
        name, is_joined, _ = word.partition("=")
        if name in alone:
            own.append(word)
        elif name in with_value:
            own += [word] if is_joined or not rest else [word, rest.pop(0)]
        elif word in ("-h", "--help") and not others:
            own.append(word)
        else:
            others.append(word)
    return [words[0], *own, *others, *after]
