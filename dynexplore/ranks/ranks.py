"""`Ranks`: the recordings of a job's processes, side by side.

The idea: one object behind the printed report and the page. It holds a recording for each rank, notices about missing ones, and the
answers to the three questions about several ranks: what differed, who waited for whom, and what did rank N do?

In: recordings by rank, sentences about what could not be read. Out: `Ranks`.

PyTorch's counterpart: tlparse --all-ranks-html.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from dynexplore.engine import display_hooks
from dynexplore.engine.old_names import keep_old_names
from dynexplore.ranks import ranks_html, ranks_text
from dynexplore.ranks.compilations import Compilation
from dynexplore.ranks.differences import Difference
from dynexplore.ranks.shared_clock import SharedClock
from dynexplore.ranks.side_by_side import SideBySide
from dynexplore.recording.recording import Recording, redacted
from dynexplore.views.headline import Headline


class Ranks:
    """The recordings of several ranks: `ranks[3]` is that of rank 3; `notices` describe what is missing or could not be read.

    >>> two = Ranks({rank: Recording(title="train.py") for rank in (0, 1)})
    >>> print(two.headline)
    train.py on 2 ranks: nothing was compiled.
    """

    def __init__(self, recordings: Mapping[int, Recording], notices: Sequence[str] = (), title: str = "") -> None:
        self.comparison = SideBySide(recordings, notices, title)

    @property
    def recordings(self) -> Mapping[int, Recording]:
        """The recording of each rank, by rank."""
        return self.comparison.recordings

    @property
    def notices(self) -> Sequence[str]:
        """What is missing, or could not be read, in sentences."""
        return self.comparison.notices

    def __getitem__(self, rank: int) -> Recording:
        if rank not in self.recordings:
            raise KeyError(f"there is no recording of rank {rank}; there are: {', '.join(map(str, self.recordings)) or 'none'}")
        return self.recordings[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self.recordings)

    def __len__(self) -> int:
        return len(self.recordings)

    @property
    def clock(self) -> SharedClock:
        """The clock that the ranks share: `how` describes how it was determined."""
        return self.comparison.clock

    @property
    def compilations(self) -> Mapping[int, Sequence[Compilation]]:
        """The compilations of each rank, in order."""
        return self.comparison.compilations

    def differences(self) -> tuple[Difference, ...]:
        """The differences between the ranks, the worst first; () if there are none."""
        return self.comparison.differences

    @property
    def headline(self) -> Headline:
        """The worst difference, its place and cause, and the fix."""
        return ranks_text.headline(self.comparison)

    def __str__(self) -> str:
        return ranks_text.report(self.comparison)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return ranks_html.fragment(self.comparison)

    def save_html(self, path: str | os.PathLike[str], *, redact: bool = False) -> str:
        """Write one page: the ranks side by side, and the explorer of each. Return a sentence that describes the file's content."""
        return display_hooks.connected().save(self, path, redact=redact)

    @property
    def holds(self) -> str:
        """A sentence that describes the content of a file with these recordings."""
        return next(iter(self.recordings.values()), Recording()).holds

    def redacted(self) -> Ranks:
        """A copy without tensor elements, string constants, paths and host names."""
        recordings = {rank: recording if recording.redacted else redacted(recording) for rank, recording in self.recordings.items()}
        return Ranks(recordings, self.notices)


keep_old_names(globals())
