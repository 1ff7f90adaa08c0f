"""Annotations as values: `int | None`, `list[int]`.

The idea: unions and generic aliases are immutable, and every operation on them (`__args__`, `__origin__`, `List[int]`, isinstance)
can be evaluated at trace time. Only if an argument is an object of the program, its attributes (`__typing_subst__`) decide what
subscripting does, and when it is asked for its parameters matters, because the alias keeps them: then the graph breaks.

In: live unions and generic aliases, the builtin ones and those of the typing module. Out: constants. PyTorch's counterpart:
`TypingVariable` in torch/_dynamo/variables/misc.py.
"""

from __future__ import annotations

import collections.abc
import operator
import types
import typing
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import class_module, is_heap_type
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotConstant, NotProxyable, VariableTracker
from dynexplore.engine.variables.contract.build import builds, builds_when
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.operators import binary_rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, run_now
from dynexplore.engine.variables.scalars.specialize import fixed_nest

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_OF_TYPING: tuple[type[Any], ...] = (vars(typing)["_BaseGenericAlias"], vars(typing)["_SpecialForm"])
_CALL: Any = vars(typing)["_BaseGenericAlias"].__call__  # what it sets and which errors it ignores varies by Python version


_DEEPEST = 20
_METHODS = (
    types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)  # fmt: skip


class AnnotationVariable(ConstantVariable):
    """A union or a generic alias."""

    kind = "annotation"

    def as_proxy(self) -> Any:
        raise NotProxyable(self.type_name())

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        """`List[int]`."""
        if _has_arguments_of_the_program(self.value):
            ctx.break_graph("DX306", question="subscript", type=self.type_name())
        key.read_items(ctx)
        try:
            arguments = fixed_nest(ctx, key)
        except NotConstant:
            ctx.break_graph("DX306", question="subscript", type=self.type_name())
        return ctx.build(run_now(ctx, operator.getitem, self.value, arguments), None)

    def _method_of_origin(self, ctx: TraceContext, name: str) -> VariableTracker | None:
        """`list[int].append` is `list.append`; None if it has a method of this name itself, or there is none."""
        origin, method = getattr(self.value, "__origin__", None), getattr(self.value, name, None)
        if not isinstance(origin, type) or not isinstance(method, _METHODS) or getattr(method, "__self__", None) is self.value:
            return None
        return ctx.build(origin, None).get_attribute(ctx, name)

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "__parameters__" and _has_arguments_of_the_program(self.value):
            ctx.break_graph("DX303", name=name, type=self.type_name())
        value = getattr(self.value, name, None)
        if isinstance(value, _OF_TYPING):  # `__origin__` of a Union: it can be called, but is no method
            return ctx.build(value, None)
        method = self._method_of_origin(ctx, name)
        return super().get_attribute(ctx, name) if method is None else method

    def call_method(self, ctx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        method = self._method_of_origin(ctx, name)
        return super().call_method(ctx, name, args, kwargs) if method is None else method.call(ctx, args, kwargs)

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`list[int]()`: an instance of the origin, whose `__orig_class__` is set to the alias if it takes attributes."""
        origin = getattr(self.value, "__origin__", None)
        if not isinstance(origin, type):
            return super().call(ctx, args, kwargs)
        if isinstance(self.value, _OF_TYPING):
            return ctx.build(_CALL, None).call(ctx, [self, *args], kwargs)
        instance = ctx.build(origin, None).call(ctx, args, kwargs)
        if isinstance(instance, UserObjectVariable):
            _set_orig_class(ctx, instance, self)
        return instance


def _set_orig_class(ctx: TraceContext, instance: UserObjectVariable, alias: AnnotationVariable) -> None:
    """`instance.__orig_class__ = alias`, errors ignored (Objects/genericaliasobject.c, set_orig_class)."""
    try:
        instance.set_attribute(ctx, "__orig_class__", alias)
    except ObservedException as raised:
        if not issubclass(raised.exception.python_type(), AttributeError | TypeError):
            raise


def _has_arguments_of_the_program(value: Any, depth: int = 0) -> bool:
    """Whether one of the arguments is an object with attributes of the program: no class, no type variable, no constant."""
    if isinstance(value, type):
        return False
    if isinstance(value, list | tuple):
        arguments: Any = value
    elif isinstance(value, (types.UnionType, types.GenericAlias, *_OF_TYPING)):
        arguments = getattr(value, "__args__", ())
    else:
        return _is_of_the_program(type(value))
    return depth > _DEEPEST or any(_has_arguments_of_the_program(argument, depth + 1) for argument in arguments)


def _is_of_the_program(cls: type[Any]) -> bool:
    """Whether a class was made by the program. `__module__` alone does not tell, as the program may set it."""
    module = class_module(cls)
    if module == "typing":
        return vars(typing).get(cls.__name__) is not cls
    return module not in ("builtins", "types") or is_heap_type(cls)


def _is_annotation(value: Any) -> bool:
    if type(value) is vars(collections.abc)["_CallableGenericAlias"]:
        return True
    return class_module(type(value)) == "typing" and isinstance(value, _OF_TYPING)


@binary_rule(AnnotationVariable, VariableTracker, "|", rank=45)
@binary_rule(VariableTracker, AnnotationVariable, "|", rank=45)
def union_of_types(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: VariableTracker) -> VariableTracker:
    """`list[int] | None`, `int | str`: an annotation, or the second argument of isinstance."""
    try:
        sides = fixed_nest(ctx, lhs), fixed_nest(ctx, rhs)
    except NotConstant:
        ctx.break_graph("DX304", operator=symbol, left=lhs.type_name(), right=rhs.type_name())
    return ctx.build(run_now(ctx, operator.or_, *sides), None)


@builds_when(_is_annotation, rank=15)
@builds(types.UnionType, types.GenericAlias)
def build_annotation(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """An annotation, guarded by identity."""
    if source is not None:
        ctx.guard(source, "ID_MATCH", Identity(value, keep=False))
    return AnnotationVariable(value, source)
