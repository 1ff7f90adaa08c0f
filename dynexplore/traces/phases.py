"""The phases of a compilation with their begins and ends, from the events that torch logs for trace viewers.

The idea: torch logs an event at each begin and end of a phase ("backend_compile", "inductor_compile", each pass). A begin and the
next end of the same name make a span. A span without an end, or one that is too short to see, is left out.

In: a log, and a `Compile` with the positions of these events. Out: `spans_of(log, compile_)`: `Span`s, outer ones first.

PyTorch's counterpart: `ChromiumEventLogger` in torch/_dynamo/utils.py, which writes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from dynexplore.traces.compiles import Compile
from dynexplore.traces.json_object import json_object
from dynexplore.traces.trace_log import TraceLog

SHORTEST = 0.0005
"""The minimum number of seconds of a span."""

_LONGEST_TEXT = 20_000
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Span:
    """A phase: its name, and its begin in seconds after the beginning of the compilation."""

    phase: str
    begin: float
    seconds: float


def spans_of(log: TraceLog, compile_: Compile) -> list[Span]:
    """The phases of a compilation; those of its backward graph begin long after it."""
    spans: list[Span] = []
    begun: dict[str, list[float]] = {}
    shift: float | None = None
    for logged_at, payload in compile_.phases:
        event = _event(log.text(payload, _LONGEST_TEXT))
        if event is None:
            continue
        name, kind, moment = event
        if shift is None:  # the log's clock has no time zone, that of the events has one
            shift = (logged_at - compile_.began) / 1e6 - moment
        if kind == "B":
            begun.setdefault(name, []).append(moment)
        elif kind == "E" and begun.get(name):
            begin = begun[name].pop()
            if moment - begin >= SHORTEST:
                spans.append(Span(name, max(begin + shift, 0.0), moment - begin))
    return sorted(spans, key=lambda span: (span.begin, -span.seconds))


def _event(text: str) -> tuple[str, str, float] | None:
    """Name, "B" or "E", and seconds of an event; None if it is none."""
    event = json_object(text)
    name, kind, moment = event.get("name"), event.get("ph"), event.get("ts")
    if not isinstance(name, str) or not isinstance(kind, str) or not isinstance(moment, int | float) or not 0 <= moment < 1e17:
        return None
    return name[:_LONGEST_NAME], kind, moment / 1e6
