"""What there is to show of two captures of one function: all of it computed once, for the text, the picture and the page.

In:  a recording of torch.compile and one of our engine, of the same call. Out: `ComparisonModel`.

PyTorch has no counterpart.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from dynexplore.engine.old_names import keep_old_names
from dynexplore.recording.recording import Recording
from dynexplore.two_engines.alignment import Pair, aligned
from dynexplore.two_engines.divergences import KINDS, Divergence, divergences
from dynexplore.two_engines.visits import visits


@dataclass(frozen=True, slots=True)
class Cause:
    """Differences of one cause: the first of them, and how many there are."""

    first: Divergence
    count: int

    @property
    def kind(self) -> str:
        """One of KINDS."""
        return self.first.kind


class ComparisonModel:
    """Two captures of one call: `torch_side` is torch.compile's, `engine_side` this engine's."""

    def __init__(self, torch_side: Recording, engine_side: Recording, notices: Sequence[str] = (), title: str = "") -> None:
        self.torch_side, self.engine_side = torch_side, engine_side
        self.notices = list(notices)
        self.title = title or engine_side.title or torch_side.title

    @property
    def sides(self) -> tuple[Recording, Recording]:
        """The recording of torch.compile, and this engine's."""
        return self.torch_side, self.engine_side

    @functools.cached_property
    def pairs(self) -> list[Pair]:
        """The instructions of both, in the order of the program; what only one side came to stands alone."""
        return aligned(visits(self.torch_side), visits(self.engine_side))

    @functools.cached_property
    def divergences(self) -> list[Divergence]:
        """Where they part, kind by kind, each in the order of the program."""
        return divergences(self.pairs, self.torch_side, self.engine_side)

    @property
    def first(self) -> Divergence | None:
        """The first place at which their graphs part; where these are the same the first of another kind; None where all is."""
        return next(iter(self.divergences), None)

    @functools.cached_property
    def causes(self) -> list[Cause]:
        """The divergences by their causes, in the order of the kinds, within one those that occur most often first."""
        by_cause: dict[tuple[str, str], list[Divergence]] = {}
        for item in self.divergences:
            by_cause.setdefault((item.kind, item.cause), []).append(item)
        counted = [Cause(ones[0], len(ones)) for ones in by_cause.values()]
        return sorted(counted, key=lambda cause: (KINDS.index(cause.kind), -cause.count))

    @property
    def first_pair(self) -> int:
        """The pair at which the first divergence shows; 0 where there is none."""
        return max(0, self.first.at) if self.first is not None else 0


keep_old_names(globals())
