"""Runs of a program in a scratch directory, on a copy of its folder, each in a separate process.

The idea: `dynexplore try` and `dynexplore fix` change a program and ask whether it still computes the same. So each run begins with
the same random numbers, on a fresh copy of the script's folder, and ends after a number of compiled calls or seconds; none of the
user's files is written. Two runs are compared by the results of their compiled calls, by the inputs after each call, and by the
parameters and gradients at the end.

In: a script, changed texts of its files, environment variables. Out: `Run`, with its recording; `same_values(before, after)`.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.engines import TORCH
from dynexplore.recording.recording import Recording
from dynexplore.views.counts import plural

MOST_BYTES = 64_000_000
"""The maximum total size of the files copied from the script's folder; further files are left out."""

_LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", ".venv", "venv", "node_modules", "*.egg-info")


class CannotTry(Exception):
    """The program cannot be run; the message is one sentence with the reason."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the program: its recording, the results of its compiled calls, its output and exception.

    `state` are the parameters and gradients at the end, `folder` the copy in which it ran, `errors` its standard error;
    `differing_branches` counts, in an eager run, calls of torch.where whose branches differ in shape or dtype.
    """

    recording: Recording
    results: list[Any]
    printed: str
    error: str
    state: list[Any] = field(default_factory=list)
    folder: str = ""
    errors: str = ""
    differing_branches: int = 0
    attempts: int = 0
    raised: str = ""
    """How many compiled calls began, and the type of the first exception of one; a script may catch it."""

    @property
    def is_compiled(self) -> bool:
        """Whether the program called anything that torch.compile compiles, even if each call raised."""
        return bool(self.results or self.attempts or any(self.counts))

    @property
    def calls(self) -> str:
        """The number of compiled calls, and how many of these raised, in words."""
        count = max(self.attempts, len(self.results))
        failed = count - len(self.results)
        which = failed if failed < count else "all" if count > 1 else "it"
        return f"{plural(count, 'compiled call')}{f' ({which} raised {self.raised})' if failed else ''}"

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of graphs, graph breaks and recompiles."""
        return len(self.recording.graphs), len(self.recording.breaks), len(self.recording.of(ev.Recompiled))


@dataclass(frozen=True, slots=True)
class ScratchRuns:
    """Runs of one script: the limits on the compiled calls and the seconds of each."""

    script: Path
    scratch: Path
    args: tuple[str, ...]
    calls: int
    seconds: float

    def run(self, changes: Mapping[str, str], environment: Mapping[str, str] | None = None, *, eager: bool = False) -> Run:
        """Run it with some files changed (path within the script's folder -> text); `eager`: with torch.compile disabled."""
        folder = Path(tempfile.mkdtemp(dir=self.scratch)).resolve() / "copy"
        _copy(self.script.resolve().parent, folder)
        for name, text in changes.items():
            (folder / name).write_text(text, encoding="utf-8")
        report = folder.parent / "report.json"
        words = [sys.executable, "-m", "dynexplore.watching.remedy_process", str(folder / self.script.name), str(report)]
        here = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH", ""))))
        variables = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", **(environment or {})}
        if eager:
            variables["TORCHDYNAMO_DISABLE"] = "1"
        try:
            done = subprocess.run(
                [*words, str(self.calls), *self.args], cwd=folder, env=variables, capture_output=True, text=True,
                timeout=self.seconds, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Run(Recording(engine=TORCH), [], "", f"TimeoutError: it took longer than {self.seconds:g} s")
        if not report.is_file():
            last = done.stderr.strip().splitlines()[-1:] or ["no word"]
            return Run(Recording(engine=TORCH), [], done.stdout, f"RuntimeError: it ended with {last[0]}")
        plain = json.loads(report.read_text(encoding="utf-8"))
        return Run(
            Recording.from_plain(plain["recording"]), plain["results"], done.stdout, plain["error"], plain["state"], str(folder),
            done.stderr, plain["differing_branches"], plain["attempts"], plain["raised"],
        )  # fmt: skip


def _copy(folder: Path, to: Path) -> None:
    """Copy the script's folder, up to the size limit: files that a program reads, modules that it imports."""
    free_bytes = MOST_BYTES

    def left_out(where: str, names: list[str]) -> set[str]:
        nonlocal free_bytes
        out = set(_LEFT_OUT(where, names))
        for name in sorted(set(names) - out):
            path = Path(where) / name
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                out.add(name)
            elif path.is_file():
                size = path.stat().st_size
                if size > free_bytes:
                    out.add(name)
                else:
                    free_bytes -= size
        return out

    shutil.copytree(folder, to, ignore=left_out)


# -- results -----------------------------------------------------------------------------------------------------------


def same_values(before: Run, after: Run) -> bool | None:
    """Whether two runs had the same results: of their compiled calls, or else their output; None if neither is available, or if
    all compiled calls raised before.
    """
    if before.results and after.results:
        return _alike(before.results, after.results) and _alike(before.state, after.state)
    if before.attempts and not before.results:
        return None
    return before.printed == after.printed if before.printed or after.printed else None


def _alike(before: Any, after: Any) -> bool:
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_alike, before, after))
    if isinstance(before, float) and isinstance(after, float):
        return math.isclose(before, after, rel_tol=1e-4, abs_tol=1e-5) or (math.isnan(before) and math.isnan(after))
    return bool(before == after)
