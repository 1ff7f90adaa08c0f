"""Self-contained source: a function or class with everything it refers to.

The idea: a failing backend is most often a function of a user's script: it calls other functions there, reads constants, subclasses
a class. The receiver of `repro.py` has none of these. So every name in the source is resolved in the function's own scope, and
defined before it: installed modules as imports, plain values as literals, functions and classes of the program as their source,
recursively.

In: a function, class or object. Out: the text of a program that defines it under a name; NoSource if there is none.

PyTorch's counterpart: `PackageExporter` in torch/package/package_exporter.py, for whole packages.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import re
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from dynexplore.engine.raw_attributes import closure_values
from dynexplore.tools.importable import import_name, is_installed


class NoSource(Exception):
    """The source needs a value that cannot be written as text; the message names it."""


def source_of(value: Any, name: str) -> str:
    """The text that defines `name` as this function, class or object.

    >>> print(source_of(torch.add, "plus"), end="")
    from torch import add as plus
    >>> limit = 3
    >>> print(source_of(limit, "limit"), end="")
    limit = 3
    """
    text = _Text()
    text.define(name, value)
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(text.lines)).strip("\n") + "\n"


class _Text:
    """Definitions, in dependency order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._defined: dict[str, Any] = {}

    def define(self, name: str, value: Any) -> None:
        """Define `name` as this value. Raises NoSource."""
        if name in self._defined:
            if self._defined[name] is not value and self._defined[name] != value:
                raise NoSource(f"two things are named {name!r}")
            return
        self._defined[name] = value
        imported = import_name(value)
        if imported is not None and is_installed(imported[0]):
            self._import(name, *imported)
        elif isinstance(value, types.FunctionType | type):
            self._source(name, value)
        elif isinstance(value, torch.dtype | torch.device) or is_plain(value):
            self.lines.append(f"{name} = {value!r}")
        elif isinstance(value, types.MethodType):
            self.define(f"{name}_owner", value.__self__)
            self.lines.append(f"{name} = {name}_owner.{value.__func__.__name__}")
        else:
            self._object(name, value)

    def _import(self, name: str, module: str, inner: str) -> None:
        if not inner:
            self.lines.append(f"import {module}" if module == name else f"import {module} as {name}")
            return
        first, _, rest = inner.partition(".")
        if module != "builtins" or name != inner:
            self.lines.append(f"from {module} import {first}{f' as {name}' if not rest and first != name else ''}")
        if rest:
            self.lines.append(f"{name} = {inner}")

    def _source(self, name: str, value: Any) -> None:
        """A function or class of the program, after everything that it refers to."""
        tree, text = _parsed(value)
        if isinstance(tree, ast.Lambda):
            self._names_of(tree, value)
            self.lines.append(f"{name} = {ast.unparse(tree)}")
            return
        own = tree.name
        self._defined.setdefault(own, value)
        self._names_of(tree, value)
        self.lines += ["", "", text.rstrip("\n"), "", ""]
        if own != name:
            self.lines.append(f"{name} = {own}")

    def _names_of(self, tree: ast.AST, value: Any) -> None:
        scope = dict(_scope(value))
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in scope:
                global_value = scope[node.id]
                if getattr(builtins, node.id, None) is not global_value:
                    self.define(node.id, global_value)

    def _object(self, name: str, value: Any) -> None:
        """An object of the program whose attributes can be written as text."""
        kind = type(value)
        state = getattr(value, "__dict__", None)
        if is_installed(kind.__module__) or not isinstance(state, dict):
            raise NoSource(f"{name} is {_an(kind)}")
        own = {key: attribute for key, attribute in state.items() if not key.startswith("__dynexplore_")}
        self.define(kind.__name__, kind)
        self.lines.append(f"{name} = {kind.__name__}.__new__({kind.__name__})")
        for key, attribute in own.items():
            self.define(f"{name}_{key}", attribute)
            self.lines.append(f"{name}.{key} = {name}_{key}")


def _an(kind: type) -> str:
    return f"an object of {kind.__module__}.{kind.__qualname__}"


def is_plain(value: Any) -> bool:
    """Whether evaluating its repr gives an equal value."""
    if isinstance(value, Mapping):
        return type(value) is dict and all(map(is_plain, value)) and all(map(is_plain, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return type(value) in (list, tuple, set, frozenset) and all(map(is_plain, value))
    return value is None or value is ... or type(value) in (bool, int, float, complex, str, bytes)


def _parsed(value: Any) -> tuple[Any, str]:
    """The definition as a syntax tree, and as text without decorators."""
    try:
        text = textwrap.dedent(_cell_source(value) or inspect.getsource(value))
    except (OSError, TypeError):
        raise NoSource(f"{getattr(value, '__qualname__', value)!r} has no source file") from None
    try:
        definition = ast.parse(text).body[0]
    except SyntaxError:
        raise NoSource(f"the source of {value.__qualname__!r} cannot be read by itself") from None
    if isinstance(definition, ast.FunctionDef | ast.ClassDef):
        if isinstance(value, type) == isinstance(definition, ast.ClassDef):
            lines = text.splitlines()[definition.lineno - 1 : definition.end_lineno]
            definition.decorator_list = []
            return definition, "\n".join(lines)
    lambdas = [node for node in ast.walk(definition) if isinstance(node, ast.Lambda)]
    if len(lambdas) != 1:
        raise NoSource(f"the source of {value.__qualname__!r} cannot be separated from the code around it")
    return lambdas[0], text


def _cell_source(value: Any) -> str | None:
    """The source of a class of a notebook cell, for which `inspect` looks in a file that does not exist."""
    first = next(_methods(value), None) if isinstance(value, type) else None
    if first is None:
        return None
    lines = linecache.getlines(first.__code__.co_filename)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return None
    line = first.__code__.co_firstlineno
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == value.__name__ and node.lineno <= line <= (node.end_lineno or line):
            return "".join(lines[node.lineno - 1 : node.end_lineno])
    return None


def _scope(value: Any) -> Iterator[tuple[str, Any]]:
    """The scope of a function, or of the functions of a class: globals, overridden by closure variables."""
    functions = [value] if isinstance(value, types.FunctionType) else list(_methods(value))
    if isinstance(value, type):
        yield from vars(sys.modules[value.__module__]).items() if value.__module__ in sys.modules else ()
        for base in value.__bases__:
            yield base.__name__, base
    for function in functions:
        yield from function.__globals__.items()
    for function in functions:
        yield from ((name, value) for name, value in closure_values(function) if name != "__class__")


def _methods(kind: type) -> Iterator[types.FunctionType]:
    for attribute in vars(kind).values():
        function = getattr(attribute, "__func__", getattr(attribute, "fget", attribute))
        if isinstance(function, types.FunctionType):
            yield function
