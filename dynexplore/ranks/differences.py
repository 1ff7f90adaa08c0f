"""Differences between ranks, in sentences, the worst first; and who waits for whom.

The idea: in a multi-process job the slowest rank determines the speed of all, and one that diverges may block all of them. So what
matters is not what a rank did but what it alone did. Each compilation is aligned with that of the same function and number on the
other ranks; most of them agree, and deviations are reported with place and cause: collectives in another order (the job may hang),
failures, a function that only one rank recompiles (the others wait for it), and different graphs, breaks, buckets and guards.

In: the compilations of each rank, their recordings, the shared clock. Out: `differences(...)`: `Difference`s, the worst first.

PyTorch's counterpart: the page of tlparse --all-ranks-html, and torch/distributed/flight_recorder, for collectives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dynexplore.engine.old_names import keep_old_names
from dynexplore.ranks.compilations import Compilation, Key, collectives_of, node_words
from dynexplore.ranks.shared_clock import SharedClock
from dynexplore.recording.recording import Recording
from dynexplore.views.counts import plural

V = TypeVar("V", bound=Hashable)

KINDS = ("collectives", "failure", "recompile", "cause", "graph", "break", "buckets", "only", "guards")
"""Kinds of differences, the worst first."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between ranks: which of them deviated, what, where, why, the fix; `waited` is a sentence about who waited.

    `frames` are the affected frames in the recordings of these ranks, by rank.
    """

    kind: str
    ranks: tuple[int, ...]
    message: str
    where: str = ""
    cause: str = ""
    remedy: str = ""
    waited: str = ""
    frames: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        more = " ".join(part for part in (f"{self.cause}." if self.cause else "", self.waited) if part)
        return f"{self.message}{f' ({self.where})' if self.where else ''}{f': {more}' if more else ''}"


def rank_words(ranks: Iterable[int]) -> str:
    """A list of ranks in words.

    >>> rank_words([1]), rank_words([0, 1, 2, 5]), rank_words([])
    ('rank 1', 'ranks 0-2 and 5', 'no rank')
    """
    numbers = sorted(set(ranks))
    if not numbers:
        return "no rank"
    runs = [[number for _, number in run] for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else " and ".join(map(str, run)) for run in runs]
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(parts[:-1])}{' and ' if len(parts) > 1 else ''}{parts[-1]}"


def differences(
    compiled: Mapping[int, Sequence[Compilation]], recordings: Mapping[int, Recording], clock: SharedClock
) -> list[Difference]:
    """The differences between these ranks, the worst first, then the earlier first; none for a single rank."""
    if len(compiled) < 2:
        return []
    aligned = _AlignedCompilations(compiled, clock)
    every = [*_collectives(recordings), *aligned.all()]
    return sorted(every, key=lambda difference: KINDS.index(difference.kind))


# -- executed collectives ------------------------------------------------------------------------------------------------


def _collectives(recordings: Mapping[int, Recording]) -> Iterator[Difference]:
    """The first collective of the world group that is not the same on all ranks."""
    jobs = {
        rank: recording.job for rank, recording in recordings.items() if recording.job is not None and recording.job.collectives
    }
    if len(jobs) < len(recordings):
        return
    collectives = {rank: job.shared for rank, job in jobs.items()}
    for number in sorted(set().union(*collectives.values())):
        by_rank = {rank: by_number[number].signature for rank, by_number in collectives.items() if number in by_number}
        if len(set(by_rank.values())) > 1:
            majority, outliers = _majority_and_outliers(by_rank)
            cause = f"{rank_words(majority)} began {by_rank[majority[0]]}, {rank_words(outliers)} {by_rank[outliers[0]]}"
            message = f"collective {number} is not the same on all ranks"
            yield Difference("collectives", outliers, message, "", cause, _SAME_ORDER)
            return
        if len(by_rank) < len(collectives):
            missing = tuple(rank for rank in collectives if rank not in by_rank)
            if all(number > max(collectives[rank], default=0) for rank in missing):  # a ring buffer may have dropped the first ones
                message = f"{rank_words(missing)} did not begin collective {number}, as {rank_words(by_rank)} did"
                yield Difference("collectives", missing, message, "", next(iter(by_rank.values())), _SAME_ORDER)
            return


_SAME_ORDER = "All ranks must start the same collectives in the same order: no rank may decide by its own data or rank number."


# -- aligned compilations ------------------------------------------------------------------------------------------------


class _AlignedCompilations:
    """The compilations of one function on all ranks."""

    def __init__(self, compiled: Mapping[int, Sequence[Compilation]], clock: SharedClock) -> None:
        self.ranks = tuple(compiled)
        self.clock = clock
        self.arrivals = clock.arrivals()
        self.of: dict[Key, dict[int, list[Compilation]]] = {}
        for rank, of_rank in compiled.items():
            for compilation in of_rank:
                if compilation.is_compiled:
                    self.of.setdefault(compilation.key, {rank: [] for rank in compiled})[rank].append(compilation)

    def all(self) -> Iterator[Difference]:
        for by_rank in self.of.values():
            yield from self.function(by_rank)

    def function(self, by_rank: Mapping[int, list[Compilation]]) -> Iterator[Difference]:
        counts = {rank: len(compilations) for rank, compilations in by_rank.items()}
        if len(set(counts.values())) > 1:
            yield self.uneven(by_rank, counts)
        seen: set[tuple[str, str]] = set()  # what differs in one compilation differs in the next
        for rows in zip(*(compilations for compilations in by_rank.values() if compilations), strict=False):
            for difference in self.pair({compilation.rank: compilation for compilation in rows}):
                if (difference.kind, difference.cause) not in seen:
                    seen.add((difference.kind, difference.cause))
                    yield difference

    def uneven(self, by_rank: Mapping[int, list[Compilation]], counts: Mapping[int, int]) -> Difference:
        """The difference if some ranks compiled a function more often than the others."""
        fewest = min(counts.values())
        majority, outliers = _majority_and_outliers(counts)
        if counts[majority[0]] != fewest:  # most ranks compiled it more often: then the others are reported
            outliers, majority = tuple(r for r in counts if counts[r] > fewest), tuple(r for r in counts if counts[r] == fewest)
        if len(outliers) < len(counts) and all(counts[rank] < counts[majority[0]] for rank in outliers):
            outliers, majority = majority, outliers
        first = by_rank[outliers[0]][fewest]
        frames = tuple((rank, by_rank[rank][fewest].frame) for rank in outliers)
        only = "only " if len(outliers) == 1 else ""
        if not fewest:
            message = f"{only}{rank_words(outliers)} compiled `{first.name}`"
            cause = f"{rank_words(majority)} did not call it, or ran it as plain Python"
            return Difference("only", outliers, message, first.place, cause, _ONLY, self.waited(first, outliers), frames)
        more = max(counts[rank] for rank in outliers) - fewest
        message = f"{only}{rank_words(outliers)} recompiled `{first.name}`{f' {more} times' if more > 1 else ''}"
        return Difference(
            "recompile", outliers, message, first.place, first.cause, _again(first), self.waited(first, outliers), frames
        )

    def waited(self, compilation: Compilation, outliers: Sequence[int]) -> str:
        """Which ranks reached the next collective before the rank that compiled."""
        others = [rank for rank in self.ranks if rank not in outliers]
        if compilation.begins is None or not others:
            return ""
        begins = self.clock.at(compilation.rank, compilation.begins)
        following = next(
            (arrival for arrival in self.arrivals if arrival.seconds[compilation.rank] >= begins + compilation.seconds), None
        )
        if following is None:
            waits = "waits" if len(others) == 1 else "wait"
            return f"{_sentence(rank_words(others))} {waits} for {rank_words(outliers)} at the next collective."
        ahead = {rank: following.seconds[compilation.rank] - following.seconds[rank] for rank in others}
        longest = max(ahead, key=lambda rank: ahead[rank])
        seconds = min(ahead[longest], compilation.seconds) if compilation.seconds else ahead[longest]
        if seconds < 0.001:
            return ""
        up_to = "up to " if len(others) > 1 else ""
        waiting = f"{_sentence(rank_words(others))} waited {up_to}{seconds:.2f} s"
        return f"{waiting} for {rank_words(outliers)} in {following.operation}."

    # -- one compilation on all ranks ----------------------------------------------------------------------------------

    def pair(self, by_rank: Mapping[int, Compilation]) -> Iterator[Difference]:
        checks = (_failure, _order, _graph, _broke, _buckets, _cause, _guards)
        pair_differences = [difference for check in checks if (difference := check(by_rank)) is not None]
        if {"collectives", "break"} & {difference.kind for difference in pair_differences}:  # then the graph differs as well
            pair_differences = [difference for difference in pair_differences if difference.kind != "graph"]
        yield from pair_differences


_ONLY = "Check why the other ranks take a different path: a branch on the rank, on data, or a call that only one rank makes."


def _again(compilation: Compilation) -> str:
    if any(word in compilation.cause for word in ("rows", "row,", "element", "size", "dimension")):
        return "Use inputs of the same size on all ranks (pad or drop the last batch), or compile with dynamic=True."
    return "Keep the value in the guard the same on all ranks, or pass it as a tensor."


def _majority_and_outliers(values: Mapping[int, V]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ranks with the most frequent value (in a tie, that of the first rank), and the other ranks."""
    groups: dict[V, list[int]] = {}
    for rank, value in values.items():
        groups.setdefault(value, []).append(rank)
    majority = max(groups.values(), key=len)
    return tuple(majority), tuple(rank for rank in values if rank not in majority)


def _difference_of(
    kind: str, by_rank: Mapping[int, Compilation], value: Callable[[Compilation], Hashable],
    say: Callable[[Compilation, Compilation], str], message: str, remedy: str,
) -> Difference | None:  # fmt: skip
    """The difference in one value, described by the first rank of the majority and the first outlier."""
    values = {rank: value(compilation) for rank, compilation in by_rank.items()}
    if len(set(values.values())) < 2:
        return None
    majority, outliers = _majority_and_outliers(values)
    first = by_rank[outliers[0]]
    which = f" (compilation {first.number})" if first.number > 1 else ""
    frames = tuple((rank, by_rank[rank].frame) for rank in outliers)
    cause, name = say(by_rank[majority[0]], first), f"`{first.name}`{which}"
    return Difference(kind, outliers, message.format(name=name, ranks=rank_words(outliers)), first.place, cause, remedy, "", frames)


def _failure(by_rank: Mapping[int, Compilation]) -> Difference | None:
    def say(typical: Compilation, outlier: Compilation) -> str:
        failed = outlier if outlier.failure else typical
        return f"rank {failed.rank}: {failed.failure}"

    remedy = "A rank that runs a function as plain Python is slower than the others, which wait for it."
    return _difference_of(
        "failure", by_rank, lambda compilation: compilation.failure, say, "{name} did not fail in the same way on all ranks", remedy
    )


def _order(by_rank: Mapping[int, Compilation]) -> Difference | None:
    """The difference in the collectives of the graphs."""

    def of(compilation: Compilation) -> tuple[str, ...]:
        return tuple(itertools.chain.from_iterable(map(collectives_of, compilation.graphs)))

    def say(typical: Compilation, outlier: Compilation) -> str:
        return _first_apart(of(typical), of(outlier), typical.rank, outlier.rank, "collective")

    if any(not of(compilation) for compilation in by_rank.values()):
        return None
    message = "the collectives in the graph of {name} are in a different order on {ranks}"
    return _difference_of("collectives", by_rank, of, say, message, _SAME_ORDER)


def _graph(by_rank: Mapping[int, Compilation]) -> Difference | None:
    def of(compilation: Compilation) -> tuple[str, ...]:
        return tuple(node_words(node) for graph in compilation.graphs for node in graph.nodes)

    def say(typical: Compilation, outlier: Compilation) -> str:
        return _first_apart(of(typical), of(outlier), typical.rank, outlier.rank, "node")

    remedy = "Different graphs do different work, and ranks wait for each other. Check where the first different node comes from."
    return _difference_of("graph", by_rank, of, say, "the graph of {name} is different on {ranks}", remedy)


def _first_apart(typical: Sequence[str], outlier: Sequence[str], rank: int, other: int, noun: str) -> str:
    """The first difference between two sequences, in words."""
    pairs = itertools.zip_longest(typical, outlier)
    number, (expected, actual) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    return f"{noun} {number} is {expected or 'missing'} on rank {rank}, {actual or 'missing'} on rank {other}"


def _broke(by_rank: Mapping[int, Compilation]) -> Difference | None:
    def say(typical: Compilation, outlier: Compilation) -> str:
        more, fewer = (outlier, typical) if set(outlier.breaks) - set(typical.breaks) else (typical, outlier)
        first = next(iter([graph_break for graph_break in more.breaks if graph_break not in fewer.breaks] or more.breaks))
        return f"rank {more.rank} breaks the graph {first}"

    remedy = "Do not branch on the rank, or on data of one rank, inside compiled code."
    return _difference_of(
        "break", by_rank, lambda compilation: compilation.breaks, say, "the graph breaks of {name} are different on {ranks}", remedy
    )


def _buckets(by_rank: Mapping[int, Compilation]) -> Difference | None:
    def of(compilation: Compilation) -> tuple[tuple[str, ...], ...]:
        return tuple(piece.parameters for graph in compilation.graphs for piece in graph.pieces)

    def say(typical: Compilation, outlier: Compilation) -> str:
        words = [f"{plural(len(of(compilation)), 'piece')} on rank {compilation.rank}" for compilation in (typical, outlier)]
        return ", ".join(words)

    remedy = "Gradients are sent bucket by bucket, so another split sends them at other times. Use the same settings on all ranks."
    return _difference_of("buckets", by_rank, of, say, "DDP's buckets split {name} differently on {ranks}", remedy)


def _cause(by_rank: Mapping[int, Compilation]) -> Difference | None:
    def say(typical: Compilation, outlier: Compilation) -> str:
        words = [f"{compilation.cause or 'no cause recorded'} on rank {compilation.rank}" for compilation in (typical, outlier)]
        return ", ".join(words)

    remedy = "Ranks that recompile for different reasons do so at different times, and the others wait each time."
    return _difference_of(
        "cause",
        by_rank,
        lambda compilation: compilation.cause,
        say,
        "{name} recompiled for a different reason on {ranks}",
        remedy,
    )


def _guards(by_rank: Mapping[int, Compilation]) -> Difference | None:
    def say(typical: Compilation, outlier: Compilation) -> str:
        added = [guard for guard in outlier.guards if guard not in typical.guards]
        lost = [guard for guard in typical.guards if guard not in outlier.guards]
        clauses = [f"only rank {outlier.rank} has {added[0]}"] if added else []
        clauses += [f"rank {typical.rank} has {lost[0]}"] if lost else []
        more = len(added) + len(lost) - len(clauses)
        return "; ".join(clauses) + (f"; and {more} more" if more else "")

    remedy = "A rank with a guard that the others lack may be the only one that recompiles."
    return _difference_of(
        "guards",
        by_rank,
        lambda compilation: frozenset(compilation.guards),
        say,
        "the guards of {name} are different on {ranks}",
        remedy,
    )


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


keep_old_names(globals())
