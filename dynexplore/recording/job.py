"""Which process of a job recorded: its rank, its host, and the collectives that it took part in.

Which idea lives here: a job of torch.distributed is N processes that run the same program, and wait for each other in collectives.
What each of them recorded is one file; to lay these side by side one must know whose each is, and have moments that all share. The
collectives are such moments: the third all-reduce of one rank is the third of all others. They are facts of the process, not of a
capture, so they stand beside the events.

In:  facts that a process knows of itself. Out: `Job`, `Collective`, as plain data and back.

PyTorch's counterpart: the flight recorder, torch/csrc/distributed/c10d/FlightRecorder.hpp.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any

from dynexplore.engine.old_names import keep_old_names
from dynexplore.recording import sanity

LONGEST = 1_000
"""Letters of one text; nobody's host is called longer."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective as one rank began it: in which group of processes, the how many-th there, what, of which sizes, and when.

    `sequence` counts from 1 within the group; `wall` are nanoseconds since 1970, by the clock of the rank's host.
    """

    group: str
    sequence: int
    operation: str
    sizes: str
    wall: int

    @property
    def signature(self) -> str:
        """Operation and sizes: what must be the same on all ranks.

        >>> Collective("default_pg", 3, "all_reduce", "float[4]", 0).signature
        'all_reduce of float[4]'
        """
        return f"{self.operation} of {self.sizes}" if self.sizes else self.operation


@dataclass(frozen=True, slots=True)
class Job:
    """One process of a job: how many there are, on which host it ran, the job's name, and its collectives in order.

    Files with different `name`s are of different jobs; it is a code that says nothing else.
    """

    world_size: int
    host: str = ""
    name: str = ""
    collectives: tuple[Collective, ...] = ()

    @property
    def everyones_group(self) -> str:
        """The group that has all ranks: the default one; that of the first collective where none is called so."""
        names = [collective.group for collective in self.collectives]
        return next((name for name in names if name in ("default_pg", "0")), names[0] if names else "")

    @property
    def shared(self) -> dict[int, Collective]:
        """The collectives of the group that has all ranks, by their number.

        >>> Job(2, collectives=(Collective("pair", 1, "send", "", 5), Collective("0", 1, "barrier", "", 6))).shared[1].signature
        'barrier'
        """
        group = self.everyones_group
        return {collective.sequence: collective for collective in self.collectives if collective.group == group}

    def redacted(self) -> Job:
        """The same with a code in the place of the host's name: ranks of one host still have one."""
        code = hashlib.sha256(f"{self.name} {self.host}".encode()).hexdigest()[:8]
        return dataclasses.replace(self, host=code if self.host else "")

    def to_plain(self) -> dict[str, Any]:
        """The job as lists, dicts, strings and numbers; of collectives the names stand once, and points into them follow."""
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
        """What `to_plain` gave; ValueError, TypeError or LookupError, with a sentence, for anything else.

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
