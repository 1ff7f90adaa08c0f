"""Rules for builtins about types, attributes and identity: isinstance, type, getattr, id and similar.

The idea: a tracker knows its Python type, so `isinstance` is `issubclass` of that type. Attributes are read through the tracker; an
AttributeError of the program, which `hasattr` or a default of `getattr` swallows, arrives here as ObservedException.

In: calls of these builtins. Out: constants, attributes. PyTorch's counterpart: `call_isinstance` and similar
methods, and `GetAttrBuiltinVariable`, in torch/_dynamo/variables/builtin.py.
"""

from __future__ import annotations

import types
import typing
from abc import ABCMeta
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.raw_attributes import class_dict, class_module, class_qualname, is_a, is_subtype
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.containers.set_ import is_by_identity
from dynexplore.engine.variables.contract.base import NotConstant, VariableTracker, type_tracker
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.objects.annotation import union_of_types
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.objects.type_lookup import guard_on_names, has_name, peek
from dynexplore.engine.variables.operators import binary_rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, run_now
from dynexplore.engine.variables.scalars.specialize import is_specializable, is_tensor, live_nest, specialize
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.nn.parameter_instancecheck import instancecheck
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable
from dynexplore.engine.variables.type_errors import type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_OF_TYPE = type.__dict__["__instancecheck__"]
_KNOWN_METACLASSES = tuple(peek(metaclass, "__instancecheck__") for metaclass in (type, ABCMeta, type(torch.nn.Parameter)))


def _required_type(ctx: TraceContext, value: VariableTracker, function: str) -> type[Any]:
    python_type = type_of(value)
    if python_type is None:
        ctx.break_graph("DX205", function=function, arguments=value.kind)
    return python_type


def live(ctx: TraceContext, value: VariableTracker, question: str) -> Any:
    """The live object of a tracker, usually a class."""
    try:
        return live_nest(value)
    except NotConstant:
        ctx.break_graph("DX205", function=question, arguments=value.type_name())


def _classes(ctx: TraceContext, class_or_tuple: VariableTracker, function: str) -> Iterator[Any]:
    """The classes in `isinstance`'s second argument: a class, a union, or nested tuples of them."""
    if isinstance(class_or_tuple, TupleVariable):
        for item in class_or_tuple.unpack(ctx):
            yield from _classes(ctx, item, function)
    else:
        yield live(ctx, class_or_tuple, function)


@builtin(isinstance)
def _isinstance(ctx: TraceContext, value: VariableTracker, class_or_tuple: VariableTracker, /) -> VariableTracker:
    python_type = _required_type(ctx, value, "isinstance")
    classes = _classes(ctx, class_or_tuple, "isinstance")
    return ConstantVariable(any(guarded_isinstance(ctx, value, python_type, cls) for cls in classes))


def guarded_isinstance(ctx: TraceContext, value: VariableTracker, python_type: type[Any], cls: Any) -> bool:
    """Whether `isinstance(value, cls)`; everything the result depends on is guarded."""
    if python_type is cls:
        return True
    if isinstance(cls, types.UnionType):
        return any(guarded_isinstance(ctx, value, python_type, member) for member in cls.__args__)
    if is_subtype(python_type, cls) and peek(type(cls), "__instancecheck__") is _OF_TYPE:  # otherwise `__class__` decides
        _guard_on_answer_of(ctx, python_type, cls)
        return True
    python_type = _class_by_dunder(ctx, value, python_type)
    _guard_on_answer_of(ctx, python_type, cls)
    if isinstance(cls, type(torch.FloatTensor)):
        fake = value.fake if isinstance(value, TensorVariable) else None
        return fake is not None and fake.dtype is cls.dtype and fake.is_cuda == cls.is_cuda
    if cls is torch.nn.Buffer or cls is torch.nn.Parameter:
        return issubclass(python_type, cls) or (is_tensor(value) and instancecheck(ctx, value, cls))
    if cls is typing.Any or cls is typing.Protocol:
        run_now(ctx, isinstance, None, cls)  # raises; for Protocol only before 3.12
    check = peek(type(cls), "__instancecheck__")
    if isinstance(check, types.FunctionType) and "warnings" in (*check.__code__.co_names, *check.__code__.co_varnames):
        ctx.break_graph("DX205", function="isinstance", arguments=f"{class_qualname(type(cls))}, which warns")
    if isinstance(cls, type) and check not in _KNOWN_METACLASSES and not class_module(type(cls)).startswith("typing"):
        return _instancecheck_on_live(ctx, value, cls)
    if _is_protocol(cls):
        return _fits_protocol(ctx, value, python_type, cls)
    if isinstance(cls, ABCMeta):
        _refuse_own_check(ctx, cls, "isinstance")
    return _run_check(ctx, python_type, cls, _check_class)


def _class_by_dunder(ctx: TraceContext, value: VariableTracker, python_type: type[Any]) -> type[Any]:
    """The class that `isinstance` uses: the object's `__class__`."""
    guard_on_names(ctx, python_type, "__getattribute__", "__class__")
    is_plain = not isinstance(peek(python_type, "__getattribute__"), types.FunctionType)
    if is_plain and peek(python_type, "__class__") is class_dict(object)["__class__"]:
        return python_type
    named: type[Any] = live(ctx, value.get_attribute(ctx, "__class__"), "isinstance")
    if named is not python_type:
        ctx.break_graph("DX205", function="isinstance", arguments=python_type.__qualname__)
    return python_type


def _guard_on_answer_of(ctx: TraceContext, python_type: type[Any], cls: Any) -> None:
    """Guard what the result depends on besides the identities of the two classes: bases and check methods."""
    ctx.module_guards.guard_on_bases(python_type)
    guard_on_names(ctx, type(cls), "__instancecheck__", "__subclasscheck__")
    if isinstance(cls, type):
        guard_on_names(ctx, cls, "__subclasshook__")


def _run_check(ctx: TraceContext, python_type: type[Any], cls: Any, ask: Any) -> bool:
    is_subclass = bool(run_now(ctx, ask, python_type, cls))
    if isinstance(cls, ABCMeta):
        ctx.module_guards.subclass_answers.note(python_type, cls, is_subclass)
    return is_subclass


def _is_protocol(cls: Any) -> bool:
    """Whether it is a protocol itself: not one with arguments (`P[int]`), which no check accepts."""
    return is_a(cls, type) and cls is not typing.Protocol and bool(peek(cls, "_is_protocol"))


def _fits_protocol(ctx: TraceContext, value: VariableTracker, python_type: type[Any], cls: Any) -> bool:
    """`isinstance` of a runtime protocol, which looks up each of its names; evaluated
    on the live object, and the names are guarded.
    """
    if not getattr(cls, "_is_runtime_protocol", False):
        run_now(ctx, isinstance, None, cls)  # raises
    names = sorted(typing._get_protocol_attrs(cls))  # type: ignore[attr-defined]
    guard_on_names(ctx, python_type, *names)
    expected = all(attribute_or_none(ctx, value, name) is not None for name in names)
    real = isinstance(live(ctx, value, "isinstance"), cls)
    if expected != real:
        ctx.break_graph("DX205", function="isinstance", arguments=f"class {cls.__qualname__}")
    return real


def _instancecheck_on_live(ctx: TraceContext, value: VariableTracker, cls: type[Any]) -> bool:
    """`isinstance` with a class whose metaclass overrides `__instancecheck__`: torch's may be called with the live object."""
    if not class_module(type(cls)).startswith("torch"):
        ctx.break_graph("DX205", function="isinstance", arguments=f"class {cls.__qualname__}")
    return isinstance(live(ctx, value, "isinstance"), cls)


def _check_class(python_type: type[Any], cls: Any) -> bool:
    """`issubclass`, with the error messages of `isinstance`."""
    try:
        return issubclass(python_type, cls)
    except TypeError:
        isinstance(None, cls)
        raise


@builtin(issubclass)
def _issubclass(ctx: TraceContext, value: VariableTracker, class_or_tuple: VariableTracker, /) -> VariableTracker:
    cls = live(ctx, value, "issubclass")
    return ConstantVariable(any(_guarded_issubclass(ctx, cls, base) for base in _classes(ctx, class_or_tuple, "issubclass")))


def _guarded_issubclass(ctx: TraceContext, cls: Any, base: Any) -> bool:
    """Whether `issubclass(cls, base)`; everything the result depends on is guarded."""
    _refuse_own_check(ctx, base, "issubclass")
    if is_a(cls, type):
        _guard_on_answer_of(ctx, cls, base)
        if _is_protocol(base):
            guard_on_names(ctx, cls, *typing._get_protocol_attrs(base))  # type: ignore[attr-defined]
    return _run_check(ctx, cls, base, issubclass)


def _refuse_own_check(ctx: TraceContext, cls: Any, function: str) -> None:
    """Break the graph at a user-defined `__subclasscheck__`, which must run for real."""
    metaclass = type(cls)
    if isinstance(peek(metaclass, "__subclasscheck__"), types.FunctionType) and not _is_library_metaclass(metaclass):
        ctx.break_graph("DX205", function=function, arguments=f"class {cls.__qualname__}")


def _is_library_metaclass(metaclass: type[Any]) -> bool:
    return any(metaclass is known_class for known_class in (type, ABCMeta)) or metaclass.__module__.startswith(("typing", "torch"))


@builtin(type)
def _type(ctx: TraceContext, value: VariableTracker, /, *rest: VariableTracker) -> VariableTracker:
    if rest:
        return _new_class(ctx, value, *rest)
    return value.get_attribute(ctx, "__class__") if type_of(value) is None else type_tracker(ctx, value)


def _new_class(ctx: TraceContext, name: VariableTracker, *rest: VariableTracker) -> VariableTracker:
    """`type(name, bases, namespace)`."""
    kinds = [type_of(part) for part in (name, *rest)]
    if kinds != [str, tuple, dict] or not name.is_constant() or not all(key.is_constant() for key in rest[1].unpack(ctx)):
        ctx.break_graph("DX315", function="type() with three arguments")
    return ctx.calls.make_class(name.as_constant(), [base.read(ctx) for base in rest[0].unpack(ctx)], rest[1])


binary_rule(ClassVariable, VariableTracker, "|", rank=60)(union_of_types)
binary_rule(VariableTracker, ClassVariable, "|", rank=60)(union_of_types)


@builtin(callable)
def _callable(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
    return ConstantVariable(has_name(ctx, _required_type(ctx, value, "callable"), "__call__"))


# -- attributes -------------------------------------------------------------------------------------------------------


def _name(ctx: TraceContext, name: VariableTracker, function: str) -> str:
    if not is_specializable(name):
        ctx.break_graph("DX205", function=function, arguments=name.type_name())
    text = specialize(name)
    if not isinstance(text, str):
        ctx.raise_exception(TypeError, f"attribute name must be string, not {type(text).__name__!r}")
    return text


def attribute_or_none(ctx: TraceContext, value: VariableTracker, name: str) -> VariableTracker | None:
    """`value.name`, or None if the program would raise AttributeError."""
    try:
        return value.get_attribute(ctx, name)
    except ObservedException as raised:
        if issubclass(raised.exception.python_type(), AttributeError):
            return None
        raise


@builtin(getattr)
def _getattr(
    ctx: TraceContext, value: VariableTracker, name: VariableTracker, default: VariableTracker | None = None, /
) -> VariableTracker:
    attribute_name = _name(ctx, name, "getattr")
    if default is None:
        return value.get_attribute(ctx, attribute_name)
    attribute = attribute_or_none(ctx, value, attribute_name)
    return default if attribute is None else attribute


@builtin(hasattr)
def _hasattr(ctx: TraceContext, value: VariableTracker, name: VariableTracker, /) -> VariableTracker:
    return ConstantVariable(attribute_or_none(ctx, value, _name(ctx, name, "hasattr")) is not None)


@builtin(setattr)
def _setattr(ctx: TraceContext, value: VariableTracker, name: VariableTracker, item: VariableTracker, /) -> VariableTracker:
    value.set_attribute(ctx, _name(ctx, name, "setattr"), item)
    return NONE


@builtin(delattr)
def _delattr(ctx: TraceContext, value: VariableTracker, name: VariableTracker, /) -> VariableTracker:
    value.delete_attribute(ctx, _name(ctx, name, "delattr"))
    return NONE


@builtin(vars)
def _vars(ctx: TraceContext, value: VariableTracker | None = None, /) -> VariableTracker:
    if value is None:
        ctx.break_graph("DX217", function="vars")
    dictionary = attribute_or_none(ctx, value, "__dict__")
    if dictionary is None:
        ctx.raise_exception(TypeError, "vars() argument must have __dict__ attribute")
    return dictionary


# -- identity ---------------------------------------------------------------------------------------------------------


@builtin(id)
def _id(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
    if is_tensor(value):
        ctx.break_graph("DX112", function="id()")
    if value.source is None:
        ctx.break_graph("DX205", function="id", arguments=value.type_name())
    try:
        live_object = value.live_value()  # the object itself: `live` returns an equal list
    except NotConstant:
        ctx.break_graph("DX205", function="id", arguments=value.type_name())
    ctx.guard(value.source, "ID_MATCH", Identity(live_object, keep=False))
    return ConstantVariable(id(live_object))


@builtin(hash)
def _hash(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
    if is_specializable(value):
        return ConstantVariable(run_now(ctx, hash, specialize(value)))
    key = value.hash_key(ctx)
    if not is_by_identity(key):
        return ConstantVariable(hash(key))
    ctx.break_graph("DX205", function="hash", arguments=value.type_name())
