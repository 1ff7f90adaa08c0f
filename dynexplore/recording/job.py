"""The process of a distributed job that recorded: its rank, host, and collectives.

The idea: a torch.distributed job consists of N processes that run the same program and synchronize in collectives. Each process
writes one recording; comparing them requires each file's rank, and moments common to all ranks. Collectives are such moments:
the third all-reduce of one rank is the third on every rank. These are facts about the process, not the capture, so they are
stored separately from the events.

In: facts that a process knows about itself. Out: `Job`, `Collective`, to plain data and back. PyTorch's counterpart: the flight
recorder, torch/csrc/distributed/c10d/FlightRecorder.hpp.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any

from dynexplore.engine.old_names import keep_old_names
from dynexplore.recording import sanity

LONGEST = 1_000
"""The longest text, in characters; longer than any host name."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective as one rank started it: its process group, its sequence number there, the operation, the sizes, and the time.

    `sequence` counts from 1 within the group; `wall` is in nanoseconds since 1970, by the clock of the rank's host.
    """

    group: str
    sequence: int
    operation: str
    sizes: str
    wall: int

    @property
    def signature(self) -> str:
        """Operation and sizes, which must be equal on all ranks.

        >>> Collective("default_pg", 3, "all_reduce", "float[4]", 0).signature
        'all_reduce of float[4]'
        """
        return f"{self.operation} of {self.sizes}" if self.sizes else self.operation


@dataclass(frozen=True, slots=True)
class Job:
    """One process of a job: the number of processes, its host, the job's name, and its collectives in order.

    Files with different `name`s belong to different jobs; the name is an arbitrary identifier.
    """

    world_size: int
    host: str = ""
    name: str = ""
    collectives: tuple[Collective, ...] = ()

    @property
    def everyones_group(self) -> str:
        """The group that contains all ranks: the default group, or that of the first collective if no group has that name."""
        names = [collective.group for collective in self.collectives]
        return next((name for name in names if name in ("default_pg", "0")), names[0] if names else "")

    @property
    def shared(self) -> dict[int, Collective]:
        """The collectives of the group that contains all ranks, by sequence number.

        >>> Job(2, collectives=(Collective("pair", 1, "send", "", 5), Collective("0", 1, "barrier", "", 6))).shared[1].signature
        'barrier'
        """
        group = self.everyones_group
        return {collective.sequence: collective for collective in self.collectives if collective.group == group}

    def redacted(self) -> Job:
        """A copy with a hash in place of the host name; ranks on the same host still share one."""
        code = hashlib.sha256(f"{self.name} {self.host}".encode()).hexdigest()[:8]
        return dataclasses.replace(self, host=code if self.host else "")

    def to_plain(self) -> dict[str, Any]:
        """The job as lists, dicts, strings and numbers; names used by collectives are stored once and referenced by index."""
        names = list(
            dict.fromkeys(
                text for collective in self.collectives for text in (collective.group, collective.operation, collective.sizes)
            )
        )
        at = {text: number for number, text in enumerate(names)}
        rows = [
            [at[collective.group], collective.sequence, at[collective.operation], at[collective.sizes], collective.wall]
            for collective in self.collectives
        ]
        return {"world_size": self.world_size, "host": self.host, "name": self.name, "words": names, "collectives": rows}

    @classmethod
    def from_plain(cls, data: Any) -> Job:
        """Restore a job from `to_plain` data. Raises ValueError, TypeError or LookupError, with a sentence, if the data is invalid.

        >>> job = Job(2, "here", "", (Collective("default_pg", 1, "barrier", "", 5),))
        >>> Job.from_plain(job.to_plain()) == job
        True
        """
        words = [_text(word) for word in data["words"]]
        rows = [tuple(sanity.countable("a number of a collective", _whole(cell), 0) for cell in row) for row in data["collectives"]]
        collectives = tuple(
            Collective(words[group], at, words[operation], words[sizes], wall) for group, at, operation, sizes, wall in rows
        )
        size = sanity.countable("world_size", _whole(data["world_size"]), 1)
        return cls(size, _text(data["host"]), _text(data["name"]), collectives)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"a number of the job is {type(value).__name__}, not int")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"a name of the job is {type(value).__name__}, not str")
    return value[:LONGEST]


keep_old_names(globals())
