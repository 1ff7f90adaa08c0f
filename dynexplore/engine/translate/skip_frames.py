"""Skipped frames: a frame without tensors (torch/_dynamo: `has_tensor_in_frame`) runs as plain Python.

The idea: a comparison function that `sorted` calls three thousand times, a method that counts, a lookup: none of them is worth a
graph, and CPython runs them faster than any modified code. So a translation that met no tensor work becomes a cache entry whose
code is the frame's own. It is guarded like any other entry: a call with a tensor misses it, and is captured.

Running plain is correct whatever the guards say; they only decide when another translation may find tensor work. So a guard that
has failed for a frame which still had no tensor work is weakened (`relax_guards`): for a number that varies only the type is
guarded, a condition is dropped. What remains for a function of numbers is usually the types of its arguments and of the values that
it reads from them (`key=lambda o: o.cost`) or counts (`calls[0] += 1`), which C compares (`TypeGuard`).

A frame that breaks is also skipped if everything before the break is work on numbers, no tensor is in reach (neither an argument
nor a global or cell that it names, nor torch itself), and its resume function was skipped too: comparison functions that read
memory through ctypes, or count their calls.

In: a finished attempt; the guards that failed before (`Profile`). Out: the skipping form of a `Translation`.
PyTorch's counterpart: `has_tensor_in_frame` and `SkipFrame` (torch/_dynamo/convert_frame.py, exc.py).
"""

from __future__ import annotations

from types import MemberDescriptorType, ModuleType
from typing import Any

import torch

from dynexplore.engine.graph.scalar_only_graphs import computes_scalars
from dynexplore.engine.native import TypeGuard
from dynexplore.engine.provenance.guards import OF_SEVERAL_SOURCES, Guard, is_empty
from dynexplore.engine.provenance.sources import (
    AttributeSource,
    CellSource,
    ClosureSource,
    GlobalSource,
    ItemSource,
    LocalSource,
    Scope,
    Source,
)
from dynexplore.engine.raw_attributes import instance_dict, is_a
from dynexplore.engine.translate.contract.interpreter import Interpreter
from dynexplore.engine.translate.contract.request import Translation, TranslationRequest
from dynexplore.engine.translate.guard_compilation import compile_relaxed_guards
from dynexplore.engine.variables.objects.type_lookup import is_python_class, peek
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.torch_.nn.nn_module import NNModuleVariable


def should_skip_frame(ctx: Interpreter) -> bool:
    """Whether an attempt that reached the frame's end has met nothing worth a graph.

    If a tensor is in reach (the method of a module), this holds only for a frame that read no tensor and returns a number, or a
    module that it has looked up: `ModuleList.__getitem__`.
    """
    if not _computes_only_scalars(ctx):
        return False
    if not has_tensor(tuple(ctx.request.values.values())):
        return True
    looked_at = any(isinstance(node.meta.get("example_value"), torch.Tensor) for node in ctx.graph.graph.nodes)
    gives_no_tensor = isinstance(ctx.frames.root.returned, ConstantVariable | SymbolicNumberVariable | NNModuleVariable)
    return gives_no_tensor and not looked_at and not ctx.effects.observed_is_compiling


def is_scalar_only_so_far(ctx: Interpreter) -> bool:
    """Whether an attempt that stopped at a break has met nothing worth a graph, and the frame has no tensor in reach."""
    return _computes_only_scalars(ctx) and not _reaches_tensor(ctx.request)


def _computes_only_scalars(ctx: Interpreter) -> bool:
    return all(computes_scalars(node) for node in ctx.graph.graph.nodes if node.op not in ("placeholder", "get_attr"))


def skip_frame_at_break(ctx: Interpreter) -> Translation:
    """The skipping translation of a frame that breaks: the rest may read arguments that are not guarded so far."""
    request = ctx.request
    guards = {guard.source.local for guard in ctx.guards.guards if isinstance(guard.source, LocalSource) and guard.kind in _OF_TYPE}
    for slot, name in enumerate(request.slot_names):
        if name in request.values and name not in guards:
            ctx.guard(LocalSource(name, slot), "TYPE_MATCH", type(request.values[name]))
    return skip_frame(ctx)


_OF_TYPE = ("TYPE_MATCH", "NUMBER", "EQUALS")


def _reaches_tensor(request: TranslationRequest) -> bool:
    named = [request.globals[name] for name in request.code.co_names if name in request.globals]
    cells = [cell.cell_contents for cell in request.closure or () if not is_empty(cell)]
    if any(is_a(value, ModuleType) and str(instance_dict(value).get("__name__")).startswith("torch") for value in named):
        return True
    return has_tensor((*request.values.values(), *named, *cells))


def has_tensor(values: Any, depth: int = 2) -> bool:
    """Whether a value is a tensor or a module, or a tuple, list or dict that contains one near its top: a cheap check."""
    if is_a(values, torch.Tensor, torch.nn.Module):
        return True
    if depth < 0:
        return False
    if is_a(values, dict):
        return any(has_tensor(value, depth - 1) for value in dict.values(values))  # a subclass may override `values`
    for sequence in (tuple, list):
        if is_a(values, sequence):
            return any(has_tensor(value, depth - 1) for value in sequence.__getitem__(values, slice(20)))
    if depth == 0 or is_a(values, type):
        return False
    try:
        own = instance_dict(values)
    except AttributeError:
        return False
    return has_tensor(own, depth - 1)


def skip_frame(ctx: Interpreter) -> Translation:
    """The skipping translation: the frame's own code, under the guards that are worth checking."""
    check, walk = compile_relaxed_guards(ctx, lambda guards: relax_guards(guards, ctx.request))
    request = ctx.request
    types = type_guard(check.guards, request.slot_names) if not check.subclass_answers else None
    owners = ctx.module_guards.owners() if walk is not None else []
    return Translation(
        request.code, (), len(request.slot_names), check, walk, [], [], owners, left_to_python=True, types=types
    )  # fmt: skip


def relax_guards(guards: list[Guard], request: TranslationRequest) -> list[Guard]:
    """The guards of a skipped frame, without those that have failed for it, and then also without those on modes."""
    if not (request.profile.has_failures_when_skipped() or request.profile.resume_was_skipped):
        return guards
    weaker = (_relax_guard(guard, request) for guard in guards if guard.kind not in _OF_MODIFIED_CODE)
    return [guard for guard in weaker if guard is not None]


# Guards that only modified code needs: object identity and dict keys do not tell whether there is tensor work.
_OF_MODIFIED_CODE = ("GLOBAL_STATE", "ID_MATCH", "DICT_KEYS", "NOT_INSTANCE_DICT", *OF_SEVERAL_SOURCES)


def _relax_guard(guard: Guard, request: TranslationRequest) -> Guard | None:
    source = guard.source
    failed = request.profile.has_failed_when_skipped(source.text(), guard.kind)
    if guard.kind == "TYPE_MATCH" or not (failed or guard.kind == "NUMBER"):
        return guard
    if isinstance(source, LocalSource) and guard.kind in ("EQUALS", "NUMBER"):
        return Guard(source, "TYPE_MATCH", type(request.values[source.local]), guard.because)
    if isinstance(source, AttributeSource | ItemSource) and guard.kind == "EQUALS":
        return Guard(source, "TYPE_MATCH", type(guard.expected), guard.because)
    return None if failed else guard


def is_about_type(guard: Guard, scope: Scope) -> bool:
    """Whether a failed guard failed because the value has another type."""
    if guard.kind in ("TYPE_MATCH", "NUMBER"):
        return True
    if guard.kind != "EQUALS":
        return False
    try:
        return type(guard.source.fetch(scope)) is not type(guard.expected)
    except Exception:  # an object on the path to the value has changed
        return True


def type_guard(guards: list[Guard], slot_names: tuple[str, ...]) -> TypeGuard | None:
    """The guards as a TypeGuard, checked in C; None unless all are about classes of values near the frame's names."""
    rows = [_type_row(guard, guards, slot_names) for guard in guards if guard.kind != "MODULE_STATE"]  # the walk checks those
    return None if None in rows else TypeGuard(tuple(row for row in rows if row is not None))


_TypeRow = tuple[Any, Any, tuple[type[Any], ...]]


def _type_row(guard: Guard, guards: list[Guard], slot_names: tuple[str, ...]) -> _TypeRow | None:
    source = guard.source
    named = source if source.base is None else source.base
    root, classes = _root(named, slot_names), _classes(guard)
    if root is None:
        return None
    if guard.kind == "LIST_LENGTH" and source is named:
        return root, ("length", guard.expected), ()
    if source is named or not classes:
        return (root, None, classes) if classes else None
    step = _step(source, _class_of(named, guards))
    return (root, step, classes) if step is not None else None


def _root(source: Source, slot_names: tuple[str, ...]) -> Any:
    """The root, for C, of a name of the frame."""
    if isinstance(source, LocalSource):
        return slot_names.index(source.local)
    if isinstance(source, GlobalSource):
        return "global", source.variable
    if isinstance(source, CellSource):  # the cell itself, not its content
        return None
    return ("cell", source.index) if isinstance(source, ClosureSource) else None


def _classes(guard: Guard) -> tuple[type[Any], ...]:
    return {"TYPE_MATCH": (guard.expected,), "NUMBER": (int, float)}.get(guard.kind, ())


def _class_of(source: Source, guards: list[Guard]) -> type[Any] | None:
    """The class that a guard requires of the value at `source`."""
    return next((guard.expected for guard in guards if guard.source is source and guard.kind == "TYPE_MATCH"), None)


def _step(source: Source, cls: type[Any] | None) -> Any:
    """The step from an argument of this class to the value at `source`, if C reads it as Python does."""
    if isinstance(source, AttributeSource) and source.in_dictionary:
        return "attribute", source.attr
    if cls is None:
        return None
    if isinstance(source, AttributeSource):
        member = peek(cls, source.attr)  # the walk checks that the lookup still ends there
        is_slot = type(member) is MemberDescriptorType and is_python_class(member.__objclass__)
        return ("member", source.attr, cls) if is_slot else None
    return _item(source.index, cls) if isinstance(source, ItemSource) else None


def _item(index: object, cls: type[Any]) -> tuple[str, Any] | None:
    if type(index) is int and index >= 0 and issubclass(cls, (tuple, list)):
        return "item", index
    return ("key", index) if type(index) in (str, int) and cls is dict else None
