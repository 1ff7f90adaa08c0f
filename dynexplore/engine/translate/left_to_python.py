"""Frames that are left to Python: what a translation shows to be work on numbers alone runs as it is written.

The idea: a comparison function that `sorted` calls three thousand times, a method that counts, a lookup: nothing in them is worth a
graph, and CPython does such work faster than any modified code. So a translation that met no tensor work becomes an entry whose
code is the frame's own. It is guarded like any other entry: a call with a tensor misses it, and is captured.

Running plain is right whatever the guards say; they only tell when another look may find tensor work. So a guard that has
failed for a frame which then had no tensor work either is not asked again (`relaxed`): of a number that varies the type is left, of
a condition nothing. What is left of a function of numbers, as a rule, is the types of its arguments, which C compares.

In: a finished attempt; the guards that failed before (`FrameHistory`). Out: the entry's form of a `Translation`.
torch/_dynamo/convert_frame.py (`has_tensor_in_frame`) and symbolic_convert.py ("no content in function call") do the same job.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree

from dynexplore.engine.provenance.guards import Guard
from dynexplore.engine.provenance.sources import LocalSource, Scope
from dynexplore.engine.raw_attributes import is_a
from dynexplore.engine.translate.contract.interpreter import Interpreter
from dynexplore.engine.translate.contract.request import Translation, TranslationRequest
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.symbolic_number import SymbolicNumberVariable

_NUMBERS = (int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)
_SLOT_TYPES = (int, float, complex, bool, str, bytes, type(None), tuple, list, dict, set, frozenset)  # they live for ever


def is_left_to_python(ctx: Interpreter) -> bool:
    """Whether an attempt that came to the frame's end has met nothing worth a graph.

    Where a tensor is in reach (the method of a module), that is said only of a frame that looked at none and gives a number.
    """
    nodes = list(ctx.graph.graph.nodes)
    if not all(_gives_numbers(node) for node in nodes if node.op not in ("placeholder", "get_attr")):
        return False
    if not has_tensor(tuple(ctx.request.values.values())):
        return True
    looked_at = any(isinstance(node.meta.get("example_value"), torch.Tensor) for node in nodes)
    gives_number = isinstance(ctx.root.returned, ConstantVariable | SymbolicNumberVariable)
    return gives_number and not looked_at and not ctx.told_compiling


def _gives_numbers(node: torch.fx.Node) -> bool:
    leaves = pytree.tree_leaves(node.meta.get("example_value"))
    return bool(leaves) and all(isinstance(leaf, _NUMBERS) for leaf in leaves)


def has_tensor(values: Any, depth: int = 2) -> bool:
    """Whether a value is a tensor or a module, or a tuple, list or dict with one near its top: a cheap look."""
    if is_a(values, torch.Tensor, torch.nn.Module):
        return True
    if depth < 0:
        return False
    if is_a(values, dict):
        return any(has_tensor(value, depth - 1) for value in dict.values(values))  # a subclass may say something else
    if is_a(values, tuple, list):
        first = tuple.__getitem__(values, slice(20)) if is_a(values, tuple) else list.__getitem__(values, slice(20))
        return any(has_tensor(value, depth - 1) for value in first)
    try:
        own = object.__getattribute__(values, "__dict__")
    except AttributeError:
        return False
    return depth > 0 and has_tensor(own, depth - 1)


def leave_to_python(ctx: Interpreter) -> Translation:
    """The translation of such a frame: its own code, under the guards that are worth asking."""
    check, walk = ctx.finish_relaxed_check()
    request = ctx.request
    slots = slot_types(check.guards, request.slot_names) if walk is None else None
    owners = ctx.module_guards.owners() if walk is not None else []
    return Translation(
        request.code, (), len(request.slot_names), check, walk, [], [], owners, left_to_python=True, slot_types=slots
    )  # fmt: skip


def relaxed(guards: list[Guard], request: TranslationRequest) -> list[Guard]:
    """The guards of a frame that is left to Python, without those that were seen to fail there, and then without those on modes."""
    if not request.history.fails_when_plain():
        return guards
    asked = (_relaxed(guard, request) for guard in guards if guard.kind != "GLOBAL_STATE")
    return [guard for guard in asked if guard is not None]


def _relaxed(guard: Guard, request: TranslationRequest) -> Guard | None:
    source = guard.source
    failed = request.history.has_failed_when_plain(source.text(), guard.kind)
    if guard.kind == "TYPE_MATCH" or not (failed or guard.kind == "NUMBER"):
        return guard
    if isinstance(source, LocalSource) and guard.kind in ("EQUALS", "NUMBER"):
        return Guard(source, "TYPE_MATCH", type(request.values[source.local]), guard.because)
    return None if failed else guard


def is_about_type(guard: Guard, scope: Scope) -> bool:
    """Whether a guard that has failed found a value of another type there."""
    if guard.kind == "TYPE_MATCH":
        return True
    if guard.kind != "EQUALS":
        return False
    try:
        return type(guard.source.fetch(scope)) is not type(guard.expected)
    except Exception:  # what stood on the way to the value is another object
        return True


def slot_types(guards: list[Guard], slot_names: tuple[str, ...]) -> tuple[type | None, ...] | None:
    """The classes of the arguments, where the guards ask nothing else: then C compares them, and no function is called."""
    types: dict[str, type] = {}
    for guard in guards:
        if guard.kind != "TYPE_MATCH" or not isinstance(guard.source, LocalSource) or guard.expected not in _SLOT_TYPES:
            return None
        types[guard.source.local] = guard.expected
    return tuple(types.get(name) for name in slot_names)
