"""What a Python that is not supported yet would need: run by that Python, it names what is missing. No promise that the rest works.

    python3.15 scripts/next_python.py

It compares the opcodes of the running Python with the newest version file, and compiles compat.h with its headers. Ends with 0
where nothing is missing, else with 1.
"""

from __future__ import annotations

import importlib
import opcode
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROOM = "dynexplore.engine.bytecode.versions"


def version_file() -> tuple[str, Any, Any, Any]:
    """The newest version file, its shared rows and the canonical instructions, without the packages that refuse this Python."""
    parts = ROOM.split(".")
    for depth in range(1, len(parts) + 1):
        package = ModuleType(".".join(parts[:depth]))
        package.__path__ = [str(ROOT.joinpath(*parts[:depth]))]
        sys.modules[package.__name__] = package
    newest = max(ROOT.joinpath(*parts).glob("py3*.py"), key=lambda path: int(path.stem[3:])).stem
    modules = [importlib.import_module(f"{ROOM}.{name}") for name in (newest, "rows")]
    return newest, *modules, importlib.import_module("dynexplore.engine.bytecode.opcodes")


def opcodes_missing(known: Any, canonical: Any) -> Iterator[str]:
    """Opcodes without a row, rows without an opcode, operands that are laid out differently."""
    running = {name for name, number in opcode.opmap.items() if number < 256}
    yield from (f"opcode {name}: no row" for name in sorted(running - set(known.LOWER) - set(canonical.OPCODES)))
    for table in ("caches", "name_shift", "local_pairs", "unit_heads", "backward_jumps"):
        gone = set(getattr(known.FACTS, table)) - running
        yield from (f"opcode {name}: gone, and {table} names it" for name in sorted(gone))
    caches: Any = getattr(opcode, "_inline_cache_entries", {})
    for name in sorted(running):
        count = caches[opcode.opmap[name]] if isinstance(caches, list) else caches.get(name, 0)
        if count != known.FACTS.caches.get(name, 0):
            yield f"opcode {name}: {count} cache entries, {known.FACTS.caches.get(name, 0)} in the version file"


def names_missing(rows: Any, known: Any) -> Iterator[str]:
    """Operators, intrinsics and common constants that the tables do not name."""
    for attribute, table in (
        ("_nb_ops", rows.BINARY_OPERATORS), ("_intrinsic_1_descs", rows.INTRINSICS_1), ("_intrinsic_2_descs", rows.INTRINSICS_2),
        ("_common_constants", getattr(known, "COMMON_CONSTANTS", ())),
    ):  # fmt: skip
        running = [one[1] if isinstance(one, tuple) else one for one in getattr(opcode, attribute, ())]
        for index, name in enumerate(running):
            if index >= len(table) or table[index] != name:
                yield f"opcode.{attribute}[{index}]: {name!r}, {table[index] if index < len(table) else 'nothing'!r} in the tables"


def frames_missing() -> Iterator[str]:
    """What the compiler says of compat.h with this Python's headers."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "next.c")
        source.write_text('#include "compat.h"\n')
        folders = [f"-I{sysconfig.get_path('include')}", f"-I{ROOT / 'dynexplore/engine/native'}"]
        command = [os.environ.get("CC", "cc"), "-fsyntax-only", "-DDYNEXPLORE_NEXT_PYTHON", *folders]
        try:
            ended = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
        except OSError as error:
            yield f"compat.h: not compiled ({error})"
            return
    yield from (f"compat.h: {line.split('error: ')[1]}" for line in ended.stderr.splitlines() if "error: " in line)


def main() -> int:
    """Print what is missing."""
    newest, known, rows, canonical = version_file()
    missing = [*opcodes_missing(known, canonical), *names_missing(rows, known), *frames_missing()]
    here = "{}.{}".format(*sys.version_info[:2])
    print(f"Python {here} beside {newest}.py and compat.h: {len(missing)} differences")
    print("\n".join(missing), end="\n" if missing else "")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
