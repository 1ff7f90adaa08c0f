"""The headline: a recording in at most three short lines of plain English: what happened, where, and what to do.

The idea: someone who runs `%%dynamo` wants an answer first. A recording contains one most severe problem: a wrong value, a
failing backend, a bug of the engine, a graph break, a recompile limit, a recompile, or a function that was not captured at all.
The first line counts (what happened), the second names location and cause of the worst problem, the third says what to do about
it. For a function that is one graph, the headline says only that.

Numbers have one definition each, here as everywhere: graphs are those that a backend received (`Recording.graphs`), breaks are
GraphBroke events (the caller of a function that breaks also breaks), recompiles are frames that were translated although their
code had cache entries, operators are the call nodes of a graph. A location is a file, or a notebook's cell, with a line and the
enclosing function: `model.py:12 in Net.forward`, `In [2]:7 in toy`.

In: a Recording. Out: `headline(recording)`, with which the explorer, the text report, the static page and `print(explain(...))`
begin; `worst_break(recording)`: the break at which an explorer opens, `in_its_function` any break there. PyTorch's counterpart:
the first line of `ExplainOutput` in torch/_dynamo/backends/debugging.py, which counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dynexplore.engine import events as ev
from dynexplore.engine.old_names import keep_old_names
from dynexplore.recording.engines import DYNEXPLORE
from dynexplore.recording.installed_files import is_installed
from dynexplore.recording.recording import Recording
from dynexplore.views.break_costs import BrokenPlace, broken_places
from dynexplore.views.break_places import library_line, own_line
from dynexplore.views.changes import (
    as_the_program_says,
    change,
    is_last_round,
    loops_of,
)
from dynexplore.views.constraint_errors import explained
from dynexplore.views.counts import plural
from dynexplore.views.many_guards import most_guarded
from dynexplore.views.miss_reasons import Reason, causes_of, reasons_of, together
from dynexplore.views.names import (
    ENTRY_FILE,
    call_of,
    calling_line,
    chain_words,
    frame_code,
    frame_name,
    is_library,
    plain_name,
    short_file,
    skipped_name,
)
from dynexplore.views.real_run import raised_in_the_end
from dynexplore.views.remedies import NO_ACTION, advice_at_limit, advice_on_all
from dynexplore.views.targets_table import functions_of
from dynexplore.views.unrolled_loops import longest_loop

LONGEST = 180
"""The most characters of a line: a backend's error message may fill pages."""

LONGEST_CODE = 60
"""The most characters of a source line; a longer one is cut in the middle."""

_LONGEST_CAUSES = 128
"""The most characters for the values that changed; the values that do not fit are counted."""


@dataclass(frozen=True, slots=True)
class Headline:
    """At most three lines. `level` is "good", "note" (no problem, but worth knowing), "break" or "bad"; `position` is that of the
    event which the second line is about (-1: none).
    """

    summary: str
    where: str = ""
    remedy: str = ""
    level: str = "good"
    position: int = -1

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that are not empty."""
        return tuple(ev.clip(line, LONGEST) for line in (self.summary, self.where, self.remedy) if line)

    def __str__(self) -> str:
        return "\n".join(ev.wrapped(line, 2) for line in self.lines)


def headline(recording: Recording) -> Headline:
    """Return what happened, where, and what to do.

    >>> print(headline(Recording(title="f")))
    f: nothing was captured.
    No function that the engine can capture was called.
    """
    return recording.once("headline", lambda: _headline(recording))


def _headline(recording: Recording) -> Headline:
    rules = (
        _divergence, _died, _failed_backend, _engine_bug, _graph_break, _limit, _skipped_backend, _recompile, _plain, _nothing,
    )  # fmt: skip
    first = next((line for rule in rules if (line := rule(recording)) is not None), None)
    return _after_its_end(recording, first or _with_what_is_slow(recording, _clean(recording)))


def _with_what_is_slow(recording: Recording, line: Headline) -> Headline:
    """A clean headline, with the loop that makes most of a graph, or the container that most guards are about, if there is one."""
    slow = (longest_loop(recording) or most_guarded(recording)) if not line.where else None
    return line if slow is None else replace(line, where=slow.sentence, remedy=slow.remedy, level="note")


def _after_its_end(recording: Recording, line: Headline) -> Headline:
    """The headline of a run that ended in an exception, which it mentions first: a traceback matters more than any success."""
    error = raised_in_the_end(recording)
    if not error or any(map(recording.of, (ev.ProgramEnded, ev.BackendFailed))):  # then the headline is already about the error
        return line
    return replace(line, summary=f"It ended in {error}. {line.summary}", level="note" if line.level == "good" else line.level)


def counted(recording: Recording) -> str:
    """Return graphs, breaks and recompiles in one phrase: `2 graphs, 1 graph break, 0 recompiles`."""
    graphs, breaks, recompiles = len(recording.graphs), len(recording.breaks), len(recording.of(ev.Recompiled))
    lines = _at_so_many_lines(recording)
    skipped = sum(graph.skipped is not None for graph in recording.graphs)
    graphs_text = f"{plural(graphs, 'graph')}{f' ({skipped} not compiled)' if skipped else ''}"
    return f"{graphs_text}, {plural(breaks, 'graph break')}{lines}, {plural(recompiles, 'recompile')}"


def _at_so_many_lines(recording: Recording) -> str:
    """The number of lines that break, if one line breaks several times.

    Each break ends a graph, so counters and the headline count every one. But a loop breaks in each iteration, and a function that
    broke while inlined breaks again as a separate frame: what needs a fix is the line.
    """
    places = {place_of_break(recording, broke)[:2] for broke in recording.breaks}
    return f" on {plural(len(places), 'line')}" if len(places) < len(recording.breaks) else ""


def _name(recording: Recording) -> str:
    name = plain_name(recording.title)
    if recording.engine != DYNEXPLORE:
        of = {"<cell>": " of this cell", "": "", "<lambda>": " of the lambda"}.get(name, f" of {name}")
        return f"{recording.engine}{of}"
    return {"<cell>": "This cell", "": "This recording", "<lambda>": "The lambda"}.get(name, name)


def _position(recording: Recording, event: ev.Event) -> int:
    return next(number for number, other in enumerate(recording) if other is event)


# -- problems ----------------------------------------------------------------------------------------------------------


def _divergence(recording: Recording) -> Headline | None:
    """The headline of a value in the real run that differs from the symbolic prediction."""
    wrong = recording.divergences
    if not wrong:
        return None
    first = wrong[0]
    values = f"{plural(len(wrong), 'value')} {'differs' if len(wrong) == 1 else 'differ'} from the real run"
    summary = f"{_name(recording)}: {values}; results may be wrong."
    who, remedy = _SUSPECTS.get(first.where, _SUSPECTS["node"])
    place = f"{'First ' if len(wrong) > 1 else ''}{_at(recording, first)}"
    where = f"{place}, {first.sentence}: {who}."
    if first.where == "step":
        handler = f"the handler of {first.name}{_in_parentheses(_handler_of(recording, first))}"
        actual = re.sub(r" \(\d+ of \d+ elements differ\)$", "", first.actual)  # one of several differences is enough here
        comparison = f"the {first.aspect} of its result is {actual}, of CPython's {first.expected}"
        where = f"{place}: {handler} differs from CPython: {comparison}."
    where = where[0].upper() + where[1:]
    return Headline(summary, where, remedy, "bad", _position(recording, first))


def _handler_of(recording: Recording, wrong: ev.DivergenceDetected) -> str:
    """The handler that ran, `binary_op, operators.py:35`, if the step is known."""
    steps = [step for step in recording.of_frame(wrong.frame, ev.InstructionStepped) if step.attempt == wrong.attempt]
    place, _, name = steps[wrong.step].rule.rpartition(" ") if 0 <= wrong.step < len(steps) else ("", "", "")
    name = {"<lambda>": "a lambda"}.get(plain_name(name), plain_name(name))
    return f"{name}, {place}" if name else ""


_REPORT_BUG = "Otherwise this is a bug in dynexplore: please report it."

_SUSPECTS = {
    "step": ("the handler differs from CPython", f"If this handler is yours, make it match CPython. {_REPORT_BUG}"),
    "node": ("the rule predicts a wrong result", f"If this operator's rule is yours, fix it. {_REPORT_BUG}"),
    "output": ("the backend does not compute what the graph computes", 'Use backend="eager", which runs the graph unchanged.'),
    "input": ("the backend mutates an input that the graph does not", 'Use backend="eager", which runs the graph unchanged.'),
}
"""Where a divergence was detected -> the likely culprit, and what to do."""


def _died(recording: Recording) -> Headline | None:
    """The headline of a program that ended with an exception, which takes precedence over anything else."""
    ended = next((event for event in recording.of(ev.ProgramEnded) if event.error), None)
    if ended is None:
        return None
    place = f" ({short_file(ended.file)}:{ended.line})" if ended.file else ""
    captured = f"Before that: {counted(recording)}." if recording.frames else "Nothing was captured before that."
    violation = explained(ended.error)
    if violation is not None:
        needed = f" at {short_file(violation.file)}:{violation.line}" if violation.file else ""
        summary = f"{_name(recording)} ended with ConstraintViolationError{place}."
        return Headline(summary, f"{violation.sentence}{needed}.", violation.remedy, "bad", _position(recording, ended))
    if (failed := _fatal_backend(recording, ended)) is not None:
        kind = ended.error.partition(":")[0].rpartition(".")[2]
        summary = f"{_name(recording)} ended with {kind}{place}: the backend `{plain_name(failed.backend)}` failed."
        where, remedy = _reason_of_backend(recording, failed), remedy_of_backend(recording, failed)
        return Headline(summary, where, remedy, "bad", _position(recording, failed))
    summary = f"{_name(recording)} ended with {_first_line(ended.error)}{place}."
    return Headline(summary, captured, "", "bad", _position(recording, ended))


def _fatal_backend(recording: Recording, ended: ev.ProgramEnded) -> ev.BackendFailed | None:
    """The backend's failure with whose exception the program ended; None if it ended with another one."""
    failures = [failed for failed in recording.of(ev.BackendFailed) if failed.error.strip()]
    return next((failed for failed in failures if failed.error.strip().splitlines()[0] in ended.error), None)


_TERMINAL_COLOR = re.compile(r"\x1b\[[0-9;]*m")


def _first_line(error: str) -> str:
    r"""The first line of an exception's text without terminal colors, cut between words; the second line, too, if that only
    introduces it.

    >>> _first_line("ValueError: \x1b[1msizes\x1b[0m differ\nsecond"), _first_line("Failed: worker 1 raised:\nValueError: no")
    ('ValueError: sizes differ', 'Failed: worker 1 raised: ValueError: no')
    """
    lines, room = _TERMINAL_COLOR.sub("", error).strip().split("\n"), LONGEST - 60
    line = f"{lines[0]} {lines[1].strip()}" if len(lines) > 1 and lines[0].endswith(":") else lines[0]
    if len(line) <= room or " " not in line[room // 2 : room]:
        return ev.clip(line, room).rstrip(".")
    return f"{line[:room].rsplit(' ', 1)[0]} ..."


def _failed_backend(recording: Recording) -> Headline | None:
    failures = recording.of(ev.BackendFailed)
    if not failures:
        return None
    first = failures[0]
    backend = plain_name(first.backend)
    rest = f"; {counted(recording)}" if recording.graphs else ": no graph was compiled"
    summary = f"{_name(recording)}: the backend `{backend}` failed{rest}."
    return Headline(
        summary, _reason_of_backend(recording, first), remedy_of_backend(recording, first), "bad", _position(recording, first)
    )


def _reason_of_backend(recording: Recording, failed: ev.BackendFailed) -> str:
    """What the backend failed on, where it raised, and the first line of its message."""
    error = failed.error.strip().splitlines()
    reason = error[0] if error else "no error message"
    raised = failed.raised_at
    raised_text = f" and raised {_place_words((raised.file, raised.line, raised.function))}" if raised is not None else ""
    return f"It {_stopped(recording, failed)}{raised_text}: {reason}"


def remedy_of_backend(recording: Recording, failed: ev.BackendFailed) -> str:
    """Return the advice on a backend that failed."""
    if _in_hand(recording, failed) is None:
        return 'Run it with backend="eager" to check the program itself; dynexplore.minify finds the smallest graph that fails.'
    backend = plain_name(failed.backend)
    return f'Add this operator to `{backend}`, or avoid it; backend="eager" shows whether the program itself is right.'


def place_of_backend_failure(recording: Recording, failed: ev.BackendFailed) -> Place:
    """Return the program's line of the operator at which a backend stopped, if known, else that of the function it was given."""
    node = _in_hand(recording, failed)
    if node is not None:
        place = _place(recording, node)
        return _place_of_call(recording, node) if is_library(place[0]) else place
    entered = recording.of_frame(failed.frame, ev.FrameEntered)
    code = frame_code(recording, entered[0]) if entered else None
    at = (code.file, code.first_line) if code is not None and not is_library(code.file) else ("", 0)
    return (*at, _function_of(recording, failed.frame))


def _in_hand(recording: Recording, failed: ev.BackendFailed) -> ev.NodeAdded | None:
    """The operator that the backend was processing, if known."""
    return next((node for node in _nodes_of(recording, failed) if node.name == failed.node), None)


def _nodes_of(recording: Recording, failed: ev.BackendFailed) -> list[ev.NodeAdded]:
    last = failed.attempt or recording.final_attempt(failed.frame)
    return [node for node in recording.of_frame(failed.frame, ev.NodeAdded) if node.attempt == last]


def _stopped(recording: Recording, failed: ev.BackendFailed) -> str:
    """What the backend failed on: an operator of the graph, if known, else the whole graph."""
    in_hand = _in_hand(recording, failed)
    if in_hand is not None:
        return f"stopped at the operator {in_hand.name} {_at(recording, in_hand)}"
    operators = plural(sum(node.op.startswith("call_") for node in _nodes_of(recording, failed)), "operator")
    function = _function_of(recording, failed.frame)
    function = {"": "the function", "<cell>": "this cell"}.get(function, function)
    stands = f" at {stand}" if (stand := _stand(recording, failed.frame)) else ""
    return f"could not compile the graph of {function}{stands} ({operators})"


def _engine_bug(recording: Recording) -> Headline | None:
    bugs = recording.of(ev.EngineFailed)
    if not bugs:
        return None
    summary = f"{_name(recording)}: a bug in dynexplore; {counted(recording)}."
    own = [frame for frame in bugs[0].user_stack if frame.line and not is_library(frame.file)] or bugs[0].user_stack
    place = _place_words((own[-1].file, own[-1].line, own[-1].function)) if own else _at(recording, bugs[0])
    where = f"It failed {place}: {bugs[0].error}"
    remedy = "The function ran as plain Python, so its result is right. Please report it, with the saved recording."
    if raised_in_the_end(recording) == "EngineError":  # raised only on request
        remedy = "It was raised, so there is no result. Please report it, with the saved recording."
    return Headline(summary, where, remedy, "bad", _position(recording, bugs[0]))


# -- breaks ------------------------------------------------------------------------------------------------------------

_TELLING = ("function", "operation", "type", "name", "method", "module", "argument")
"""The facts of a break that belong to its cause: which function, which type."""


def _graph_break(recording: Recording) -> Headline | None:
    costly = _costliest_break(recording)
    if costly is None:
        return None
    place = place_of_break(recording, costly)
    places = [place_of_break(recording, broke) for broke in recording.breaks]
    others = [other for other in dict.fromkeys(places) if other[:2] != place[:2]]
    calls = chain_words(costly.user_stack) if costly.nested else ""
    chain = _in_parentheses(calls) if " > " in calls else ""  # a line alone has been named
    where_it_is = _place_words(place) + _line_of_break(recording, costly)
    matters_most = others and place[:2] != places[0][:2]
    breaks = "The graph break that matters most is" if matters_most else f"The graph breaks{' first' if others else ''}"
    also = f" Also {_listed(others, place[0])}." if others else ""
    explained = also.removesuffix(".") + _cause_there(recording, costly, others) + also[-1:]
    # the line itself shows what it is about; the other locations are listed only here
    shorter = ((cause_of(costly), explained), (cause_of(costly), also), (_title(costly), also))
    # and the cause matters more than the calls that lead to it
    candidates = [f"{breaks} {where_it_is}{way}: {cause}.{more}" for way in (chain, "") for cause, more in shorter]
    where = next((sentence for sentence in candidates if len(sentence) <= LONGEST), candidates[-1])
    limit = _and_limit(recording)
    again, remedy = ("", "") if limit else _and_recompile(recording)
    loops = _of_loops(recording)
    if loops and not again and not limit:
        remedy = "Fixing the break also removes the recompiles in its loop."
    recompiles = _in_parentheses(_and([*loops, *([again] if again else [])]))
    counts = f"{_name(recording)}: {counted(recording)}"
    given_up, limit_alone = _discarded_words(recording, costly), _and_limit(recording, "")
    summaries = (f"{counts}{recompiles}{given_up}{limit}.", f"{counts}{given_up}{limit}.", f"{counts}{given_up}{limit_alone}.")
    summary = next((line for line in summaries if len(line) <= LONGEST), summaries[-1])
    advice = f"{remedy_of(costly)} {remedy}".strip()
    return Headline(summary, where, advice if len(advice) <= LONGEST else remedy_of(costly), "break", _position(recording, costly))


def _cause_there(recording: Recording, costly: ev.GraphBroke, others: Sequence[Place]) -> str:
    """` (same cause)` or `: printing or logging`: the cause at the only other location; empty if there are several, whose list
    is long.
    """
    if len(others) != 1:
        return ""
    causes = {cause_of(broke) for broke in recording.breaks if place_of_break(recording, broke)[:2] == others[0][:2]}
    if len(causes) != 1:
        return ""
    (cause,) = causes
    return " (same cause)" if cause == cause_of(costly) else f": {cause}"


def _line_of_break(recording: Recording, broke: ev.GraphBroke) -> str:
    """The source line: torch's causes do not name the operands."""
    own = own_line(broke)
    if recording.engine == DYNEXPLORE or own is None or not own.code.strip():
        return ""
    return f", `{ev.clip(own.code.strip(), LONGEST_CODE)}`"


def _discarded_words(recording: Recording, broke: ev.GraphBroke) -> str:
    """A note, after the counts, that no part of a function with a break is compiled, if that is so."""
    skipped = [event for event in recording.of_frame(broke.frame, ev.FrameSkipped) if recording.engine != DYNEXPLORE]
    return f"; {skipped_name(recording, skipped[0])} runs as plain Python" if skipped else ""


def _and_limit(recording: Recording, cause: str | None = None) -> str:
    """A note that a function reached the recompile limit, and why: breaks come first, but the limit costs as much.

    cause: replaces the known cause.
    """
    reached = recording.of(ev.CacheLimitReached)
    if not reached:
        return ""
    cause = _cause_of_limit(recording, reached[0]) if cause is None else cause
    function = name_at_limit(recording, reached[0])
    return f"; {function} reached the recompile limit of {reached[0].limit}" + _in_parentheses(cause)


def name_at_limit(recording: Recording, reached: ev.CacheLimitReached) -> str:
    """The function that is no longer compiled; a resume function is named by its line, as are its frames."""
    name = _function_of(recording, reached.frame)
    same = next((entered for entered in recording.frames if entered.code.qualname == reached.function), None)
    return name or (frame_name(recording, same) if same is not None else plain_name(reached.function))


def _of_loops(recording: Recording) -> list[str]:
    """How many of the recompiles belong to loops: the last iteration, or another value in it. Follows the counts."""
    recompiles = [(again.frame, _failed(recording, again)) for again in recording.of(ev.Recompiled)]
    rounds = {frame for frame, failed in recompiles if failed is not None and is_last_round(failed)}
    places = [_loop_place(recording, frame, place) for frame, place in loops_of(recording).items() if frame not in rounds]
    phrases = [f"{_some(len(rounds), len(recompiles))}in the last iteration of a loop"] if rounds else []
    phrases += [f"{_some(count, len(recompiles))}in the loop {place}" for place, count in Counter(places).items()]
    return phrases


def _loop_place(recording: Recording, frame: int, loop: Place) -> str:
    """`at train.py:12`; for a loop of a library the program's line that leads to it, `at model.py:31 (einops.py:539)`."""
    caller = calling_line(recording, recording.frame(frame)) if is_library(loop[0]) else None
    if caller is None:
        return _place_words((*loop[:2], ""))
    return f"{_place_words((caller.file, caller.line, ''))} ({short_file(loop[0])}:{loop[1]})"


def _and_recompile(recording: Recording) -> tuple[str, str]:
    """What changed if a function with a break also recompiled, and what to do about it; empty if it did not.

    A break splits one function into several, and each guards the same argument: one change recompiles all of them.
    """
    loops = loops_of(recording)
    recompiles = [(again, _failed(recording, again)) for again in recording.of(ev.Recompiled) if again.frame not in loops]
    failures = [
        (again, as_the_program_says(recording, failed)) for again, failed in recompiles if failed and not is_last_round(failed)
    ]
    if not failures:
        return "", ""
    (first, failed), changes = failures[0], [change(other) for _, other in failures]
    happened = changes[0].happened
    names = dict.fromkeys(difference.name for difference in changes if difference.happened == happened)
    listed = _and(_few([*names], 2))
    counted_changes = [
        difference
        for difference, (_, other) in zip(changes, failures, strict=True)
        if difference.happened == happened or other.source == failed.source
    ]
    alike = len(counted_changes)
    changed_names = changes[0].of_several(listed) if len(names) > 1 else str(changes[0])
    count = f"{alike} because " if alike < len(recording.of(ev.Recompiled)) else ""
    causes = causes_of(recording, first.frame)
    if len(causes) > 1 and len(names) == 1:
        changed_names = together(causes, _LONGEST_CAUSES)
    if any(difference.happened != happened for difference in counted_changes):
        changed_names = changed_names.replace(" changed from ", " changed, first from ")
    remedy = re.split(r"(?<=\.) (?=[A-Z])", _advice(recording, first))[0]
    remedy, recompile = (remedy[0].lower() + remedy[1:]).replace("no action needed: ", "no action needed; "), "that recompile"
    if alike > 1:
        remedy, recompile = remedy.replace("the new version accepts", "the new versions accept"), "those recompiles"
    if not count:
        recompile = f"the {recompile.partition(' ')[2]}"
    return f"{count}{ev.clip(changed_names, _LONGEST_CAUSES)}", f"For {recompile}: {remedy}"


def _some(count: int, of: int) -> str:
    return "" if count == of else f"{count} "


def breaks_by_cost(recording: Recording) -> list[BrokenPlace]:
    """The locations of breaks, the most expensive first: the headline is about the first of them, and a report's list begins with
    it.

    A training loop always ends its graph at `backward`: if the break is one that torch's optimizers request (`zero_grad` is
    marked, `step` calls `graph_break()`), or follows `backward` and leaves the compiled function with it, the break at `backward`
    is more informative.
    """
    places = broken_places(recording, lambda broke: (place_of_break(recording, broke), cause_of(broke)))
    backward = next((place for place in places if place.breaks[0].kind == _BACKWARD), None)
    if backward is None:
        return places
    order = {id(broke): number for number, broke in enumerate(recording.breaks)}
    first = places[0].breaks[0]
    leaves = order[id(first)] > order[id(backward.breaks[0])] or first.kind == _MARKED or _is_required_by_a_library(first)
    return sorted(places, key=lambda place: place is not backward) if leaves else places


def _costliest_break(recording: Recording) -> ev.GraphBroke | None:
    return next((place.breaks[0] for place in breaks_by_cost(recording)), None)


_MARKED, _ASKED_FOR, _BACKWARD = "DX202", "DX208", "DX406"


def _is_required_by_a_library(broke: ev.GraphBroke) -> bool:
    return broke.kind == _ASKED_FOR and bool(broke.user_stack) and is_library(broke.user_stack[-1].file)


def cause_of(broke: ev.GraphBroke) -> str:
    """Return the title of a break, with the fact that names its subject, and the library line that contains it."""
    return cause_alone(broke) + _in_library(broke)


def cause_in_the_program(broke: ev.GraphBroke, code: str, cause: str = "") -> str:
    """The cause in terms of the program, of its line `code`: torch.compile's titles of the most frequent breaks do not name the
    code. `cause` is the text where there is nothing to translate.

    >>> broke = ev.GraphBroke(frame=1, kind="GB0170", title="Data-dependent branching", reason="")
    >>> cause_in_the_program(broke, "  elif x.sum() > 0:"), cause_in_the_program(broke, "y = x")
    ('`elif` on a tensor value', 'Data-dependent branching')
    """
    cause = cause or cause_of(broke)
    if cause == "Data-dependent branching" and (branch := _BRANCH.match(code.strip())):
        return f"`{branch[1]}` on a tensor value"
    if cause == "Failed to trace builtin operator" and (builtin := _BUILTIN.search(broke.why)):
        return f"Call of `{builtin[1]}`, which cannot be traced"
    if cause.startswith("Unsupported Tensor.item() call"):
        return "`.item()` converts a tensor to a Python number"
    return cause


_BRANCH = re.compile(r"(if|elif|while|assert)\b")
_BUILTIN = re.compile(r"builtin (?:operator )?`(\w+)`")


def cause_alone(broke: ev.GraphBroke) -> str:
    """Return the title of a break, with the fact that names its subject.

    >>> read = ev.GraphBroke(
    ...     frame=1,
    ...     kind="DX303",
    ...     title="an unsupported attribute",
    ...     reason="",
    ...     facts=(("name", "get"), ("type", "ContextVar")),
    ... )
    >>> cause_alone(read)
    'an unsupported attribute (ContextVar.get)'
    """
    if _is_loop(broke):
        return "`while` on a tensor value"
    facts = dict(broke.facts)
    telling = next((text for name, text in broke.facts if name in _TELLING and text not in broke.title), "")
    if telling and telling == facts.get("name") and "type" in facts:  # an attribute means little without its owner
        telling = f"{facts['type']}.{telling}"
    return _title(broke) + (f" ({telling})" if telling else "")


def _title(broke: ev.GraphBroke) -> str:
    """The title of a break; for torch.compile including the function that is not traced, or the reason why an operator rejected
    its arguments, because its titles lack these. An array is a tensor in the graph, but not in the program.

    >>> facts = (("operation", "float() of a numpy number"),)
    >>> _title(ev.GraphBroke(frame=1, kind="DX101", title="converting a tensor to a Python number", reason="", facts=facts))
    'converting a numpy value to a Python number'
    """
    facts = dict(broke.facts)
    is_of_numpy = _OF_NUMPY.search(facts.get("operation", "")) is not None
    title = re.sub(r"\ba tensor\b", "a numpy value", broke.title) if is_of_numpy else broke.title
    return facts.get("said", title).rstrip(".")


_OF_NUMPY = re.compile(r"^ndarray\.|\bof a(?: numpy number|n array)$")


def _in_library(broke: ev.GraphBroke) -> str:
    """` in clip_grad_norm_ (clip_grad.py:33)`: the line that breaks, if the program's own line only calls it."""
    last = library_line(broke)
    return f" in {plain_name(last.function)} ({short_file(last.file)}:{last.line})" if last is not None else ""


def remedy_of(broke: ev.GraphBroke) -> str:
    """Return the advice, else the explanation; as many sentences as fit."""
    advice = _FIX_OF_LOOP if _is_loop(broke) else broke.fix or broke.why
    advice = advice.removesuffix(" Please report an issue to PyTorch.")
    if library_line(broke) is not None and advice.startswith(_ABOUT_A_CALL) and not _calls(broke, advice):
        advice = "Move the call out of the compiled function."
    if len(advice) <= LONGEST:
        return advice
    sentences = re.split(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.) (?=[A-Z`])", advice)
    return sentences[0]


def _calls(broke: ev.GraphBroke, advice: str) -> bool:
    """Whether a line of the program itself calls what the advice names."""
    named = re.search(r"`([\w.]+)`", advice)
    lines = (frame.code for frame in broke.user_stack if not is_installed(frame.file))
    return named is not None and any(re.search(rf"(?<![\w.]){re.escape(named[1])}\(", line) for line in lines)


_ABOUT_A_CALL = ("Avoid calling", "Move the call to")
_FIX_OF_LOOP = "Run a fixed number of rounds with torch.where, or move the loop out of the compiled function."


def _is_loop(broke: ev.GraphBroke) -> bool:
    """Whether the branch on data is that of a `while`, whose bytecode equals that of an `if`."""
    is_branch = broke.kind == "DX104" or broke.title.startswith("Data-dependent branching")
    return is_branch and bool(broke.user_stack) and broke.user_stack[-1].code.lstrip().startswith("while ")


def place_of_break(recording: Recording, broke: ev.GraphBroke) -> Place:
    """Return the line in the user's own code; code in a library was called from somewhere."""
    own = own_line(broke, recording) or next((frame for frame in reversed(broke.user_stack) if frame.line), None)
    return (own.file, own.line, own.function) if own is not None else _place(recording, broke)


def worst_break(recording: Recording) -> ev.GraphBroke | None:
    """Return the most expensive break, in the function that contains it."""
    costly = _costliest_break(recording)
    return None if costly is None else in_its_function(recording, costly)


def in_its_function(recording: Recording, broke: ev.GraphBroke) -> ev.GraphBroke:
    """Return the same break in the function that contains it: its callers break as well, and earlier."""
    same = [
        candidate
        for candidate in recording.breaks
        if candidate.user_stack[-1:] == broke.user_stack[-1:] and candidate.kind == broke.kind
    ]
    own = [candidate for candidate in same if not candidate.inline and len(candidate.user_stack) <= 1]
    return (own or same)[0]


# -- recompiles --------------------------------------------------------------------------------------------------------


def _limit(recording: Recording) -> Headline | None:
    reached = recording.of(ev.CacheLimitReached)
    if not reached:
        return None
    first = reached[0]
    summary = f"{_name(recording)}: {counted(recording)}; the recompile limit of {first.limit} was reached."
    cause = f": {reason}" if (reason := _cause_of_limit(recording, first)) else ""
    place = _stand(recording, first.frame) or _called_at(recording, first.frame)
    function = name_at_limit(recording, first) + _in_parentheses(place)
    where = f"{function} runs as plain Python from then on{cause}."
    return Headline(summary, where, _remedy_of_limit(recording, first), "break", _position(recording, first))


def _remedy_of_limit(recording: Recording, reached: ev.CacheLimitReached) -> str:
    """The advice that keeps a function from recompiling so often."""
    return advice_at_limit(causes_of(recording, reached.frame), recording.engine, LONGEST)


def _cause_of_limit(recording: Recording, reached: ev.CacheLimitReached) -> str:
    """The guards of the newest cache entry that failed there, "" if none is known."""
    causes = causes_of(recording, reached.frame)
    return together(causes, _LONGEST_CAUSES) if causes else ""


def _recompile(recording: Recording) -> Headline | None:
    again = _costliest_first(recording, recording.of(ev.Recompiled))
    if not again:
        return None
    recompiles = [(event, failed) for event in again if (failed := _failed(recording, event)) is not None]
    other = recompiles[0] if recompiles else (again[0], None)
    first, failed = next(((event, failed) for event, failed in recompiles if not is_last_round(failed)), other)
    summary = f"{_name(recording)}: {counted(recording)}."
    function = _function_of(recording, first.frame)
    call = _call_of(recording, first)
    loop = loops_of(recording).get(first.frame)
    when = f" in call {call}" if call > 1 else ""
    if loop is not None and (failed is None or not is_last_round(failed)):
        when += f" in the loop {_loop_place(recording, first.frame, loop) if is_library(loop[0]) else _place_words(loop)}"
    stands = _in_parentheses(_stand(recording, first.frame) or _called_at(recording, first.frame))
    who = {"": "It", "<lambda>": "The lambda", "<cell>": "This cell"}.get(function, function)
    begin, causes = f"{who}{stands} recompiled{when}: ", causes_of(recording, first.frame)
    relied = _relied_on(recording, first.frame) if len(causes) == 1 else ""
    where = f"{begin}{together(causes, LONGEST - len(begin + relied) - 1) if causes else first.reason}{relied}."
    others = len(again) - 1
    if others:
        elsewhere = sum(_place_of_code(recording, event) != _place_of_code(recording, first) for event in again)
        followed = "followed" if first is min(again, key=lambda event: event.frame) else "in other calls"
        if elsewhere:
            followed = "of other functions" if elsewhere == others else f"{followed}, {elsewhere} of other functions"
        rest = f" {plural(others, 'more recompile')} {followed}{_changed_too(recording, again, first, causes)}."
        where += rest if len(where + rest) <= LONGEST else ""  # the first line counts them
    return Headline(summary, where, _advice(recording, first), "note", _position(recording, first))


def _advice(recording: Recording, again: ev.Recompiled) -> str:
    """The advice on a recompile: on all of its causes."""
    return advice_on_all(causes_of(recording, again.frame), LONGEST)


def _costliest_first(recording: Recording, again: Sequence[ev.Recompiled]) -> Sequence[ev.Recompiled]:
    """For a program those first that an action removes, then those of the function that took longest to recompile; for a single
    function in order. Where nothing has to be done, the program's functions come before modules of libraries that it calls.
    """
    if not recording.of(ev.TargetChosen):
        return again
    spent: Counter[int] = Counter()
    for event in again:
        finished = recording.of_frame(event.frame, ev.FrameFinished)
        spent[_code_of(recording, event)] += sum(int(1e6 * ended.seconds) for ended in finished)

    def rank(event: ev.Recompiled) -> tuple[bool, bool, int]:
        is_expected = _advice(recording, event).startswith(NO_ACTION)
        return is_expected, is_expected and not _stand(recording, event.frame), -spent[_code_of(recording, event)]

    return sorted(again, key=rank)


def _changed_too(recording: Recording, again: Sequence[ev.Recompiled], first: ev.Recompiled, causes: Sequence[Reason]) -> str:
    """What else the entries of this function rejected: after a fix of the first causes alone it would recompile as often as before.

    A value that was equal in all calls in which the first cause changed is not visible at the entry that was tried first.
    """
    if not causes or recording.engine == DYNEXPLORE:
        return ""
    code = _code_of(recording, first)
    same = [event for event in again if event.frame != first.frame and _code_of(recording, event) == code]
    rejected = [reason for other in same for reason in reasons_of(recording, other.frame)]
    names = dict.fromkeys(reason.change.name for reason in rejected if reason.kind in _VALUES)
    others = [name for name in names if name not in {cause.change.name for cause in causes}]
    return f"; {_and(_few(others, 2))} also changed" if others else ""


_VALUES = ("TENSOR_MATCH", "torch tensor", "EQUALS", "NUMBER")


def _code_of(recording: Recording, again: ev.Recompiled) -> int:
    return next((entered.code.id for entered in recording.of_frame(again.frame, ev.FrameEntered)), -1)


def _place_of_code(recording: Recording, again: ev.Recompiled) -> tuple[str, int]:
    """The file and first line of the function that recompiled; a resume function belongs to its original."""
    entered = next(iter(recording.of_frame(again.frame, ev.FrameEntered)), None)
    code = frame_code(recording, entered) if entered is not None else None
    return (code.file, code.first_line) if code is not None else ("", -1)


def _failed(recording: Recording, again: ev.Recompiled) -> ev.GuardFailed | None:
    """The guard that caused the recompile: that of the entry which was tried first."""
    return next(iter(recording.of_frame(again.frame, ev.GuardFailed)), None)


def _relied_on(recording: Recording, frame: int) -> str:
    """The program's line that relies on torch.compile's guard, if known."""
    failed = next(iter(recording.of_frame(frame, ev.GuardFailed)), None)
    if failed is None or recording.engine == DYNEXPLORE:
        return ""
    entry_frame = recording.frame_of_entry(failed.entry)
    guards = [
        event for event in recording.of_frame(entry_frame, ev.GuardInstalled) if event.source == failed.source and event.source
    ]
    guards.sort(key=lambda event: event.kind != failed.kind)
    codes = [
        (recording.code_of(event), re.fullmatch(r"line (\d+) needs it", event.reason)) for event in guards if event.offset >= 0
    ]
    home = next((entered.code.file for entered in recording.of_frame(frame, ev.FrameEntered)), "")
    places = ((code.file, int(line[1])) for code, line in codes if code and line and not is_library(code.file))
    file, number = next(places, ("", 0))
    return f" (used on {f'line {number}' if file == home else f'{short_file(file)}:{number}'})" if file else ""


def _call_of(recording: Recording, event: ev.Event) -> int:
    """The number of the call in which an event happened, among those of the same function; 0 if calls were not recorded."""
    began = call_of(recording, event)
    if began is None or not began.target:
        return began.call if began is not None else 0
    return sum(other.target == began.target and other.call <= began.call for other in recording.of(ev.CallBegan))


# -- a graph whose backend was skipped ---------------------------------------------------------------------------------


def _skipped_backend(recording: Recording) -> Headline | None:
    """The headline of a graph that runs as captured, if there is no worse problem: the largest one."""
    skipped = [graph for graph in recording.graphs if graph.skipped is not None]
    if not skipped:
        return None
    worst = max(skipped, key=lambda graph: graph.op_count)
    assert worst.compiled is not None
    assert worst.skipped is not None
    backend = plain_name(worst.compiled.backend)
    summary = f"{_name(recording)}: {counted(recording)}."
    if len(recording.graphs) == 1:
        counts = counted(recording).partition(", ")[2] if recording.of(ev.Recompiled) else _CLEAN
        of = plural(worst.op_count, "operator")
        summary = f"{_name(recording)} is one graph of {of}, but `{backend}` did not compile it ({counts})."
    function = _function_of(recording, worst.frame) + _in_parentheses(_stand(recording, worst.frame))
    where = f"`{backend}` was skipped for {function}: {worst.skipped.title} ({worst.skipped.id})."
    return Headline(summary, where, worst.skipped.fix, "note", _position(recording, worst.compiled))


# -- nothing captured --------------------------------------------------------------------------------------------------


def _plain(recording: Recording) -> Headline | None:
    """The headline of a function that runs as plain Python, if no graph was captured at all."""
    skipped = recording.of(ev.FrameSkipped)
    if not skipped or recording.graphs:
        return None
    summary = f"{_name(recording)}: no graph was captured; everything ran as plain Python."
    where = f"{_skipped(recording, skipped[0])} is not compiled: {skipped[0].reason}."
    remedy = "Move its tensor operations into a separate function."
    if skipped[0].reason == ev.NO_TENSORS:
        remedy = f"{NO_ACTION} unless you expected tensors here."
    return Headline(summary, where, remedy, "note", _position(recording, skipped[0]))


def explain_command(program: str) -> str:
    """The command that captures a program, a file or a module, with dynexplore's engine.

    >>> explain_command("train.py"), explain_command("package.train")
    ('dynexplore explain train.py', 'dynexplore explain -m package.train')
    """
    return f"dynexplore explain {'' if program.endswith(('.py', '.ipynb')) else '-m '}{program}"


def _nothing(recording: Recording) -> Headline | None:
    if recording.graphs:
        return None
    summary = f"{_name(recording)}: nothing was captured."
    if not recording.frames:
        if (stopped := _stopped_program(recording)) is not None:
            return stopped
        if recording.title in LAUNCHERS:
            return Headline(summary, *_words_for_a_launcher(recording), "note")
        if recording.engine != DYNEXPLORE and recording.of(ev.ProgramEnded):
            never = f"{recording.title} never called {recording.engine}, so there is nothing to show."
            return Headline(never, f"To see how it would be captured: {explain_command(recording.title)}", "", "note")
        cell = next((event for event in recording.of(ev.TargetPassed) if event.name == _CELL), None)
        if recording.engine != DYNEXPLORE and cell is not None:
            where = f"It runs as plain Python ({cell.why}), and calls nothing that {recording.engine} compiles."
            return Headline(summary, where, "Compile the model itself: model = torch.compile(model).", "note")
        if recording.engine != DYNEXPLORE:
            return Headline(summary, f"{recording.engine} compiled nothing, or had compiled it before the recording began.")
        if any(passed.row == "not named" for passed in recording.of(ev.TargetPassed)):
            return Headline(summary, "No function or module that --only names was called.", "", "note")
        if recording.of(ev.ProgramEnded) and not recording.of(ev.TargetChosen):
            return Headline(summary, "It calls no nn.Module, and passes no tensor to its own functions.", "", "note")
        if recording.of(ev.CallBegan):
            return Headline(summary, "The engine cannot capture any function that it calls.")
        if cell is not None:
            return Headline(
                summary, f"It runs as plain Python ({cell.why}), and calls no module or function with a tensor.", "", "note"
            )
        return Headline(summary, "No function that the engine can capture was called.")
    first = recording.frames[0].frame
    stands = _in_parentheses(_stand(recording, first))
    if not recording.of_frame(first, ev.FrameFinished):
        unfinished = f"The capture of {_function_of(recording, first)}{stands} did not finish."
        return _stopped_program(recording) or Headline(summary, unfinished, "", "note")
    return Headline(summary, f"{_function_of(recording, first)}{stands} contains no tensor operation.", "", "note")


LAUNCHERS = {
    "torch.distributed.run": "torchrun --nproc-per-node N",
    "torch.distributed.launch": "torchrun --nproc-per-node N",
    "accelerate.commands.launch": "accelerate launch",
}
"""Modules that run the script in other processes: the command that starts them."""


def _words_for_a_launcher(recording: Recording) -> tuple[str, str]:
    """Where the script runs, and the command that records it there."""
    command = "explain SCRIPT.py" if recording.engine == DYNEXPLORE else "watch --ranks OUT SCRIPT.py"
    remedy = f"Start dynexplore in each process: {LAUNCHERS[recording.title]} -m dynexplore {command}"
    return "It runs the script in other processes, which are not recorded.", remedy


def _stopped_program(recording: Recording) -> Headline | None:
    """The headline of a program that was stopped before anything was captured."""
    ended = next((event for event in recording.of(ev.ProgramEnded) if event.stopped), None)
    if ended is None:
        return None
    chosen = recording.of(ev.TargetChosen)
    nothing = "a function to capture was called" if recording.engine == DYNEXPLORE else f"it called {recording.engine}"
    before = f"the capture of {chosen[-1].name} finished" if chosen else nothing
    return Headline(f"{recording.title} was ended {ended.stopped}, before {before}.", "Allow more time.", "", "note")


_CELL = "<cell>"
_CLEAN = "no graph breaks, no recompiles"


def _in_calls(recording: Recording) -> str:
    """In how many calls: after a single call a recompile was impossible."""
    calls = len(recording.of(ev.CallBegan))
    return f" in {calls} calls" if calls > 1 else ""


def _clean_program(recording: Recording) -> Headline | None:
    """The headline of a program whose captured functions are one graph each, with their names."""
    functions = [function for function in functions_of(recording) if function.graphs]
    if not any(map(recording.of, (ev.TargetChosen, ev.ProgramEnded))) or not functions:
        return None
    functions.sort(key=lambda function: -function.operators)
    operators, calls = sum(function.operators for function in functions), sum(function.calls for function in functions)
    clean = f"{_CLEAN} in {plural(calls, 'call')}" if calls else _CLEAN  # calls under torch.compile are not counted
    if len(functions) == 1:
        graphs = "one graph" if functions[0].graphs == 1 else plural(functions[0].graphs, "graph")
        place = _in_parentheses(functions[0].place)
        of = f"{graphs} of {plural(operators, 'operator')}"
        return Headline(f"{_name(recording)}: {functions[0].name}{place} is {of}: {clean}.")
    named = _and(_few([function.name for function in functions], 3))
    each = (
        "one graph each"
        if all(function.graphs == 1 for function in functions)
        else plural(sum(function.graphs for function in functions), "graph")
    )
    of = f"{each}, {plural(operators, 'operator')} in all, {clean}"
    return Headline(f"{_name(recording)}: {named}: {of}.")


def _clean(recording: Recording) -> Headline:
    graphs = recording.graphs
    if (of_program := _clean_program(recording)) is not None:
        return of_program
    if len(graphs) == 1:
        does = "is" if recording.engine == DYNEXPLORE else "makes"
        summary = (
            f"{_name(recording)} {does} one graph of {plural(graphs[0].op_count, 'operator')}: {_CLEAN}{_in_calls(recording)}."
        )
    else:
        operators = sum(graph.op_count for graph in graphs)
        of = f"{plural(len(graphs), 'graph')} of {plural(operators, 'operator')} in all" if graphs else "no graphs"
        summary = f"{_name(recording)}: {of}, {_CLEAN}{_in_calls(recording)}."
    skipped = recording.of(ev.FrameSkipped)
    if not skipped:
        return Headline(summary)
    where = f"{_skipped(recording, skipped[0])} runs as plain Python: {skipped[0].reason}."
    return Headline(summary, where, "", "note", _position(recording, skipped[0]))


# -- locations ---------------------------------------------------------------------------------------------------------


Place = tuple[str, int, str]
"""File, line and function; without a file or a line only the function is known."""


def _place_words(place: Place) -> str:
    """`at model.py:12 in Net.forward`; module-level code, as in a cell, is a file and a line."""
    file, line, function = place
    if not file or line <= 0:
        return f"in {function or 'the program'}"
    name = {"<lambda>": "the lambda"}.get(plain_name(function), plain_name(function))
    return f"at {short_file(file)}:{line}" + (f" in {name}" if name and not name.startswith("<") else "")


def _place(recording: Recording, event: ev.InstructionEvent) -> Place:
    code = recording.code_of(event)
    row = next((row for row in code.rows if row.offset == event.offset and row.line > 0), None) if code else None
    if code is None or row is None or code.file == ENTRY_FILE:
        return "", 0, _function_of(recording, event.frame)
    return code.file, row.line, code.qualname


def _at(recording: Recording, event: ev.InstructionEvent) -> str:
    """`at model.py:12 in Net.forward`; for a library's line the program's call, `at model.py:31 in f (einops.py:539)`."""
    place = _place(recording, event)
    if not is_library(place[0]):
        return _place_words(place)
    caller = _place_of_call(recording, event)
    return _place_words(caller) + (f" ({short_file(place[0])}:{place[1]})" if caller != place else "")


def _place_of_call(recording: Recording, event: ev.InstructionEvent) -> Place:
    """The program's line that calls the library function in which something happened; the library's line if that is unknown."""
    callees = {
        entered.callee: entered for entered in recording.of_frame(event.frame, ev.InlineEntered) if entered.attempt == event.attempt
    }
    at = event
    while (called := callees.get(at.inline)) is not None:
        at = called
        if not is_library((place := _place(recording, at))[0]) and place[1] > 0:
            return place
    caller = calling_line(recording, event)
    return (caller.file, caller.line, caller.function) if caller is not None else _place(recording, event)


def _stand(recording: Recording, frame: int) -> str:
    """The location of a frame's function, `model.py:12`: only the file if its name contains a line; "" if unknown."""
    entered = recording.of_frame(frame, ev.FrameEntered)
    code = frame_code(recording, entered[0]) if entered else None
    if code is None or not code.file or is_library(code.file):
        return ""
    resumed = frame_name(recording, entered[0]).endswith(" on")
    return short_file(code.file) if resumed or code.first_line <= 0 else f"{short_file(code.file)}:{code.first_line}"


def _called_at(recording: Recording, frame: int) -> str:
    """The program's call of a library function that is a target, `called at train.py:30`; "" for other functions."""
    return next((function.place for function in functions_of(recording) if frame in function.frames), "")


def _in_parentheses(text: str) -> str:
    return f" ({text})" if text else ""


def _skipped(recording: Recording, skipped: ev.FrameSkipped) -> str:
    """`f (model.py:12)`; a resume function's name already contains its line; a library function is located at the program's
    call.
    """
    name = skipped_name(recording, skipped)
    if not skipped.file or skipped.line <= 0 or skipped.file == ENTRY_FILE:
        return name
    file = short_file(skipped.file)
    place = file if name.endswith(" on") else f"{file}:{skipped.line}"
    caller = calling_line(recording, skipped) if is_library(skipped.file) else None
    return f"{name} ({place}" + (f", called from {short_file(caller.file)}:{caller.line})" if caller is not None else ")")


def _function_of(recording: Recording, frame: int) -> str:
    entered = recording.of_frame(frame, ev.FrameEntered)
    return frame_name(recording, entered[0]) if entered else ""


def _listed(places: Sequence[Place], home: str) -> str:
    """`at lines 13 and 15 and at line 2 of other.py`: the other locations as text, grouped by file, the first few if there are
    many. The name of file `home` is omitted.
    """
    lines: dict[str, set[int]] = {}
    for file, line, _ in places:
        if file and line > 0:
            lines.setdefault(file, set()).add(line)
    others = [_place_words(place) for place in places if not place[0] or place[1] <= 0]
    phrases = []
    for file, all_of in lines.items():
        numbers = _and(_few([*map(str, sorted(all_of))]))
        phrases.append(f"at line{'s' if len(all_of) > 1 else ''} {numbers}{'' if file == home else f' of {short_file(file)}'}")
    return _and([*phrases, *_few(others)])


def _few(words: Sequence[str], most: int = 4) -> list[str]:
    return [*words[:most], f"{len(words) - most} more"] if len(words) > most + 1 else list(words)


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


keep_old_names(globals())
