"""The runs of a TORCH_TRACE folder: which logs belong to the same run of a program.

The idea: torch never empties the folder, so a second run adds its logs to those of the first. No log names its run, but each line
has a time. Logs whose times overlap are of one run; so is a log of a further rank, because a short job may start its ranks one
after the other.

In: the logs of a folder. Out: `runs_in(files)`: `Run`s, the earliest first; `chosen(path, files, number)`, one of them, and a
sentence about the others.

PyTorch's counterpart: none; tlparse takes one log, or all logs of a folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dynexplore.engine.errors import RecordingError

_TAIL = 1 << 18
"""The number of bytes at the end of a log in which its last line is searched."""

_TIME = re.compile(rb"^(?:\[rank\d+\]:)?[VDIWEC](\d\d)(\d\d) (\d\d:\d\d:\d\d\.\d+) ", re.M)
_RANK = re.compile(r"_rank_(\d{1,6})_")


@dataclass(slots=True)
class Run:
    """The logs of one run, and the times of its first and last line, as text that sorts: "11-28 23:19:58.623000"."""

    first: str
    last: str
    files: list[Path] = field(default_factory=list)

    @property
    def ranks(self) -> set[str]:
        """The ranks in the names of its logs."""
        return {match[1] for file in self.files if (match := _RANK.search(file.name))}


def runs_in(files: Sequence[Path]) -> list[Run]:
    """The runs, the earliest first; a log without a readable time belongs to the latest."""
    spans = {file: _span(file) for file in files}
    runs: list[Run] = []
    for file in sorted(files, key=lambda file: spans[file] or ("~", "~")):
        first, last = spans[file] or ("", "")
        rank = _RANK.search(file.name)
        if not runs or (first > runs[-1].last and not (rank and runs[-1].ranks and rank[1] not in runs[-1].ranks)):
            runs.append(Run(first, last))
        runs[-1].files.append(file)
        runs[-1].last = max(runs[-1].last, last)
    for run in runs:
        run.files.sort(key=list(files).index)
    return runs


def chosen(path: Path, files: Sequence[Path], number: int | None) -> tuple[list[Path], str]:
    """The logs of a run (default: the latest), and a sentence about the others. Raises RecordingError for a run that is missing."""
    runs = runs_in(files)
    index = len(runs) if number is None else number
    if not 1 <= index <= len(runs):
        raise RecordingError(f"{path} has no run {index}; it has {', '.join(str(each + 1) for each in range(len(runs)))}")
    run = runs[index - 1]
    if len(runs) == 1:
        return run.files, ""
    others = ", ".join(f"{each} of {other.first[:14]}" for each, other in enumerate(runs, 1) if other is not run)
    return run.files, f"This is run {index} of {len(runs)}, of {run.first[:14]}; the others (--run N): {others}."


def _span(file: Path) -> tuple[str, str] | None:
    """The times of the first and of the last line."""
    try:
        with file.open("rb") as log:
            head = _TIME.search(log.read(_TAIL))
            log.seek(max(file.stat().st_size - _TAIL, 0))
            tail = _TIME.findall(log.read())
    except OSError:  # reading it later reports why
        return None
    if head is None:
        return None
    first = _text(head.groups())
    return first, _text(tail[-1]) if tail else first


def _text(parts: Sequence[bytes]) -> str:
    month, day, time = (part.decode() for part in parts)
    return f"{month}-{day} {time}"
