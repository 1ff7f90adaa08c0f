"""A machine-readable summary of a recording in a few kilobytes of JSON: verdict, counts, and the largest costs with advice.

The idea: a program that fixes another one reads small summaries often. So the summary has at most 8 kB for any recording: costs
are listed by rank, with ids that are stable between runs, and omitted ones are counted. Field names change only with the
version of its schema, a JSON Schema that is defined in this file, for the docs and for tests.

In: a Recording, or the result of `diagnose`. Out: `summary(recording)` and `of_diagnosis(diagnosis)`, plain data;
`as_json(data)`, its text; `SCHEMA`. PyTorch's counterpart: none; tlparse writes one JSON file per compilation.
"""

from __future__ import annotations

import copy
import json
from typing import Any, get_args

from dynexplore.engine import events as ev
from dynexplore.recording.engines import ENGINES
from dynexplore.recording.recording import Recording
from dynexplore.views.cuda_graphs import cuda_graphs_of
from dynexplore.views.guard_prices import prices_of
from dynexplore.views.headline import headline
from dynexplore.views.ranked_costs import Cost, costs_of, plain, tried_remedies
from dynexplore.views.remedies import How

VERSION = 2
MOST_BYTES = 8_000
_LONGEST = 300
_MOST_REASONS = 4
_MOST_CALLERS = 3
_MOST_PRICED = 3
_MOST_CUDA_GRAPHS = 6

Plain = dict[str, Any]


def summary(recording: Recording) -> Plain:
    """The summary of a recording for programs.

    >>> data = summary(Recording(title="train.py"))
    >>> data["verdict"], data["counts"]["graphs"], data["costs"], len(as_json(data)) <= MOST_BYTES
    ('train.py: nothing was captured.', 0, [], True)
    """
    line = headline(recording)
    ended = next(iter(recording.of(ev.ProgramEnded)), None)
    finished = recording.of(ev.FrameFinished)
    costs = costs_of(recording)
    data = {
        "schema": VERSION,
        "about": "recording",
        "program": recording.title,
        "engine": recording.engine,
        "versions": recording.versions,
        "level": line.level,
        "verdict": _clipped(line.summary),
        "place": _clipped(line.where),
        "advice": _clipped(line.remedy),
        "counts": {
            "graphs": len(recording.graphs),
            "breaks": len(recording.breaks),
            "recompiles": len(recording.of(ev.Recompiled)),
            "limits": len(recording.of(ev.CacheLimitReached)),
            "wrong_values": len(recording.divergences),
            "backend_failures": len(recording.of(ev.BackendFailed)),
            "engine_errors": len(recording.of(ev.EngineFailed)),
        },
        "seconds": round(sum(event.seconds for event in finished), 3),
        "error": _clipped(ended.error) if ended is not None else "",
        "costs": [{**_cost(row), "remedies": _remedies(recording, cost)} for row, cost in zip(plain(costs), costs, strict=True)],
        "plain": [
            {"function": event.function, "file": event.file, "line": event.line, "reason": _clipped(event.reason)}
            for event in recording.of(ev.FrameSkipped)[:_MOST_CALLERS]
        ],
        "guards": _guard_prices(recording),
        "cuda_graphs": [{**row, "reason": _clipped(row["reason"])} for row in cuda_graphs_of(recording)[:_MOST_CUDA_GRAPHS]],
        "left_out": 0,
    }
    return fitted(data)


def _guard_prices(recording: Recording) -> list[Plain]:
    """The costliest entries, each with its costliest values and single guards; none unless prices were measured."""
    rows = prices_of(recording)[:_MOST_PRICED]
    for row in rows:
        values = sorted(row["values"], key=lambda value: -value["us"])[:_MOST_PRICED]
        row["values"] = [{**value, "source": _clipped(value["source"])} for value in values]
        checks = sorted(row["checks"], key=lambda check: -check["us"])[:_MOST_PRICED]
        row["checks"] = [{**check, "source": _clipped(check["source"]), "check": _clipped(check["check"])} for check in checks]
        row["function"] = _clipped(row["function"])
    return rows


def _cost(cost: Plain) -> Plain:
    return {
        "id": cost["id"],
        "kind": cost["kind"],
        "function": cost["place"],
        "file": cost["file"],
        "line": cost["line"],
        "code": _clipped(cost["code"]),
        "cause": _clipped(cost["cause"]),
        "times": cost["times"],
        "seconds": round(cost["seconds"], 3),
        "expected": cost["expected"],
        "advice": _clipped(cost["advice"]),
        "called_at": [caller["place"] for caller in cost["callers"][:_MOST_CALLERS]],
        "reasons": [_reason(reason) for reason in cost["reasons"][:_MOST_REASONS]],
    }


def _remedies(recording: Recording, cost: Cost) -> list[Plain]:
    return [
        {"id": remedy.row, "text": _clipped(remedy.text), "how": remedy.how, "costs": remedy.costs, "tried": result}
        for remedy, result in tried_remedies(recording, cost)
    ]


def _reason(reason: Plain) -> Plain:
    place = f"{reason['file']}:{reason['line']}" if reason["file"] else ""
    return {
        "source": reason["source"],
        "kind": reason["kind"],
        "expected": _clipped(reason["expected"]),
        "found": _clipped(reason["found"]),
        "needed_at": place,
    }


def _clipped(text: str) -> str:
    return ev.clip(text, _LONGEST)


def fitted(data: Plain) -> Plain:
    """The data shortened until its text fits, omitting the least expensive costs first; `left_out` counts them.

    >>> costs = [{"reasons": ["r" * 50] * 9, "remedies": [], "cause": str(number)} for number in range(90)]
    >>> many = {"costs": costs, "left_out": 0}
    >>> few = fitted(many)
    >>> len(as_json(few)) <= MOST_BYTES, few["left_out"] + len(few["costs"]), few["costs"][0]["cause"], len(many["costs"])
    (True, 90, '0', 90)
    """
    data = copy.deepcopy(data)
    costs = data["costs"]
    for cost in reversed(costs[1:]):
        if len(as_json(data)) <= MOST_BYTES:
            break
        cost["reasons"], cost["remedies"] = cost["reasons"][:1], cost["remedies"][:1]
    while len(as_json(data)) > MOST_BYTES and costs:
        costs.pop()
        data["left_out"] += 1
    return data


def as_json(data: Plain) -> str:
    """The JSON text in ASCII, so that its length is its size in bytes."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True) + "\n"


def _object(**properties: Plain) -> Plain:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def of_diagnosis(diagnosis: Any) -> Plain:
    """The summary of the result of `diagnose`."""
    failing = diagnosis.failing
    return {
        "schema": VERSION,
        "about": "diagnosis",
        "function": diagnosis.function,
        "engine": diagnosis.engine,
        "agrees": failing is None and not diagnosis.unsteady,
        "failing": failing.layer if failing is not None else "",
        "failure": _clipped(failing.failure) if failing is not None else "",
        "advice": _clipped(diagnosis.advice),
        "unsteady": _clipped(diagnosis.unsteady),
        "calls": diagnosis.calls,
        "layers": [
            {"layer": stage.layer, "backend": stage.backend, "verdict": stage.verdict, "missing": _clipped(stage.missing)}
            for stage in diagnosis.stages
        ],
    }


_TEXT, _COUNT, _SECONDS = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "number", "minimum": 0}
_ID = {"type": "string", "pattern": "^[0-9a-f]{8}$"}


def _list(of: Plain) -> Plain:
    return {"type": "array", "items": of}


_COST = _object(
    id=_ID,
    kind={"enum": ["graph break", "recompile"]},
    function=_TEXT,
    file=_TEXT,
    line=_COUNT,
    code=_TEXT,
    cause=_TEXT,
    times=_COUNT,
    seconds=_SECONDS,
    expected={"type": "boolean"},
    advice=_TEXT,
    called_at=_list(_TEXT),
    reasons=_list(_object(source=_TEXT, kind=_TEXT, expected=_TEXT, found=_TEXT, needed_at=_TEXT)),
    remedies=_list(_object(id=_TEXT, text=_TEXT, how={"enum": list(get_args(How))}, costs=_TEXT, tried=_TEXT)),
)
_PRICES = _object(
    entry=_COUNT,
    function=_TEXT,
    us=_SECONDS,
    values=_list(_object(source=_TEXT, guards=_COUNT, us=_SECONDS)),
    checks=_list(_object(kind=_TEXT, source=_TEXT, check=_TEXT, us=_SECONDS)),
    unchecked=_COUNT,
    filters=_list(_object(name=_TEXT, remaining=_COUNT, guards=_COUNT, saves_us={"type": "number"})),
)
_COUNTS = ("graphs", "breaks", "recompiles", "limits", "wrong_values", "backend_failures", "engine_errors")

SCHEMA: Plain = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "dynexplore --summary-json",
    "oneOf": [
        _object(
            schema={"const": VERSION},
            about={"const": "recording"},
            program=_TEXT,
            engine={"enum": list(ENGINES)},
            versions=_TEXT,
            level={"enum": ["good", "note", "break", "bad"]},
            verdict=_TEXT,
            place=_TEXT,
            advice=_TEXT,
            counts=_object(**dict.fromkeys(_COUNTS, _COUNT)),
            seconds=_SECONDS,
            error=_TEXT,
            costs=_list(_COST),
            plain=_list(_object(function=_TEXT, file=_TEXT, line=_COUNT, reason=_TEXT)),
            guards=_list(_PRICES),
            cuda_graphs=_list(_object(outcome=_TEXT, reason=_TEXT, file=_TEXT, line=_COUNT, times=_COUNT)),
            left_out=_COUNT,
        ),
        _object(
            schema={"const": VERSION},
            about={"const": "diagnosis"},
            function=_TEXT,
            engine={"enum": list(ENGINES)},
            agrees={"type": "boolean"},
            failing=_TEXT,
            failure=_TEXT,
            advice=_TEXT,
            unsteady=_TEXT,
            calls=_COUNT,
            layers=_list(_object(layer=_TEXT, backend=_TEXT, verdict=_TEXT, missing=_TEXT)),
        ),
    ],
}
"""The schema of both summaries: of a recording, and of a diagnosis."""
