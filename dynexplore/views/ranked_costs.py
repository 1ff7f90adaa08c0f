"""The costs of a run: graph breaks and recompiles in one list, ranked by the compile time they caused.

The idea: a person asks what to fix first, and no count answers that. The cost of a recompile is its compile time, that of a
graph break is the compile time of its resume functions. Both are in one list, grouped by location and cause, and every report,
the explorer and the JSON use the same ranking. Costs that need no action come last, regardless of their time.

In: a Recording, of this engine, of torch.compile or of a log of it. Out: `costs_of(recording)`: `Cost`s; `remedies_of(cost,
source)`; `plain(costs)`, the same for JSON, and `remedies_data(recording, cost)` for the explorer; `block(...)`, one of them as
lines of a report. PyTorch's counterpart: none; tlparse lists compilations in order.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.engine.old_names import keep_old_names
from dynexplore.recording.engines import TORCH
from dynexplore.recording.recording import Recording
from dynexplore.views.break_costs import break_before
from dynexplore.views.changes import is_another_object
from dynexplore.views.compile_seconds import Seconds, frames_after_breaks, seconds_by_frame, seconds_of_breaks
from dynexplore.views.counts import plural
from dynexplore.views.headline import LONGEST, breaks_by_cost, cause_of, place_of_break, remedy_of
from dynexplore.views.miss_reasons import (
    Reason,
    call_of_frame,
    causes_among,
    of_several,
    reason_of,
    reasons_of,
    shared_attribute,
)
from dynexplore.views.names import call_of, decorator_of, frame_code, frame_name, is_library, plain_name, short_file
from dynexplore.views.real_run import raised_in_the_end
from dynexplore.views.remedies import (
    NO_ACTION,
    Remedy,
    advice,
    advice_for_many,
    advice_on_all,
    remedies_for,
    remedies_of_break,
    verdict,
)

_LONGEST_CODE = 90
_FEW = 2
_MOST_REASONS = 3
_MOST_CALLERS = 2


@dataclass
class Cost:
    """A line of the program that causes compilations: how often, and their compile time.

    `reasons` are the guards that failed, for a recompile: all of them, beginning with the one that ended the check. `further` are
    those of them that the same entry rejected: without the first change, it would still have rejected the call. `callers` are the
    lines that made the calls, `frames` the frames that were compiled; `file` and `line` the full location.
    """

    kind: str
    place: str
    cause: str
    remedy: str
    code: str = ""
    times: int = 0
    seconds: float = 0.0
    recompiles: int = 0
    """For a graph break: recompiles of its resume functions, which a fix of the break removes."""
    file: str = ""
    line: int = 0
    backend_seconds: float = 0.0
    reasons: dict[tuple[str, str], Reason] = field(default_factory=dict)
    causes: dict[tuple[str, str], Reason] = field(default_factory=dict)
    """The reasons of the entries that were tried first."""
    sets_of_causes: list[list[Reason]] = field(default_factory=list)
    """The same for each recompile: each of its causes alone forces it."""
    callers: dict[str, int] = field(default_factory=dict)
    frames: list[int] = field(default_factory=list)
    compiled: list[int] = field(default_factory=list)
    """The frames whose compile time `seconds` is: of a graph break, those of its resume functions."""
    rank: float = 0.0
    """The seconds by which it is ranked."""
    of_many: str = ""
    """For a recompile: the advice if more than two values occurred."""
    raised: str = ""
    """For a recompile: the exception with which its call ended the program."""
    page: str = ""
    """For a graph break: the documentation page about its kind."""

    @property
    def is_expected(self) -> bool:
        """Whether no action is needed: it is listed after everything that can be fixed, regardless of its time."""
        return bool(self.raised) or self.advice.startswith(NO_ACTION)

    @property
    def advice(self) -> str:
        """The advice: each of two values may have a separate entry, but not each of many. What the versions of a call that raised
        accept is of no use.
        """
        if self.raised:
            return f"The call then raised {self.raised}."
        return self.remedy if self.times <= _FEW else self.of_many or self.remedy

    @property
    def id(self) -> str:
        """An id that is equal for the same location and cause in every run, so that programs can store it."""
        words = f"{self.kind} {short_file(self.file)}:{self.line} {self.place} {self.cause if self.kind == 'graph break' else ''}"
        return hashlib.sha256("\n".join([words, *[name for name, _ in self.reasons][:1]]).encode()).hexdigest()[:8]

    @property
    def all_reasons(self) -> list[Reason]:
        """The reasons, beginning with the one in `cause`."""
        return list(self.reasons.values())

    @property
    def further(self) -> list[Reason]:
        """The reasons besides the one in `cause` for which the entry that was tried first would still have rejected the call."""
        return list(self.causes.values())[1:]

    def _add(self, recording: Recording, frame: int, spent: Seconds) -> None:
        self.seconds += spent.all
        self.backend_seconds += spent.backend
        self.frames.append(frame)
        caller = call_of_frame(recording, frame)
        if caller is not None and caller.line:
            where = f"{short_file(caller.file)}:{caller.line}"
            self.callers[where] = self.callers.get(where, 0) + 1


def costs_of(recording: Recording) -> list[Cost]:
    """Graph breaks and recompiles by location and cause, the most expensive first; those that need no action come last."""
    return recording.once("costs", lambda: _costs(recording))


def _costs(recording: Recording) -> list[Cost]:
    costs: dict[tuple[str, str, str], Cost] = {}
    seconds, of_breaks, after = seconds_by_frame(recording), seconds_of_breaks(recording), frames_after_breaks(recording)
    for graph_break in recording.breaks:
        cost = _of_break(recording, graph_break, costs)
        cost.times += 1
        cost._add(recording, graph_break.frame, of_breaks.get(graph_break.frame, Seconds()))
        cost.compiled += after.get(graph_break.frame, ())
    for event in recording.of(ev.Recompiled):
        broke = break_before(recording, event)
        cost = _of_recompile(recording, event, costs) if broke is None else _of_break(recording, broke, costs)
        if broke is None:
            cost.times += 1
            reasons = reasons_of(recording, event.frame)
            for reason in reasons:
                cost.reasons.setdefault((reason.change.name, reason.change.aspect), reason)
            cost.sets_of_causes.append(causes_among(reasons))
            for cause in cost.sets_of_causes[-1]:
                cost.causes.setdefault((cause.change.name, cause.change.aspect), cause)
        else:
            cost.recompiles += 1
        cost._add(recording, event.frame, seconds.get(event.frame, Seconds()))
        cost.compiled.append(event.frame)
    for cost in costs.values():
        if cost.causes:
            cost.remedy, cost.of_many = (_advice(cost.sets_of_causes, of_one) for of_one in (advice, advice_for_many))
    if (last := _fatal_call(recording)) is not None:
        again = {event.frame: call_of(recording, event) for event in recording.of(ev.Recompiled)}
        for cost in costs.values():
            calls = {began.call if (began := again.get(frame)) is not None else 0 for frame in cost.frames}
            if cost.kind == "recompile" and calls == {last.call}:
                cost.raised = last.error
    of_a_program = breaks_by_cost(recording)[:1] if recording.of(ev.ProgramEnded) else []
    for place in of_a_program:  # the one in the headline precedes the other breaks
        cost = _of_break(recording, place.breaks[0], costs)
        cost.rank = max(other.seconds for other in costs.values() if other.kind == cost.kind)
    return sorted(costs.values(), key=lambda cost: (cost.is_expected, -max(cost.seconds, cost.rank), -cost.rank, -cost.times))


def _fatal_call(recording: Recording) -> ev.CallEnded | None:
    """The call with whose exception the program ended; None if it did not."""
    last = next(reversed(recording.of(ev.CallEnded)), None)
    return last if last is not None and last.error and raised_in_the_end(recording) == last.error else None


def _advice(sets_of_causes: Sequence[Sequence[Reason]], of_one: Callable[[Reason], str]) -> str:
    """The advice on the recompiles of a function: on those that a change removes, if there are any."""
    removable = [causes for causes in sets_of_causes if not any(of_one(cause).startswith(NO_ACTION) for cause in causes)]
    causes = {(cause.change.name, cause.change.aspect): cause for causes in removable or sets_of_causes for cause in causes}
    return advice_on_all(list(causes.values()), LONGEST, of_one)


def _of_break(recording: Recording, broke: ev.GraphBroke, costs: dict[tuple[str, str, str], Cost]) -> Cost:
    file, line, function = place_of_break(recording, broke)
    place = f"{short_file(file)}:{line} in {plain_name(function)}" if file and line > 0 else plain_name(function)
    cause = cause_of(broke)
    code = next((level.code.strip() for level in reversed(broke.user_stack) if (level.file, level.line) == (file, line)), "")
    cost = Cost("graph break", place, cause, remedy_of(broke), code, file=file, line=max(line, 0))
    cost.page = ev.page_of_kind(broke.kind)
    return costs.setdefault(("break", place, cause), cost)


def _of_recompile(recording: Recording, again: ev.Recompiled, costs: dict[tuple[str, str, str], Cost]) -> Cost:
    failed = next(iter(recording.of_frame(again.frame, ev.GuardFailed)), None)
    entered = next(iter(recording.of_frame(again.frame, ev.FrameEntered)), None)
    place, file, line = "", "", 0
    if entered is not None:
        name, stands = _recompiled_function(recording, entered, failed)
        resumes = _RESUMES.search(name)
        line = int(resumes[1]) if resumes else max(stands.first_line, 0)
        place = name if is_library(stands.file) else f"{name} ({short_file(stands.file)}:{line})"
        file = stands.file
    if failed is None:
        return costs.setdefault(
            ("recompile", place, again.reason), Cost("recompile", place, again.reason, "", file=file, line=line)
        )
    reason = reason_of(recording, failed)
    cost = Cost("recompile", place, str(reason.change), "", file=file, line=line)
    return costs.setdefault(("recompile", place, reason.change.name), cost)


_RESUMES = re.compile(r", from line (\d+) on$")
"""The end of a resume function's name: it stands at that line, not at the first line of its function."""


def remedies_of(cost: Cost, source: str = "") -> list[Remedy]:
    """The changes to paste for a cost of torch.compile; `source` is the text of the program."""
    if cost.kind == "graph break":
        return remedies_of_break(f"{cost.cause} {cost.code}", source)
    return remedies_for(cost.reasons.values(), source)


def _recompiled_function(recording: Recording, entered: ev.FrameEntered, failed: ev.GuardFailed | None) -> tuple[str, ev.CodeView]:
    """The name of the function and its code; of the decorator, if that wraps another function each time."""
    code = recording.original_code(entered.frame)
    if decorator_of(code) and failed is not None and is_another_object(failed):
        return f"@{decorator_of(code)}", code
    return frame_name(recording, entered), frame_code(recording, entered)


# -- as lines ----------------------------------------------------------------------------------------------------------


def block(number: int, cost: Cost, width: int, shown_advice: Set[str]) -> list[str]:
    """One cost as a few lines of a report; advice and pages that already appeared are not repeated."""
    often = f", {cost.times} times" if cost.times > 1 else ""
    often += f", with {plural(cost.recompiles, 'recompile')} after it" if cost.recompiles else ""
    spent = f", {cost.seconds:.2f} s of compile time" if cost.seconds >= 0.005 else ""
    of = "at" if cost.kind == "graph break" else "of"
    lines = ev.wrapped(f"{number}. {cost.kind} {of} {cost.place}{often}{spent}: {cost.cause}", 3, width).split("\n")
    if cost.code:
        lines.append(f"     {ev.clip(cost.code, _LONGEST_CODE)}")
    if cost.kind == "recompile":
        lines += [line for sentence in _sentences(cost) for line in ev.wrapped(f"   {sentence}", 5, width).split("\n")]
    if cost.advice and cost.advice not in shown_advice:
        lines += ev.wrapped(f"   {cost.advice}", 3, width).split("\n")
    if cost.page and cost.page not in shown_advice:
        lines.append(f"   see {cost.page}")
    return lines


def _sentences(cost: Cost) -> list[str]:
    """Further reasons and callers, if any: the first line contains one reason."""
    lines = _lines_of(cost.all_reasons[:1], cost.further)
    shown = lines[:_MOST_REASONS]
    more = [f"{len(lines) - len(shown)} more"] if len(lines) > len(shown) else []
    also = [f"also: {'; '.join([*shown, *more])}"] if shown else []
    callers = sorted(cost.callers, key=lambda where: -cost.callers[where])
    rest = f" and {len(callers) - _MOST_CALLERS} more" if len(callers) > _MOST_CALLERS else ""
    return also + ([f"called at {', '.join(callers[:_MOST_CALLERS])}{rest}"] if callers else [])


def _lines_of(first: Sequence[Reason], further: Sequence[Reason]) -> list[str]:
    """The further reasons, one line each; an attribute that changed alike in many modules, such as `training`, is one line."""
    alike: dict[tuple[str, str], list[Reason]] = {}
    for reason in (*first, *further):
        alike.setdefault((reason.source.rpartition(".")[2], reason.change.happened), []).append(reason)
    lines = []
    for reasons in alike.values():
        is_first = reasons[0] in first
        rest = reasons[1:] if is_first else reasons
        if len(rest) > 1 and (attribute := shared_attribute([reason.source for reason in rest])):
            lines.append(f"{of_several(attribute, f'{len(rest)} more' if is_first else len(rest))} {rest[0].change.happened}")
        else:
            lines += [reason.line for reason in rest]
    return lines


# -- as data -----------------------------------------------------------------------------------------------------------


def plain(costs: Sequence[Cost]) -> list[dict[str, Any]]:
    """The list for JSON and for the explorer, in the same order."""
    return [_plain_cost(cost) for cost in costs]


def _plain_cost(cost: Cost) -> dict[str, Any]:
    return {
        "id": cost.id,
        "kind": cost.kind,
        "place": cost.place,
        "file": cost.file,
        "line": cost.line,
        "cause": cost.cause,
        "times": cost.times,
        "recompiles": cost.recompiles,
        "seconds": round(cost.seconds, 6),
        "backendSeconds": round(cost.backend_seconds, 6),
        "expected": cost.is_expected,
        "advice": cost.advice,
        "code": cost.code,
        "reasons": [_plain_reason(reason) for reason in cost.reasons.values()],
        "callers": [{"place": where, "times": times} for where, times in cost.callers.items()],
        "frames": list(cost.frames),
    }


def tried_remedies(recording: Recording, cost: Cost) -> list[tuple[Remedy, str]]:
    """The remedies of torch.compile for a cost, each with the result of trying it ("" if it was not tried)."""
    if recording.engine != TORCH:
        return []
    tried = {event.text: verdict(event) for event in recording.of(ev.RemedyTried) if event.after != (0, 0, 0) or event.error}
    return [(remedy, tried.get(remedy.text, "")) for remedy in remedies_of(cost)]


def remedies_data(recording: Recording, cost: Cost) -> list[dict[str, str]]:
    """The remedies of torch.compile for a cost as the explorer shows them: text, location, price, and the result of trying it."""
    return [
        {"text": remedy.text, "where": remedy.where, "price": remedy.costs, "tried": result or _NOT_TRIED}
        for remedy, result in tried_remedies(recording, cost)
    ]


_NOT_TRIED = "Expected to help; not tried."


def _plain_reason(reason: Reason) -> dict[str, Any]:
    place = reason.needed_at
    return {
        "source": reason.source,
        "kind": reason.kind,
        "words": str(reason.change),
        "expected": reason.expected,
        "found": reason.actual,
        "file": place.file if place is not None else "",
        "line": place.line if place is not None else 0,
        "code": place.code.strip() if place is not None else "",
        "entries": list(reason.entries),
    }


keep_old_names(globals())
