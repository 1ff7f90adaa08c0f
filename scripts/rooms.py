"""Counts the files and lines of each room of the engine, at one commit and at another.

In:  two commits, the later one HEAD if it is left out. Out: a table in Markdown, "room | files | lines | files | lines".

    python scripts/rooms.py 75aabfdb^        before aliasing/ and specialization/ were rooms, and now
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
ENGINE = "dynexplore/engine"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=ROOT).stdout


def sizes(commit: str) -> tuple[Counter[str], Counter[str]]:
    """The number of files and of lines (Python and C) of each room at a commit."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for name in _git("ls-tree", "-r", "--name-only", commit, ENGINE).split():
        if PurePosixPath(name).suffix in (".py", ".c", ".h"):
            room = str(PurePosixPath(name).parent.relative_to(ENGINE))
            files[room] += 1
            lines[room] += _git("show", f"{commit}:{name}").count("\n")
    return files, lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after", nargs="?", default="HEAD")
    options = parser.parse_args()
    counts = (*sizes(options.before), *sizes(options.after))
    print("| room | files before | lines before | files | lines |\n|---|---:|---:|---:|---:|")
    for room in sorted({*counts[0], *counts[2]}):
        print(f"| `{room}` |", " | ".join(f"{count[room]:,}" for count in counts), "|")
    print("| all |", " | ".join(f"{count.total():,}" for count in counts), "|")


if __name__ == "__main__":
    main()
