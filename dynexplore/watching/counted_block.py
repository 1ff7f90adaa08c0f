"""What is captured in a block of a test: counts that a test expects, and graph breaks as they were.

Which idea lives here: a change that brings a graph break or a recompile should fail a test, and say which and where. So a block is
recorded, whoever compiles in it: functions of torch.compile and functions of this engine, also those that were made before. Whoever
knows how many graphs it takes says so; whoever does not keeps the graph breaks of today in a file, and sees what a change brought.

In:  a block of code; the counts that are expected, or the breaks of a snapshot.
Out: `CountedBlock`: its recordings and counts; `mismatches(block, expected)`, sentences; `report(block)`, the ranked list;
     `breaks_of(block)` and `changed_breaks(before, now)`, for snapshots.

PyTorch's counterpart: CompileCounter in torch/_dynamo/testing.py, which counts what its own backend is given.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from dynexplore.engine import events as ev
from dynexplore.engine.recorder import entry_number
from dynexplore.engine.runtime import stores
from dynexplore.recording.engines import DYNEXPLORE, TORCH
from dynexplore.recording.recording import Recording
from dynexplore.views.counts import plural
from dynexplore.views.headline import cause_of, place_of_break
from dynexplore.views.names import plain_name, short_file
from dynexplore.views.program_report import report as report_of
from dynexplore.watching.watch import watch

NAMES = ("graphs", "breaks", "recompiles")
_NOUNS = {"graphs": "graph", "breaks": "graph break", "recompiles": "recompile"}


class _OfOneBlock(Recording):
    """Functions of this engine have entries from before the block: a new one gets a number that none of these has."""

    def next_entry_number(self) -> int:
        return entry_number(None)


class CountedBlock(contextlib.ExitStack):
    """A `with` block, and what is captured in it; `engine` names one of the two where the other is not to be counted."""

    def __init__(self, title: str, engine: str | None = None) -> None:
        super().__init__()
        self._title, self._engine = title, engine
        self.recordings: list[Recording] = []

    def __enter__(self) -> CountedBlock:
        super().__enter__()
        if self._engine != TORCH:
            own = _OfOneBlock(title=self._title)
            self.enter_context(stores.recorded_by(own))
            self.recordings.append(own)
        if self._engine != DYNEXPLORE:
            seen = self.enter_context(watch(steps=False))
            seen.recording.title = self._title
            self.recordings.append(seen.recording)
        return self

    @property
    def counts(self) -> dict[str, int]:
        """Graphs, graph breaks and recompiles of the block, by name."""
        totals = dict.fromkeys(NAMES, 0)
        for recording in self.recordings:
            totals["graphs"] += len(recording.graphs)
            totals["breaks"] += len(recording.breaks)
            totals["recompiles"] += len(recording.of(ev.Recompiled))
        return totals

    @property
    def captured(self) -> list[Recording]:
        """The recordings in which something was captured."""
        return [recording for recording in self.recordings if recording.frames or bool(recording.of(ev.FrameSkipped))]


def mismatches(counts: Mapping[str, int], expected: Mapping[str, int | None]) -> list[str]:
    """What was expected and is not so.

    >>> mismatches({"graphs": 2, "breaks": 1, "recompiles": 0}, {"graphs": 1, "breaks": None, "recompiles": 0})
    ['expected 1 graph, got 2']
    """
    wrong = [(name, wish) for name, wish in expected.items() if wish is not None and counts[name] != wish]
    return [f"expected {plural(wish, _NOUNS[name])}, got {counts[name]}" for name, wish in wrong]


def report(block: CountedBlock) -> str:
    """What was captured, with the list of graph breaks and recompiles, costliest first."""
    return "\n\n".join(map(report_of, block.captured)) or "Nothing was captured."


def save_pages(block: CountedBlock, folder: Path) -> list[Path]:
    """Write the explorer of each engine that captured something into a folder."""
    paths = []
    for recording in block.captured:
        path = folder / f"{'torch_compile' if recording.engine == TORCH else 'dynexplore'}.html"
        recording.save(path)
        paths.append(path)
    return paths


# -- snapshots ---------------------------------------------------------------------------------------------------------


def breaks_of(block: CountedBlock) -> dict[str, int]:
    """Each graph break, and how often: by function, cause and line of code, for numbers of lines change with every edit."""
    return dict(sorted(Counter(_key(recording, broke) for recording in block.recordings for broke in recording.breaks).items()))


def _key(recording: Recording, broke: ev.GraphBroke) -> str:
    file, line, function = place_of_break(recording, broke)
    code = next((level.code.strip() for level in reversed(broke.user_stack) if (level.file, level.line) == (file, line)), "")
    return f"{short_file(file)} in {plain_name(function)}: {cause_of(broke)}{f' | {code}' if code else ''}"


def changed_breaks(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """Which breaks are new and which are no longer there.

    >>> changed_breaks({"m.py in f: print": 1}, {"m.py in f: print": 2, "m.py in g: open": 1})
    ['new graph break: m.py in f: print (1 time before, now 2)', 'new graph break: m.py in g: open']
    """
    lines = []
    for key in sorted({*before, *now}):
        was, count = before.get(key, 0), now.get(key, 0)
        if was != count:
            word = "new graph break" if count > was else "no longer a graph break" if not count else "fewer graph breaks"
            often = f" ({plural(was, 'time')} before, now {count})" if was and count else ""
            lines.append(f"{word}: {key}{often}")
    return lines
