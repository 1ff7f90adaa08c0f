"""Tensors of the program's own classes: what their `__torch_function__` does with a call, and tensors made of such a class.

The idea: in the graph there are plain tensors only. That a tensor is of a class of its own is known to its tracker: a call with
one among its arguments asks the class (function_modes.py), whose `__torch_function__` is interpreted. The one that Tensor itself
has, which most classes keep or end in, is a row here: it makes the call without asking anybody, and gives each tensor that comes
out the class. Such a tensor gets its class for real where it leaves the frame; the graph runs with classes switched off.

In: tensors of subclasses, `as_subclass`. Out: trackers of tensors that know their class.
torch/_dynamo/variables/torch_function.py (TensorWithTFOverrideVariable) does the same job.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch.overrides import get_default_nowrap_functions

from dynexplore.engine.config import config
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import class_dict, instance_dict
from dynexplore.engine.variables.containers.sequence import ListVariable, SizeVariable, TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds_when
from dynexplore.engine.variables.objects.class_facts import ClassAttribute, find, rely_on_names, rely_on_plain_access
from dynexplore.engine.variables.objects.class_lookup import bind
from dynexplore.engine.variables.objects.context_manager import NONE, ModeManagerVariable
from dynexplore.engine.variables.rules import method
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.tensor import NOT_ASKED, OF_TORCH, TensorVariable, build_input

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

DEFAULT: Any = vars(torch.Tensor)["__torch_function__"].__func__
_SwitchedOff: Any = torch._C.DisableTorchFunctionSubclass


def _find_in_subclass(ctx: TraceContext, cls: type[Any], name: str) -> ClassAttribute | None:
    """What a subclass of Tensor has under a name of its own; torch's own names are none (see `is_traced`)."""
    for owner in cls.__mro__[: cls.__mro__.index(torch.Tensor)]:
        if owner not in OF_TORCH and name in class_dict(owner):
            return find(ctx, cls, name)
    return None


# What a subclass may define itself; another name of torch's would be asked where torch's own is answered for here.
_MAY_DEFINE = frozenset({
    "__torch_function__", "__module__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__new__", "__init__",
    "__init_subclass__", "__repr__", "__str__", "__qualname__", "__static_attributes__", "__firstlineno__", "__parameters__",
    "__orig_bases__", "__annotate__", "__slots__",
    "__slotnames__",  # copyreg notes it in a class whose instance is copied or pickled
})  # fmt: skip

_OPERATORS = tuple(name for name in dir(torch.Tensor) if name[:2] == "__" and name not in _MAY_DEFINE)
"""What operators and builtins look up in the class: torch's, now and later."""


def why_not_traced(cls: type[Any]) -> str | None:
    """Why tensors of a class are not looked into: it changes more than what `__torch_function__` says. None: they are."""
    if type(cls) is not type(torch.Tensor) or cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return "it has a metaclass or a `__torch_dispatch__` of its own"
    for owner in cls.__mro__[: cls.__mro__.index(torch.Tensor)]:
        others = [name for name in class_dict(owner) if hasattr(torch.Tensor, name) and name not in _MAY_DEFINE]
        if owner not in OF_TORCH and others:
            return f"it defines `{others[0]}` anew"
    own = inspect.getattr_static(cls, "__torch_function__")
    if own is not NOT_ASKED and not (isinstance(own, classmethod) and isinstance(own.__func__, types.FunctionType)):
        return "its `__torch_function__` is no class method in Python"
    return None


class SubclassTensorVariable(TensorVariable):
    """A tensor of a class of the program."""

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        own = _find_in_subclass(ctx, self.python_type(), name)
        if own is None:
            return super().get_attribute(ctx, name)
        rely_on_plain_access(ctx, self.python_type(), name)
        if not own.is_data_descriptor and self.real is not None and self.source is not None:
            held = instance_dict(self.real)
            if name in held:  # the tensor itself has it, before the class
                return ctx.build(held[name], self.source.attribute(name))
            ctx.guard(self.source, "ATTRIBUTE_ABSENT", name)
        return bind(ctx, own, self, self.python_type())

    def call_method(
        self, ctx: TraceContext, name: str, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        if _find_in_subclass(ctx, self.python_type(), name) is not None:
            return self.get_attribute(ctx, name).call(ctx, args, kwargs)
        return super().call_method(ctx, name, args, kwargs)


def _has_own_class(value: object) -> bool:
    return issubclass(type(value), torch.Tensor) and type(value) not in OF_TORCH


@builds_when(_has_own_class, rank=10)
def build_subclass(ctx: TraceContext, value: torch.Tensor, source: Source | None) -> VariableTracker:
    """A live tensor of a class of the program: a graph input like any, whose class is guarded."""
    if source is None:
        return ctx.constant_tensor(value)
    why = why_not_traced(type(value))
    if why is not None:
        if type(value) in config.traceable_tensor_subclasses:
            return build_input(ctx, value, source, TensorVariable)
        ctx.break_graph("DX402", type=type(value).__qualname__, because=why)
    with torch._C.DisableTorchFunctionSubclass():  # what the engine asks, the program's class does not hear
        made = build_input(ctx, value, source, SubclassTensorVariable)
    find(ctx, type(value), "__torch_function__")  # guards that it is this one
    rely_on_names(ctx, type(value), *_OPERATORS)
    ctx.function_modes.has_subclasses |= made.asked_class() is not None
    return made


class NewSubclassTensorVariable(SubclassTensorVariable):
    """A tensor of a class of the program that was made in this frame."""

    mutable = True

    def __init__(self, node: torch.fx.Node, fake: torch.Tensor, cls: type[Any]) -> None:
        super().__init__(node, fake)
        self.cls = cls

    def python_type(self) -> type[Any]:
        return self.cls

    def identity(self) -> object | None:
        return self

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(_as_subclass, TensorVariable(self.node, self.fake), ConstantVariable(self.cls))


def _as_subclass(tensor: torch.Tensor, cls: type[Any]) -> Any:
    return tensor.as_subclass(cls)


def of_class(ctx: TraceContext, tensor: TensorVariable, cls: type[Any]) -> VariableTracker:
    """A tensor on the same memory, of this class."""
    why = why_not_traced(cls)
    if why is not None:
        ctx.break_graph("DX402", type=cls.__qualname__, because=why)
    if tensor.source is not None:
        with ctx.function_modes.without_subclasses():
            alias = ctx.operation("call_function", torch.ops.aten.alias.default, [tensor], {})
        assert isinstance(alias, TensorVariable)
        tensor = alias
    if cls is torch.Tensor:
        return TensorVariable(tensor.node, tensor.fake)
    made = NewSubclassTensorVariable(tensor.node, tensor.fake, cls)
    ctx.function_modes.has_subclasses |= made.asked_class() is not None
    return made


@method(torch.Tensor, "as_subclass")
def _take_class(
    ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    wanted = args[0] if args else kwargs["cls"]
    return of_class(ctx, tensor, wanted.live_value())


# -- what Tensor.__torch_function__ does ------------------------------------------------------------------------------


@builtin(DEFAULT)
def _answer(
    ctx: TraceContext, cls: VariableTracker, function: VariableTracker, overloaded: VariableTracker,
    args: VariableTracker | None = None, kwargs: VariableTracker | None = None,
) -> VariableTracker:
    own = cls.live_value()
    if not all(issubclass(own, other.live_value()) for other in overloaded.unpack(ctx)):
        return ConstantVariable(NotImplemented)
    given = args.unpack(ctx) if args is not None else []
    with ctx.function_modes.without_subclasses():
        made = ctx.call_function(function, given, _keywords(ctx, kwargs))
    return made if function.live_value() in get_default_nowrap_functions() else _with_class(ctx, made, own)


def _keywords(ctx: TraceContext, kwargs: VariableTracker | None) -> dict[str, VariableTracker]:
    if kwargs is None or (kwargs.is_constant() and kwargs.as_constant() is None):
        return {}
    return {name.as_constant(): kwargs.get_item(ctx, name) for name in kwargs.unpack(ctx)}


def _with_class(ctx: TraceContext, made: VariableTracker, cls: type[Any]) -> VariableTracker:
    made = made.read(ctx)
    if isinstance(made, TensorVariable):
        return made if issubclass(made.python_type(), cls) else of_class(ctx, made, cls)
    if not isinstance(made, ListVariable | TupleVariable) or isinstance(made, SizeVariable):
        return made
    items = [_with_class(ctx, item, cls) for item in made.items]
    if items == made.items:
        return made
    if type(made) is ListVariable:
        return ListVariable(items)
    if type(made) is not TupleVariable:
        ctx.break_graph("DX402", type=cls.__qualname__, because="an operator gives a named tuple of tensors")
    return TupleVariable(items)


# -- switched off -----------------------------------------------------------------------------------------------------


class SwitchedOffVariable(ModeManagerVariable):
    """`with torch._C.DisableTorchFunctionSubclass():` classes of tensors are not asked."""

    def __init__(self) -> None:
        super().__init__(_SwitchedOff)
        self._entered: list[Any] = []

    def enter(self, ctx: TraceContext) -> VariableTracker:
        block = ctx.function_modes.without_subclasses()
        block.__enter__()
        self._entered.append(block)
        return NONE

    def exit(self, ctx: TraceContext) -> None:
        self._entered.pop().__exit__(None, None, None)


@builtin(_SwitchedOff)
def _switch_off(ctx: TraceContext) -> VariableTracker:
    return SwitchedOffVariable()


def with_classes_switched_off(function: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled graph, whose operators ask no class: what the classes say is in the graph already."""

    def run(*inputs: Any) -> Any:
        with _SwitchedOff():
            return function(*inputs)

    return run
