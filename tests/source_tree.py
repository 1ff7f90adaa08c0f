"""The project's own source files as data: which there are, and what each imports. The house tests read this.

In: the files under dynexplore/, parsed, never imported, so that a file that cannot run yet is still checked.
Out: `MODULES`, a table of dotted name -> `SourceFile`; `imports_of` resolves each import statement to a dotted name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "dynexplore"


@dataclass(frozen=True)
class SourceFile:
    """One Python file of the package: its dotted module name, its path and its syntax tree."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        """Whether this is an `__init__.py`."""
        return self.path.name == "__init__.py"

    @property
    def holds_a_protocol(self) -> bool:
        """Whether the file defines a Protocol: an agreement between rooms that would otherwise import each other."""
        return any(
            (dotted_name(base) or "").split(".")[-1] == "Protocol"
            for node in self.tree.body
            if isinstance(node, ast.ClassDef)
            for base in node.bases
        )

    def place(self, node: ast.AST) -> str:
        """`path:line` of a node, for messages."""
        return f"{self.path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


@dataclass(frozen=True)
class Import:
    """One imported module: who imports what, where, whether inside a function, whether under TYPE_CHECKING."""

    importer: SourceFile
    target: str
    node: ast.AST
    inside_function: bool
    only_for_types: bool

    def __str__(self) -> str:
        return f"{self.importer.place(self.node)}: {self.importer.name} imports {self.target}"


def parse_tree(folder: Path, prefix: str) -> dict[str, SourceFile]:
    """Every Python file below `folder`, keyed by dotted name (packages by the package's name)."""
    files: dict[str, SourceFile] = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join((prefix, *(parts[:-1] if parts[-1] == "__init__" else parts)))
        files[name] = SourceFile(name, path, ast.parse(path.read_text(), str(path)))
    return files


@cache
def modules() -> dict[str, SourceFile]:
    """The package's files."""
    return parse_tree(PACKAGE, "dynexplore")


def imports_of(file: SourceFile, known: dict[str, SourceFile]) -> Iterator[Import]:
    """Each module that `file` names in an import statement, or in `import_module("...")` with a plain string.

    `from package import name` counts as importing `package.name` when that is a module, else `package`.
    """
    for node, inside, for_types in _walk(file.tree, False, False):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, alias.name, node, inside, for_types)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(file, node)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield Import(file, full if full in known else base, node, inside, for_types)
        elif isinstance(node, ast.Call) and _called_name(node) in ("import_module", "__import__"):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield Import(file, argument.value, node, inside, for_types)


def dotted_name(node: ast.AST) -> str | None:
    """`torch._dynamo.config` of the attribute chain with that text; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else None


def _walk(node: ast.AST, inside: bool, for_types: bool) -> Iterator[tuple[ast.AST, bool, bool]]:
    for child in ast.iter_child_nodes(node):
        yield child, inside, for_types
        in_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        in_types = isinstance(child, ast.If) and dotted_name(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        yield from _walk(child, inside or in_function, for_types or in_types)


def _absolute(file: SourceFile, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = file.name.split(".") if file.is_package else file.name.split(".")[:-1]
    package = package[: len(package) - (node.level - 1)]
    return ".".join((*package, node.module) if node.module else package)


def _called_name(node: ast.Call) -> str | None:
    name = dotted_name(node.func)
    return name.rsplit(".", 1)[-1] if name else None
