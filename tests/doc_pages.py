"""The pages of docs/ as programs: every code block runs, and what a page says it prints is what it prints.

A page is read from top to bottom. These fences are run, in one process per page, in a folder of its own:

    python, ipython     in IPython, so that magics work and code has a source; names live on to the next block
    console             each line after `$ ` in a shell, with this Python's programs first in PATH
    text, below one     what it printed to standard output; `...` stands for anything, measured numbers for any number

Other fences (`json`, `text` that stands alone) are for reading. A page may say nothing runs here: `<!-- not run: why -->`
before a fence takes it out, and a test reads the reasons.

In:  Markdown files.
Out: `read(path)`: the blocks; `run(blocks, folder)`: what each printed.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from warm_python import python

_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<excuse>[^>]*) -->\n+)?```(?P<kind>[^\n`]*)\n(?P<text>.*?)^```$\n*(?:```text\n(?P<says>.*?)^```$)?",
    re.M | re.S,
)
RUN_HERE = ("python", "ipython", "console")


@dataclass(frozen=True)
class Block:
    """One fence: its kind, its text, the line it begins at, what the page says that it prints, and why it is not run."""

    kind: str
    text: str
    line: int
    says: str | None = None
    excuse: str | None = None


def read(page: Path) -> list[Block]:
    """Every fence that is a program, in order."""
    text = page.read_text(encoding="utf-8")
    found = [
        Block(match["kind"], match["text"], text[: match.start()].count("\n") + 1, match["says"], match["excuse"])
        for match in _FENCE.finditer(text)
    ]
    return [block for block in found if block.kind in RUN_HERE]


def run(blocks: list[Block], folder: Path, seconds: float = 600) -> list[str]:
    """Run the blocks of one page; what each printed. AssertionError with its output for one that fails."""
    programs = json.dumps([[block.kind, block.text] for block in blocks])
    root = Path(__file__).resolve().parents[1]
    path = os.pathsep.join([str(_programs(folder)), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(root), "IPYTHONDIR": str(folder / ".ipython"), "COLUMNS": "80"}
    program = Path(__file__).with_name("run_doc_page.py")
    done = python(program, stdin=programs, cwd=folder, env=environment, timeout=seconds)
    last = done.stdout.strip().splitlines()[-1:] or [""]
    assert done.returncode == 0 and last[0].startswith("["), f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    results: list[tuple[str, str]] = json.loads(last[0])
    for block, (printed, failure) in zip(blocks, results, strict=False):
        assert not failure, f"the block at line {block.line} failed:\n{block.text}\n{printed}\n{failure}"
    return [printed for printed, _ in results]


def _programs(folder: Path) -> Path:
    """A folder with the command `dynexplore`, as an installed package has it."""
    programs = folder / ".programs"
    programs.mkdir()
    command = programs / "dynexplore"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dynexplore "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return programs


# times, shares and sizes differ from run to run and from machine to machine; counts do not
_MEASURED = re.compile(r"\d+\.\d+(e[-+]\d+)?|\d+(?= (?:us|ms|s|MiB|KB)\b)|(?<=__resume_at_)\d+")

_LONG_ENOUGH = re.compile(r",\s+\d+\.\d+\s+s\s+of\s+compile\s+time")  # a report leaves out what took less than 5 ms


def _in_any_order(text: str) -> str:
    """The text with its numbered places sorted by their words: which of two that take as long comes first differs between runs."""
    before, *places = re.split(r"^\d+\. ", text, flags=re.MULTILINE)
    if not places:
        return text
    places[-1], _, after = places[-1].partition("\n\n")
    words = [" ".join(_MEASURED.sub("N", _LONG_ENOUGH.sub("", place)).split()) for place in places]
    return "\n".join([before, *sorted(words), after])


def is_as_said(says: str, printed: str) -> bool:
    """Whether a block printed what the page says: `...` stands for anything, and what is measured is not compared."""
    says, printed = (_MEASURED.sub("N", _LONG_ENOUGH.sub("", _in_any_order(text))) for text in (says, printed))
    checker = doctest.OutputChecker()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return checker.check_output(says.strip() + "\n", printed.strip() + "\n", flags)
