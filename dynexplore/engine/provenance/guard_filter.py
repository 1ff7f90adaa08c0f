"""`guard_filter_fn`: a function of the program selects which guards of a capture are checked.

The idea: a program that knows what never changes (its modules, its globals) may drop the guards on it. After a frame is
translated, the filter is called once with one entry per guard, and returns for each whether to keep it. The entries have the
fields of torch's own, so the filters in `torch.compiler` (`skip_guard_on_all_nn_modules_unsafe`, `keep_tensor_guards_unsafe`, ...)
work here as well.

GLOBAL_STATE has no entry and is always checked, as in torch. With a filter, the translator treats no object as fixed
(`specializes`): a module whose guard was dropped is still read through its source in each call, so two instances that share a cache
entry use their own parameters.

In: guards, the captured call, the program's function. Out: the guards to keep. PyTorch's counterpart: `CheckFunctionManager` in
torch/_dynamo/guards.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch._guards import GuardSource
from torch.nn import Module

from dynexplore.engine.errors import GuardFilterError
from dynexplore.engine.provenance.guards import Guard
from dynexplore.engine.provenance.sources import (
    ClosureSource,
    GlobalSource,
    GlobalsSource,
    LocalSource,
    ModuleSource,
    Scope,
    Source,
)
from dynexplore.engine.raw_attributes import is_a
from dynexplore.engine.records import record

MISSING = object()  # the value of an entry that is not about a single value


@record()
class FilteredGuard:
    """The guard of an entry: its path, and the kind of its root in torch's terms."""

    name: str
    source: GuardSource


@record()
class GuardFilterEntry:
    """One guard, as a `guard_filter_fn` sees it.

    `name`: the path as displayed (`self.linear.weight`). `value`: the value at that path in the captured call, if `has_value`.
    `guard_type`: TENSOR_MATCH, EQUALS, SHAPE_ENV, ... (GUARD_KINDS in guards.py). `is_global`: whether the path begins at a global
    name.
    """

    name: str
    has_value: bool
    value: Any
    guard_type: str
    derived_guard_types: tuple[str, ...]
    is_global: bool
    orig_guard: FilteredGuard


GuardFilter = Callable[[Sequence[GuardFilterEntry]], Sequence[bool]]


def apply_guard_filter(
    guard_filter: GuardFilter, guards: Sequence[Guard], scope: Scope, subjects: Mapping[int, object], *, shapes: bool
) -> tuple[list[Guard], bool]:
    """The guards to keep, and whether to keep the relations between symbolic sizes.

    `subjects`: the object that a guard is about, by the guard's id, where its path does not lead to it. `shapes`: whether there
    are relations. Raises GuardFilterError unless the filter returns one bool per entry.
    """
    checked = [guard for guard in guards if guard.kind != "GLOBAL_STATE"]
    entries = [
        _entry(guard, [subjects[id(guard)]] if id(guard) in subjects else _on_path(guard.source, scope)) for guard in checked
    ]
    if shapes:
        about_shapes = FilteredGuard("", GuardSource.SHAPE_ENV)
        entries.append(GuardFilterEntry("", False, MISSING, "SHAPE_ENV", (), False, about_shapes))
    answers = list(guard_filter(entries))
    if len(answers) != len(entries) or not all(type(answer) is bool for answer in answers):
        mismatch = f"{len(answers)} answers for {len(entries)} guards"
        raise GuardFilterError(f"guard_filter_fn returned {mismatch}; it must return one bool per guard")
    answer_of = {id(guard): answer for guard, answer in zip(checked, answers, strict=False)}
    return [guard for guard in guards if answer_of.get(id(guard), True)], answers[-1] if shapes else True


def _entry(guard: Guard, values: Sequence[Any]) -> GuardFilterEntry:
    root, name = guard.source.root(), guard.source.text()
    is_global = isinstance(root, GlobalSource | GlobalsSource | ModuleSource)
    where = FilteredGuard(name, _guard_source(root, is_global, values))
    return GuardFilterEntry(name, bool(values), values[-1] if values else MISSING, guard.kind, (), is_global, where)


def _on_path(source: Source, scope: Scope) -> list[Any]:
    """The value at each step of a path; empty if the path cannot be fetched before the frame runs."""
    try:
        return [step.fetch(scope) for step in source.path()]
    except Exception:  # as in a guard: anything may be raised on the way
        return []


def _guard_source(root: Source, is_global: bool, values: Sequence[Any]) -> GuardSource:
    """Torch's GuardSource for a value: what is read from a module belongs to the module; torch.nn's modules have their own kind."""
    classes = [value if is_a(value, type) else type(value) for value in values]
    modules = [cls for cls in classes if issubclass(cls, Module)]
    if modules:
        builtin = modules[-1].__module__.startswith(("torch.nn.", "torch.ao."))
        kind = "UNSPECIALIZED_BUILTIN_NN_MODULE" if builtin else "UNSPECIALIZED_NN_MODULE"
        return GuardSource[f"{'GLOBAL' if is_global else 'LOCAL'}_{kind}"]
    if is_global:
        return GuardSource.GLOBAL
    return GuardSource.LOCAL if isinstance(root, LocalSource | ClosureSource) else GuardSource.CONSTANT
