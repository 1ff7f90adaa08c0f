"""The files of a multi-process job, opened: one recording per rank, or the TORCH_TRACE logs of all ranks.

The idea: a job that fails may leave only some of its files, a truncated one, or those of an earlier job. Readable files are shown,
and missing ones are reported: a rank without a file is often the one that failed.

In: a folder. Out: `open_ranks(path)`: `Ranks`; `holds_ranks(path)`; `file_of(rank)`, the name of a rank's file.

PyTorch's counterpart: tlparse --all-ranks-html.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from dynexplore.engine.errors import RecordingError
from dynexplore.ranks.differences import rank_words
from dynexplore.ranks.ranks import Ranks
from dynexplore.recording.recording import Recording
from dynexplore.traces import runs
from dynexplore.traces.folder import Progress, logs_in, open_traces, rank_in_name
from dynexplore.views.counts import plural

_FILE = re.compile(r"rank_(\d{1,6})\.json")


def file_of(rank: int) -> str:
    """The name of a rank's file."""
    return f"rank_{rank}.json"


def files_in(folder: Path) -> dict[int, Path]:
    """The files of ranks in a folder, by rank."""
    try:
        files = {int(match[1]): file for file in folder.iterdir() if (match := _FILE.fullmatch(file.name))}
    except OSError as error:
        raise RecordingError(f"{folder} cannot be read: {error.strerror}") from None
    return dict(sorted(files.items()))


def holds_ranks(path: Path, run: int | None = None) -> bool:
    """Whether a folder contains files, or logs, of several processes of one job; `run` as in `open_traces`."""
    if not path.is_dir():
        return False
    if files_in(path):
        return True
    return len({rank for log in runs.chosen(path, logs_in(path), run)[0] for rank in rank_in_name(log)}) > 1


def open_ranks(
    path: str | os.PathLike[str], *, progress: Progress = lambda done, of: None, run: int | None = None
) -> Ranks:
    """Open the recordings of a distributed job: a folder that `dynexplore watch --ranks` or TORCH_TRACE wrote.

    This works without torch and without the program. Raises RecordingError if none of the files can be read.
    """
    path = Path(path)
    files = files_in(path)
    return _from_files(path, files) if files else _from_logs(path, progress, run)


# -- files written by `watch --ranks` ----------------------------------------------------------------------------------


def _from_files(path: Path, files: dict[int, Path]) -> Ranks:
    recordings: dict[int, Recording] = {}
    notices = []
    for rank, file in files.items():
        try:
            recordings[rank] = read_file(file)
        except RecordingError as error:
            notices.append(f"{file.name} cannot be shown: {error}.")
    recordings, others = _of_one_job(recordings)
    if others:
        notices.append(f"{_files(others)} skipped: {'it belongs' if len(others) == 1 else 'they belong'} to another job.")
    if not recordings:
        raise RecordingError(" ".join(notices))
    lost = missing(recordings, [*files])
    if lost:
        size = _world_size(recordings)
        files_of = "There is no file" if len(lost) == 1 else "There are no files"
        notices.append(f"{files_of} of {rank_words(lost)}, of {size} ranks: it ended before writing one, or is still running.")
    return Ranks(recordings, notices)


def read_file(file: Path) -> Recording:
    """The recording of a rank. Raises RecordingError, in one sentence, if it cannot be read."""
    try:
        return Recording.from_json(file.read_bytes())
    except OSError as error:
        raise RecordingError(f"it cannot be read: {error.strerror}") from None


def missing(recordings: dict[int, Recording], expected: Iterable[int] = ()) -> list[int]:
    """The ranks of a job that have no recording."""
    return [rank for rank in range(_world_size(recordings)) if rank not in recordings and rank not in expected]


def _world_size(recordings: dict[int, Recording]) -> int:
    """The number of ranks in the job; 0 if no recording contains it."""
    return max((recording.job.world_size for recording in recordings.values() if recording.job is not None), default=0)


def _of_one_job(recordings: dict[int, Recording]) -> tuple[dict[int, Recording], list[int]]:
    """The recordings of the latest job, and the ranks whose file is from an earlier one."""
    began: dict[str, float] = {}
    for recording in recordings.values():
        first, name = recording.moment(0), _job_name(recording)
        began[name] = max(began.get(name, 0.0), first.wall if first is not None else 0.0)
    if len(began) < 2:
        return recordings, []
    latest = max(began, key=lambda name: began[name])
    selected = {rank: recording for rank, recording in recordings.items() if _job_name(recording) == latest}
    return selected, [rank for rank in recordings if rank not in selected]


def _job_name(recording: Recording) -> str:
    return recording.job.name if recording.job is not None else ""


def _files(ranks: list[int]) -> str:
    return f"{', '.join(file_of(rank) for rank in ranks)} {'is' if len(ranks) == 1 else 'are'}"


# -- logs of TORCH_TRACE -----------------------------------------------------------------------------------------------


def _from_logs(path: Path, progress: Progress, run: int | None) -> Ranks:
    recordings: dict[int, Recording] = {}
    logs, about_runs = runs.chosen(path, logs_in(path), run)
    notices: list[str] = [about_runs] if about_runs else []
    total, done = sum(log.stat().st_size for log in logs), 0
    for rank in sorted({rank for log in logs for rank in rank_in_name(log)}):
        own = [log for log in logs if rank in rank_in_name(log)]
        try:
            opened = open_traces(path, rank=rank, progress=lambda read, of, before=done: progress(before + read, total), logs=own)  # type: ignore[misc]
            recordings[rank] = opened.recording
            notices += [notice for notice in opened.notices if not notice.startswith("This is rank ")]
        except RecordingError as error:
            notices.append(str(error))
        done += sum(log.stat().st_size for log in own)
    nameless = [log for log in logs if not rank_in_name(log)]
    if nameless:
        notices.append(f"{plural(len(nameless), 'log')} without a rank {'was' if len(nameless) == 1 else 'were'} skipped.")
    if not recordings:
        raise RecordingError(" ".join(dict.fromkeys(notices)))
    return Ranks(recordings, notices, path.name)
