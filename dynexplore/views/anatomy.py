"""Guard anatomy: every guard of every cache entry, the instruction that installed it, and its result in each call.

The idea: every guard has an origin. Its expression is shown with the instruction that relied on it, and with its result in each
call: pass, fail (with expected and actual value), or not reached, because an earlier guard had failed. What it would return for
another input only the Session can compute.

In: a Recording. Out: `verdicts(recording, call)`, the result of every guard in one call; `anatomy_data(recording)` for the
browser. PyTorch's counterpart: TORCH_LOGS="guards", which prints the guard tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import cache_timeline, text
from dynexplore.views.guard_prices import entry_lines, microseconds


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a guard in a call: "pass", "fail" (with expected and actual) or "not reached"."""

    entry: int
    index: int
    verdict: str
    expected: str = ""
    actual: str = ""


def verdicts(recording: Recording, frame: int) -> list[Verdict]:
    """The results of the guards of every entry that was tried for this frame, in the order in which the entries were tried."""
    owners = cache_timeline.entry_frames(recording)
    verdicts: list[Verdict] = []
    for failed in recording.of_frame(frame, ev.GuardFailed):
        verdicts += _of_entry(recording, owners.get(failed.entry, 0), failed)
    for hit in recording.of_frame(frame, ev.CacheHit):
        verdicts += [Verdict(hit.entry, guard.index, "pass") for guard in _guards(recording, hit.compiled_by)]
    return verdicts


def _of_entry(recording: Recording, owner: int, failed: ev.GuardFailed) -> list[Verdict]:
    """The results of one entry's guards: the state of modules is checked before all other guards, wherever they are in the list."""
    guards = sorted(_guards(recording, owner), key=lambda guard: guard.kind != "MODULE_STATE")
    verdicts, word = [], "pass"
    for guard in guards:
        if guard.index == failed.index:
            verdicts.append(Verdict(failed.entry, guard.index, "fail", failed.expected, failed.actual))
            word = "not reached"
        else:
            verdicts.append(Verdict(failed.entry, guard.index, word))
    return sorted(verdicts, key=lambda verdict: verdict.index)


def _guards(recording: Recording, frame: int) -> list[ev.GuardInstalled]:
    return [guard for guard in recording.guards if guard.frame == frame]


# -- for the browser ---------------------------------------------------------------------------------------------


def anatomy_data(recording: Recording) -> dict[str, Any]:
    """The entries, with the origin of each guard of their frame, and for each call the guard that rejected each tried entry.

    A call is {label, frame, tried: {entry: index of the failed guard, or -1 for a hit}, found: {entry: {expected, actual}}}.
    """
    names = {entered.frame: entered.code.qualname for entered in recording.frames}
    owners = cache_timeline.entry_frames(recording)
    timed = {event.entry: event for event in recording.of(ev.GuardsTimed)}
    return {
        "entries": [
            {
                "entry": entry,
                "frame": frame,
                "function": names.get(frame, ""),
                "asked": [text.instruction_text(recording, guard) for guard in _guards(recording, frame)],
                **_price(timed.get(entry)),
            }
            for entry, frame in owners.items()
        ],
        "calls": _calls(recording),
    }


def _price(timed: ev.GuardsTimed | None) -> dict[str, Any]:
    """What one check of an entry costs, and of what that consists, if it was measured."""
    if timed is None:
        return {}
    return {"price": microseconds(timed.seconds), "parts": entry_lines(timed)}


def _calls(recording: Recording) -> list[dict[str, Any]]:
    """The calls that evaluated guards; for repeated hits of the same entry only the first."""
    rows: list[dict[str, Any]] = []
    hits: set[tuple[str, int]] = set()
    for call in cache_timeline.calls(recording):
        for frame in call.frames:
            again = frame.outcome == "hit" and not frame.missed
            if not (frame.missed or again) or (again and (frame.function, frame.entry) in hits):
                continue
            hits |= {(frame.function, frame.entry)} if again else set()
            rows.append(_call(recording, call.number, frame))
    return rows


def _call(recording: Recording, number: int, frame: cache_timeline.FrameCall) -> dict[str, Any]:
    failed = recording.of_frame(frame.frame, ev.GuardFailed)
    tried = {str(event.entry): event.index for event in failed}
    tried |= {str(hit.entry): -1 for hit in recording.of_frame(frame.frame, ev.CacheHit)}
    return {
        "label": f"call {number}: {frame.function} ({frame.outcome})",
        "frame": frame.frame,
        "tried": tried,
        "found": {str(event.entry): {"expected": event.expected, "actual": event.actual} for event in failed},
    }
