"""Slots of `object` that a program calls by name: `object.__setattr__(self, name, value)`, `super().__eq__(other)`.

The idea: a class that overrides `__setattr__` or `__eq__` usually ends in a call of `object`'s; so do dataclasses. Each slot is a
rule.

In: calls of slots of `object`. Out: their effects and results. PyTorch's counterpart: `method_setattr_standard` and its neighbors
in torch/_dynamo/variables/user_defined.py. Mirrors CPython's Objects/typeobject.c (object_richcompare, object_init) and
Objects/object.c (PyObject_GenericGetAttr).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.descriptors import bind
from dynexplore.engine.variables.objects.type_lookup import find
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.scalars.constant import ConstantVariable, constant_of
from dynexplore.engine.variables.scalars.identity import identical
from dynexplore.engine.variables.scalars.specialize import specialize_bool
from dynexplore.engine.variables.signatures import builtin

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

NONE = ConstantVariable(None)


def _object(ctx: TraceContext, value: VariableTracker, slot: str) -> UserObjectVariable:
    if not isinstance(value, UserObjectVariable):
        ctx.break_graph("DX205", function=f"object.{slot}", arguments=value.type_name())
    return value


@builtin(object.__init__)
def _init(ctx: TraceContext, this: VariableTracker, /, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """Do nothing; extra arguments are an error unless the class overrides `__new__` (object_init)."""
    if args or kwargs:
        ctx.break_graph("DX218", callee="object.__init__")
    return NONE


@builtin(object.__setattr__)
def _setattr(ctx: TraceContext, this: VariableTracker, name: VariableTracker, value: VariableTracker, /) -> VariableTracker:
    _object(ctx, this, "__setattr__").generic_set(ctx, constant_of(ctx, name, "object.__setattr__"), value)
    return NONE


@builtin(object.__delattr__)
def _delattr(ctx: TraceContext, this: VariableTracker, name: VariableTracker, /) -> VariableTracker:
    _object(ctx, this, "__delattr__").generic_delete(ctx, constant_of(ctx, name, "object.__delattr__"))
    return NONE


@builtin(object.__getattribute__)
def _getattribute(ctx: TraceContext, this: VariableTracker, name: VariableTracker, /) -> VariableTracker:
    return _object(ctx, this, "__getattribute__").plain_get(ctx, constant_of(ctx, name, "object.__getattribute__"))


@builtin(object.__eq__)
def _eq(ctx: TraceContext, this: VariableTracker, other: VariableTracker, /) -> VariableTracker:
    """True for the very same object, else NotImplemented."""
    same = identical(ctx, _object(ctx, this, "__eq__"), other)
    return ConstantVariable(True if same else NotImplemented)


@builtin(object.__ne__)
def _ne(ctx: TraceContext, value: VariableTracker, other: VariableTracker, /) -> VariableTracker:
    """The negation of the object's own `__eq__`, or NotImplemented; the other operand's method is not called."""
    this = _object(ctx, value, "__ne__")
    own = find(ctx, this.cls, "__eq__")
    assert own is not None
    equality = bind(ctx, own, this, this.cls).call(ctx, [other], {})
    refused = equality.is_constant() and equality.as_constant() is NotImplemented
    return equality if refused else ConstantVariable(not specialize_bool(ctx, equality))


@builtin(object.__init_subclass__)
def _init_subclass(ctx: TraceContext) -> VariableTracker:
    return NONE
