"""`dynexplore watch --ranks OUT`: this process is one rank of a job, and saves its recording next to those of the others.

The idea: torchrun starts the same program N times, and passes each its rank in the environment. So each process watches itself, and
writes one file to a shared folder; rank 0 then waits for the other files, and shows them side by side. The start times of
collectives come from torch's flight recorder (a ring buffer in torch, for gloo and NCCL): it is enabled before the program begins,
and read after it ended. No function of the program is modified.

In: the environment that torchrun sets, a folder. Out: `RankJob`: `begin()`, `leave(recording)`, `joined()`.

PyTorch's counterpart: TORCH_TRACE, which writes one log per rank, and torch/distributed/flight_recorder.
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
"""Seconds that it continues to wait when it is asked to end: a process of the job has failed, and torchrun ends the others."""

RING = "20000"
"""The flight recorder's capacity in collectives, unless the user's environment sets it."""

_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")


class NoJob(Exception):
    """This process is not part of a multi-process job; the message is one sentence with what to do."""


class RankJob:
    """This process's part in a job; see the module docstring."""

    def __init__(self, folder: Path, environment: Mapping[str, str] = os.environ) -> None:
        try:
            self.rank, self.world_size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        except (KeyError, ValueError):
            start = "torchrun --nproc-per-node 2 -m dynexplore watch --ranks OUT SCRIPT.py"
            raise NoJob(f"--ranks needs a job with several processes: start it with {start}") from None
        self.folder = folder
        self.name = _name_of_job(environment, self.world_size)
        self._has_left = self._is_to_end = False

    def begin(self) -> None:
        """Before the program begins: create the folder, delete the file of an earlier job, enable torch's flight recorder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / file_of(self.rank)).unlink(missing_ok=True)
        if not any(name in os.environ for name in _SIZES):
            os.environ[_SIZES[0]] = RING
        signal.signal(signal.SIGTERM, self._on_terminate)  # a program with its own handler replaces this one

    def _on_terminate(self, number: int, frame: FrameType | None) -> None:
        """Another process has failed: end the program here, and keep its recording so far."""
        self._is_to_end = True
        if not self._has_left:
            raise SystemExit(128 + number)

    def leave(self, recording: Recording, *, redact: bool = False) -> Path:
        """After the program ended: write this rank's file atomically."""
        self._has_left = True
        recording.rank = self.rank
        recording.job = Job(self.world_size, socket.gethostname(), self.name, tuple(private_torch.collectives()))
        target = self.folder / file_of(self.rank)
        half = target.with_suffix(f".{os.getpid()}.half")
        half.write_text(recording.to_json(redact=redact), encoding="utf-8")
        half.replace(target)
        return target

    def joined(self, longest_wait: float = LONGEST_WAIT) -> Ranks:
        """All ranks, once each has saved its file; ranks that time out are left out."""
        until = time.monotonic() + longest_wait
        while time.monotonic() < until and len(self._there()) < self.world_size:
            if self._is_to_end:
                until, self._is_to_end = min(until, time.monotonic() + LAST_WAIT), False
            time.sleep(0.05)
        return open_ranks(self.folder)

    def _there(self) -> list[int]:
        """The ranks of this job that have saved their file."""
        mark = f'"name":{json.dumps(self.name, ensure_ascii=False)}'.encode()
        return [rank for rank, file in files_in(self.folder).items() if rank < self.world_size and mark in _beginning(file)]


def _beginning(file: Path) -> bytes:
    """The beginning of a file, sufficient to tell which job and rank it is from."""
    try:
        with file.open("rb") as opened:
            return opened.read(16_000)
    except OSError:
        return b""


def _name_of_job(environment: Mapping[str, str], world_size: int) -> str:
    """An identifier shared by all processes of one job, and by no other job: on one host it includes the parent process."""
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
    parts = [environment.get(name, "") for name in names]
    if environment.get("LOCAL_WORLD_SIZE") == str(world_size):
        parts.append(str(os.getppid()))
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
