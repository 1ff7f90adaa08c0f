"""The explorer's first screen: a verdict, what to fix first, and the compile time.

The idea: a person who opens a recording asks what compilation cost and what to change, not in which order things happened. So
each cost is one row, ranked by the seconds lost; rows without a cost come last and say so. The verdict, the rows and the counts
on the page are computed from the same rows by the same functions, so they are consistent.

Seconds are compile time. Compiling a function for the first time is not a loss; recompiling it is, and so is compiling the
resume function after a graph break.

In: a Recording, and its states by frame. Out: `overview_data(recording, states)`, plain data for
widgets/static/explorer/panes/overview.js. PyTorch's counterpart: the index page of tlparse, which lists compilations in order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.engines import TORCH
from dynexplore.recording.recording import Recording
from dynexplore.views.cache_timeline import calls
from dynexplore.views.changes import as_the_program_says
from dynexplore.views.counts import plural
from dynexplore.views.guard_words import condition
from dynexplore.views.headline import (
    LAUNCHERS,
    cause_in_the_program,
    explain_command,
    headline,
    name_at_limit,
    place_of_backend_failure,
    place_of_break,
    remedy_of_backend,
)
from dynexplore.views.miss_reasons import Reason, call_of_frame
from dynexplore.views.names import frame_name, is_library, plain_name, short_file, skipped_name
from dynexplore.views.program_report import closest_candidate
from dynexplore.views.raising_operators import raising_operators
from dynexplore.views.ranked_costs import Cost, costs_of, remedies_data
from dynexplore.views.remedies import NO_ACTION
from dynexplore.views.story import opening, place_of
from dynexplore.views.targets_table import Function, functions_of
from dynexplore.views.timeline import State

Plain = dict[str, Any]
States = Mapping[int, Sequence[State]]

NOTHING_TO_FIX = "Nothing to fix."
_LONGEST_ERROR = 400
_MOST_SPANS = 2_000
_MOST_FACTS = 4


def overview_data(recording: Recording, states: States) -> Plain:
    """The verdict in at most two lines, the rows, the functions, the seconds, the timeline, and the initial view."""
    lost = _cost_rows(recording, states)
    costs = [*lost, *_plain_rows(recording, lost)]
    rows = [*_failure_rows(recording, states), *sorted(costs, key=lambda row: row["isExpected"])]
    functions = functions_of(recording)
    seconds = _seconds(recording)
    return {
        "file": recording.title or "recording",
        "how": _how(recording),
        "verdict": _verdict(recording, rows, functions, seconds),
        "level": headline(recording).level,
        "seconds": seconds,
        "rows": rows,
        "functions": [_function(recording, function) for function in _ranked(functions)],
        "timeline": _timeline(recording),
        "opens": _opens(rows),
        **_empty(recording),
    }


def _how(recording: Recording) -> str:
    """The engine, the backends, and the number of calls; nothing for a program that never called torch.compile."""
    if recording.engine == TORCH and _empty(recording):
        return ""
    backends = dict.fromkeys(graph.compiled.backend for graph in recording.graphs if graph.compiled and graph.compiled.backend)
    number = len(recording.of(ev.CallBegan))
    parts = [recording.engine, f"backend {', '.join(backends)}" if backends else "", plural(number, "call") if number else ""]
    return ", ".join(filter(None, parts))


# -- rows ----------------------------------------------------------------------------------------------------------------


def _failure_rows(recording: Recording, states: States) -> list[Plain]:
    """The rows that precede all compile-time costs: a wrong value, a program that died, a failing backend, a bug of the engine."""
    kinds = (
        (ev.DivergenceDetected, "wrong"),
        (ev.BackendFailed, "backend"),
        (ev.ProgramEnded, "died"),
        (ev.EngineFailed, "engine"),
    )
    kind, event = next(
        (
            (kind, event)
            for of, kind in kinds
            for event in recording.of(of)
            if not isinstance(event, ev.ProgramEnded) or event.error
        ),
        ("", None),
    )
    if event is None:
        return []
    story = headline(recording)
    where = ""
    if isinstance(event, ev.ProgramEnded) and event.file:
        where = f"{short_file(event.file)}:{event.line}"
    entered = next(iter(recording.of_frame(event.frame, ev.FrameEntered)), None) if event.frame else None
    skipped = next(iter(recording.of(ev.FrameSkipped)), None)
    function = frame_name(recording, entered) if entered else skipped_name(recording, skipped) if skipped else ""
    error = getattr(event, "error", "")
    cause = _error(error) if error else f"{story.summary} {story.where}"
    place = _failing_place(recording, states, event)
    row = {"kind": kind, "function": function, "where": where, "cause": ev.clip(cause, _LONGEST_ERROR), "times": 1, "seconds": 0.0}
    row |= {**_remedy(story.remedy), "place": place, "facts": []}
    return [row | _backend_row(recording, event) if isinstance(event, ev.BackendFailed) else row]


def _backend_row(recording: Recording, failed: ev.BackendFailed) -> Plain:
    """The place, the line and the advice of a backend that failed, and the line of the backend that raised."""
    file, line, _ = place_of_backend_failure(recording, failed)
    raised = failed.raised_at
    facts = [["backend", plain_name(failed.backend), "code"]]
    if raised is not None:
        facts.append(["raised at", f"{short_file(raised.file)}:{raised.line} in {plain_name(raised.function)}", ""])
        facts += [[str(raised.line), raised.code.strip(), "line"]] if raised.code.strip() else []
    where = f"{short_file(file)}:{line}" if file and line > 0 else ""
    code, remedy = _code_at(recording, file, line), _remedy(remedy_of_backend(recording, failed))
    return {"where": where, "code": code, "facts": facts, **remedy}


def _code_at(recording: Recording, file: str, line: int) -> str:
    """The program's line, if the source of its function was recorded."""
    code = _code_around(recording, file, line)
    return code.source.splitlines()[line - code.first_line].strip() if code is not None else ""


def _code_around(recording: Recording, file: str, line: int) -> ev.CodeView | None:
    """The innermost recorded function that contains a line."""
    codes = recording.once("codes by number", lambda: {event.code.id: event.code for event in _entered(recording)}).values()
    around = [code for code in codes if code.file == file and 0 <= line - code.first_line < len(code.source.splitlines())]
    return max(around, key=lambda code: code.first_line, default=None)


def _entered(recording: Recording) -> Sequence[ev.FrameEntered | ev.InlineEntered]:
    return (*recording.frames, *recording.of(ev.InlineEntered))


_IN_OPERATOR = re.compile(r"got (\w+)\((['\"])(.+?)\2\)")
"""How torch.compile reports an operator that raised while it traced a function."""


def _error(text: str) -> str:
    """An exception without the advice that torch appends; if an operator raised while torch.compile traced it, that exception.

    >>> _error("TorchRuntimeError: RuntimeError when making fake tensor call: got RuntimeError('a and b differ')\\nfrom user code:")
    'RuntimeError: a and b differ'
    """
    if operator := _IN_OPERATOR.search(text):
        return f"{operator[1]}: {operator[3]}"
    lines = [line.strip() for line in text.split("Set TORCH")[0].splitlines()]
    return " ".join(filter(None, lines))


def _failing_place(recording: Recording, states: States, event: ev.Event) -> list[int]:
    """The step of a failure: for a backend, the one that added the operator at which it stopped."""
    if isinstance(event, ev.BackendFailed):
        for number, state in enumerate(states.get(event.frame, ())):
            if event.node and any(node.name == event.node for node in state.nodes):
                return [event.frame, number]
    if isinstance(event, ev.ProgramEnded):
        own = opening(recording, states)
        return _raising_operator(recording, states) or _last_operator(recording, states) or own
    return place_of(recording, states, recording.events.index(event))


def _raising_operator(recording: Recording, states: States) -> list[int]:
    """The step that added an operator that raised when its graph ran."""
    for frame, own in states.items():
        names = {node.name for node in raising_operators(recording, frame)}
        at = [number for number, state in enumerate(own) if any(node.name in names for node in state.nodes)]
        if at:
            return [frame, at[-1]]
    return []


def _last_operator(recording: Recording, states: States) -> list[int]:
    """The last operator of a graph that was not compiled: the best estimate of where the program died."""
    compiled = {graph.frame for graph in recording.graphs}
    for frame in reversed([entered.frame for entered in recording.frames if entered.frame not in compiled]):
        at = [
            number for number, state in enumerate(states.get(frame, ())) if any(node.op.startswith("call_") for node in state.nodes)
        ]
        if at:
            return [frame, at[-1]]
    return []


def _cost_rows(recording: Recording, states: States) -> list[Plain]:
    """Graph breaks and recompiles, ranked by the seconds lost."""
    rows = []
    for cost in costs_of(recording):
        splits = cost.kind != "graph break" or _splits(recording, cost)
        kind = "recompile" if cost.kind == "recompile" else "break"
        remedy = _remedy(cost.advice) if splits else {"remedy": NOTHING_TO_FIX, "change": ""}
        seconds = cost.seconds if splits else 0.0
        if kind == "recompile" and splits and _is_after_break(recording, cost):
            remedy["remedy"] = _removed_with_break(remedy["remedy"])
        first = _first_of(recording, cost)
        function, where = _place(cost)
        function = _qualified(recording, function, cost.file, cost.line) if kind == "break" else function
        rows.append(
            {
                "kind": kind,
                "function": function,
                "where": where,
                "cause": _cause(cost, first),
                "code": cost.code or _used(cost)[1],
                "more": _more(recording, cost, splits=splits),
                "times": cost.times,
                "recompiles": cost.recompiles,
                "removes": _removed(recording, cost) if splits else 0,
                "seconds": round(seconds, 4),
                **remedy,
                "place": place_of(recording, states, _position(recording, first)) if first is not None else [],
                "facts": _facts(recording, cost, first),
                "remedies": remedies_data(recording, cost),
                "frames": list(cost.frames) if kind == "recompile" else [],
                "compiled": list(dict.fromkeys(cost.compiled)) if splits else [],
                "isExpected": int(cost.is_expected or not splits),
            }
        )
    return sorted(rows, key=lambda row: -row["seconds"])


def _cause(cost: Cost, event: ev.GraphBroke | ev.Recompiled | None) -> str:
    """The cause of a cost in terms of the program."""
    return cause_in_the_program(event, cost.code, cost.cause) if isinstance(event, ev.GraphBroke) else cost.cause


_BREAK = re.compile(r"(?P<where>.+:\d+) in (?P<function>.+)")
_RECOMPILE = re.compile(r"(?P<function>.+) \((?P<where>[^()]+:\d+)\)")


def _place(cost: Cost) -> tuple[str, str]:
    """The function and the location of a cost, which a report combines in one phrase."""
    match = (_RECOMPILE if cost.kind == "recompile" else _BREAK).fullmatch(cost.place)
    return (match["function"], match["where"]) if match else (cost.place, "")


def _qualified(recording: Recording, function: str, file: str, line: int) -> str:
    """The function with its class, as the compiled functions are named: torch.compile's stacks have only the last part."""
    code = _code_around(recording, file, line)
    name = plain_name(code.qualname) if code is not None else ""
    return name if name.endswith(f".{function}") else function


def _first_of(recording: Recording, cost: Cost) -> ev.GraphBroke | ev.Recompiled | None:
    """The first event that a cost is about."""
    frame = cost.frames[0]
    if cost.kind == "recompile":
        return next(iter(recording.of_frame(frame, ev.Recompiled)), None)
    breaks = recording.of_frame(frame, ev.GraphBroke)
    here = [broke for broke in breaks if place_of_break(recording, broke)[:2] == (cost.file, cost.line)]
    return next(iter(here or breaks), None)


def _position(recording: Recording, event: ev.Event) -> int:
    """The position of an event of the recording that is no step."""
    return next(position for position, other in recording.besides_steps if other is event)


def _splits(recording: Recording, cost: Cost) -> bool:
    """Whether a graph follows one of these breaks: a break at the last operation of its function splits nothing."""
    parents = {entered.frame: entered.parent for entered in recording.frames}
    with_graphs = {graph.frame for graph in recording.graphs if graph.op_count}
    broken = set(cost.frames)
    if not broken & with_graphs:  # nothing was captured before it, so fixing it would capture more
        return True

    def is_behind(frame: int | None) -> bool:
        while frame is not None:
            frame = parents.get(frame)
            if frame in broken:
                return True
        return False

    return any(is_behind(frame) for frame in with_graphs)


_USED_AT = "used at"


def _used(cost: Cost) -> tuple[str, str]:
    """Where the program used the value whose change caused a recompile, and that line, if it is known."""
    needed = next((reason.needed_at for reason in cost.reasons.values()), None)
    return (f"{short_file(needed.file)}:{needed.line}", needed.code.strip()) if needed is not None else ("", "")


def _removed(recording: Recording, cost: Cost) -> int:
    """For a graph break: the recompiles of its resume functions, which do not exist without the break."""
    if cost.kind == "recompile":
        return 0
    entered = {event.frame: event for event in recording.frames}
    again = [entered[event.frame] for event in recording.of(ev.Recompiled) if event.frame in entered]
    return sum(event.code.resumes >= 0 and event.parent in cost.frames for event in again)


def _is_after_break(recording: Recording, cost: Cost) -> bool:
    """Whether all of these recompiles are of resume functions: what breaks the graph causes them."""
    entered = [event for frame in cost.frames for event in recording.of_frame(frame, ev.FrameEntered)]
    return bool(entered) and all(event.code.resumes >= 0 for event in entered)


def _removed_with_break(remedy: str) -> str:
    """The advice on recompiles that a graph break causes: they have no action of their own.

    >>> _removed_with_break("No action needed: the new version accepts any value of `x`.")
    'The new version accepts any value of `x`. Fixing the graph break removes it.'
    """
    advice = remedy.removeprefix(f"{NO_ACTION}: ")
    end = "" if "graph break" in advice else " Fixing the graph break removes it."
    return f"{advice[:1].upper()}{advice[1:]}{end}"


def _more(recording: Recording, cost: Cost, *, splits: bool) -> str:
    """Further facts about a row, in one sentence."""
    if cost.kind == "graph break":
        if not splits:
            return "It is the last operation, so no graph is split."
        return _removes(_removed(recording, cost))
    limits = recording.once("limits that were reached", lambda: _limits_reached(recording))
    codes = [recording.original_code(frame).id for frame in cost.frames if recording.of_frame(frame, ev.FrameEntered)]
    limit = next((limits[key] for key in (_place(cost)[0], *codes) if key in limits), 0)
    if not limit:
        return ""
    is_last = any(recording.of_frame(frame, ev.CacheLimitReached) for frame in cost.frames)  # whose call was not compiled
    first, which = ("The last one was not compiled: after", "it and later calls") if is_last else ("After", "later calls")
    return f"{first} {plural(limit, 'version')} (the limit), {which} ran as plain Python."


def _removes(recompiles: int) -> str:
    """What else a fix of a break removes, in one sentence."""
    return f"A fix also removes {plural(recompiles, 'recompile')}." if recompiles else ""


def _limits_reached(recording: Recording) -> dict[str | int, int]:
    """Each function that reached its limit of entries, by name and by the number of its code: each of its later calls says so."""
    limits: dict[str | int, int] = {}
    for reached in recording.of(ev.CacheLimitReached):
        limits.setdefault(reached.function, reached.limit)
        if recording.of_frame(reached.frame, ev.FrameEntered):
            limits.setdefault(recording.original_code(reached.frame).id, reached.limit)
    return limits


def _facts(recording: Recording, cost: Cost, event: ev.GraphBroke | ev.Recompiled | None) -> list[list[str]]:
    """The details of a row: [name, text, "code" or ""]."""
    facts: list[list[str]] = []
    if isinstance(event, ev.GraphBroke):
        if event.why:
            facts.append(["why", event.why, ""])
        if recording.engine == TORCH and event.title not in _cause(cost, event):  # the words to search for
            facts.append(["in the log", event.title, ""])
        # the context names torch's own objects; it appears in the copied report
        shown = [fact for fact in event.facts if not (recording.engine == TORCH and fact[0] == "context")]
        return facts + [[name, text, "code"] for name, text in shown[:_MOST_FACTS]]
    failed = next(iter(recording.of_frame(event.frame, ev.GuardFailed)), None) if event is not None else None
    if failed is not None:
        facts.append(["guard", _check(recording, failed), "code"])
    for number, (key, reason) in enumerate(cost.reasons.items()):
        if number == 0:
            facts += [["expected", reason.expected, "code"], ["found", reason.actual, "code"]]
        elif number <= _MOST_FACTS:
            facts.append(_further(recording, reason, is_cause=key in cost.causes))
        if number == 0 and (used := _used(cost))[0]:
            place, code = used
            facts += [[_USED_AT, place, ""], [place.rpartition(":")[2], code, "line"]]
    line = call_of_frame(recording, event.frame) if event is not None else None
    if line is not None and line.line:
        facts.append(["called from", f"{line.function}, {short_file(line.file)}:{line.line}", ""])
        if line.code.strip():
            facts.append([str(line.line), line.code.strip(), "line"])
    return facts


def _further(recording: Recording, reason: Reason, *, is_cause: bool) -> list[str]:
    """Another value that changed: of the version that was tried first, or of the one which rejected it."""
    if is_cause or not reason.entries:
        return ["also", str(reason.change), ""]
    version = _version(recording, reason.entries[0])
    return [f"version {version}" if version else "an earlier version", f"also rejects the call: {reason.change}", ""]


def _version(recording: Recording, entry: int) -> int:
    """The number of a cache entry among those of its function; 0 if it was there before the recording began."""
    added = recording.of(ev.CacheEntryAdded)
    codes = {event.code for event in added if event.entry == entry}
    return sum(event.code in codes and event.entry <= entry for event in added)


def _check(recording: Recording, failed: ev.GuardFailed) -> str:
    """The guard as a Python expression, if its entry was recorded."""
    frame = recording.frame_of_entry(failed.entry)
    guards = recording.of_frame(frame, ev.GuardInstalled) if frame else ()
    match = next((guard.expression for guard in reversed(guards) if guard.index == failed.index), "")
    return match or condition(as_the_program_says(recording, failed))


def _plain_rows(recording: Recording, costs: Sequence[Plain]) -> list[Plain]:
    """The program's functions that ran as plain Python, and why. The row of recompiles that reached the limit says it of its
    function.
    """
    at_limit = {row["where"] for row in costs if row["kind"] == "recompile" and row["more"]}
    seen: dict[tuple[str, int, str], Plain] = {}
    if any(ended.error for ended in recording.of(ev.ProgramEnded)):  # the error is the reason
        return []
    resumed = {entered.frame for entered in recording.frames if entered.code.resumes >= 0}
    for event in recording.of(ev.FrameSkipped):
        if is_library(event.file) or (event.frame in resumed and event.reason == ev.NO_TENSORS):  # follows a last break
            continue
        if recording.of_frame(event.frame, ev.CacheLimitReached) and f"{short_file(event.file)}:{event.line}" in at_limit:
            continue
        key = (event.file, event.line, event.reason)
        if key in seen:
            seen[key]["times"] += 1
            continue
        seen[key] = {
            "kind": "plain",
            "function": skipped_name(recording, event),
            "where": f"{short_file(event.file)}:{event.line}",
            "cause": f"Runs as plain Python: {event.reason}.",
            "times": 1,
            "seconds": 0.0,
            "remedy": NOTHING_TO_FIX if event.reason == ev.NO_TENSORS else "",
            "change": "",
            "place": [event.frame, 0] if event.frame else [],
            "facts": [],
            "isExpected": int(event.reason == ev.NO_TENSORS),
        }
    return list(seen.values())


_CODE = re.compile(r"`([^`]+)`")
_CHANGE = re.compile(r"[\w.]+(\[.*\])? = |@\w|\w+(\.\w+)+\(.+\)$")
_DYNAMIC = re.compile(r"\bdynamic=True\b")


def _remedy(sentence: str) -> Plain:
    """The advice, and the code in it that a person would copy, if it has any: an assignment, or an argument."""
    pieces = [piece for piece in _CODE.findall(sentence) if _CHANGE.match(piece)]
    change = pieces[0] if pieces else "dynamic=True" if _DYNAMIC.search(sentence) else ""
    return {"remedy": sentence, "change": change}


# -- verdict -------------------------------------------------------------------------------------------------------------


def _seconds(recording: Recording) -> Plain:
    """Seconds of first compiles, of recompiles, and of graph runs, if those were measured."""
    again = {event.frame for event in recording.of(ev.Recompiled)}
    spent: Counter[str] = Counter()
    for event in recording.of(ev.FrameFinished):
        spent["recompile" if event.frame in again else "compile"] += event.seconds  # type: ignore[assignment]
    return {
        "compile": round(float(spent["compile"]), 4),
        "recompile": round(float(spent["recompile"]), 4),
        "run": round(sum(event.seconds for event in recording.of(ev.GraphRan)), 4),
    }


def _verdict(recording: Recording, rows: Sequence[Plain], functions: Sequence[Function], seconds: Plain) -> list[str]:
    """Two lines: the cost, and what to fix first."""
    first = rows[0] if rows else None
    story = headline(recording)
    if first is not None and first["kind"] in _FAILURES:
        return [_failed(recording, first), _one_line(first["cause"])]
    recompiles, breaks = len(recording.of(ev.Recompiled)), len(recording.breaks)
    if not recording.graphs and not breaks and not recompiles:
        return [_one_line(story.summary), _one_line(story.where)]
    if not recompiles and not breaks:
        return _clean(recording, functions, seconds)
    total = seconds["compile"] + seconds["recompile"]
    limit = _limit(recording)
    of = f" of {seconds_text(total)} compile time" if total and not limit else ""
    to_fix = [row for row in rows if row["kind"] != "plain" and not row["isExpected"]]
    sentences = [limit] if limit else []
    for spent, number, cost in _losses(to_fix or rows):
        whole, of = of, ""
        sentences.append(f"{number} {cost} {seconds_text(spent)}{whole}." if spent else _without_cost(number, rows))
    quiet = [row for row in rows if row["isExpected"] and row["remedy"].startswith((NO_ACTION, NOTHING_TO_FIX))] if to_fix else []
    quiet = [row for row in quiet if row["kind"] != "plain"]
    if quiet:
        is_one = sum(row["times"] for row in quiet) == 1
        sentences.append(f"{' and '.join(number for _, number, _ in _losses(quiet))} {'needs' if is_one else 'need'} no action.")
    return [" ".join(sentences), _first_of_all(rows)]


def _without_cost(number: str, rows: Sequence[Plain]) -> str:
    """What breaks or recompiles led to that took no compile time: a function that breaks may not be compiled at all.

    >>> broke, plain = ({"kind": kind, "function": "f", "isExpected": 0} for kind in ("break", "plain"))
    >>> _without_cost("1 graph break", [broke]), _without_cost("1 graph break", [broke, plain])
    ('1 graph break cost no compile time.', '1 graph break; f runs as plain Python.')
    """
    broken = {row["function"] for row in rows if row["kind"] == "break"}
    plain = [row["function"] for row in rows if row["kind"] == "plain" and not row["isExpected"] and row["function"] in broken]
    if not plain:
        return f"{number} cost no compile time."
    others = f" and {plural(len(plain) - 1, 'more function')} run" if len(plain) > 1 else " runs"
    return f"{number}; {plain[0]}{others} as plain Python."


def _losses(rows: Sequence[Plain]) -> list[tuple[float, str, str]]:
    """Seconds, count and verb of the graph breaks and of the recompiles among some rows, the larger loss first."""
    losses = []
    recompiles, breaks = ([row for row in rows if row["kind"] == kind] for kind in ("recompile", "break"))
    if recompiles:
        times = sum(row["times"] for row in recompiles)
        losses.append((sum(row["seconds"] for row in recompiles), plural(times, "recompile"), "took"))
    if breaks:
        times, lines = sum(row["times"] for row in breaks), len({row["where"] for row in breaks})
        at = f" on {plural(lines, 'line')}" if lines < times else ""
        again = sum(row["recompiles"] for row in breaks)
        after = f" and {plural(again, 'recompile')} after {'it' if times == 1 else 'them'}" if again else ""
        losses.append((sum(row["seconds"] for row in breaks), f"{plural(times, 'graph break')}{at}{after}", "cost"))
    return sorted(losses, key=lambda loss: -loss[0])


def _limit(recording: Recording) -> str:
    """The worst of the recompiles: a function that is no longer compiled."""
    reached = {(event.function, event.limit): event for event in reversed(recording.of(ev.CacheLimitReached))}
    if not reached:
        return ""
    first, others = list(reached.values())[-1], len(reached) - 1
    and_others = f" and {plural(others, 'more function')}" if others else ""
    run = "runs" if not others else "run"
    return f"{name_at_limit(recording, first)}{and_others} reached the recompile limit of {first.limit} and {run} as plain Python."


def _first_of_all(rows: Sequence[Plain]) -> str:
    """What to fix first: the largest loss that can be fixed; if all costs are expected, that no action is needed, and why."""
    costly = next((row for row in rows if row["seconds"] and not row.get("isExpected")), None)
    if costly is not None:
        return _first(costly)
    if all(row["remedy"] == NOTHING_TO_FIX for row in rows):
        return NOTHING_TO_FIX
    first = next((row for row in rows if row["remedy"] != NOTHING_TO_FIX), rows[0])
    if not first.get("isExpected"):
        return _first(first)
    sentence = first["remedy"].split(". ")[0].rstrip(".")
    return _one_line(f"{sentence}. {first['function']} recompiled: {first['cause']}.")


def _first(row: Plain) -> str:
    """What to fix first, in one line."""
    where = f" at {row['where']}" if row["where"] else ""
    spent = f" for {seconds_text(row['seconds'])}" if row["seconds"] else ""
    if row["kind"] == "recompile":
        used = "".join(f" (used at {text})" for name, text, _ in row["facts"] if name == _USED_AT)
        return _one_line(f"Fix first: {row['cause']}{used}, so {row['function']} recompiled{spent}.")
    if row["kind"] == "break":
        cost = f", {seconds_text(row['seconds'])}" if row["seconds"] else ""
        code = row["code"].strip()
        line = f"`{code}`{where}" if code and "`" not in code and len(code) < _LONGEST_LINE // 2 else f"the line{where}"
        sentence = f"Fix first: {line} breaks the graph of {row['function']}{cost}."
        removes = _removes(row["removes"])
        longer = (f"{sentence} {removes}", f"Fix first: {line}{cost}. {removes}") if removes else ()
        return next((line for line in longer if len(line) <= _WHOLE_LINE), _one_line(sentence))  # the row says it, too
    return _one_line(f"{row['function']}{where}: {row['cause']}")


_FAILURES = ("wrong", "backend", "died", "engine")
"""The kinds of rows that precede all compile-time costs."""


def _failed(recording: Recording, row: Plain) -> str:
    """The first line of a verdict on a failure."""
    of = f" in {row['function']}" if row["function"] else ""
    at = f" at {row['where']}" if row["where"] else ""
    return {
        "wrong": "A value is wrong: the compiled code and eager Python differ.",
        "backend": f"The backend failed{of}{at}.",
        "died": f"{recording.title or 'The program'} ended with an error{at}.",
        "engine": "A bug in dynexplore. The function ran as plain Python, so its result is right.",
    }[str(row["kind"])]


def _clean(recording: Recording, functions: Sequence[Function], seconds: Plain) -> list[str]:
    operators = sum(graph.op_count for graph in recording.graphs)
    graphs = len(recording.graphs)
    compiled = [function for function in functions if function.graphs]
    if len(compiled) == 1 and graphs == 1:
        summary = f"{compiled[0].name} is one graph of {plural(operators, 'operator')}. No graph breaks, no recompiles."
    else:
        summary = f"{plural(graphs, 'graph')}, {plural(operators, 'operator')}. No graph breaks, no recompiles."
    hits = len(recording.of(ev.CacheHit))
    later = f", then {plural(hits, 'cache hit')}" if hits else ""
    compiles = len([event for event in recording.of(ev.FrameFinished) if event.seconds])
    first = f"{plural(compiles, 'compile')} of {seconds_text(seconds['compile'])}{later}. " if compiles else ""
    return [summary, f"{first}{NOTHING_TO_FIX}"]


_LONGEST_LINE = 150
_WHOLE_LINE = 130
"""So many letters stand in one line of the narrower of the two pages, code included."""


def _one_line(sentence: str) -> str:
    """A sentence shortened to one line of the verdict, cut at a word; the row has all of it."""
    sentence = " ".join(sentence.split())
    return sentence if len(sentence) <= _LONGEST_LINE else f"{sentence[: sentence.rindex(' ', 0, _LONGEST_LINE)]} ..."


def seconds_text(seconds: float) -> str:
    """Seconds in the page's format: three significant digits, milliseconds below a tenth.

    >>> seconds_text(24.63), seconds_text(1.1), seconds_text(0.0482), seconds_text(0.0), seconds_text(130.2)
    ('24.6 s', '1.1 s', '48 ms', '0 s', '130 s')
    """
    if seconds == 0:
        return "0 s"
    if seconds < 0.1:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 1:
        return f"{seconds:.2f} s"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"


# -- functions -----------------------------------------------------------------------------------------------------------


def _ranked(functions: Sequence[Function]) -> list[Function]:
    return sorted(functions, key=lambda function: (-function.seconds, function.name))


def _function(recording: Recording, function: Function) -> Plain:
    """A compiled function with its verdict: one graph, breaks, recompiles, or plain Python."""
    words = [plural(function.graphs, "graph")]
    kind = "good"
    if function.recompiles:
        words.append(plural(function.recompiles, "recompile"))
        kind = "recompile"
    if function.breaks:
        words.append(plural(function.breaks, "break"))
        kind = "recompile" if function.recompiles else "break"
    if not function.graphs and not function.breaks:
        words, kind = ["plain Python"], "plain"
        if any(event.outcome == "failed" for frame in function.frames for event in recording.of_frame(frame, ev.FrameFinished)):
            words, kind = ["failed"], "bad"
    limits = recording.once("limits that were reached", lambda: _limits_reached(recording))
    entered = [event for frame in function.frames for event in recording.of_frame(frame, ev.FrameEntered)]
    if any(event.code.qualname in limits or event.code.id in limits for event in entered):
        words.append("then plain Python")
    frame = next((frame for frame in function.frames if recording.of_frame(frame, ev.FrameEntered)), 0)
    return {
        "name": function.name,
        "where": function.place,
        "kind": kind,
        "verdict": ", ".join(words),
        "operators": function.operators,
        "seconds": round(function.seconds, 4),
        "frame": frame,
        "frames": function.frames,
    }


# -- timeline ------------------------------------------------------------------------------------------------------------


def _timeline(recording: Recording) -> Plain:
    """One track per function: its compilations, positioned by accumulated compile time, and its cache hits.

    A recording contains the duration of each compilation, not its start, so the axis is their cumulative sum in order.
    """
    of_frame = {frame: function.name for function in functions_of(recording) for frame in function.frames}
    seconds = {event.frame: event.seconds for event in recording.of(ev.FrameFinished)}
    compiled_by = {event.frame: event.compiled_by for event in recording.of(ev.CacheHit)}
    again = {event.frame for event in recording.of(ev.Recompiled)}
    tracks: dict[str, Plain] = {}
    clock = 0.0
    for call in calls(recording):
        for frame in call.frames:
            owner = frame.frame if frame.frame in of_frame else compiled_by.get(frame.frame, frame.frame)
            name = of_frame.get(owner, frame.function)
            track = tracks.setdefault(name, {"function": name, "spans": [], "hits": []})
            if frame.outcome == "hit":
                if track["hits"] and track["hits"][-1][0] == round(clock, 4):
                    track["hits"][-1][1] += 1
                else:
                    track["hits"].append([round(clock, 4), 1, call.number])
            elif (spent := seconds.get(frame.frame, 0.0)) and len(track["spans"]) < _MOST_SPANS:
                kind = "recompile" if frame.frame in again else "compile"
                span = {
                    "kind": kind,
                    "start": round(clock, 4),
                    "seconds": round(spent, 4),
                    "frame": frame.frame,
                    "call": call.number,
                }
                track["spans"].append(span)
                clock += spent
    return {"seconds": round(clock, 4), "tracks": list(tracks.values())}


# -- initial view, and empty recordings -------------------------------------------------------------------------------------


def _opens(rows: Sequence[Plain]) -> Plain:
    """The initial view, by the first rule that applies: the story for a failure, or for a single break; else the overview."""
    if rows and rows[0]["kind"] in _FAILURES and rows[0]["place"]:
        return {"view": "story", "place": rows[0]["place"]}
    lost = [row for row in rows if row["kind"] in ("break", "recompile")]
    if len(lost) == 1 and lost[0]["kind"] == "break" and lost[0]["times"] == 1 and lost[0]["place"]:
        return {"view": "story", "place": lost[0]["place"]}
    return {"view": "overview", "place": rows[0]["place"] if rows else []}


def _empty(recording: Recording) -> Plain:
    """If nothing was captured: why, and what to do next."""
    if recording.frames:
        return {}
    title = recording.title or "The program"
    if recording.engine == TORCH:
        why = f"{title} compiled nothing with torch.compile."
        is_program = recording.title.endswith((".py", ".ipynb")) or bool(recording.of(ev.ProgramEnded))
        advice, command = ("To see how it would be captured:", explain_command(title)) if is_program else ("", "")
        return {"empty": {"why": why, "next": advice, "command": command}}
    story = headline(recording)
    is_program = recording.title.endswith((".py", ".ipynb")) or bool(recording.of(ev.ProgramEnded))
    is_whole = not any(ended.error or ended.stopped for ended in recording.of(ev.ProgramEnded))
    if not is_program or not is_whole or recording.title in LAUNCHERS:
        return {"empty": {"why": story.where or story.summary, "next": story.remedy, "command": ""}}
    passed = closest_candidate(recording)
    why = f"{passed.name} ({short_file(passed.file)}:{passed.line}) was not captured: {passed.why}." if passed is not None else ""
    command = f"{explain_command(title)} {f'--only {passed.name}' if passed is not None else '--all'}"
    or_else = f"Or capture {passed.name} by name:" if passed is not None else "Or capture everything that runs:"
    return {"empty": {"why": why, "next": f"{_CALL_WITH_A_TENSOR} {or_else}", "command": command}}


_CALL_WITH_A_TENSOR = "To be captured, a function must be an nn.Module or receive a tensor."
