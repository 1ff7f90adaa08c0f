"""Counters of what the engine did since the last reset: `counters["frames"]["ok"]`, `counters["graph_break"][reason]`.

The idea: one process-wide table of tables of ints, for tests, `explain` and users. The groups:

- "frames": "total" (translations started), "ok" (compiled), "skipped", "failed"
- "graph_break": reason -> count
- "stats": "graphs", "calls_captured", "unique_graph_breaks", "recompiles", "cache_limit", ...
- "graph_failure": the exception of a compiled graph -> count (the segment then ran again as plain Python)
- "engine_error": one line per bug in the engine -> count
- "backend": backend name -> graphs compiled (each piece of a split graph counts); with a skipped backend, a graph counts as "eager"
- "backend_skipped": reason -> graphs that ran as captured instead (engine/aliasing/eligibility.py)

A group or a name without counts reads as 0 and is not created by reading it.

In: `counters[group][name] += 1` from anywhere in the engine. Out: the same table; `counters.clear()` empties it. PyTorch's
counterpart: `counters` in torch/_dynamo/utils.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping


class Counters(Mapping[str, "Counter[str]"]):
    """A mapping group -> Counter; groups are created on first access and stay the same object until `clear()`.

    >>> c = Counters()
    >>> c["frames"]["ok"] += 1
    >>> c["frames"]["ok"], c["frames"]["total"]
    (1, 0)
    """

    def __init__(self) -> None:
        self._groups: dict[str, Counter[str]] = {}

    def __getitem__(self, group: str) -> Counter[str]:
        counter = self._groups.get(group)
        if counter is None:
            counter = self._groups.setdefault(group, Counter())
        return counter

    def __iter__(self) -> Iterator[str]:
        return iter([group for group, counts in self._groups.items() if counts])

    def __len__(self) -> int:
        return sum(1 for counts in self._groups.values() if counts)

    def clear(self) -> None:
        """Discard all counts. A group that is referenced elsewhere is emptied, not replaced."""
        for counts in self._groups.values():
            counts.clear()

    def snapshot(self) -> dict[str, dict[str, int]]:
        """Return a copy as plain dicts, without empty groups."""
        return {group: dict(self[group]) for group in self}

    def restore(self, counted: Mapping[str, Mapping[str, int]]) -> None:
        """Restore all counts to those of the `snapshot` that returned `counted`."""
        self.clear()
        for group, counts in counted.items():
            self[group].update(counts)

    def __repr__(self) -> str:
        return f"Counters({self.snapshot()!r})"


counters = Counters()
"""The counts of this process."""


def graph_breaks() -> dict[str, int]:
    """Return {reason: count} of the graph breaks since the last reset."""
    return dict(counters["graph_break"])
