"""The guards on another input: which entry would hit, and the verdict of each of its guards.

The idea: guards are checked in order, and the first failure ends the check; guards after it are not reached. To show everything
that is wrong with an input, the guards that are not reached are checked individually as well (`alone`).

In: the cache entries of a code object, and the scope of a call that is not made. Out: an `EntryVerdict` for each entry.

PyTorch's counterpart: `get_guard_fail_reason` in torch/_dynamo/guards.py, for the first failing guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dynexplore.engine import display_hooks
from dynexplore.engine.events import clip
from dynexplore.engine.native import CodeCache
from dynexplore.engine.provenance.guards import GUARD_KINDS, Guard
from dynexplore.engine.provenance.sources import Scope
from dynexplore.engine.runtime.cache import CompiledEntry, Miss, misses
from dynexplore.engine.translate.event_emitter import expression_of
from dynexplore.engine.translate.event_emitter import scope_of as scope_of_source
from dynexplore.recording.recording import Recording
from dynexplore.views import text
from dynexplore.views.guard_words import requirement

Word = Literal["pass", "fail", "not reached"]


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """A guard and a new input: "pass", "fail" (with expected and actual) or "not reached".

    `alone` is the guard's verdict when checked individually: "pass" or "fail", even if it is not reached. `index` is that of the
    `GuardInstalled` event of the entry's frame; `because` is the offset of the instruction that required it, `asked_by` that
    instruction in words ("LOAD_FAST x (offset 2, line 4)").
    """

    guard: str
    verdict: Word
    expected: str = ""
    actual: str = ""
    alone: Literal["pass", "fail"] = "pass"
    index: int = -1
    scope: str = ""
    source: str = ""
    kind: str = ""
    expression: str = ""
    reason: str = ""
    because: int = -1
    asked_by: str = ""

    @property
    def required(self) -> str:
        """What must hold, as a condition of the program: `n == 3`."""
        return requirement(self.kind, self.source, self.expected) if self.kind else self.guard


@dataclass(frozen=True, slots=True)
class EntryVerdict:
    """A cache entry and a new input: whether it would hit, and the verdict of each guard. `frame` is where it was compiled."""

    entry: int
    frame: int
    hits: bool
    guards: tuple[GuardVerdict, ...]
    function: str = ""

    @property
    def failed(self) -> GuardVerdict | None:
        """The first guard that fails."""
        return next((guard for guard in self.guards if guard.verdict == "fail"), None)

    def __str__(self) -> str:
        """The entry in one line, and a line for each guard."""
        lines = [f"entry {self.entry}: {'hit' if self.hits else 'guard fails'}"]
        for guard in self.guards:
            lines.append(f"  {guard.verdict:<11}  {guard.guard}")
            if guard.alone == "fail":
                reached = "" if guard.verdict == "fail" else "would fail, too: "
                lines.append(f"  {'':<11}  {reached}expected {guard.expected}, found {guard.actual}")
        return "\n".join(lines)

    __repr__ = __str__


class Verdicts(list[EntryVerdict]):
    """The verdicts of all entries of a function, in check order: lines of text, or a table in a notebook.

    >>> Verdicts()
    no entries: a call would be compiled
    """

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "no entries: a call would be compiled"

    def _repr_html_(self) -> str:
        no_hit = "no entry matches: a call would be compiled"
        hits = next((f"cache hit: entry {entry.entry}" for entry in self if entry.hits), no_hit)
        rows = [
            (str(entry.entry), guard.verdict, guard.guard, *((guard.expected, guard.actual) if guard.alone == "fail" else ("", "")))
            for entry in self
            for guard in entry.guards
        ]
        return display_hooks.connected().table(("entry", "verdict", "guard", "expected", "found"), rows, hits)


def judge(cache: CodeCache, scope: Scope, recording: Recording) -> Verdicts:
    """The verdict of every entry of a code object, in check order; `recording` is the one that they were recorded in."""
    failed = {miss.entry: miss for miss in misses(cache, scope)}
    return Verdicts(
        _of_entry(cache, entry, failed.get(entry), scope, recording)
        for entry in cache.entries
        if isinstance(entry, CompiledEntry) and entry.valid
    )


def _of_entry(cache: CodeCache, entry: CompiledEntry, miss: Miss | None, scope: Scope, recording: Recording) -> EntryVerdict:
    code = cache.code
    installed = (guard for guard in recording.guards if guard.frame == entry.frame)
    requested_by = {guard.index: text.instruction_text(recording, guard) for guard in installed}
    guards = tuple(replace(each, asked_by=requested_by.get(each.index, "")) for each in _verdicts(entry, miss, scope))
    return EntryVerdict(entry.number, entry.frame, miss is None, guards, code.co_qualname if code is not None else "")


def _verdicts(entry: CompiledEntry, miss: Miss | None, scope: Scope) -> tuple[GuardVerdict, ...]:
    """Check the modules first, then the guards in order, up to the first that fails."""
    guards: Sequence[Guard] = entry.guards.guards
    order = sorted(range(len(guards)), key=lambda index: guards[index].kind != "MODULE_STATE")
    verdicts: dict[int, GuardVerdict] = {}
    reached: Word = "pass"
    for index in order:
        guard = guards[index]
        if miss is not None and miss.index == index:
            verdicts[index] = _verdict(guard, index, "fail", miss.expected, miss.actual, "fail")
            reached = "not reached"
        elif reached == "pass":
            verdicts[index] = _verdict(guard, index, "pass")
        else:
            alone = entry.guards.failure_of(guard, scope)
            words = ("", "", "pass") if alone is None else (alone.expected, alone.actual, "fail")
            verdicts[index] = _verdict(guard, index, "not reached", *words)
    return tuple(verdicts[index] for index in range(len(guards)))


def _verdict(guard: Guard, index: int, word: Word, expected: str = "", actual: str = "", alone: str = "pass") -> GuardVerdict:
    return GuardVerdict(
        guard=guard.text(),
        verdict=word,
        expected=clip(expected),
        actual=clip(actual),
        alone="fail" if alone == "fail" else "pass",
        index=index,
        scope=scope_of_source(guard.source),
        source="" if guard.kind == "GLOBAL_STATE" else guard.source.text(),
        kind=guard.kind,
        expression=expression_of(guard),
        reason=GUARD_KINDS[guard.kind].meaning,
        because=guard.because,
    )
