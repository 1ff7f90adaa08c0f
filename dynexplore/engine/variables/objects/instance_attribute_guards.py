"""Attributes in an existing object's `__dict__`: how they are read and guarded.

The idea: there are two ways to guard `obj.name`. If the identity of `obj` is guarded (provenance/module_guards.py) and the value
can be guarded by identity (a constant, a function, a class, another object), a pointer comparison in C suffices, and nothing
reachable from it needs a Python guard. Otherwise the value gets a source, `obj.__dict__['name']`, and its tracker is guarded
through that source.

A value that changes between calls (a counter, a cache) is not stable: after its identity guard has failed, the frame is recompiled
with the second kind of guard (`specializes`). Numbers are recorded (`Specializer.note_constant`): one that changes is from then on
unspecialized, a graph input.

In: a live object, its source, a name. Out: the tracker of the value. PyTorch's counterpart: `UserDefinedObjectVariable.var_getattr`
in torch/_dynamo/variables/user_defined.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import is_a
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.type_lookup import peek
from dynexplore.engine.variables.scalars.constant import is_constant_value

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_DEEPEST = 4  # constants nested deeper are guarded item by item


def read_instance_attribute(ctx: TraceContext, owner: Any, source: Source, name: str, value: Any) -> VariableTracker:
    """The tracker of `owner.__dict__[name]`, whose current value is `value`."""
    path = instance_attribute_source(owner, source, name)
    if not ctx.module_guards.has_facts_of(owner) or not ctx.specializer.specializes(path):
        return ctx.build(value, path)
    if is_immutable(value):
        ctx.module_guards.guard_on_value(owner, name, value)
        ctx.specializer.note_constant(path, value)
        return ctx.build(value, None)
    if is_guardable_by_identity(value):
        ctx.module_guards.guard_on_value(owner, name, value)
        ctx.module_guards.note_value_identity(path)
    return ctx.build(value, path)


def instance_attribute_source(owner: Any, source: Source, name: str) -> Source:
    """The source of `owner.__dict__[name]`."""
    shadowed = peek(type(owner), name)
    return source.attribute(name, "hidden" if shadowed is not None and hasattr(type(shadowed), "__set__") else "dict")


def is_immutable(value: Any) -> bool:
    """Whether identity determines everything about a value: constants, and tuples of them."""
    return _consists_of(value, is_constant_value)


GUARDED_WHERE_READ = (FunctionType, BuiltinFunctionType, ModuleType, type)
"""Mutable parts of these are guarded when they are read."""


def needs_no_source(value: Any) -> bool:
    """Whether identity alone suffices for a part of a library: constants, functions, classes and modules, and tuples of them."""
    return _consists_of(value, lambda part: is_constant_value(part) or is_a(part, *GUARDED_WHERE_READ))


def _consists_of(value: Any, is_part: Callable[[Any], bool], depth: int = 0) -> bool:
    """Whether a value satisfies the predicate, or is an immutable container whose items all do."""
    if is_part(value):
        return True
    if type(value) not in (tuple, frozenset, torch.Size) or depth > _DEEPEST:
        return False
    return all(_consists_of(item, is_part, depth + 1) for item in value)


def is_guardable_by_identity(value: Any) -> bool:
    """Whether to guard a value by identity; tensors are guarded by their properties (TENSOR_MATCH) instead."""
    if is_a(value, torch.Tensor):
        return False
    try:
        weakref.ref(value)
    except TypeError:
        return False
    return True
