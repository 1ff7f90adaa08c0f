"""Counts of graphs, graph breaks and recompiles in a block of a test, with snapshots of the breaks.

The idea: a change that adds a graph break or a recompile should fail a test that names it and its place. So a block is recorded,
whichever engine compiles in it: functions of torch.compile and of this engine, including functions created earlier. A test either
states the expected counts, or stores today's graph breaks in a file and reports what changed.

In: a block of code; the expected counts, or the breaks of a snapshot.
Out: `CountedBlock`: its recordings and counts; `mismatches(counts, expected)` and `hint(block, expected)`, sentences;
     `report(block)`, the ranked list; `breaks_of(block)` and `changed_breaks(before, now)`, for snapshots.

PyTorch's counterpart: `CompileCounter` in torch/_dynamo/testing.py, which counts the graphs that its own backend gets.
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
    """A recorder whose entry numbers do not collide with those of entries that existed before the block."""

    def next_entry_number(self) -> int:
        return entry_number(None)


class CountedBlock(contextlib.ExitStack):
    """A `with` block, and its captures; `engine` restricts counting to one of the two engines."""

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
    """The counts that differ from the expected ones, as sentences.

    >>> mismatches({"graphs": 2, "breaks": 1, "recompiles": 0}, {"graphs": 1, "breaks": None, "recompiles": 0})
    ['expected 1 graph, got 2']
    """
    wrong = [(name, wish) for name, wish in expected.items() if wish is not None and counts[name] != wish]
    return [f"expected {plural(wish, _NOUNS[name])}, got {counts[name]}" for name, wish in wrong]


def hint(block: CountedBlock, expected: Mapping[str, int | None]) -> str:
    """What to do about a wrong count if functions may have been compiled before the block; "" if that cannot be the reason.

    >>> with CountedBlock("test") as block:
    ...     pass
    >>> hint(block, {"graphs": 1}).partition(": ")[2], hint(block, {"graphs": 0})
    ('`torch._dynamo.reset()` and `dynexplore.reset()` before it rules that out.', '')
    """
    counts = block.counts
    fewer = any(wish is not None and counts[name] < wish for name, wish in expected.items())
    more = (expected.get("recompiles") is not None) and any(map(_recompiles_first, block.recordings))
    if not fewer and not more:
        return ""
    resets = " and ".join(f"`{_RESETS[recording.engine]}`" for recording in reversed(block.recordings))
    return f"Code that an earlier test compiled may be reused in the block. To prevent this, call {resets} before it."


_RESETS = {TORCH: "torch._dynamo.reset()", DYNEXPLORE: "dynexplore.reset()"}


def _recompiles_first(recording: Recording) -> bool:
    """Whether a function recompiles that was not compiled in the recording before."""
    again = {event.frame for event in recording.of(ev.Recompiled)}
    seen: set[int] = set()
    for entered in recording.frames:
        if entered.frame in again and entered.code.id not in seen:
            return True
        seen.add(entered.code.id)
    return False


def report(block: CountedBlock) -> str:
    """The captures, with the list of graph breaks and recompiles, costliest first."""
    return "\n\n".join(map(report_of, block.captured)) or "Nothing was captured."


def save_pages(block: CountedBlock, folder: Path) -> list[Path]:
    """Write the explorer page of each engine that captured something to a folder."""
    paths = []
    for recording in block.captured:
        path = folder / f"{'torch_compile' if recording.engine == TORCH else 'dynexplore'}.html"
        recording.save(path)
        paths.append(path)
    return paths


# -- snapshots ---------------------------------------------------------------------------------------------------------


def breaks_of(block: CountedBlock) -> dict[str, int]:
    """How often each graph break occurs: by function, cause and line of code, because line numbers change with every edit."""
    return dict(sorted(Counter(_key(recording, broke) for recording in block.recordings for broke in recording.breaks).items()))


def _key(recording: Recording, broke: ev.GraphBroke) -> str:
    file, line, function = place_of_break(recording, broke)
    code = next((level.code.strip() for level in reversed(broke.user_stack) if (level.file, level.line) == (file, line)), "")
    return f"{short_file(file)} in {plain_name(function)}: {cause_of(broke)}{f' | {code}' if code else ''}"


def changed_breaks(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """The breaks that are new, and those that are gone.

    >>> changed_breaks({"m.py in f: print": 1}, {"m.py in f: print": 2, "m.py in g: open": 1})
    ['new graph break: m.py in f: print (2 times, previously 1)', 'new graph break: m.py in g: open']
    """
    lines = []
    for key in sorted({*before, *now}):
        was, count = before.get(key, 0), now.get(key, 0)
        if was != count:
            word = "new graph break" if count > was else "no longer a graph break" if not count else "fewer graph breaks"
            often = f" ({plural(count, 'time')}, previously {was})" if was and count else ""
            lines.append(f"{word}: {key}{often}")
    return lines
