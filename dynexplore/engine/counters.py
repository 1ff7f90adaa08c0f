"""Counts of what the engine did since the last reset: `counters["frames"]["ok"]`,
`counters["graph_break"][reason]`.

Which idea lives here: one process-wide table of tables of ints that tests, `explain` and people read. The
groups:

- "frames": "total" (translations begun), "ok" (compiled), "skipped", "failed"
- "graph_break": reason -> how often
- "stats": "graphs", "calls_captured", "unique_graph_breaks", "recompiles", "cache_limit", ...
- "graph_failure": what a compiled graph raised -> how often (the segment then ran again as plain Python)
- "engine_error": one line per bug of ours -> how often
- "backend": backend name -> graphs compiled (each piece of a split graph counts); one whose backend is skipped counts as "eager"
- "backend_skipped": reason -> graphs that ran as captured instead (engine/aliasing/eligibility.py)

A group or a name that was never counted reads as 0 and does not come into being by being read.

In:  `counters[group][name] += 1` from anywhere in the engine.
Out: the same table; `counters.clear()` empties it.

PyTorch's counterpart: `counters` in torch/_dynamo/utils.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping


class Counters(Mapping[str, "Counter[str]"]):
    """A mapping group -> Counter; groups are made when first asked for and stay the same object until
    `clear()`.

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
        """Forget all counts. A group that someone holds is emptied, not replaced."""
        for counts in self._groups.values():
            counts.clear()

    def snapshot(self) -> dict[str, dict[str, int]]:
        """Return a copy as plain dicts, groups without counts left out."""
        return {group: dict(self[group]) for group in self}

    def put_back(self, counted: Mapping[str, Mapping[str, int]]) -> None:
        """Set all counts to what they were when `snapshot` returned `counted`."""
        self.clear()
        for group, counts in counted.items():
            self[group].update(counts)

    def __repr__(self) -> str:
        return f"Counters({self.snapshot()!r})"


counters = Counters()
"""The counts of this process."""


def graph_breaks() -> dict[str, int]:
    """Return {reason: how often} of the graph breaks since the last reset."""
    return dict(counters["graph_break"])
