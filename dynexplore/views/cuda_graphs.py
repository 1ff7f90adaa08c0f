"""CUDA graphs, as text: which compiled parts were recorded, which were skipped or recorded again, and why.

The idea: with `mode="reduce-overhead"` the question is whether it took effect. So one sentence counts what was recorded, and one
for each reason says what was not, with the line of the program that torch blames.

In: a Recording with `CudaGraphLogged`. Out: `cuda_graph_lines(recording)`, text; `cuda_graphs_of(recording)`, plain data.

PyTorch's counterpart: TORCH_LOGS=cudagraphs, message by message.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.counts import plural
from dynexplore.views.names import short_file

_SENTENCES = {"skipped": "Skipped", "re-recorded": "Recorded again", "warned": "Expensive"}
_MOST = 4


def cuda_graph_lines(recording: Recording, most: int = _MOST) -> list[str]:
    """The outcomes as lines; none if torch logged none. `most`: the number of reasons (0: all)."""
    logged = recording.of(ev.CudaGraphLogged)
    if not logged:
        return []
    outcomes = Counter(event.outcome for event in logged)
    lines = [f"CUDA graphs: {outcomes['recorded']} recorded, {outcomes['skipped']} skipped."]
    if outcomes["warmed up"] and not outcomes["recorded"]:
        lines[0] += f" {plural(outcomes['warmed up'], 'part')} only warmed up: torch records in the second call."
    reasons = Counter(_reason(event) for event in logged if event.outcome in _SENTENCES)
    ranked = reasons.most_common()
    lines += [f"  {reason}{f' ({times} times)' if times > 1 else ''}" for reason, times in ranked[: most or None]]
    if most and len(ranked) > most:
        lines.append(f"  ... and {plural(len(ranked) - most, 'more reason')} (--full)")
    return lines


def _reason(event: ev.CudaGraphLogged) -> str:
    place = event.place
    where = f", at {short_file(place.file)}:{place.line} in {place.function}: {place.code}" if place is not None else ""
    return f"{_SENTENCES[event.outcome]}: {event.reason}{where}"


def cuda_graphs_of(recording: Recording) -> list[dict[str, Any]]:
    """The outcomes as plain data, without duplicates, with their counts."""
    times = Counter((event.outcome, event.reason, event.place) for event in recording.of(ev.CudaGraphLogged))
    return [
        {
            "outcome": outcome,
            "reason": reason,
            "file": place.file if place is not None else "",
            "line": place.line if place is not None else 0,
            "times": count,
        }
        for (outcome, reason, place), count in times.items()
    ]
