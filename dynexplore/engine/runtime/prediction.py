"""What another call would do, in words that can be asserted: hit or recompile, which guards, what would be captured.

The idea: a `Prediction` joins two answers about a call that nobody makes: what every guard of every entry says
(verdicts.py), and what the engine itself would then decide (supposing.py). Where it would translate, the capture that it would
make is there as a recording, beside the one that was made before.

In: a store, a `SupposedFrame`, the recording of the calls so far. Out: `Prediction`.

PyTorch has no counterpart.
"""

from __future__ import annotations

from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.engine.recording import GraphView, Recording
from dynexplore.engine.runtime.first_frame import SupposedFrame
from dynexplore.engine.runtime.stores import Store
from dynexplore.engine.runtime.supposing import Kind, Outcome, suppose
from dynexplore.engine.runtime.verdicts import EntryVerdict, GuardVerdict, judge
from dynexplore.views.capture_difference import Difference, difference

_WORDS: dict[Kind, str] = {
    "hit": "it hits entry {0.entry}, and nothing is compiled",
    "compile": "it is compiled: there is no entry yet",
    "recompile": "it is compiled again: {0.reason}",
    "limit reached": "it runs as plain Python, for there are as many entries as allowed: {0.reason}",
    "plain Python": "it runs as plain Python: {0.reason}",
    "raises": "it raises {0.reason}",
}


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a call would do that nobody made. It is about the frame that the call begins with.

    `outcome` is "hit", "compile" (there is no entry yet), "recompile", "limit reached", "plain Python" or "raises"; `entry`
    the number of the entry that is hit (-1: none); `reason` says why in words; `entries` what each guard of each entry says.
    `capture` is the recording of what would be captured, None where nothing would; `difference` compares it with the entry
    that was tried first.
    """

    outcome: Kind
    entry: int
    reason: str
    entries: tuple[EntryVerdict, ...]
    capture: Recording | None
    difference: Difference | None

    @property
    def would_fail(self) -> list[GuardVerdict]:
        """The guards that say no to these inputs, of every entry, also those that are not reached."""
        return [guard for entry in self.entries for guard in entry.guards if guard.alone == "fail"]

    @property
    def graphs(self) -> tuple[GraphView, ...]:
        """The graphs that would be captured."""
        return self.capture.graphs if self.capture is not None else ()

    @property
    def guards(self) -> tuple[ev.GuardInstalled, ...]:
        """The guards that the new entry would have."""
        return self.capture.guards if self.capture is not None else ()

    @property
    def breaks(self) -> tuple[ev.GraphBroke, ...]:
        """Where the new capture would break."""
        return self.capture.breaks if self.capture is not None else ()

    def __str__(self) -> str:
        """The outcome, then the guards that fail, then what would be different."""
        lines = [_WORDS[self.outcome].format(self)]
        lines += [f"  would fail: {guard.guard}, found {guard.actual}" for guard in self.would_fail]
        if self.difference is not None:
            lines.append(str(self.difference))
        return "\n".join(lines)


def predict(store: Store, frame: SupposedFrame | None, recording: Recording, *, capture: bool = True) -> Prediction:
    """What a call that begins with this frame would do; None: it begins with none that is looked at."""
    if frame is None:
        return Prediction("plain Python", -1, "the call starts no Python frame", (), None, None)
    entries = tuple(judge(frame.cache, frame.scope, recording))
    outcome = suppose(store, frame, capture=capture)
    return Prediction(
        outcome.kind, outcome.entry, outcome.reason, entries, outcome.recording, _difference(outcome, entries, recording)
    )


def _difference(outcome: Outcome, entries: tuple[EntryVerdict, ...], recording: Recording) -> Difference | None:
    """The capture that would be made beside the one of the entry that is tried first."""
    if outcome.recording is None or not outcome.recording.frames or not entries:
        return None
    return difference(recording, entries[0].frame, outcome.recording, outcome.recording.frames[0].frame)
