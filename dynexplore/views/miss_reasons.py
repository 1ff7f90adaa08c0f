"""The reasons for a recompile: every guard that failed, in the program's terms, with the line that needed it.

The idea: the native check stops at the first guard that fails, and a recording contains the others. Several entries may reject
the same value, each with another expected one; to a person that is one reason. So the reasons of a miss are those of all
entries without duplicates, with the expected value of the entry that was tried first.

What follows from another reason is none: a relation between the sizes of a tensor that is rejected anyway, the mode of the
submodules of a module whose mode changed, what another object contains.

In: a Recording, a frame that recompiled or ran as plain Python at the limit. Out: `reasons_of(recording, frame)`: `Reason`s,
beginning with the guard that ended the check; `causes_of(recording, frame)`: those of the entry that was tried first;
`reason_of(recording, failed)`, one of them; `together(reasons, room)`: several in one phrase; `call_of_frame(recording, frame)`:
the line of the program that made the call. PyTorch's counterpart: TORCH_LOGS="recompiles_verbose", which logs the failed
expressions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dynexplore.engine import events as ev
from dynexplore.recording.engines import DYNEXPLORE
from dynexplore.recording.recording import Recording
from dynexplore.views.changes import (
    FROM_BEFORE,
    Change,
    as_the_program_says,
    change,
    changes_of,
    is_another_object,
    is_last_round,
    precedes_graph_break,
    registry_of,
    source_alone,
)
from dynexplore.views.counts import plural
from dynexplore.views.growing_lists import grows
from dynexplore.views.names import calling_line, is_library, short_file

Fact = Literal[
    "last round", "from before", "before a break", "another object", "accepts any", "varies", "bounded", "parameter", "grows"
]
"""What a recording knows besides the guard: the loop is exhausted; the value is not an argument, but was computed before a graph
break, with or without a name in the program; another object of the same class was passed, and the new entry accepts any; a size or
number is an input of the new graph; a guard of the new entry compares the number; the tensor is an nn.Parameter, whose sizes
torch.compile keeps static; the function itself appends to the list.
"""


@dataclass(frozen=True, slots=True)
class Reason:
    """One value that changed: what the guard is on, its expected and actual value as text; `needed_at` is the line of the program
    that relied on it (None: unknown), `entries` are the cache entries that rejected it, `owner` and `registry` the module and
    which of its dictionaries, if it is one.
    """

    source: str
    kind: str
    expected: str
    actual: str
    change: Change
    needed_at: ev.UserFrame | None
    entries: tuple[int, ...] = ()
    facts: frozenset[Fact] = frozenset()
    owner: str = ""
    registry: str = ""
    engine: str = DYNEXPLORE

    @property
    def line(self) -> str:
        """One line: "`n` changed from 1 to 5 (used at model.py:14)"."""
        place = self.needed_at
        return f"{self.change}{f' (used at {short_file(place.file)}:{place.line})' if place is not None else ''}"


def reasons_of(recording: Recording, frame: int) -> list[Reason]:
    """Every guard that failed for a frame, without duplicates."""
    failures = sorted(
        (*recording.of_frame(frame, ev.GuardFailed), *recording.of_frame(frame, ev.GuardAlsoFailed)),
        key=lambda event: type(event) is ev.GuardAlsoFailed,
    )
    reasons: dict[tuple[str, str], Reason] = {}
    entries: dict[tuple[str, str], list[int]] = {}
    for failed in failures:
        for changed in changes_of(as_the_program_says(recording, failed)):
            key = changed.name, changed.aspect
            entries.setdefault(key, []).append(failed.entry)
            if key not in reasons:
                reasons[key] = replace(reason_of(recording, failed), change=changed)
    numbered = [replace(reason, entries=tuple(dict.fromkeys(entries[key]))) for key, reason in reasons.items()]
    return [reason for number, reason in enumerate(numbered) if not number or not any(_follows(reason, of) for of in numbered)]


def causes_of(recording: Recording, frame: int) -> list[Reason]:
    """The reasons of the entry that was tried first: had none of these values changed, it would have been used."""
    return causes_among(reasons_of(recording, frame))


def causes_among(reasons: Sequence[Reason]) -> list[Reason]:
    """Those of these reasons of one frame that the entry which was tried first has."""
    return [reason for reason in reasons if reason.entries[0] == reasons[0].entries[0]]


def _follows(reason: Reason, of: Reason) -> bool:
    """Whether one reason is only a consequence of another."""
    if reason is of:
        return False
    if reason.kind == "SHAPE_ENV":
        return of.kind in ("TENSOR_MATCH", "torch tensor") and reason.source == of.source
    owner, _, attribute = of.source.rpartition(".")
    if owner and reason.change.happened == of.change.happened:  # train() and eval() set every submodule
        return reason.source.startswith(f"{owner}.") and reason.source.endswith(f".{attribute}")
    if of.registry and reason.actual.startswith(("KeyError", "AttributeError")):  # a submodule that is no longer there
        return reason.source.startswith(f"{of.owner}.")
    is_other = "another object" in of.facts or of.kind == "TYPE_MATCH"
    return is_other and bool(of.source) and reason.source.startswith((f"{of.source}.", f"{of.source}["))


def together(reasons: Sequence[Reason], room: int) -> str:
    """Several reasons in one phrase: "`n` changed from 1 to 2; `x` and `y` changed from 8 rows to 9". What `room` characters
    do not hold is counted.
    """
    several = len(reasons)
    phrases = [_phrase(reasons[:count], several - count) for count in range(several, 0, -1)]
    return next((phrase for phrase in phrases if len(phrase) <= room), phrases[-1])


def _phrase(reasons: Sequence[Reason], more: int) -> str:
    of_names: dict[str, list[Change]] = {}
    for reason in reasons:
        of_names.setdefault(reason.change.name, []).append(reason.change)
    names: dict[str, list[str]] = {}  # what happened -> the names to which it happened
    for name, changed in of_names.items():
        names.setdefault(_joined([change.happened for change in changed]), []).append(name)
    phrases = [
        str(Change(name, happened)) if (name := _one_name(same)) else Change("", happened).of_several(_listed(same))
        for happened, same in names.items()
    ]
    return "; ".join([*phrases, *([f"{plural(more, 'more value')} changed"] if more else [])])


def _joined(changes: Sequence[str]) -> str:
    """Several changes of one value.

    >>> _joined(["changed from float32 to float64", "changed from 8 rows to 9"])
    'changed from float32 to float64 and from 8 rows to 9'
    """
    begun = changes[0].startswith("changed from ")
    rest = [text.removeprefix("changed ") if begun and text.startswith("changed from ") else text for text in changes[1:]]
    return " and ".join([", ".join([changes[0], *rest[:-1]]), *rest[-1:]])


def _one_name(names: Sequence[str]) -> str:
    """The name, if there is one, or what many have in common; else nothing.

    >>> _one_name(["`a.drop.training`", "`a.norm.training`", "`b.training`", "`c.training`"]), _one_name(["`x`"])
    ('`training` of 4 modules', '`x`')
    """
    attribute = shared_attribute([name.strip("`") for name in names]) if len(names) > _MOST_NAMES + 1 else ""
    return names[0] if len(names) == 1 else of_several(attribute, len(names)) if attribute else ""


def shared_attribute(sources: Sequence[str]) -> str:
    """The attribute of several objects that all these values are; else nothing.

    >>> shared_attribute(["a.drop.training", "b.training"]), shared_attribute(["a.training", "b.p"]), shared_attribute(["n", "n"])
    ('training', '', '')
    """
    attributes = {source.rpartition(".")[2] for source in sources}
    return attributes.pop() if len(attributes) == 1 and all("." in source for source in sources) else ""


def of_several(attribute: str, count: int | str) -> str:
    """An attribute that changed in several objects: nn.Modules have `training`.

    >>> of_several("training", 3), of_several("scale", "2 more")
    ('`training` of 3 modules', '`scale` of 2 more objects')
    """
    return f"`{attribute}` of {count} {'modules' if attribute == 'training' else 'objects'}"


def _listed(names: Sequence[str]) -> str:
    """Several names as text, the first few if there are many: eval() changes every Dropout of a model.

    >>> _listed(["`a`", "`b`"]), _listed(["`a`", "`b`", "`c`", "`d`", "`e`"])
    ('`a` and `b`', '`a`, `b` and 3 more')
    """
    shown = names if len(names) <= _MOST_NAMES + 1 else [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]])


_MOST_NAMES = 2


def reason_of(recording: Recording, failed: ev.GuardFailed) -> Reason:
    """A guard that failed, in the program's terms, with what the recording knows besides."""
    in_words = as_the_program_says(recording, failed)
    changed = change(in_words)
    owner, registry = registry_of(in_words)
    facts: dict[Fact, bool] = {
        "last round": is_last_round(in_words),
        "from before": changed.name == FROM_BEFORE,
        "before a break": precedes_graph_break(recording, failed),
        "another object": is_another_object(in_words),
        "accepts any": is_another_object(in_words) and _accepts_any(recording, in_words),
        "varies": in_words.kind in ("TENSOR_MATCH", "EQUALS", "NUMBER") and _varies(recording, failed),
        "bounded": _is_bounded(recording, failed),
        "parameter": _is_parameter(recording, failed),
        "grows": grows(recording, failed),
    }
    return Reason(
        source_alone(in_words.source), in_words.kind, in_words.expected, in_words.actual, changed,
        needed_at(recording, failed), facts=frozenset(fact for fact, holds in facts.items() if holds),
        owner=owner, registry=registry, engine=recording.engine,
    )  # fmt: skip


def _is_parameter(recording: Recording, failed: ev.GuardFailed) -> bool:
    """Whether torch.compile takes the value for a parameter: so says its guard, the argument's class, or torch's name for it.

    Not every version of torch writes the class into the guard.
    """
    if recording.engine == DYNEXPLORE:
        return False
    if any(_OF_PARAMETER.search(guard.expression) for guard in _guards_of_entry(recording, failed)):
        return True
    entered = next(iter(recording.of_frame(failed.frame, ev.FrameEntered)), None)
    if entered is not None and any(name == failed.source and value.kind == "Parameter" for name, value in entered.arguments):
        return True
    owner = recording.frame_of_entry(failed.entry)
    added = recording.of_frame(owner, ev.CacheEntryAdded) if owner else ()
    path = re.findall(r"\w+", failed.source)
    names = (re.findall(r"\w+", name) for entry in added for name in _NAMED_PARAMETER.findall(entry.check))
    return any([part for part in name if part not in ("_modules", "_parameters")] == path for name in names)


def _accepts_any(recording: Recording, failed: ev.GuardFailed) -> bool:
    """Whether the code that was compiled for another object accepts any further one: it takes its parameters as inputs."""
    guards = [guard for guard in recording.final_guards(failed.frame) if guard.kind == failed.kind]
    return recording.engine == DYNEXPLORE and failed.source not in {re.sub(r"\btarget\b", "self", guard.source) for guard in guards}


def _varies(recording: Recording, failed: ev.GuardFailed) -> bool:
    """Whether the new entry accepts other sizes, strides or numbers: they are not guarded, or are inputs of the graph."""
    stride = _STRIDE.search(failed.actual)
    if stride is not None:
        return _is_decided_dynamic(recording, failed, f"{failed.source}.stride()[{stride[1]}]")
    guards = recording.final_guards(failed.frame)
    if any((guard.source, guard.kind) == (failed.source, "TENSOR_MATCH") and "?" in guard.expected for guard in guards):
        return True
    graphs = [graph for graph in recording.graphs if graph.frame == failed.frame]
    inputs = [node for graph in graphs for node in graph.nodes if node.op == "placeholder"]
    if failed.kind == "EQUALS" and recording.engine != DYNEXPLORE:
        return any(node.target == failed.source for node in inputs)
    return any(re.search(r"\b[su]\d+\b", node.shape) or not node.dtype for node in inputs)


def _is_bounded(recording: Recording, failed: ev.GuardFailed) -> bool:
    """Whether the new entry compares the value: then it accepts other values, but not all."""
    if not failed.source:
        return False
    named = re.compile(rf"(?<![\w.]){re.escape(failed.source)}(?![\w.])")
    relations = (guard for guard in recording.final_guards(failed.frame) if guard.kind == "SHAPE_ENV")
    texts = (guard.expected or guard.expression for guard in relations)
    return any(named.search(text) and _is_narrow(text) for text in texts)


def _is_narrow(relation: str) -> bool:
    """Whether a relation rejects numbers that occur in programs, and not only those that a float or an int64 cannot hold.

    >>> _is_narrow("1 <= t"), _is_narrow("t < n"), _is_narrow("-9007199254740993 <= n"), _is_narrow("not math.isnan(t)")
    (True, True, False, False)
    """
    numbers = [int(text) for text in re.findall(r"(?<![\w.])\d+(?![\w.])", relation)]
    return re.search(r" ([<>=!]=|[<>]) ", relation) is not None and (not numbers or min(numbers) < _LARGE)


_LARGE = 2**31
_STRIDE = re.compile(r"stride mismatch at index (\d+)")


def _is_decided_dynamic(recording: Recording, failed: ev.GuardFailed, source: str) -> bool:
    """Whether the latest decision about a stride, in the capture that followed, is a symbol."""
    last = recording.final_attempt(failed.frame)
    decided = (event for event in recording.of_frame(failed.frame, ev.Specialized) if event.source == source)
    kinds = [event.kind for event in decided if event.attempt == last]
    return kinds[-1:] == ["dynamic"]


def needed_at(recording: Recording, failed: ev.GuardFailed) -> ev.UserFrame | None:
    """The line of the program that needs a guard: of the instruction that installed it, else as the engine recorded it.

    The state of modules is guarded when the capture ends, as one walk: the last instruction is not the one that needed it.
    """
    if failed.kind == "MODULE_STATE":
        return failed.needed_at
    for guard in _guards_of_entry(recording, failed):
        place = _line_of(recording, guard)
        if place is not None and not is_library(place.file):
            return place
    return failed.needed_at


def _guards_of_entry(recording: Recording, failed: ev.GuardFailed) -> list[ev.GuardInstalled]:
    """The guards that the entry has on the same value, those of the same kind first."""
    owner = recording.frame_of_entry(failed.entry)
    guards = recording.final_guards(owner) if owner else []
    same = [guard for guard in guards if guard.source == failed.source and guard.source]
    same += [guard for guard in guards if guard.index == failed.index and guard.kind == failed.kind]
    return sorted(same, key=lambda guard: guard.kind != failed.kind)


_NAMED_PARAMETER = re.compile(r"check_tensor\([LG]\[(\S*\._parameters\['\w+'\]),")
_OF_PARAMETER = re.compile(r"^check_tensor\(.*?, Parameter, DispatchKeySet\(")

_LINE = re.compile(r"line (\d+) needs it")


def _line_of(recording: Recording, guard: ev.GuardInstalled) -> ev.UserFrame | None:
    code = recording.code_of(guard)
    if code is None:
        return None
    row = next((row for row in code.rows if row.offset == guard.offset and row.line > 0), None) if guard.offset >= 0 else None
    user_line = _LINE.fullmatch(guard.reason)  # torch.compile reports the line itself; the instruction may be a later one
    line = int(user_line[1]) if user_line else row.line if row is not None else 0
    if line <= 0:
        return None
    lines = code.source.splitlines()
    if lines and not 0 <= line - code.first_line < len(lines):
        return None  # of a callee, whose steps were not recorded
    text = lines[line - code.first_line] if lines else ""
    return ev.UserFrame(code.file, line, code.qualname, text)


def call_of_frame(recording: Recording, frame: int) -> ev.UserFrame | None:
    """The line of the program that made the call to which a frame belongs; a resume function belongs to the call of its origin."""
    entered = {event.frame: event for event in recording.frames}
    while frame in entered and entered[frame].code.resumes >= 0 and entered[frame].parent:
        frame = entered[frame].parent or 0
    if frame in entered:
        return entered[frame].caller or calling_line(recording, entered[frame])
    return next((event.caller for event in recording.of_frame(frame, ev.CacheLimitReached)), None)
