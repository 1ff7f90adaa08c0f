"""The resume functions after a graph break, predicted as far as possible for a call that hits an entry.

The idea: a hit determines what happens up to the frame's first break. The rest runs in resume functions, which have cache entries
and guards of their own. Many of the values that these guards check exist only after the graphs have run, but the call's arguments
are passed on unchanged unless the function rebinds them, so guards on such arguments can be checked now. If every entry of a resume
function has a failing guard, the resume function recompiles when reached; if it has no entry, it compiles; otherwise the outcome is
not known. The result is certain for immutable values such as numbers and strings; for a tensor the current metadata (shape, dtype,
...) is used, which the program might still change. Lists, dicts and objects are not checked, because programs mutate them. The
engine's own `decide` (engine/runtime/decision.py) evaluates these facts.

In: a store, the `DryRunFrame` of a call, the entry that it hits. Out: a `PredictedResume` for each resume function.

PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any, Literal

import torch

from dynexplore.engine.bytecode import argument_slots, name_of_code, read
from dynexplore.engine.native import CodeCache
from dynexplore.engine.provenance.guard_check import Failure
from dynexplore.engine.provenance.guards import OF_SEVERAL_SOURCES, Guard
from dynexplore.engine.provenance.sources import LocalSource, Scope, Source
from dynexplore.engine.runtime.cache import CompiledEntry
from dynexplore.engine.runtime.decision import EntriesVerdict, decide
from dynexplore.engine.runtime.frame_facts import facts_of
from dynexplore.engine.runtime.stores import Store
from dynexplore.engine.translate.resume import resume_point
from dynexplore.session.first_frame import DryRunFrame

Fate = Literal["compile", "recompile", "limit reached", "plain Python", "raises", "not known"]

_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), torch.dtype, torch.device, torch.layout)
_ABOUT_MORE = frozenset({"ALIAS", *OF_SEVERAL_SOURCES, "SHAPE_ENV", "GLOBAL_STATE", "MODULE_STATE"})
"""Guards that check several sources, or none."""


@dataclass(frozen=True, slots=True)
class PredictedResume:
    """A resume function in which a call may continue: its name, its line, its outcome ("not known": it depends on values that exist
    only after the graphs have run), and the failing guard.
    """

    function: str
    line: int
    fate: Fate
    reason: str = ""

    @property
    def is_compiled(self) -> bool:
        """Whether something is compiled when the call continues here."""
        return self.fate in ("compile", "recompile")


def predicted_resumes(store: Store, frame: DryRunFrame, entry: CompiledEntry) -> tuple[PredictedResume, ...]:
    """Every resume function that the call may reach, in order; has no side effects."""
    arguments = _passed_on(frame)
    caches = {id(cache.code): cache for cache in store.native.caches()}
    predicted: dict[int, PredictedResume] = {}
    waiting = list(entry.resumes)
    while waiting:
        code = waiting.pop(0)
        if id(code) in predicted:
            continue
        cache = caches.get(id(code))
        predicted[id(code)] = _predicted(store, code, cache, arguments)
        if predicted[id(code)].fate == "not known" and cache is not None:
            fitting = (candidate for candidate in _entries(cache) if _first_failure(candidate, arguments) is None)
            waiting += [following for candidate in fitting for following in candidate.resumes]
    return tuple(predicted.values())


def _predicted(store: Store, code: CodeType, cache: CodeCache | None, arguments: Mapping[str, Any]) -> PredictedResume:
    decision = decide(replace(facts_of(store, code, None, cache), entries=_entries_verdict(cache, arguments)))
    kind = decision.kind
    assert kind != "ask the entries"
    assert kind != "hit"  # whether an entry matches is never certain
    return PredictedResume(name_of_code(code), _line(code), kind, decision.reason)


def _entries_verdict(cache: CodeCache | None, arguments: Mapping[str, Any]) -> EntriesVerdict:
    """What is certain about the entries: that none of them matches, or that one of them may."""
    entries = _entries(cache) if cache is not None else []
    failures = [failure for entry in entries if (failure := _first_failure(entry, arguments)) is not None]
    compiled = sum(not entry.left_to_python for entry in entries)
    if len(failures) < len(entries):
        return EntriesVerdict(compiled, fitting=None)
    return EntriesVerdict(compiled, missed=failures[0].text() if failures and compiled else "")


def _entries(cache: CodeCache) -> list[CompiledEntry]:
    return [entry for entry in cache.entries if isinstance(entry, CompiledEntry) and entry.valid]


def _line(code: CodeType) -> int:
    resumed = resume_point(code)
    return (resumed.target.lineno if resumed is not None else None) or code.co_firstlineno


# -- values passed on ----------------------------------------------------------------------------------------


def _passed_on(frame: DryRunFrame) -> dict[str, Any]:
    """The arguments that a resume function gets unchanged, because the function does not rebind their names."""
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


def _first_failure(entry: CompiledEntry, arguments: Mapping[str, Any]) -> Failure | None:
    """The first guard of an entry that fails on the arguments passed on."""
    scope = Scope(dict(arguments), None, {})
    decidable = (guard for guard in entry.guards.guards if _is_decidable(guard, arguments))
    failures = (entry.guards.failure_of(guard, scope) for guard in decidable)
    return next((failure for failure in failures if failure is not None), None)


def _is_decidable(guard: Guard, arguments: Mapping[str, Any]) -> bool:
    """Whether everything that a guard checks is passed on; state of a tensor (its grad, its attributes) may change."""
    if guard.kind in _ABOUT_MORE:
        return False
    root: Source = guard.source
    while root.base is not None:
        root = root.base
    if not isinstance(root, LocalSource) or root.local not in arguments:
        return False
    return root is guard.source or _is_plain(arguments[root.local])
