"""What happened, where, and what to do: a recording in at most three short lines of plain English.

Which idea lives here: somebody who runs `%%dynamo` wants an answer before a tool. Of all that a recording holds one thing is the
worst: a wrong value, a failing backend, a bug of the engine, a graph break, a limit that was reached, a recompile, a function that
was not captured at all. The first line counts (what happened), the second names the place and the cause of the worst thing, the
third says what to do about it. A function that is one graph says so, and nothing else.

Numbers have one definition each, here as everywhere: graphs are those that a backend was given (`Recording.graphs`), breaks are
the events of that name (the caller of a function that breaks breaks, too), recompiles are frames that were translated although
their code had entries, operators are the call nodes of a graph. A place is a file, or a notebook's cell, with a line and the
function that holds it: `model.py:12 in Net.forward`, `In [2]:7 in toy`.

In:  a Recording.
Out: `headline(recording)`: what the explorer, the text report, the static page and `print(explain(...))` begin with;
     `worst_break(recording)`: the break that an explorer opens at, `in_its_function` any break there.

PyTorch's counterpart: the first line of ExplainOutput in torch/_dynamo/backends/debugging.py, which counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.recording.engines import OURS
from dynexplore.recording.recording import Recording
from dynexplore.views.changes import as_the_program_says, change, is_last_round, loops_of
from dynexplore.views.counts import plural
from dynexplore.views.names import frame_code, frame_name, is_library, plain_name, short_file

LONGEST = 180
"""A line is cut here: an error of a backend may fill pages."""

LONGEST_CODE = 60
"""A line of the program is cut in the middle here."""


@dataclass(frozen=True, slots=True)
class Headline:
    """At most three lines. `level` is "good", "note" (nothing is wrong, but know it), "break" or "bad"; `position` is that of the
    event which the second line is about (-1: none)."""

    what: str
    where: str = ""
    remedy: str = ""
    level: str = "good"
    position: int = -1

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that say something."""
        return tuple(ev.clip(line, LONGEST) for line in (self.what, self.where, self.remedy) if line)

    def __str__(self) -> str:
        return "\n".join(ev.wrapped(line, 2) for line in self.lines)


def headline(recording: Recording) -> Headline:
    """Return what happened, where, and what to do.

    >>> print(headline(Recording(title="f")))
    f: nothing was captured.
    No function that the engine translates was called.
    """
    rules = (_divergence, _failed_backend, _engine_bug, _graph_break, _limit, _recompile, _plain, _nothing)
    first = next((line for rule in rules if (line := rule(recording)) is not None), None)
    return first or _clean(recording)


def counted(recording: Recording) -> str:
    """Return graphs, breaks and recompiles in one phrase: `2 graphs, 1 graph break, 0 recompiles`."""
    graphs, breaks, recompiles = len(recording.graphs), len(recording.breaks), len(recording.of(ev.Recompiled))
    lines = _at_so_many_lines(recording)
    return f"{plural(graphs, 'graph')}, {plural(breaks, 'graph break')}{lines}, {plural(recompiles, 'recompile')}"


def _at_so_many_lines(recording: Recording) -> str:
    """At how many lines the breaks are, where one line breaks several times.

    Each break ends a graph, so counters count them all, and so does the headline. But a loop breaks in each round, and a function
    that was inlined when it broke does so again as a frame of its own: what has to be mended are the lines.
    """
    places = {_place_of_break(recording, broke)[:2] for broke in recording.breaks}
    return f" at {plural(len(places), 'line')}" if len(places) < len(recording.breaks) else ""


def _name(recording: Recording) -> str:
    name = plain_name(recording.title)
    if recording.engine != OURS:
        of = {"<cell>": " of this cell", "": "", "<lambda>": " of the lambda"}.get(name, f" of {name}")
        return f"{recording.engine}{of}"
    return {"<cell>": "This cell", "": "This recording", "<lambda>": "The lambda"}.get(name, name)


def _position(recording: Recording, event: ev.Event) -> int:
    return next(number for number, other in enumerate(recording) if other is event)


# -- what is wrong -----------------------------------------------------------------------------------------------------


def _divergence(recording: Recording) -> Headline | None:
    """A value that the real run had and the symbolic one did not predict."""
    wrong = recording.divergences
    if not wrong:
        return None
    first = wrong[0]
    values = f"{plural(len(wrong), 'value')} of the real run {'is' if len(wrong) == 1 else 'are'}"
    what = f"{_name(recording)}: {values} not as predicted, so results may be wrong."
    who, remedy = _SUSPECTS.get(first.where, _SUSPECTS["node"])
    place = f"{'First ' if len(wrong) > 1 else ''}{_at(recording, first)}"
    where = f"{place}, {first.sentence}: {who}."
    if first.where == "step":
        handler = f"the handler of {first.name}{_in_parentheses(_handler_of(recording, first))}"
        actual = re.sub(r" \(\d+ of \d+ elements differ\)$", "", first.actual)  # one of them says enough here
        both = f"the {first.aspect} of its result is {actual}, of CPython's {first.expected}"
        where = f"{place}: {handler} differs from CPython: {both}."
    where = where[0].upper() + where[1:]
    return Headline(what, where, remedy, "bad", _position(recording, first))


def _handler_of(recording: Recording, wrong: ev.DivergenceFound) -> str:
    """The handler that ran, `binary_op, operators.py:35`, where the step is known."""
    steps = [step for step in recording.of_frame(wrong.frame, ev.InstructionStepped) if step.attempt == wrong.attempt]
    place, _, name = steps[wrong.step].rule.rpartition(" ") if 0 <= wrong.step < len(steps) else ("", "", "")
    name = {"<lambda>": "a lambda"}.get(plain_name(name), plain_name(name))
    return f"{name}, {place}" if name else ""


_SUSPECTS = {
    "step": ("the handler differs from CPython", "Make that handler do what CPython does."),
    "node": ("the rule predicts it wrongly", "Correct the rule of this operator, and report it if the rule is ours."),
    "output": ("the backend computes something else than its graph", 'Run it with backend="eager": that backend is right.'),
    "input": ("the backend changes an input that its graph does not", 'Run it with backend="eager": that backend is right.'),
}
"""Where a divergence was seen -> who is to blame, and what to do."""


def _failed_backend(recording: Recording) -> Headline | None:
    failures = recording.of(ev.BackendFailed)
    if not failures:
        return None
    first = failures[0]
    backend = plain_name(first.backend)
    rest = f"; {counted(recording)}" if recording.graphs else ": no graph was compiled"
    what = f"{_name(recording)}: the backend `{backend}` failed{rest}."
    error = first.error.strip().splitlines()
    reason = error[0] if error else "no reason is given"
    raised = first.raised_at
    said = f" and raised {_said((raised.file, raised.line, raised.function))}" if raised is not None else ""
    where = f"It {_stopped(recording, first)}{said}: {reason}"
    remedy = 'Run it with backend="eager" to see whether the program is right; dynexplore.minify finds the least graph that fails.'
    if _in_hand(recording, first) is not None:
        remedy = f'Teach `{backend}` this operator, or do without it; backend="eager" shows whether the program itself is right.'
    return Headline(what, where, remedy, "bad", _position(recording, first))


def _in_hand(recording: Recording, failed: ev.BackendFailed) -> ev.NodeAdded | None:
    """The operator that the backend was at, where it is known."""
    return next((node for node in _nodes_of(recording, failed) if node.name == failed.node), None)


def _nodes_of(recording: Recording, failed: ev.BackendFailed) -> list[ev.NodeAdded]:
    last = failed.attempt or recording.final_attempt(failed.frame)
    return [node for node in recording.of_frame(failed.frame, ev.NodeAdded) if node.attempt == last]


def _stopped(recording: Recording, failed: ev.BackendFailed) -> str:
    """What the backend failed at: an operator of the graph, where it is known, else all of it."""
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
    what = f"{_name(recording)}: a bug of dynexplore; {counted(recording)}."
    where = f"It failed {_at(recording, bugs[0])}: {bugs[0].error}"
    remedy = "The function ran as plain Python, so its result is right. Please report it, with the saved recording."
    return Headline(what, where, remedy, "bad", _position(recording, bugs[0]))


# -- breaks ------------------------------------------------------------------------------------------------------------

_TELLING = ("function", "operation", "type", "name", "method", "module")
"""The facts of a break that belong into its cause: which function, which type."""


def _graph_break(recording: Recording) -> Headline | None:
    costly = _costliest_break(recording)
    if costly is None:
        return None
    place = _place_of_break(recording, costly)
    places = [_place_of_break(recording, broke) for broke in recording.breaks]
    others = [other for other in dict.fromkeys(places) if other[:2] != place[:2]]
    said = _said(place) + _line_of_break(recording, costly)
    matters_most = others and place[:2] != places[0][:2]
    breaks = "The graph break that matters most is" if matters_most else f"The graph breaks{' first' if others else ''}"
    also = f" Also {_listed(others, place[0])}." if others else ""
    explained = also.removesuffix(".") + _cause_there(recording, costly, others) + also[-1:]
    # what it is of can be read in the line; the other places stand nowhere else
    shorter = ((cause_of(costly), explained), (cause_of(costly), also), (_title(costly), also))
    told = [f"{breaks} {said}: {cause}.{more}" for cause, more in shorter]
    where = next((one for one in told if len(one) <= LONGEST), told[-1])
    limit = _and_limit(recording)
    again, remedy = ("", "") if limit else _and_recompile(recording)
    loops = _of_loops(recording)
    if loops and not again and not limit:
        remedy = "A recompile in a loop goes with its break."
    said = _in_parentheses(_and([*loops, *([again] if again else [])]))
    what = f"{_name(recording)}: {counted(recording)}{said}{_given_up(recording, costly)}{limit}."
    both = f"{remedy_of(costly)} {remedy}".strip()
    return Headline(what, where, both if len(both) <= LONGEST else remedy_of(costly), "break", _position(recording, costly))


def _cause_there(recording: Recording, costly: ev.GraphBroke, others: Sequence[Place]) -> str:
    """`, the same` or `: a tensor read out`: why the one other place breaks; empty where there are several, whose list is long."""
    if len(others) != 1:
        return ""
    causes = {cause_of(broke) for broke in recording.breaks if _place_of_break(recording, broke)[:2] == others[0][:2]}
    if len(causes) != 1:
        return ""
    (cause,) = causes
    return ", the same" if cause == cause_of(costly) else f": {cause}"


def _line_of_break(recording: Recording, broke: ev.GraphBroke) -> str:
    """The line: torch's causes do not say of what they are."""
    own = [frame for frame in broke.user_stack if frame.line and not is_library(frame.file)][-1:]
    if recording.engine == OURS or not own or not own[0].code.strip():
        return ""
    return f", `{ev.clip(own[0].code.strip(), LONGEST_CODE)}`"


def _given_up(recording: Recording, broke: ev.GraphBroke) -> str:
    """That nothing of the function with a break is compiled, where that is so. Stands behind the counts."""
    skipped = [one for one in recording.of_frame(broke.frame, ev.FrameSkipped) if recording.engine != OURS]
    return f"; {plain_name(skipped[0].function)} runs as plain Python" if skipped else ""


def _and_limit(recording: Recording) -> str:
    """That a function was compiled as often as it may be, and for what: breaks are told before it, and it costs as much."""
    reached = recording.of(ev.CacheLimitReached)
    if not reached:
        return ""
    cause = _cause_of_limit(recording, reached[0])
    return f"; the limit of {reached[0].limit} entries was reached by {plain_name(reached[0].function)}" + _in_parentheses(cause)


def _of_loops(recording: Recording) -> list[str]:
    """Which of the recompiles are those of a loop: its last round, or another value in it. Stands behind the counts."""
    told = [(again.frame, _failed(recording, again)) for again in recording.of(ev.Recompiled)]
    rounds = {frame for frame, failed in told if failed is not None and is_last_round(failed)}
    places = [place for frame, place in loops_of(recording).items() if frame not in rounds]
    said = [f"{_some(len(rounds), len(told))}the last round of a loop"] if rounds else []
    said += [f"{_some(count, len(told))}in the loop {_said((*place[:2], ''))}" for place, count in Counter(places).items()]
    return said


def _and_recompile(recording: Recording) -> tuple[str, str]:
    """What changed where a function with a break was compiled again besides, and what to do about it; empty where it was not.

    A break makes several functions of one, and each of them asks for the same argument: one change compiles all of them again.
    """
    loops = loops_of(recording)
    told = [(again, _failed(recording, again)) for again in recording.of(ev.Recompiled) if again.frame not in loops]
    known = [(again, as_the_program_says(recording, failed)) for again, failed in told if failed and not is_last_round(failed)]
    if not known:
        return "", ""
    (first, failed), changes = known[0], [change(other) for _, other in known]
    happened = changes[0].happened
    names = dict.fromkeys(one.name for one in changes if one.happened == happened)
    alike = sum(one.happened == happened or other.source == failed.source for one, (_, other) in zip(changes, known, strict=True))
    what = f"{_and(_few([*names], 2))} {happened}"
    count = f"{alike}: " if alike < len(recording.of(ev.Recompiled)) else ""
    remedy = re.split(r"(?<=\.) (?=[A-Z])", _recompile_remedy(recording, first, failed))[0]
    remedy = (remedy[0].lower() + remedy[1:]).replace("nothing to do: ", "nothing to do, ")
    return f"{count}{ev.clip(what, LONGEST_CODE + 20)}", f"On the recompile: {remedy}"


def _some(count: int, of: int) -> str:
    return "" if count == of else f"{count} "


def _costliest_break(recording: Recording) -> ev.GraphBroke | None:
    """The first of the breaks that end much graph work: what a loop does before its first batch breaks, too, and costs little.

    Much is at least half of the operators that any other break ends.

    A loop that trains ends its graph at `backward`, whatever else it does: where the break is one that torch's optimizers ask for
    (`zero_grad` is marked, `step` calls `graph_break()`), or comes after `backward` and leaves the compiled function with it, the
    one at `backward` says more.
    """
    operators: Counter[int] = Counter()
    for graph in recording.graphs:
        operators[graph.frame] += graph.op_count
    cut: Counter[tuple[ev.UserFrame, ...]] = Counter()  # a place breaks in each caller
    for broke in recording.breaks:
        cut[broke.user_stack[-1:]] = max(cut[broke.user_stack[-1:]], operators[broke.frame])
    most = max(cut.values(), default=0)
    breaks = recording.breaks
    at = next((number for number, broke in enumerate(breaks) if 2 * cut[broke.user_stack[-1:]] >= most), -1)
    if at < 0:
        return None
    backward = next((number for number, broke in enumerate(breaks) if broke.kind == _BACKWARD), len(breaks))
    leaves = at > backward or breaks[at].kind == _MARKED or _is_asked_for_by_a_library(breaks[at])
    return breaks[backward if leaves and backward < len(breaks) else at]


_MARKED, _ASKED_FOR, _BACKWARD = "DX202", "DX208", "DX406"


def _is_asked_for_by_a_library(broke: ev.GraphBroke) -> bool:
    return broke.kind == _ASKED_FOR and bool(broke.user_stack) and is_library(broke.user_stack[-1].file)


def cause_of(broke: ev.GraphBroke) -> str:
    """Return the title of a break, with the one fact that says of what, and the line of a library that it stands in."""
    if _is_loop(broke):
        return f"`while` on a tensor value{_in_library(broke)}"
    telling = next((text for name, text in broke.facts if name in _TELLING and text not in broke.title), "")
    return _title(broke) + (f" ({telling})" if telling else "") + _in_library(broke)


def _title(broke: ev.GraphBroke) -> str:
    """What broke; of torch.compile which function it does not trace, or how an operator refused its arguments, for its titles say
    no more than that."""
    return dict(broke.facts).get("said", broke.title).rstrip(".")


def _in_library(broke: ev.GraphBroke) -> str:
    """` in clip_grad_norm_ (clip_grad.py:33)`: the line that breaks, where the program's own line only calls it."""
    frames = [frame for frame in broke.user_stack if _POLYFILLS not in frame.file]
    last = frames[-1] if frames else None
    if last is None or not last.line or not is_library(last.file):
        return ""
    return f" in {plain_name(last.function)} ({short_file(last.file)}:{last.line})"


_POLYFILLS = "/torch/_dynamo/polyfills/"
"""What torch.compile traces in place of functions of C: no program calls these."""


def remedy_of(broke: ev.GraphBroke) -> str:
    """Return what to do, else why it is so; of several sentences as many as fit."""
    said = _FIX_OF_LOOP if _is_loop(broke) else broke.fix or broke.why
    if len(said) <= LONGEST:
        return said
    sentences = re.split(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.) (?=[A-Z`])", said)
    return sentences[0]


_FIX_OF_LOOP = "Run a fixed number of rounds with torch.where, or move the loop out of the compiled function."


def _is_loop(broke: ev.GraphBroke) -> bool:
    """Whether the branch that cannot be taken is that of a `while`: its bytecode is that of an `if`."""
    return broke.kind == "DX104" and bool(broke.user_stack) and broke.user_stack[-1].code.lstrip().startswith("while ")


def _place_of_break(recording: Recording, broke: ev.GraphBroke) -> Place:
    """The line of the user's own code: what stands in a library was called from somewhere."""
    frames = [frame for frame in broke.user_stack if frame.line]
    own = [frame for frame in frames if not is_library(frame.file)]
    own = own or _called_from(recording, broke.frame) or _caller_of(recording, broke) or frames
    if not own:
        return _place(recording, broke)
    return own[-1].file, own[-1].line, own[-1].function


def _called_from(recording: Recording, frame: int) -> list[ev.UserFrame]:
    """Where the user's code stood when it called a frame that is a library's: the last break of the frame that called it."""
    entered = {one.frame: one for one in recording.frames}
    while frame in entered and (parent := entered[frame].parent):
        before = [broke for broke in recording.of_frame(parent, ev.GraphBroke) if broke.user_stack]
        own = [one for one in before[-1].user_stack if one.line and not is_library(one.file)] if before else []
        if own:
            return own
        frame = parent
    return []


def _caller_of(recording: Recording, broke: ev.GraphBroke) -> list[ev.UserFrame]:
    """The line that made the call in which a break happened: the function that was explained may itself be a library's."""
    began = _began(recording, broke)
    return [began.caller] if began is not None and began.caller is not None and not is_library(began.caller.file) else []


def worst_break(recording: Recording) -> ev.GraphBroke | None:
    """Return the break that costs most, as the function that it stands in has it."""
    costly = _costliest_break(recording)
    return None if costly is None else in_its_function(recording, costly)


def in_its_function(recording: Recording, broke: ev.GraphBroke) -> ev.GraphBroke:
    """Return a break as the function that it stands in has it: its callers break as well, and earlier."""
    same = [one for one in recording.breaks if one.user_stack[-1:] == broke.user_stack[-1:] and one.kind == broke.kind]
    own = [one for one in same if not one.inline and len(one.user_stack) <= 1]
    return (own or same)[0]


# -- recompiles --------------------------------------------------------------------------------------------------------


def _limit(recording: Recording) -> Headline | None:
    reached = recording.of(ev.CacheLimitReached)
    if not reached:
        return None
    first = reached[0]
    what = f"{_name(recording)}: {counted(recording)}; the limit of {first.limit} entries was reached."
    cause = f": {said}" if (said := _cause_of_limit(recording, first)) else ""
    function = plain_name(first.function) + _in_parentheses(_stand(recording, first.frame))
    where = f"{function} runs as plain Python from then on{cause}."
    setting = "config.cache_size_limit" if recording.engine == OURS else "torch._dynamo.config.recompile_limit"
    remedy = f"Keep equal what the guard names, or pass it as a tensor; {setting} raises the limit."
    return Headline(what, where, remedy, "break", _position(recording, first))


def _cause_of_limit(recording: Recording, reached: ev.CacheLimitReached) -> str:
    """The guard that failed there, "" where none is known."""
    failed = recording.of_frame(reached.frame, ev.GuardFailed)[:1]  # of the newest entry
    return str(change(as_the_program_says(recording, failed[0]))) if failed else ""


def _recompile(recording: Recording) -> Headline | None:
    again = recording.of(ev.Recompiled)
    if not again:
        return None
    told = [(one, failed) for one in again if (failed := _failed(recording, one)) is not None]
    other = told[0] if told else (again[0], None)
    first, failed = next(((one, failed) for one, failed in told if not is_last_round(failed)), other)
    what = f"{_name(recording)}: {counted(recording)}."
    function = _function_of(recording, first.frame)
    call = _call_of(recording, first)
    loop = loops_of(recording).get(first.frame)
    when = f" in call {call}" if call > 1 else ""
    if loop is not None and (failed is None or not is_last_round(failed)):
        when += f" in the loop {_said(loop)}"
    if failed is not None:
        failed = as_the_program_says(recording, failed)
    stands = _in_parentheses(_stand(recording, first.frame))
    relied = _relied_on(recording, first.frame)
    who = {"": "It", "<lambda>": "The lambda", "<cell>": "This cell"}.get(function, function)
    where = f"{who}{stands} was compiled again{when}: {change(failed) if failed else first.reason}{relied}."
    others = len(again) - 1
    if others:
        where += f" {plural(others, 'more recompile')} followed{_changed_too(recording, again, first, failed)}."
    return Headline(what, where, _recompile_remedy(recording, first, failed), "note", _position(recording, first))


def _changed_too(recording: Recording, again: Sequence[ev.Recompiled], first: ev.Recompiled, failed: ev.GuardFailed | None) -> str:
    """What else the entries of this function said no for: who mends the first alone would see it compiled as often as before.

    One that was the same in all calls that the first changed in would not show at the entry that was tried first.
    """
    if failed is None or recording.engine == OURS:
        return ""
    code = _code_of(recording, first)
    same = [one for one in again if one.frame != first.frame and _code_of(recording, one) == code]
    refused = [as_the_program_says(recording, one) for other in same for one in recording.of_frame(other.frame, ev.GuardFailed)]
    names = dict.fromkeys(one.source for one in refused if one.kind in ("TENSOR_MATCH", "EQUALS", "NUMBER"))
    others = [name for name in names if name and name != failed.source]
    return f"; {' and '.join(f'`{name}`' for name in others[:2])} changed, too" if others else ""


def _code_of(recording: Recording, again: ev.Recompiled) -> int:
    return next((entered.code.id for entered in recording.of_frame(again.frame, ev.FrameEntered)), -1)


def _failed(recording: Recording, again: ev.Recompiled) -> ev.GuardFailed | None:
    """The guard that made it compile: that of the entry which was tried first."""
    return next(iter(recording.of_frame(again.frame, ev.GuardFailed)), None)


def _relied_on(recording: Recording, frame: int) -> str:
    """The line of the program that relies on what the guard of torch.compile asked, where it is known."""
    failed = next(iter(recording.of_frame(frame, ev.GuardFailed)), None)
    if failed is None or recording.engine == OURS:
        return ""
    made = next((one.frame for one in recording.of(ev.CacheEntryAdded) if one.entry == failed.entry), 0)
    guards = [one for one in recording.of_frame(made, ev.GuardInstalled) if one.source == failed.source and one.source]
    guards.sort(key=lambda one: one.kind != failed.kind)
    codes = [(recording.code_of(one), re.fullmatch(r"line (\d+) needs it", one.reason)) for one in guards if one.offset >= 0]
    home = next((entered.code.file for entered in recording.of_frame(frame, ev.FrameEntered)), "")
    places = ((code.file, int(line[1])) for code, line in codes if code and line and not is_library(code.file))
    file, number = next(places, ("", 0))
    return f", on which {f'line {number}' if file == home else f'{short_file(file)}:{number}'} relies" if file else ""


def _recompile_remedy(recording: Recording, again: ev.Recompiled, failed: ev.GuardFailed | None) -> str:
    kind = failed.kind if failed else ""
    if failed is not None and is_last_round(failed):
        return "Nothing to do: the end of the loop is compiled once."
    if kind == "GLOBAL_STATE":
        return "Nothing to do where both are wanted, as in training and evaluation: each state has code of its own."
    if kind == "DICT_CONTAINS" and failed is not None:
        return f"Give `{failed.source}` the same keys in all calls, or let each case call a function of its own."
    if failed is not None and {failed.expected, failed.actual} == {"True", "False"}:
        return f"Nothing to do where both values of `{failed.source}` are wanted: each has code of its own, compiled once."
    if kind in ("TENSOR_MATCH", "EQUALS", "NUMBER") and failed is not None and _varies(recording, again.frame, failed):
        at_once = kind == "TENSOR_MATCH" or recording.engine != OURS  # a number of ours varies from its second value on, always
        what = "any such size" if kind == "TENSOR_MATCH" else f"any value of `{failed.source}`"
        return f"Nothing to do: the new code takes {what}." + (" With dynamic=True the first call compiles it." if at_once else "")
    if kind == "TENSOR_MATCH":
        return "Make the inputs of all calls alike, or give each kind of input a function of its own."
    name = f"`{failed.source}`" if failed and failed.source else "what changed"
    texts = sum(value[:1] in ("'", '"') for value in (failed.expected, failed.actual)) if failed is not None else 0
    if texts == 2:
        return f"Nothing to do where both values of {name} are wanted: each has code of its own. Else keep it equal in all calls."
    return f"Keep {name} equal from call to call{'' if texts else ', or pass it as a tensor'}."


def _varies(recording: Recording, frame: int, failed: ev.GuardFailed) -> bool:
    """Whether the graph of a frame has an input of a size, or a number, that may vary."""
    inputs = [node for graph in recording.graphs if graph.frame == frame for node in graph.nodes if node.op == "placeholder"]
    if failed.kind == "EQUALS" and recording.engine != OURS:
        return any(node.target == failed.source for node in inputs)
    return any(re.search(r"\b[su]\d+\b", node.shape) or not node.dtype for node in inputs)


def _call_of(recording: Recording, event: ev.Event) -> int:
    """The number of the call in which an event happened; 0 where calls were not recorded."""
    began = _began(recording, event)
    return began.call if began is not None else 0


def _began(recording: Recording, event: ev.Event) -> ev.CallBegan | None:
    """The beginning of the call in which an event happened."""
    began = None
    for _, other in recording.besides_steps:
        if isinstance(other, ev.CallBegan):
            began = other
        if other is event:
            break
    return began


# -- nothing to see ----------------------------------------------------------------------------------------------------


def _plain(recording: Recording) -> Headline | None:
    """A function that runs as plain Python, where no graph was captured at all."""
    skipped = recording.of(ev.FrameSkipped)
    if not skipped or recording.graphs:
        return None
    what = f"{_name(recording)}: no graph was captured, all of it ran as plain Python."
    where = f"{_skipped(skipped[0])} is not compiled: {skipped[0].reason}."
    remedy = "Move its tensor work into a function of its own."
    if skipped[0].reason == ev.NO_TENSORS:
        remedy = "Nothing to do, unless tensor work was expected here."
    return Headline(what, where, remedy, "note", _position(recording, skipped[0]))


def _nothing(recording: Recording) -> Headline | None:
    if recording.graphs:
        return None
    what = f"{_name(recording)}: nothing was captured."
    if not recording.frames:
        if recording.engine != OURS:
            return Headline(what, f"Nothing was compiled by {recording.engine}, or it was compiled before.")
        if recording.of(ev.CallBegan):
            return Headline(what, "Nothing that it calls is translated.")
        return Headline(what, "No function that the engine translates was called.")
    first = recording.frames[0].frame
    stands = _in_parentheses(_stand(recording, first))
    return Headline(what, f"{_function_of(recording, first)}{stands} holds no tensor operation.", "", "note")


_CLEAN = "no graph break, no recompile"


def _in_calls(recording: Recording) -> str:
    """How many calls that is said of: after one call nothing could be compiled again."""
    calls = len(recording.of(ev.CallBegan))
    return f" in {calls} calls" if calls > 1 else ""


def _clean(recording: Recording) -> Headline:
    graphs = recording.graphs
    if len(graphs) == 1:
        does = "is" if recording.engine == OURS else "makes"
        what = f"{_name(recording)} {does} one graph of {plural(graphs[0].op_count, 'operator')}: {_CLEAN}{_in_calls(recording)}."
    else:
        operators = sum(graph.op_count for graph in graphs)
        of = f"{plural(len(graphs), 'graph')} of {plural(operators, 'operator')} in all" if graphs else "no graph"
        what = f"{_name(recording)}: {of}, {_CLEAN}{_in_calls(recording)}."
    skipped = recording.of(ev.FrameSkipped)
    if not skipped:
        return Headline(what)
    where = f"{_skipped(skipped[0])} runs as plain Python: {skipped[0].reason}."
    return Headline(what, where, "", "note", _position(recording, skipped[0]))


# -- places ------------------------------------------------------------------------------------------------------------


Place = tuple[str, int, str]
"""File, line and function; without a file or a line the function is all that is known."""


def _said(place: Place) -> str:
    """`at model.py:12 in Net.forward`; what stands in no function of its own, as a cell does, is a file and a line."""
    file, line, function = place
    if not file or line <= 0:
        return f"in {function or 'the program'}"
    name = {"<lambda>": "the lambda"}.get(plain_name(function), plain_name(function))
    return f"at {short_file(file)}:{line}" + (f" in {name}" if name and not name.startswith("<") else "")


def _place(recording: Recording, event: ev.PlacedEvent) -> Place:
    code = recording.code_of(event)
    row = next((row for row in code.rows if row.offset == event.offset and row.line > 0), None) if code else None
    if code is None or row is None:
        return "", 0, _function_of(recording, event.frame)
    return code.file, row.line, code.qualname


def _at(recording: Recording, event: ev.PlacedEvent) -> str:
    return _said(_place(recording, event))


def _stand(recording: Recording, frame: int) -> str:
    """Where the function of a frame stands, `model.py:12`: the file alone where its name says a line; "" where nobody knows."""
    entered = recording.of_frame(frame, ev.FrameEntered)
    code = frame_code(recording, entered[0]) if entered else None
    if code is None or not code.file or is_library(code.file):
        return ""
    resumed = frame_name(recording, entered[0]).endswith(" on")
    return short_file(code.file) if resumed or code.first_line <= 0 else f"{short_file(code.file)}:{code.first_line}"


def _in_parentheses(text: str) -> str:
    return f" ({text})" if text else ""


def _skipped(skipped: ev.FrameSkipped) -> str:
    known = skipped.file and skipped.line > 0
    return plain_name(skipped.function) + (f" ({short_file(skipped.file)}:{skipped.line})" if known else "")


def _function_of(recording: Recording, frame: int) -> str:
    entered = recording.of_frame(frame, ev.FrameEntered)
    return frame_name(recording, entered[0]) if entered else ""


def _listed(places: Sequence[Place], home: str) -> str:
    """`at lines 13 and 15 and at line 2 of other.py`: other places in words, lines of one file together, of many the first. The
    file `home` need not be said."""
    lines: dict[str, set[int]] = {}
    for file, line, _ in places:
        if file and line > 0:
            lines.setdefault(file, set()).add(line)
    others = [_said(place) for place in places if not place[0] or place[1] <= 0]
    said = []
    for file, all_of in lines.items():
        numbers = _and(_few([*map(str, sorted(all_of))]))
        said.append(f"at line{'s' if len(all_of) > 1 else ''} {numbers}{'' if file == home else f' of {short_file(file)}'}")
    return _and([*said, *_few(others)])


def _few(words: Sequence[str], most: int = 4) -> list[str]:
    return [*words[:most], f"{len(words) - most} more"] if len(words) > most + 1 else list(words)


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
