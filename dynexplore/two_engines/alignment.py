"""The instructions of two engines, paired.

Which idea lives here: both run the same bytecode, so an instruction that is come to on the same path for the k-th time is the same
moment on both sides. Pairs must not cross: of all equal moments the longest row that goes on in both is kept. Between two pairs
the path says nothing more where a break cut it, or one engine calls what the other knows: there the instruction alone decides,
come to for the k-th time since the pair. What is left was come to by one engine alone (a function that only one reads, another
branch, the rest of a frame that one gave up).

In:  the visits of two recordings. Out: `aligned(torch_side, engine_side)`: `Pair`s in order, with None where one side has nothing.

PyTorch has no counterpart.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from dynexplore.engine.old_names import keep_old_names
from dynexplore.two_engines.visits import Visit


@dataclass(frozen=True, slots=True)
class Pair:
    """One moment on both sides; None: only the other side came there."""

    torch_side: Visit | None
    engine_side: Visit | None

    @property
    def any(self) -> Visit:
        """The visit of the side that came there; this engine's where both did."""
        visit = self.engine_side or self.torch_side
        assert visit is not None
        return visit


def aligned(torch_side: Sequence[Visit], engine_side: Sequence[Visit]) -> list[Pair]:
    """The moments of both, in order."""
    return list(
        _paired(torch_side, engine_side, _moments, lambda torch_gap, engine_gap: _paired(torch_gap, engine_gap, _counted, _alone))
    )


_Keys = Callable[[Sequence[Visit]], Sequence[Hashable]]
_Between = Callable[[Sequence[Visit], Sequence[Visit]], Iterator[Pair]]


def _paired(torch_side: Sequence[Visit], engine_side: Sequence[Visit], keys: _Keys, between: _Between) -> Iterator[Pair]:
    """The moments with equal keys as pairs, in order, and what `between` makes of those that stand between two pairs."""
    torch_start = engine_start = 0
    for torch_place, engine_place in [*_equal(keys(torch_side), keys(engine_side)), (len(torch_side), len(engine_side))]:
        yield from between(torch_side[torch_start:torch_place], engine_side[engine_start:engine_place])
        if torch_place < len(torch_side):
            yield Pair(torch_side[torch_place], engine_side[engine_place])
        torch_start, engine_start = torch_place + 1, engine_place + 1


def _alone(torch_side: Sequence[Visit], engine_side: Sequence[Visit]) -> Iterator[Pair]:
    yield from (Pair(visit, None) for visit in torch_side)
    yield from (Pair(None, visit) for visit in engine_side)


def _moments(visits: Sequence[Visit]) -> list[Hashable]:
    return [(visit.path, visit.offset, visit.time) for visit in visits]


def _counted(visits: Sequence[Visit]) -> list[Hashable]:
    """Each instruction with the number of times that it is come to among these."""
    times: Counter[Hashable] = Counter()
    keys: list[Hashable] = []
    for visit in visits:
        keys.append((visit.place_in_code, times[visit.place_in_code]))
        times[visit.place_in_code] += 1
    return keys


def _equal(torch_side: Sequence[Hashable], engine_side: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The places of equal keys, as many as go on in both rows; no key stands twice in a row."""
    where = {key: number for number, key in enumerate(engine_side)}
    equal = [(number, where[key]) for number, key in enumerate(torch_side) if key in where]
    return [equal[number] for number in longest_rise([place for _, place in equal])]


def longest_rise(numbers: Sequence[int]) -> list[int]:
    """The places of a longest strictly rising part of a row of numbers.

    >>> longest_rise([4, 0, 1, 5, 2, 3])
    [1, 2, 4, 5]
    """
    smallest: list[int] = []  # by length: the smallest number that a rise of this length ends with, and where that stands
    places: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        length = bisect.bisect_left(smallest, number)
        before.append(places[length - 1] if length else -1)
        smallest[length : length + 1] = [number]
        places[length : length + 1] = [place]
    rise = []
    at = places[-1] if places else -1
    while at >= 0:
        rise.append(at)
        at = before[at]
    return rise[::-1]


keep_old_names(globals())
