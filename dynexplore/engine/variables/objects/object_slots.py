"""What `object` itself implements, when a program calls it by name: `object.__setattr__(self, name, value)`,
`super().__eq__(other)`.

The idea: a class that overrides `__setattr__` or `__eq__` calls the one of `object` in the end; so do dataclasses. Each is a row.

In: calls of slots of `object`. Out: what they do. Mirrors CPython's Objects/typeobject.c (object_richcompare, object_init) and
Objects/object.c (PyObject_GenericGetAttr).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.operators import compare
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.concrete_values import known_truth
from dynexplore.engine.variables.scalars.constant import ConstantVariable, constant_of
from dynexplore.engine.variables.scalars.identity import identical

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynexplore.engine.variables.contract.context import TraceContext

NONE = ConstantVariable(None)


def _object(ctx: TraceContext, args: Sequence[VariableTracker], count: int, name: str) -> UserObjectVariable:
    if len(args) != count:
        ctx.break_graph("DX218", callee=f"object.{name}")
    if not isinstance(args[0], UserObjectVariable):
        ctx.break_graph("DX205", function=f"object.{name}", arguments=args[0].type_name())
    return args[0]


@rule(object.__init__)
def _init(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """Does nothing; more arguments are an error if the class has no `__new__` that takes them (object_init)."""
    if len(args) > 1 or kwargs:
        ctx.break_graph("DX218", callee="object.__init__")
    return NONE


@rule(object.__setattr__)
def _setattr(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    _object(ctx, args, 3, "__setattr__").generic_set(ctx, constant_of(ctx, args[1], "object.__setattr__"), args[2])
    return NONE


@rule(object.__delattr__)
def _delattr(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    _object(ctx, args, 2, "__delattr__").generic_delete(ctx, constant_of(ctx, args[1], "object.__delattr__"))
    return NONE


@rule(object.__getattribute__)
def _getattribute(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    return _object(ctx, args, 2, "__getattribute__").plain_get(ctx, constant_of(ctx, args[1], "object.__getattribute__"))


@rule(object.__eq__)
def _eq(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """True for the very same object, else NotImplemented."""
    same = identical(ctx, _object(ctx, args, 2, "__eq__"), args[1])
    return ConstantVariable(True if same else NotImplemented)


@rule(object.__ne__)
def _ne(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """The opposite of `__eq__`."""
    _object(ctx, args, 2, "__ne__")
    return ConstantVariable(not known_truth(ctx, compare(ctx, "==", args[0], args[1])))


@rule(object.__init_subclass__)
def _init_subclass(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    return NONE
