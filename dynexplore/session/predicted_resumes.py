"""What follows a break, predicted as far as it can be: the resume functions that a hit would go on in.

The idea: a hit says what happens up to the first break of the frame. What follows runs in resume functions, which have entries
and guards of their own. Much of what those look at exists only when the graphs have run; but the arguments of the call are
handed on as they are, unless the function binds them anew. So of each entry of a resume function the guards on such arguments
can be asked now. Where each entry has one that says no, it is compiled again when the call goes on there; where there is
no entry, it is compiled; else it is not known. Numbers, text and the like are sure; of a tensor its present shape, dtype and so
on are taken, which the program might still change on its way. Lists, dicts and objects are not asked: programs do change them.
What is known goes to the engine's own `decide` (engine/runtime/decision.py).

In: a store, the `DryRunFrame` of a call, the entry that it hits. Out: a `PredictedResume` for each resume function.

PyTorch has no counterpart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any, Literal

import torch

from dynexplore.engine.bytecode import read
from dynexplore.engine.native import CodeCache
from dynexplore.engine.provenance.guard_check import Failure
from dynexplore.engine.provenance.guards import Guard
from dynexplore.engine.provenance.sources import LocalSource, Scope, Source
from dynexplore.engine.runtime.cache import CompiledEntry
from dynexplore.engine.runtime.decision import EntriesSaid, decide
from dynexplore.engine.runtime.frame_facts import facts_of
from dynexplore.engine.runtime.stores import Store
from dynexplore.engine.translate.resume import argument_slots, resume_point
from dynexplore.session.first_frame import DryRunFrame

Fate = Literal["compile", "recompile", "limit reached", "plain Python", "raises", "not known"]

_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), torch.dtype, torch.device, torch.layout)
_ABOUT_MORE = frozenset({"ALIAS", "DISTINCT", "SHAPE_ENV", "GLOBAL_STATE", "MODULE_STATE"})
"""Guards that ask of more than one place, or of none."""


@dataclass(frozen=True, slots=True)
class PredictedResume:
    """A resume function that a call may go on in: its name, its line, what would come of it ("not known": that is decided by
    values that exist only when the graphs have run), and the guard that fails.
    """

    function: str
    line: int
    fate: Fate
    reason: str = ""

    @property
    def is_compiled(self) -> bool:
        """Whether something is compiled when the call goes on here."""
        return self.fate in ("compile", "recompile")


def predicted_resumes(store: Store, frame: DryRunFrame, entry: CompiledEntry) -> tuple[PredictedResume, ...]:
    """Every resume function that the call may come to, in the order in which they are met; changes nothing."""
    known = _handed_on(frame)
    caches = {id(cache.code): cache for cache in store.native.caches()}
    predicted: dict[int, PredictedResume] = {}
    waiting = list(entry.resumes)
    while waiting:
        code = waiting.pop(0)
        if id(code) in predicted:
            continue
        cache = caches.get(id(code))
        predicted[id(code)] = _predicted(store, code, cache, known)
        if predicted[id(code)].fate == "not known" and cache is not None:
            fitting = (one for one in _entries(cache) if _first_failure(one, known) is None)
            waiting += [following for one in fitting for following in one.resumes]
    return tuple(predicted.values())


def _predicted(store: Store, code: CodeType, cache: CodeCache | None, known: Mapping[str, Any]) -> PredictedResume:
    decision = decide(replace(facts_of(store, code, None, cache), entries=_said(cache, known)))
    kind = decision.kind
    assert kind != "ask the entries"
    assert kind != "hit"  # of no entry it is known that it fits
    return PredictedResume(code.co_name, _line(code), kind, decision.reason)


def _said(cache: CodeCache | None, known: Mapping[str, Any]) -> EntriesSaid:
    """What the entries say for sure: that none of them fits, or that one of them may."""
    entries = _entries(cache) if cache is not None else []
    failures = [failure for entry in entries if (failure := _first_failure(entry, known)) is not None]
    if len(failures) < len(entries):
        return EntriesSaid(len(entries), fitting=None)
    return EntriesSaid(len(entries), missed=failures[0].text() if failures else "")


def _entries(cache: CodeCache) -> list[CompiledEntry]:
    return [entry for entry in cache.entries if isinstance(entry, CompiledEntry) and entry.valid]


def _line(code: CodeType) -> int:
    resumed = resume_point(code)
    return (resumed.target.lineno if resumed is not None else None) or code.co_firstlineno


# -- what is handed on ---------------------------------------------------------------------------------------


def _handed_on(frame: DryRunFrame) -> dict[str, Any]:
    """The arguments that a resume function gets as they are: the function binds no other object to their names."""
    bound = set(_bound_names(frame.code)) | {*frame.code.co_cellvars}
    slots = zip(argument_slots(frame.code), frame.values, strict=True)
    return {name: value for name, value in slots if name not in bound and (isinstance(value, torch.Tensor) or _is_plain(value))}


def _bound_names(code: CodeType) -> Iterator[str]:
    for instruction in read(code).instructions:
        if "STORE_FAST" in instruction.opname or "DELETE_FAST" in instruction.opname or "FAST_AND_CLEAR" in instruction.opname:
            names = instruction.argval
            yield from (names,) if isinstance(names, str) else names


def _is_plain(value: Any) -> bool:
    if type(value) in (tuple, frozenset, torch.Size):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


def _first_failure(entry: CompiledEntry, known: Mapping[str, Any]) -> Failure | None:
    """The first guard of an entry that says no to what is handed on."""
    scope = Scope(dict(known), None, {})
    asked = (guard for guard in entry.guards.guards if _can_be_asked(guard, known))
    failures = (entry.guards.failure_of(guard, scope) for guard in asked)
    return next((failure for failure in failures if failure is not None), None)


def _can_be_asked(guard: Guard, known: Mapping[str, Any]) -> bool:
    """Whether all that a guard looks at is handed on; what hangs on a tensor (its grad, its attributes) may change."""
    if guard.kind in _ABOUT_MORE:
        return False
    root: Source = guard.source
    while root.base is not None:
        root = root.base
    if not isinstance(root, LocalSource) or root.local not in known:
        return False
    return root is guard.source or _is_plain(known[root.local])
