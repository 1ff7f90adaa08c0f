"""A diagram of the flow of a call: frame hook, cache lookup, guards, capture, code swap.

The idea: before CPython evaluates a function, it calls the frame hook. If the guards of a cache entry pass, the entry's code
runs; otherwise the bytecode is captured, and the compiled code runs and becomes an entry. A column is a call, a row a stage; a
call that needs no capture skips that stage. The flow shown for a call is that of its first frame.

In: a recording. Out: `call_flows(recording)`, what happened to each call at each stage; `call_flow_diagram(recording)`, an SVG;
`call_flow_text(recording)`, the same as text. PyTorch's counterpart: none.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.cache_timeline import Call, FrameCall, calls
from dynexplore.views.changes import as_the_program_says, change
from dynexplore.views.counts import plural
from dynexplore.views.html_text import escape
from dynexplore.views.svg import labelled

STATIONS = {
    "hook": "CPython is about to run it",
    "cache": "what was compiled before",
    "guards": "do they hold for this call?",
    "capture": "bytecode becomes a graph",
    "code swap": "what CPython runs instead",
}
"""The stages in order, and the purpose of each."""

HEAD, COLUMN, ROW, TOP = 186, 184, 82, 48
"""The width of a row header and of a call's column, the height of a row, and that of the column headers."""

_LETTERS, _LINES = 24, 3
"""The most characters per line of a box, and lines per box."""

_STYLE = (
    "svg.callflow { max-width: 100%; height: auto; font: 12px system-ui, sans-serif } .callflow text { fill: currentColor }"
    " .callflow .code { font-family: monospace; font-size: 11px } .callflow .head { font-weight: 600 }"
    " .callflow rect { stroke-width: 1.5 }"
    " .callflow .station { fill: #1a7f3722; stroke: #1a7f37 } .callflow .capture { fill: #0b63c522; stroke: #0b63c5 }"
    " .callflow .no { fill: #d1242f18; stroke: #d1242f; stroke-dasharray: 4 3 }"
    " .callflow path { fill: none; stroke: #888; stroke-width: 1.5 } .callflow .tip { fill: #888; stroke: none }"
)


@dataclass(frozen=True)
class CallFlow:
    """A call, and what happened at each stage that it reached. `refused`: its guards were checked, and no entry passed."""

    title: str
    detail: str
    stations: dict[str, str]
    refused: bool


def call_flows(recording: Recording) -> list[CallFlow]:
    """The flow of each call that the engine intercepted."""
    return [_call_flow(recording, call) for call in calls(recording) if call.frames]


def _call_flow(recording: Recording, call: Call) -> CallFlow:
    frame = call.frames[0]
    happened = {
        "hook": f"the frame of {frame.function}",
        "cache": _cache(recording, frame),
        "guards": _guards(recording, frame),
        "capture": _capture(recording, frame),
        "code swap": f"the code of entry {frame.entry}" if frame.entry >= 0 else "nothing: the original code runs",
    }
    stops = {station: words for station, words in happened.items() if words}
    return CallFlow(f"call {call.number}: {frame.outcome}", call.arguments, stops, bool(frame.missed))


def _cache(recording: Recording, frame: FrameCall) -> str:
    before = [added for added in recording.of(ev.CacheEntryAdded) if added.code == frame.code and added.frame < frame.frame]
    return plural(len(before), "entry", "entries") if before else "no entry yet"


def _guards(recording: Recording, frame: FrameCall) -> str:
    if frame.outcome == "hit":
        count = next(added.guard_count for added in recording.of(ev.CacheEntryAdded) if added.entry == frame.entry)
        return f"entry {frame.entry}: {plural(count, 'guard')} passed"
    refusals = (str(change(as_the_program_says(recording, failed))).replace("`", "") for failed in frame.missed.values())
    return "; ".join(f"entry {entry}: {why}" for entry, why in zip(frame.missed, refusals, strict=True))


def _capture(recording: Recording, frame: FrameCall) -> str:
    if frame.entry < 0 or frame.outcome == "hit":
        return ""
    read = plural(len(recording.of_frame(frame.frame, ev.InstructionStepped)), "instruction")
    operators = sum(graph.op_count for graph in recording.graphs if graph.frame == frame.frame)
    return f"read {read}, built a graph with {plural(operators, 'operator')}"


def call_flow_text(recording: Recording) -> str:
    """The diagram as text: a line per call and per stage that it reached."""
    lines = []
    for flow in call_flows(recording):
        lines.append(f"{flow.title} ({flow.detail})")
        lines += [f"  {station}: {words}" for station, words in flow.stations.items()]
    return "\n".join(lines)


def call_flow_diagram(recording: Recording) -> str:
    """Return the picture as an SVG element with its style; its label for screen readers contains the same text."""
    shown = call_flows(recording)
    width, height = HEAD + COLUMN * len(shown), TOP + ROW * len(STATIONS)
    drawn = [_station_head(*station, TOP + ROW * place) for place, station in enumerate(STATIONS.items())]
    drawn += [_column(flow, HEAD + COLUMN * place) for place, flow in enumerate(shown)]
    return labelled("callflow", call_flow_text(recording), _STYLE, (width, height), drawn)


def _station_head(station: str, purpose: str, top: int) -> str:
    return f'<text class="head" x="4" y="{top + 20}">{station}</text><text x="4" y="{top + 37}">{purpose}</text>'


def _column(flow: CallFlow, x: int) -> str:
    """The column of a call from the first stage to the last; arrows bypass the stages that it skips."""
    drawn = [f'<text class="head" x="{x + 10}" y="16">{escape(flow.title)}</text>{_lines(flow.detail, x + 10, 33, 1)}']
    tops = {station: TOP + ROW * place for place, station in enumerate(STATIONS)}
    stops = list(flow.stations)
    for station, following in zip(stops, [*stops[1:], ""], strict=True):
        kind = "no" if station == "guards" and flow.refused else "capture" if station == "capture" else "station"
        drawn.append(_box(kind, flow.stations[station], x, tops[station]))
        if following:
            drawn.append(_arrow(x + COLUMN // 2, tops[station] + ROW - 20, tops[following]))
    return "".join(drawn)


def _box(kind: str, words: str, x: int, top: int) -> str:
    box = f'<rect class="{kind}" x="{x + 3}" y="{top}" width="{COLUMN - 8}" height="{ROW - 20}" rx="5"/>'
    return box + _lines(words, x + 10, top + 20, _LINES)


def _arrow(middle: int, top: int, bottom: int) -> str:
    return f'<path d="M{middle} {top} V{bottom - 7}"/><path class="tip" d="M{middle - 5} {bottom - 8} h10 l-5 7 z"/>'


def _lines(text: str, x: int, top: int, most: int) -> str:
    lines = textwrap.wrap(text, _LETTERS, max_lines=most, placeholder="…")
    return "".join(f'<text class="code" x="{x}" y="{top + 15 * row}">{escape(line)}</text>' for row, line in enumerate(lines))
