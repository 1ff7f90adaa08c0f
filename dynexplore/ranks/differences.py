"""Where ranks differ, in sentences, the worst first; and who waits for whom.

Which idea lives here: in a job of several processes the slowest one is the speed of all, and one that takes another way may
stop all for ever. So what counts is not what a rank did but what it did alone. Each compilation is laid beside that of the same
function and number on the other ranks; most of them agree, and what differs is told with its place and its cause: collectives
in another order (the job may hang), failures, a function that one rank compiles again (the others wait for it), other graphs,
breaks, buckets, and guards.

In:  the compilations of each rank, their recordings, the shared clock. Out: `differences(...)`: `Difference`s, the worst first.

PyTorch's counterpart: the page of tlparse --all-ranks-html, and torch/distributed/flight_recorder, for collectives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dynexplore.ranks.compilations import Compilation, Key, collectives_of, node_words
from dynexplore.ranks.shared_clock import SharedClock
from dynexplore.recording.recording import Recording
from dynexplore.views.counts import plural

V = TypeVar("V", bound=Hashable)

KINDS = ("collectives", "failure", "recompile", "cause", "graph", "break", "buckets", "only", "guards")
"""Kinds of differences, the worst first."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that ranks did not do alike: which of them did otherwise, what, where, why, what to do; `waited` says who waited.

    `frames` are the frames of the recordings of these ranks that it is about, by rank.
    """

    kind: str
    ranks: tuple[int, ...]
    what: str
    where: str = ""
    cause: str = ""
    remedy: str = ""
    waited: str = ""
    frames: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        more = " ".join(one for one in (f"{self.cause}." if self.cause else "", self.waited) if one)
        return f"{self.what}{f' ({self.where})' if self.where else ''}{f': {more}' if more else ''}"


def rank_words(ranks: Iterable[int]) -> str:
    """Ranks as people say them.

    >>> rank_words([1]), rank_words([0, 1, 2, 5]), rank_words([])
    ('rank 1', 'ranks 0-2 and 5', 'no rank')
    """
    numbers = sorted(set(ranks))
    if not numbers:
        return "no rank"
    runs = [[number for _, number in run] for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    said = [f"{run[0]}-{run[-1]}" if len(run) > 2 else " and ".join(map(str, run)) for run in runs]
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(said[:-1])}{' and ' if len(said) > 1 else ''}{said[-1]}"


def differences(
    compiled: Mapping[int, Sequence[Compilation]], recordings: Mapping[int, Recording], clock: SharedClock
) -> list[Difference]:
    """Where these ranks differ, the worst first, of equal ones the earlier; nothing of one rank alone."""
    if len(compiled) < 2:
        return []
    beside = _Beside(compiled, clock)
    told = [*_collectives(recordings), *beside.all()]
    return sorted(told, key=lambda one: KINDS.index(one.kind))


# -- collectives as they ran ---------------------------------------------------------------------------------------------


def _collectives(recordings: Mapping[int, Recording]) -> Iterator[Difference]:
    """The first collective of the group of all ranks that is not the same on all."""
    jobs = {rank: one.job for rank, one in recordings.items() if one.job is not None and one.job.collectives}
    if len(jobs) < len(recordings):
        return
    told = {rank: job.shared for rank, job in jobs.items()}
    for number in sorted(set().union(*told.values())):
        ours = {rank: known[number].what for rank, known in told.items() if number in known}
        if len(set(ours.values())) > 1:
            usual, odd = _parted(ours)
            cause = f"{rank_words(usual)} began {ours[usual[0]]}, {rank_words(odd)} {ours[odd[0]]}"
            what = f"collective {number} is not the same on all ranks"
            yield Difference("collectives", odd, what, "", cause, _SAME_ORDER)
            return
        if len(ours) < len(told):
            missing = tuple(rank for rank in told if rank not in ours)
            if all(number > max(told[rank], default=0) for rank in missing):  # a ring buffer may have lost the first ones
                what = f"{rank_words(missing)} did not begin collective {number}, as {rank_words(ours)} did"
                yield Difference("collectives", missing, what, "", next(iter(ours.values())), _SAME_ORDER)
            return


_SAME_ORDER = "All ranks have to begin the same collectives in the same order: let no rank decide by its own data or number."


# -- compilations beside each other --------------------------------------------------------------------------------------


class _Beside:
    """The same function on all ranks."""

    def __init__(self, compiled: Mapping[int, Sequence[Compilation]], clock: SharedClock) -> None:
        self.ranks = tuple(compiled)
        self.clock = clock
        self.arrivals = clock.arrivals()
        self.of: dict[Key, dict[int, list[Compilation]]] = {}
        for rank, ours in compiled.items():
            for one in ours:
                if one.is_compiled:
                    self.of.setdefault(one.key, {rank: [] for rank in compiled})[rank].append(one)

    def all(self) -> Iterator[Difference]:
        for ours in self.of.values():
            yield from self.function(ours)

    def function(self, ours: Mapping[int, list[Compilation]]) -> Iterator[Difference]:
        counts = {rank: len(made) for rank, made in ours.items()}
        if len(set(counts.values())) > 1:
            yield self.uneven(ours, counts)
        for rows in zip(*(made for made in ours.values() if made), strict=False):
            yield from self.pair({one.rank: one for one in rows})

    def uneven(self, ours: Mapping[int, list[Compilation]], counts: Mapping[int, int]) -> Difference:
        """Some ranks compiled a function more often than the others."""
        fewest = min(counts.values())
        usual, odd = _parted(counts)
        if counts[usual[0]] != fewest:  # most compiled it more often: then it is the others that are told
            odd, usual = tuple(r for r in counts if counts[r] > fewest), tuple(r for r in counts if counts[r] == fewest)
        if len(odd) < len(counts) and all(counts[rank] < counts[usual[0]] for rank in odd):
            odd, usual = usual, odd
        first = ours[odd[0]][fewest]
        frames = tuple((rank, ours[rank][fewest].frame) for rank in odd)
        alone = " alone" if len(odd) == 1 else ""
        if not fewest:
            what = f"{rank_words(odd)}{alone} compiled `{first.name}`"
            cause = f"{rank_words(usual)} did not call it, or ran it as plain Python"
            return Difference("only", odd, what, first.place, cause, _ONLY, self.waited(first, odd), frames)
        more = max(counts[rank] for rank in odd) - fewest
        what = f"{rank_words(odd)}{alone} compiled `{first.name}` again{f' {more} times' if more > 1 else ''}"
        return Difference("recompile", odd, what, first.place, first.cause, _again(first), self.waited(first, odd), frames)

    def waited(self, made: Compilation, odd: Sequence[int]) -> str:
        """Who was at the next collective before the rank that compiled."""
        others = [rank for rank in self.ranks if rank not in odd]
        if made.begins is None or not others:
            return ""
        begins = self.clock.at(made.rank, made.begins)
        following = next((one for one in self.arrivals if one.seconds[made.rank] >= begins + made.seconds), None)
        if following is None:
            return f"At the next collective {rank_words(others)} {'waits' if len(others) == 1 else 'wait'} for it."
        ahead = {rank: following.seconds[made.rank] - following.seconds[rank] for rank in others}
        longest = max(ahead, key=lambda rank: ahead[rank])
        seconds = min(ahead[longest], made.seconds) if made.seconds else ahead[longest]
        if seconds < 0.001:
            return ""
        waiting = f"{_sentence(rank_words(others))} waited"
        return f"{waiting} {'up to ' if len(others) > 1 else ''}{seconds:.2f} s for it in {following.what}."

    # -- one compilation on all ranks ----------------------------------------------------------------------------------

    def pair(self, ours: Mapping[int, Compilation]) -> Iterator[Difference]:
        checks = (_failure, _order, _graph, _broke, _buckets, _cause, _guards)
        told = [one for check in checks if (one := check(ours)) is not None]
        if "collectives" in [one.kind for one in told]:
            told = [one for one in told if one.kind != "graph"]
        yield from told


_ONLY = "See why the other ranks take another way: a branch on the rank, on data, or a call that only one rank makes."


def _again(one: Compilation) -> str:
    if any(word in one.cause for word in ("rows", "row,", "element", "size", "dimension")):
        return "Give all ranks inputs of equal sizes (pad or drop the last batch), or compile with dynamic=True."
    return "Keep what the guard names equal on all ranks, or pass it as a tensor."


def _parted(values: Mapping[int, V]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ranks that have what most have (of equally many, what the first has), and the ranks that do not."""
    groups: dict[V, list[int]] = {}
    for rank, value in values.items():
        groups.setdefault(value, []).append(rank)
    usual = max(groups.values(), key=len)
    return tuple(usual), tuple(rank for rank in values if rank not in usual)


def _told(
    kind: str, ours: Mapping[int, Compilation], value: Callable[[Compilation], Hashable],
    say: Callable[[Compilation, Compilation], str], what: str, remedy: str,
) -> Difference | None:  # fmt: skip
    """A difference of one value, said by the first rank that has the usual one, and the first that has not."""
    values = {rank: value(one) for rank, one in ours.items()}
    if len(set(values.values())) < 2:
        return None
    usual, odd = _parted(values)
    first = ours[odd[0]]
    which = f" (compilation {first.number})" if first.number > 1 else ""
    frames = tuple((rank, ours[rank].frame) for rank in odd)
    said, name = say(ours[usual[0]], first), f"`{first.name}`{which}"
    return Difference(kind, odd, what.format(name=name, ranks=rank_words(odd)), first.place, said, remedy, "", frames)


def _failure(ours: Mapping[int, Compilation]) -> Difference | None:
    def say(usual: Compilation, odd: Compilation) -> str:
        failed = odd if odd.failure else usual
        return f"rank {failed.rank}: {failed.failure}"

    remedy = "A rank that runs a function as plain Python is slower than the others, which wait for it."
    return _told("failure", ours, lambda one: one.failure, say, "{name} did not fail alike on all ranks", remedy)


def _order(ours: Mapping[int, Compilation]) -> Difference | None:
    """The collectives that stand in the graphs."""

    def of(one: Compilation) -> tuple[str, ...]:
        return tuple(itertools.chain.from_iterable(map(collectives_of, one.graphs)))

    def say(usual: Compilation, odd: Compilation) -> str:
        return _first_apart(of(usual), of(odd), usual.rank, odd.rank, "collective")

    if any(not of(one) for one in ours.values()):
        return None
    what = "the collectives in the graph of {name} are in another order on {ranks}"
    return _told("collectives", ours, of, say, what, _SAME_ORDER)


def _graph(ours: Mapping[int, Compilation]) -> Difference | None:
    def of(one: Compilation) -> tuple[str, ...]:
        return tuple(node_words(node) for graph in one.graphs for node in graph.nodes)

    def say(usual: Compilation, odd: Compilation) -> str:
        return _first_apart(of(usual), of(odd), usual.rank, odd.rank, "node")

    remedy = "Other graphs are other work: ranks that wait for each other should do the same. See what the first node comes from."
    return _told("graph", ours, of, say, "the graph of {name} is another one on {ranks}", remedy)


def _first_apart(usual: Sequence[str], odd: Sequence[str], rank: int, other: int, noun: str) -> str:
    """The first of two sequences that is not the same, in words."""
    pairs = itertools.zip_longest(usual, odd)
    number, (ours, theirs) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    return f"{noun} {number} is {ours or 'missing'} on rank {rank}, {theirs or 'missing'} on rank {other}"


def _broke(ours: Mapping[int, Compilation]) -> Difference | None:
    def say(usual: Compilation, odd: Compilation) -> str:
        more, fewer = (odd, usual) if set(odd.breaks) - set(usual.breaks) else (usual, odd)
        first = next(iter([one for one in more.breaks if one not in fewer.breaks] or more.breaks))
        return f"rank {more.rank} breaks {first}"

    remedy = "Let no rank branch on its own data or number inside of what is compiled."
    return _told("break", ours, lambda one: one.breaks, say, "{name} does not break alike on {ranks}", remedy)


def _buckets(ours: Mapping[int, Compilation]) -> Difference | None:
    def of(one: Compilation) -> tuple[tuple[str, ...], ...]:
        return tuple(piece.parameters for graph in one.graphs for piece in graph.pieces)

    def say(usual: Compilation, odd: Compilation) -> str:
        return f"{plural(len(of(usual)), 'piece')} on rank {usual.rank}, {plural(len(of(odd)), 'piece')} on rank {odd.rank}"

    remedy = "Gradients are sent bucket by bucket: other pieces send them at other times. Give DDP the same settings on all ranks."
    return _told("buckets", ours, of, say, "DDP's buckets split {name} otherwise on {ranks}", remedy)


def _cause(ours: Mapping[int, Compilation]) -> Difference | None:
    def say(usual: Compilation, odd: Compilation) -> str:
        return f"{usual.cause or 'no cause is told'} on rank {usual.rank}, {odd.cause or 'no cause is told'} on rank {odd.rank}"

    remedy = "Ranks that compile again for other causes do so at other times, and wait for each other each time."
    return _told("cause", ours, lambda one: one.cause, say, "{name} was compiled again for another cause on {ranks}", remedy)


def _guards(ours: Mapping[int, Compilation]) -> Difference | None:
    def say(usual: Compilation, odd: Compilation) -> str:
        alone = [one for one in odd.guards if one not in usual.guards]
        lost = [one for one in usual.guards if one not in odd.guards]
        said = [f"rank {odd.rank} alone has {alone[0]}"] if alone else []
        said += [f"rank {usual.rank} has {lost[0]}"] if lost else []
        more = len(alone) + len(lost) - len(said)
        return "; ".join(said) + (f"; and {more} more" if more else "")

    remedy = "What one rank checks and the others do not makes that rank compile again alone."
    return _told("guards", ours, lambda one: frozenset(one.guards), say, "the guards of {name} are others on {ranks}", remedy)


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
