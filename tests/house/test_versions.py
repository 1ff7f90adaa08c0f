"""Differences between Python versions live in one place: engine/bytecode/versions/ and, for C, compat.h."""

from __future__ import annotations

import ast
import re

from source_tree import PACKAGE, dotted_name, modules

ROOM = "dynexplore.engine.bytecode.versions"
ASKS_VERSION = {"sys.version_info", "sys.hexversion", "sys.version", "platform.python_version"}
C_MACROS = re.compile(r"\bPY_(VERSION_HEX|MAJOR_VERSION|MINOR_VERSION|MICRO_VERSION)\b")


def test_python_files_do_not_ask_for_the_version() -> None:
    """`sys.version_info` and its like stand only in engine/bytecode/versions/."""
    asking = []
    for file in modules().values():
        if file.name == ROOM or file.name.startswith(ROOM + "."):
            continue
        for node in ast.walk(file.tree):
            named = isinstance(node, ast.ImportFrom) and node.module in ("sys", "platform")
            if dotted_name(node) in ASKS_VERSION or (
                named and any(f"{node.module}.{alias.name}" in ASKS_VERSION for alias in node.names)
            ):
                asking.append(file.place(node))
    assert not asking, f"move the difference into {ROOM}: {asking}"


def test_c_files_do_not_ask_for_the_version() -> None:
    """`PY_VERSION_HEX` and its like stand only in compat.h."""
    asking = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in sorted(PACKAGE.rglob("*.[ch]"))
        if path.name != "compat.h"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if C_MACROS.search(line)
    ]
    assert not asking, f"move the difference into compat.h: {asking}"
