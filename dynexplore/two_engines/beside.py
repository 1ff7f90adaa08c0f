"""What there is to show of two captures of one function: all of it computed once, for the text, the picture and the page.

In:  a recording of torch.compile and one of our engine, of the same call. Out: `Beside`.

PyTorch has no counterpart.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from dynexplore.recording.recording import Recording
from dynexplore.two_engines.alignment import Pair, aligned
from dynexplore.two_engines.partings import KINDS, Parting, partings
from dynexplore.two_engines.visits import visits


@dataclass(frozen=True, slots=True)
class Cause:
    """Differences of one cause: the first of them, and how many there are."""

    first: Parting
    count: int

    @property
    def kind(self) -> str:
        """One of KINDS."""
        return self.first.kind


class Beside:
    """Two captures of one call: `theirs` is torch.compile's, `ours` this engine's."""

    def __init__(self, theirs: Recording, ours: Recording, notices: Sequence[str] = (), title: str = "") -> None:
        self.theirs, self.ours = theirs, ours
        self.notices = list(notices)
        self.title = title or ours.title or theirs.title

    @functools.cached_property
    def pairs(self) -> list[Pair]:
        """The instructions of both, in the order of the program; what only one side came to stands alone."""
        return aligned(visits(self.theirs), visits(self.ours))

    @functools.cached_property
    def partings(self) -> list[Parting]:
        """Where they part, kind by kind, each in the order of the program."""
        return partings(self.pairs, self.theirs, self.ours)

    @property
    def first(self) -> Parting | None:
        """The first place at which their graphs part; where these are the same the first of another kind; None where all is."""
        return next(iter(self.partings), None)

    @functools.cached_property
    def causes(self) -> list[Cause]:
        """The partings by their causes, in the order of the kinds, within one those that occur most often first."""
        by_cause: dict[tuple[str, str], list[Parting]] = {}
        for one in self.partings:
            by_cause.setdefault((one.kind, one.cause), []).append(one)
        counted = [Cause(ones[0], len(ones)) for ones in by_cause.values()]
        return sorted(counted, key=lambda one: (KINDS.index(one.kind), -one.count))

    @property
    def first_pair(self) -> int:
        """The pair at which the first parting shows; 0 where there is none."""
        return max(0, self.first.at) if self.first is not None else 0
