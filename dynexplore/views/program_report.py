"""The report of a program: one screen of text.

The idea: someone who runs `dynexplore explain train.py` wants the verdict first, then the most expensive locations, then an
overview of the rest and how to see it. So the report has at most 40 lines for any program: the headline, a row per captured
function, the graph breaks and recompiles ranked by cost, and counts of the rest. Each location is a line of the program,
followed by the line of a library, if any.

In: a Recording of a program. Out: `report(recording)`, text. PyTorch's counterpart: none; the index page of tlparse is for the
same reader.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import text
from dynexplore.views.counts import plural
from dynexplore.views.cuda_graphs import cuda_graph_lines
from dynexplore.views.guard_prices import price_lines
from dynexplore.views.headline import LAUNCHERS, headline
from dynexplore.views.names import is_library, plain_name, short_file
from dynexplore.views.ranked_costs import block, costs_of
from dynexplore.views.targets_table import Function, functions_of

MOST_LINES = text.MOST_LINES
_MOST_FUNCTIONS = 8
_MOST_PLACES = 6
_MOST_PASSED = 3


def report(recording: Recording, width: int = ev.WIDTH, most_lines: int = MOST_LINES) -> str:
    """The report of a program in at most 40 lines, or in fewer, to leave room for text below it.

    >>> print(report(Recording(title="train.py")))
    train.py: nothing was captured.
    No function that the engine can capture was called.
    """
    sentences = headline(recording).lines
    head = [line for sentence in sentences for line in ev.wrapped(sentence, 2, width).split("\n")]
    functions = functions_of(recording)
    functions = [function for function in functions if function.graphs or function.breaks or function.recompiles] or functions
    tail = [*_passed(recording, bool(functions), width), *_skipped(recording, width), *_left_out(recording), *_stopped(recording)]
    tail += [*price_lines(recording), *cuda_graph_lines(recording)]
    table = (
        _functions(functions) if len(functions) > 1 or any(sentence.breaks or sentence.recompiles for sentence in functions) else []
    )
    room = most_lines - len(head) - len(tail) - len(table) - 4
    places = _places(recording, room, width, headline_lines=sentences)
    blocks = [block for block in (head, table, places, tail) if block]
    return _cut("\n\n".join("\n".join(block) for block in blocks), most_lines)


def whole_report(recording: Recording, width: int = ev.WIDTH) -> str:
    """The whole report of a program (--full): every function, and all graph breaks and recompiles in one list, costliest first."""
    sentences = headline(recording).lines
    head = [line for sentence in sentences for line in ev.wrapped(sentence, 2, width).split("\n")]
    functions = functions_of(recording)
    blocks = [head, _functions(functions, len(functions)) if functions else [], _all_places(recording, width, set(sentences))]
    rest = "\n".join(text.besides_costs(recording, width)).strip("\n")
    tail = [*_passed(recording, bool(functions), width), *_stopped(recording)]
    return "\n\n".join(filter(None, [*map("\n".join, blocks), rest, "\n".join(tail)]))


def _all_places(recording: Recording, width: int, shown_advice: set[str]) -> list[str]:
    """All costs in one list; a graph break with the reason why it is one, which the short report leaves to its page."""
    lines = []
    for number, cost in enumerate(costs_of(recording), 1):
        lines += ["", *block(number, cost, width, shown_advice)]
        shown_advice |= {cost.advice, cost.page}
        why = next((broke.why for frame in cost.frames for broke in recording.of_frame(frame, ev.GraphBroke) if broke.why), "")
        if cost.kind == "graph break" and why and why not in shown_advice:
            lines += ev.wrapped(f"   why: {why}", 8, width).split("\n")
            shown_advice.add(why)
    return ["Graph breaks and recompiles, costliest first:", *lines] if lines else []


def _cut(words: str, most_lines: int) -> str:
    """A text shortened to `most_lines` lines, with a count of the rest: names and reasons may have any length.

    >>> print(_cut("a\\nb\\nc", 2))
    a
    ... and 2 more lines (--full)
    """
    lines = words.split("\n")
    if len(lines) <= most_lines:
        return words
    return "\n".join([*lines[: most_lines - 1], f"... and {len(lines) - most_lines + 1} more lines (--full)"])


# -- captured functions -----------------------------------------------------------------------------------------------


def _functions(functions: Sequence[Function], most: int = _MOST_FUNCTIONS) -> list[str]:
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
        for function in ranked[:most]
    ]
    header = ("function", "location", "calls", "graphs", "breaks", "recompiles", "operators", "compile time")
    lines = text.table(header, rows).split("\n")
    if len(ranked) > most:
        lines.append(f"... and {plural(len(ranked) - most, 'more function')} (--full)")
    return lines


# -- graph breaks and recompiles, ranked ------------------------------------------------------------------------------


def _places(recording: Recording, room: int, width: int, headline_lines: Sequence[str]) -> list[str]:
    costs = costs_of(recording)
    has_died = any(ended.error for ended in recording.of(ev.ProgramEnded))
    if not costs or (len(costs) == 1 and not costs[0].code and not has_died):  # the headline already contains it
        return []
    is_mixed = len({cost.is_expected for cost in costs}) > 1
    shown_advice = set(headline_lines)
    lines = ["Sorted by compile time; entries that need no action come last:" if is_mixed else "Sorted by compile time:"]
    shown = 0
    for number, cost in enumerate(costs[:_MOST_PLACES], 1):
        lines_of_cost = block(number, cost, width, shown_advice)
        if len(lines) + len(lines_of_cost) + 1 > room:
            break
        lines += lines_of_cost
        shown_advice |= {cost.advice, cost.page}
        shown += 1
    rest = len(costs) - shown
    if rest:
        lines.append(f"... and {plural(rest, 'more place')} (--full)")
    return lines if shown else []


# -- what was not captured --------------------------------------------------------------------------------------------


def _passed(recording: Recording, has_targets: bool, width: int) -> list[str]:
    """Functions that were called and not captured: the most likely candidates if nothing was captured, else the program's main
    functions.
    """
    if recording.title in LAUNCHERS:  # then they are the launcher's
        return []
    chosen = {(target.name, target.file, target.line) for target in recording.of(ev.TargetChosen)}  # inherited: passed elsewhere
    others = [target for target in recording.of(ev.TargetPassed) if (target.name, target.file, target.line) not in chosen]
    passed = sorted(others, key=lambda target: (-_likelihood(target), -target.calls))
    has_died = any(ended.error for ended in recording.of(ev.ProgramEnded))
    if has_targets or has_died:  # then nobody is looking for a helper without tensors
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


def closest_candidate(recording: Recording) -> ev.TargetPassed | None:
    """If nothing was captured: the function that was called and is the most likely to be of interest, which `--only` captures; a
    lambda has no name for that.
    """
    passed = [] if recording.of(ev.TargetChosen) else [target for target in recording.of(ev.TargetPassed) if target.name[:1] != "<"]
    return max(passed, key=lambda target: (_likelihood(target), target.calls), default=None)


_LIMIT = "recompile limit"
_LIKELY = {"loop around a model": 5, "not": 4, "driving arguments": 3, "no tensor": 3, "driver": 2, "not named": 1}


def _likelihood(passed: ev.TargetPassed) -> int:
    return _LIKELY.get(passed.row, 0)


def _skipped(recording: Recording, width: int) -> list[str]:
    has_died = any(ended.error for ended in recording.of(ev.ProgramEnded))

    def is_in_headline(event: ev.FrameSkipped) -> bool:
        if has_died and event.reason.startswith("torch.compile raised ") and recording.of(ev.BackendFailed):
            return True
        limits = {reached.function for reached in recording.of(ev.CacheLimitReached)}
        return _LIMIT in event.reason and not has_died and not recording.breaks and len(limits) == 1

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
    runs = "is not recompiled" if _LIMIT in first.reason else "runs as plain Python"  # it raises under fullgraph
    sentence = f"{plain_name(first.function)} ({short_file(first.file)}:{first.line}) {runs}: {first.reason}.{rest}"
    return ev.wrapped(sentence, 2, width).split("\n")


def _left_out(recording: Recording) -> list[str]:
    return [f"The recording was {recording.cut}."] if recording.cut else []


def _stopped(recording: Recording) -> list[str]:
    """When the program was stopped because enough was recorded; if nothing was captured, the headline contains it."""
    ended = next((event for event in recording.of(ev.ProgramEnded) if event.stopped), None)
    return [f"{recording.title} was ended {ended.stopped}."] if ended is not None and recording.graphs else []

