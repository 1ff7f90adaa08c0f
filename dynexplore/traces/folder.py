"""A TORCH_TRACE folder as a recording: which logs it contains, of which ranks, and what they recorded.

The idea: with `TORCH_TRACE=DIR` each process writes its own log, so a folder contains one for each rank of a job, those of helper
processes that compiled nothing, and those of earlier runs. One run is shown (runs.py), and of several ranks one; the others are
named. Logs of one rank are concatenated into one recording.

In: a folder, or one log. Out: `open_traces(path)`: an `Opened`, with its recording and, in sentences, what could not be read.

PyTorch's counterpart: tlparse, which opens one log, or with --all-ranks-html writes a page for each.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dynexplore.engine.errors import RecordingError
from dynexplore.recording.engines import TORCH
from dynexplore.recording.recording import Recording
from dynexplore.traces import runs
from dynexplore.traces.compiles import Contents, compiles_of
from dynexplore.traces.log_to_recording import record_log
from dynexplore.traces.sources import Sources
from dynexplore.traces.trace_log import TraceLog

Progress = Callable[[int, int], None]
"""Progress callback: called with the number of bytes read so far, and the total."""


MOST_COMPILES = 1_000
"""The maximum number of compilations per log; a page with more of them would be unusable."""


@dataclass(slots=True)
class Opened:
    """The content of a folder: the recording of one rank, all ranks, and, in sentences, what could not be read or is not shown."""

    recording: Recording
    ranks: list[int] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def open_traces(
    path: Path,
    *,
    rank: int | None = None,
    run: int | None = None,
    progress: Progress = lambda done, of: None,
    logs: Sequence[Path] | None = None,
) -> Opened:
    """Read a folder, or one log. Raises RecordingError, in one sentence, if there is no log, none of this rank, or an empty one.

    `run`: which run of the folder, from 1 (default: the latest); `logs`: the logs to read instead.
    """
    files, about_runs = runs.chosen(path, logs_in(path), run) if logs is None else (logs, "")
    total, done = sum(file.stat().st_size for file in files), 0
    readable: list[tuple[TraceLog, Contents]] = []
    notices: list[str] = [about_runs] if about_runs else []
    for file in files:
        log = TraceLog(file, lambda read, before=done: progress(before + read, total))  # type: ignore[misc]
        contents = compiles_of(log)
        notices += log.notices
        done += file.stat().st_size
        if len(contents.compiles) > MOST_COMPILES:
            notices.append(f"{file.name} has {len(contents.compiles):,} compilations: the first {MOST_COMPILES:,} are shown.")
            contents.compiles = dict(itertools.islice(contents.compiles.items(), MOST_COMPILES))
        if log.entries:
            contents.ranks |= rank_in_name(file)
            readable.append((log, contents))
    if not readable:
        raise RecordingError(" ".join(notices))
    ranks = sorted({number for _, contents in readable for number in contents.ranks})
    shown = _chosen(ranks, rank, path)
    shown_logs = [(log, contents) for log, contents in readable if shown is None or not contents.ranks or shown in contents.ranks]
    opened = Opened(_recorded(path, shown_logs, shown), ranks, notices)
    if len(ranks) > 1:
        others = ", ".join(str(number) for number in ranks if number != shown)
        opened.notices.append(f"This is rank {shown}; the folder has logs of {len(ranks)} ranks (--rank {others}).")
    return opened


def logs_in(path: Path) -> list[Path]:
    """The logs of a folder, oldest first; for a file, the file itself."""
    if not path.is_dir():
        return [path]
    try:
        files = [file for file in path.iterdir() if file.is_file() and file.name.startswith("dedicated_log_torch_trace")]
        files = files or [file for file in path.iterdir() if file.is_file() and file.suffix == ".log"]
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}") from None
    if not files:
        raise RecordingError(f"{path} contains no TORCH_TRACE log (dedicated_log_torch_trace_*.log)")
    return sorted(files, key=lambda file: (file.stat().st_mtime, file.name))


def rank_in_name(file: Path) -> set[int]:
    """The rank in a log's file name: `dedicated_log_torch_trace_rank_3_x1y2.log`.

    >>> rank_in_name(Path("dedicated_log_torch_trace_rank_3_x1y2.log")), rank_in_name(Path("dedicated_log_torch_trace_x1y2.log"))
    ({3}, set())
    """
    match = re.search(r"_rank_(\d{1,6})_", file.name)
    return {int(match[1])} if match else set()


def _chosen(ranks: list[int], rank: int | None, path: Path) -> int | None:
    if rank is not None and rank not in ranks:
        raise RecordingError(f"{path} has no log of rank {rank}; it has {', '.join(map(str, ranks)) or 'none that names a rank'}")
    return rank if rank is not None else next(iter(ranks), None)


def _recorded(path: Path, logs: list[tuple[TraceLog, Contents]], rank: int | None) -> Recording:
    recording = Recording(title=path.name or str(path), engine=TORCH)
    recording.process, recording.rank = None, rank
    recording.forget_times()
    sources = Sources()
    for log, contents in logs:
        if contents.torch and not recording.versions:
            recording.versions = f"torch {contents.torch}"
        record_log(log, contents, recording, sources)
    return recording
