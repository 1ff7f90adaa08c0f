"""The report of a program: one screen of text.

Which idea lives here: somebody who runs `dynexplore explain train.py` wants the verdict, then the places that cost most, then to
know what else there is and how to see it. So the report has at most 40 lines, whatever the program: the headline, a row for each
captured function, the graph breaks and recompiles ranked by what they cost, and counts of the rest. Each place is a line of the
program; the line of a library follows it.

In:  a Recording of a program. Out: `report(recording)`, text.

PyTorch has no counterpart; tlparse writes its index page for the same reader.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.engine.old_names import keep_old_names
from dynexplore.recording.recording import Recording
from dynexplore.views import text
from dynexplore.views.changes import FROM_BEFORE, as_the_program_says, change
from dynexplore.views.compile_seconds import seconds_of_breaks
from dynexplore.views.counts import plural
from dynexplore.views.headline import NO_ACTION, cause_of, headline, place_of_break, remedy_of, remedy_of_recompile
from dynexplore.views.names import frame_name, is_library, plain_name, short_file
from dynexplore.views.targets_table import Function, functions_of

MOST_LINES = text.MOST_LINES
_MOST_FUNCTIONS = 8
_MOST_PLACES = 6
_MOST_PASSED = 3
_LONGEST_CODE = 90
_FEW = 2
_MANY_VALUES = "Each new value recompiles: pass the same value every time, or pass it as a tensor."
_MANY_INPUTS = "Make the inputs of all calls alike, or give each kind of input a function of its own."


def report(recording: Recording, width: int = ev.WIDTH) -> str:
    """The report of a program in at most 40 lines.

    >>> print(report(Recording(title="train.py")))
    train.py: nothing was captured.
    No function that the engine translates was called.
    """
    sentences = headline(recording).lines
    head = [line for sentence in sentences for line in ev.wrapped(sentence, 2, width).split("\n")]
    functions = functions_of(recording)
    functions = [function for function in functions if function.graphs or function.breaks or function.recompiles] or functions
    tail = [*_passed(recording, bool(functions), width), *_skipped(recording, width), *_left_out(recording), *_stopped(recording)]
    table = (
        _functions(functions) if len(functions) > 1 or any(sentence.breaks or sentence.recompiles for sentence in functions) else []
    )
    room = MOST_LINES - len(head) - len(tail) - len(table) - 4
    places = _places(recording, room, width, headline_lines=sentences)
    blocks = [block for block in (head, table, places, tail) if block]
    return "\n\n".join("\n".join(block) for block in blocks)


# -- captured functions -----------------------------------------------------------------------------------------------


def _functions(functions: Sequence[Function]) -> list[str]:
    ranked = sorted(functions, key=lambda function: (-function.seconds, function.name))
    rows = [
        (
            function.name,
            function.place,
            str(function.calls or ""),
            str(function.graphs),
            str(function.breaks),
            str(function.recompiles),
            str(function.operators),
            f"{function.seconds:.2f} s",
        )
        for function in ranked[:_MOST_FUNCTIONS]
    ]
    header = ("captured", "where", "calls", "graphs", "breaks", "recompiles", "operators", "compile time")
    lines = text.table(header, rows).split("\n")
    if len(ranked) > _MOST_FUNCTIONS:
        lines.append(f"... and {plural(len(ranked) - _MOST_FUNCTIONS, 'more function')} (--full)")
    return lines


# -- graph breaks and recompiles, ranked ------------------------------------------------------------------------------


@dataclass
class Cost:
    """A line of the program that costs something: how often, and the seconds spent compiling what it made necessary."""

    kind: str
    place: str
    cause: str
    remedy: str
    code: str = ""
    times: int = 0
    seconds: float = 0.0
    recompiles: int = 0
    """Of a graph break: recompiles of what continues after it, which go with it."""

    @property
    def is_expected(self) -> bool:
        """Whether it needs no action: it comes once for each of two values, and is listed after what a person would fix."""
        return self.remedy.startswith(NO_ACTION) and self.times <= _FEW

    @property
    def advice(self) -> str:
        """What to do about it; of two values each may have its own version, of many not."""
        if self.times <= _FEW or not self.remedy.startswith(NO_ACTION):
            return self.remedy
        if self.remedy.startswith(f"{NO_ACTION} if you use both values"):
            return _MANY_VALUES
        return _MANY_INPUTS if self.remedy.startswith(f"{NO_ACTION}: the new version accepts") else self.remedy


def costs_of(recording: Recording) -> list[Cost]:
    """Graph breaks and recompiles by place and cause, those that cost most first; those that need no action come last."""
    costs: dict[tuple[str, str, str], Cost] = {}
    seconds = {event.frame: event.seconds for event in recording.of(ev.FrameFinished)}
    of_breaks = seconds_of_breaks(recording)
    for graph_break in recording.breaks:
        cost = _of_break(recording, graph_break, costs)
        cost.times += 1
        cost.seconds += of_breaks.get(graph_break.frame, 0.0)
    for event in recording.of(ev.Recompiled):
        broke = _break_before(recording, event)
        cost = _of_recompile(recording, event, costs) if broke is None else _of_break(recording, broke, costs)
        if broke is None:
            cost.times += 1
        else:
            cost.recompiles += 1
        cost.seconds += seconds.get(event.frame, 0.0)
    return sorted(costs.values(), key=lambda cost: (cost.is_expected, -cost.seconds, -cost.times))


def _break_before(recording: Recording, again: ev.Recompiled) -> ev.GraphBroke | None:
    """The graph break that a recompile goes with: what continues after it got another value from before it."""
    failed = next(iter(recording.of_frame(again.frame, ev.GuardFailed)), None)
    entered = next(iter(recording.of_frame(again.frame, ev.FrameEntered)), None)
    if failed is None or entered is None or entered.parent is None or change(failed).name != FROM_BEFORE:
        return None
    return next(reversed(recording.of_frame(entered.parent, ev.GraphBroke)), None)


def _of_break(recording: Recording, broke: ev.GraphBroke, costs: dict[tuple[str, str, str], Cost]) -> Cost:
    file, line, function = place_of_break(recording, broke)
    place = f"{short_file(file)}:{line} in {plain_name(function)}" if file and line > 0 else plain_name(function)
    cause = cause_of(broke)
    code = next((level.code.strip() for level in reversed(broke.user_stack) if (level.file, level.line) == (file, line)), "")
    return costs.setdefault(("break", place, cause), Cost("graph break", place, cause, remedy_of(broke), code))


def _of_recompile(recording: Recording, again: ev.Recompiled, costs: dict[tuple[str, str, str], Cost]) -> Cost:
    failed = next(iter(recording.of_frame(again.frame, ev.GuardFailed)), None)
    function = next((entered for entered in recording.of_frame(again.frame, ev.FrameEntered)), None)
    place = ""
    if function is not None:
        code = recording.original_code(again.frame)
        own = "" if is_library(code.file) else f" ({short_file(code.file)}:{code.first_line})"
        place = f"{frame_name(recording, function)}{own}"
    if failed is None:
        return costs.setdefault(("recompile", place, again.reason), Cost("recompile", place, again.reason, ""))
    failed = as_the_program_says(recording, failed)
    changed = change(failed)
    remedy = remedy_of_recompile(recording, again, failed)
    return costs.setdefault(("recompile", place, changed.name), Cost("recompile", place, str(changed), remedy))


def _places(recording: Recording, room: int, width: int, headline_lines: Sequence[str]) -> list[str]:
    costs = costs_of(recording)
    has_died = any(ended.error for ended in recording.of(ev.ProgramEnded))
    if not costs or (len(costs) == 1 and not costs[0].code and not has_died):  # the headline says it
        return []
    is_mixed = len({cost.is_expected for cost in costs}) > 1
    shown_advice = set(headline_lines)
    lines = ["Costliest first; what needs no action comes last:" if is_mixed else "Costliest first:"]
    shown = 0
    for number, cost in enumerate(costs[:_MOST_PLACES], 1):
        block = _block(number, cost, width, shown_advice)
        if len(lines) + len(block) + 1 > room:
            break
        lines += block
        shown_advice.add(cost.advice)
        shown += 1
    rest = len(costs) - shown
    if rest:
        lines.append(f"... and {plural(rest, 'more place')} (--full)")
    return lines if shown else []


def _block(number: int, cost: Cost, width: int, shown_advice: Set[str]) -> list[str]:
    often = f", {cost.times} times" if cost.times > 1 else ""
    often += f", with {plural(cost.recompiles, 'recompile')} after it" if cost.recompiles else ""
    spent = f", {cost.seconds:.2f} s of compile time" if cost.seconds >= 0.005 else ""
    lines = ev.wrapped(f"{number}. {cost.kind} at {cost.place}{often}{spent}: {cost.cause}", 3, width).split("\n")
    if cost.kind == "recompile":
        lines = ev.wrapped(f"{number}. recompile of {cost.place}{often}{spent}: {cost.cause}", 3, width).split("\n")
    if cost.code:
        lines.append(f"     {ev.clip(cost.code, _LONGEST_CODE)}")
    if cost.advice and cost.advice not in shown_advice:
        lines += ev.wrapped(f"   {cost.advice}", 3, width).split("\n")
    return lines


# -- what was not captured --------------------------------------------------------------------------------------------


def _passed(recording: Recording, has_targets: bool, width: int) -> list[str]:
    """What was called and not captured: the likeliest candidates where nothing was, else those that drive the program."""
    passed = sorted(recording.of(ev.TargetPassed), key=lambda target: (-_likelihood(target), -target.calls))
    if has_targets:  # then a helper without tensors is not what anybody looks for
        passed = [target for target in passed if target.row in _LIKELY and target.row != "no tensor"]
    if not passed:
        return []
    if not has_targets and all(target.row == "not named" for target in passed):
        called = ", ".join(dict.fromkeys(target.name for target in sorted(passed, key=lambda target: -target.calls)[:12]))
        return ev.wrapped(f"The script called: {called}.", 2, width).split("\n")
    named = [f"{target.name} ({short_file(target.file)}:{target.line}): {target.why}" for target in passed[:_MOST_PASSED]]
    rest = f"; {len(passed) - _MOST_PASSED} more" if len(passed) > _MOST_PASSED else ""
    begin = "Not captured" if has_targets else "Closest candidates (--only NAME captures one)"
    return ev.wrapped(f"{begin}: {'; '.join(named)}{rest}.", 2, width).split("\n")


_LIMIT = "limit of "
_LIKELY = {"loop around a model": 5, "not": 4, "driving arguments": 3, "no tensor": 3, "driver": 2, "not named": 1}


def _likelihood(passed: ev.TargetPassed) -> int:
    return _LIKELY.get(passed.row, 0)


def _skipped(recording: Recording, width: int) -> list[str]:
    has_died = any(ended.error for ended in recording.of(ev.ProgramEnded))

    def is_in_headline(event: ev.FrameSkipped) -> bool:
        return _LIMIT in event.reason and not has_died and not recording.breaks and len(recording.of(ev.CacheLimitReached)) == 1

    skipped = {
        (event.function, event.file, event.line): event
        for event in recording.of(ev.FrameSkipped)
        if not is_library(event.file) and not (recording.graphs and event.reason == ev.NO_TENSORS) and not is_in_headline(event)
    }
    if not skipped:
        return []
    first = next(iter(skipped.values()))
    more = len(skipped) - 1
    rest = f" So do{'es' if more == 1 else ''} {plural(more, 'more function')} (--full)." if more else ""
    runs = "is not compiled again" if _LIMIT in first.reason else "runs as plain Python"  # under fullgraph it raises
    sentence = f"{plain_name(first.function)} ({short_file(first.file)}:{first.line}) {runs}: {first.reason}.{rest}"
    return ev.wrapped(sentence, 2, width).split("\n")


def _left_out(recording: Recording) -> list[str]:
    return [f"The recording was {recording.cut}."] if recording.cut else []


def _stopped(recording: Recording) -> list[str]:
    """When the program was ended because enough was seen; where nothing was captured the headline says it."""
    ended = next((event for event in recording.of(ev.ProgramEnded) if event.stopped), None)
    return [f"{recording.title} was ended {ended.stopped}."] if ended is not None and recording.graphs else []


keep_old_names(globals())
