"""`dynexplore watch --ranks OUT`: this process is one of a job, and leaves its recording beside those of the others.

Which idea lives here: torchrun starts the same program N times, and tells each by the environment which one it is. So each
process watches itself, and writes one file into a folder that all share; the first one then waits until the others are there,
and shows them side by side. Which collectives a process began, and when, torch's flight recorder knows (a ring of torch itself,
for gloo and NCCL): it is switched on before the program begins, and read when it ended. No function of the program is touched.

In:  the environment that torchrun sets, a folder. Out: `RankJob`: `begin()`, `leave(recording)`, `joined()`.

PyTorch's counterpart: TORCH_TRACE, which writes a log a rank, and torch/distributed/flight_recorder.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from dynexplore.ranks.folder import file_of, files_in, open_ranks
from dynexplore.ranks.ranks import Ranks
from dynexplore.recording.job import Job
from dynexplore.recording.recording import Recording
from dynexplore.watching import private_torch

LONGEST_WAIT = 60.0
"""Seconds that the first rank waits for the files of the others."""

LAST_WAIT = 5.0
"""Seconds that it goes on waiting when it is asked to end: a process of the job has failed, and torchrun ends the others."""

RING = "20000"
"""So many collectives the flight recorder keeps, where the user's environment does not say how many."""

_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")


class NoJob(Exception):
    """This process is none of several; the message says what to do, in one sentence."""


class RankJob:
    """See the head of this file."""

    def __init__(self, folder: Path, environment: Mapping[str, str] = os.environ) -> None:
        try:
            self.rank, self.world_size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        except (KeyError, ValueError):
            start = "torchrun --nproc-per-node 2 -m dynexplore watch --ranks OUT SCRIPT.py"
            raise NoJob(f"--ranks gathers the processes of one job, and this is none of several: start it with {start}") from None
        self.folder = folder
        self.name = _name_of_job(environment, self.world_size)
        self._has_left = self._is_to_end = False

    def begin(self) -> None:
        """Before the program begins: make the folder, forget the file of an earlier job, switch on torch's flight recorder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / file_of(self.rank)).unlink(missing_ok=True)
        if not any(name in os.environ for name in _SIZES):
            os.environ[_SIZES[0]] = RING
        signal.signal(signal.SIGTERM, self._on_terminate)  # a program that has a handler of its own puts it in this place

    def _on_terminate(self, number: int, frame: FrameType | None) -> None:
        """Another process has failed: the program ends here, and what was seen of it is kept."""
        self._is_to_end = True
        if not self._has_left:
            raise SystemExit(128 + number)

    def leave(self, recording: Recording, *, redact: bool = False) -> Path:
        """After the program ended: write this rank's file, whole or not at all."""
        self._has_left = True
        recording.rank = self.rank
        recording.job = Job(self.world_size, socket.gethostname(), self.name, tuple(private_torch.collectives()))
        target = self.folder / file_of(self.rank)
        half = target.with_suffix(f".{os.getpid()}.half")
        half.write_text(recording.to_json(redact=redact), encoding="utf-8")
        half.replace(target)
        return target

    def joined(self, longest_wait: float = LONGEST_WAIT) -> Ranks:
        """All ranks, as soon as each has left its file; without those that did not in time."""
        until = time.monotonic() + longest_wait
        while time.monotonic() < until and len(self._there()) < self.world_size:
            if self._is_to_end:
                until, self._is_to_end = min(until, time.monotonic() + LAST_WAIT), False
            time.sleep(0.05)
        return open_ranks(self.folder)

    def _there(self) -> list[int]:
        """The ranks of this job that have left their file."""
        mark = f'"name":{json.dumps(self.name, ensure_ascii=False)}'.encode()
        return [rank for rank, file in files_in(self.folder).items() if rank < self.world_size and mark in _beginning(file)]


def _beginning(file: Path) -> bytes:
    """As much of a file as tells whose it is."""
    try:
        with file.open("rb") as opened:
            return opened.read(16_000)
    except OSError:
        return b""


def _name_of_job(environment: Mapping[str, str], world_size: int) -> str:
    """What all processes of one job have in common, and no other job: of one host the process that started them as well."""
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
    parts = [environment.get(name, "") for name in names]
    if environment.get("LOCAL_WORLD_SIZE") == str(world_size):
        parts.append(str(os.getppid()))
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
