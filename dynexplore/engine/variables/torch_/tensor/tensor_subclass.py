"""Tensor subclasses with `__torch_function__`: dispatch to it, and tensors of such classes made in the frame.

The idea: the graph contains plain tensors only; the tracker knows the class. A call with a subclass among its arguments dispatches
to the class (modes/torch_function_modes.py), and its `__torch_function__` is inlined. The default implementation, which most
subclasses inherit or call, is a rule here: it runs the call with torch function disabled and wraps the results in the class. A
tensor is wrapped for real when it leaves the frame; the compiled graph runs under DisableTorchFunctionSubclass.

In: tensors of subclasses, `as_subclass`. Out: trackers of tensors that know their class.
PyTorch's counterpart: TensorWithTFOverrideVariable in torch/_dynamo/variables/torch_function.py.
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
from dynexplore.engine.variables.modes.protocol import ModeManagerVariable
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.objects.descriptors import bind
from dynexplore.engine.variables.objects.type_lookup import ClassAttribute, find, guard_on_names, guard_on_plain_access
from dynexplore.engine.variables.rules import method
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.tensor.tensor import (
    DISABLED_TORCH_FUNCTION,
    TORCH_TENSOR_CLASSES,
    TensorVariable,
    build_input,
)

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

DEFAULT: Any = vars(torch.Tensor)["__torch_function__"].__func__
_DisableTorchFunctionSubclass: Any = torch._C.DisableTorchFunctionSubclass


def _find_in_subclass(ctx: TraceContext, cls: type[Any], name: str) -> ClassAttribute | None:
    """The attribute that a subclass of Tensor defines under a name; torch's own names are excluded (see `is_traced`)."""
    for owner in cls.__mro__[: cls.__mro__.index(torch.Tensor)]:
        if owner not in TORCH_TENSOR_CLASSES and name in class_dict(owner):
            return find(ctx, cls, name)
    return None


# Names that a subclass may define; overriding another name of torch's would bypass the rules of this engine.
_ALLOWED_OVERRIDES = frozenset({
    "__torch_function__", "__module__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__new__", "__init__",
    "__init_subclass__", "__repr__", "__str__", "__qualname__", "__static_attributes__", "__firstlineno__", "__parameters__",
    "__orig_bases__", "__annotate__", "__slots__",
    "__slotnames__",  # copyreg caches it in a class whose instance was copied or pickled
})  # fmt: skip

_OPERATORS = tuple(name for name in dir(torch.Tensor) if name[:2] == "__" and name not in _ALLOWED_OVERRIDES)
"""The methods that operators and builtins look up in the class: they must be torch's."""


def why_unsupported(cls: type[Any]) -> str | None:
    """Why tensors of a class are not traced: it overrides more than `__torch_function__`. None: they are."""
    if type(cls) is not type(torch.Tensor) or cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return "it has a custom metaclass or `__torch_dispatch__`"
    for owner in cls.__mro__[: cls.__mro__.index(torch.Tensor)]:
        others = [name for name in class_dict(owner) if hasattr(torch.Tensor, name) and name not in _ALLOWED_OVERRIDES]
        if owner not in TORCH_TENSOR_CLASSES and others:
            return f"it overrides `{others[0]}`"
    own = inspect.getattr_static(cls, "__torch_function__")
    if own is not DISABLED_TORCH_FUNCTION and not (isinstance(own, classmethod) and isinstance(own.__func__, types.FunctionType)):
        return "its `__torch_function__` is not a Python class method"
    return None


class SubclassTensorVariable(TensorVariable):
    """A tensor of a user-defined subclass."""

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        own = _find_in_subclass(ctx, self.python_type(), name)
        if own is None:
            return super().get_attribute(ctx, name)
        guard_on_plain_access(ctx, self.python_type(), name)
        if not own.is_data_descriptor and self.real is not None and self.source is not None:
            attributes = instance_dict(self.real)
            if name in attributes:  # the tensor's own attribute precedes the class's
                return ctx.build(attributes[name], self.source.attribute(name))
            ctx.guard(self.source, "ATTRIBUTE_ABSENT", name)
        return bind(ctx, own, self, self.python_type())

    def call_method(
        self, ctx: TraceContext, name: str, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        if _find_in_subclass(ctx, self.python_type(), name) is not None:
            return self.get_attribute(ctx, name).call(ctx, args, kwargs)
        return super().call_method(ctx, name, args, kwargs)


def _is_user_subclass(value: object) -> bool:
    return issubclass(type(value), torch.Tensor) and type(value) not in TORCH_TENSOR_CLASSES


@builds_when(_is_user_subclass, rank=10)
def build_subclass(ctx: TraceContext, value: torch.Tensor, source: Source | None) -> VariableTracker:
    """A live tensor of a user-defined subclass: a graph input whose class is guarded."""
    if source is None:
        return ctx.values.constant_tensor(value)
    why = why_unsupported(type(value))
    if why is not None:
        if type(value) in config.traceable_tensor_subclasses:
            return build_input(ctx, value, source, TensorVariable)
        ctx.break_graph("DX402", type=type(value).__qualname__, because=why)
    with torch._C.DisableTorchFunctionSubclass():  # so that the engine's own calls do not dispatch to user code
        tensor = build_input(ctx, value, source, SubclassTensorVariable)
    find(ctx, type(value), "__torch_function__")  # guards it
    guard_on_names(ctx, type(value), *_OPERATORS)
    ctx.function_modes.has_subclasses |= tensor.torch_function_class() is not None
    return tensor


class NewSubclassTensorVariable(SubclassTensorVariable):
    """A tensor of a user-defined subclass that was created in this frame."""

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


def lower_as_subclass(ctx: TraceContext, tensor: TensorVariable, cls: type[Any]) -> VariableTracker:
    """A tensor of this class that shares the tensor's storage."""
    why = why_unsupported(cls)
    if why is not None:
        ctx.break_graph("DX402", type=cls.__qualname__, because=why)
    if tensor.source is not None:
        with ctx.function_modes.without_subclasses():
            alias = ctx.operation("call_function", torch.ops.aten.alias.default, [tensor], {})
        assert isinstance(alias, TensorVariable)
        tensor = alias
    if cls is torch.Tensor:
        return TensorVariable(tensor.node, tensor.fake)
    converted = NewSubclassTensorVariable(tensor.node, tensor.fake, cls)
    ctx.function_modes.has_subclasses |= converted.torch_function_class() is not None
    return converted


@method(torch.Tensor, "as_subclass")
def _tensor_as_subclass(
    ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    cls = args[0] if args else kwargs["cls"]
    return lower_as_subclass(ctx, tensor, cls.live_value())


# -- the default Tensor.__torch_function__ ------------------------------------------------------------------------------


@builtin(DEFAULT)
def _default_torch_function(
    ctx: TraceContext, cls: VariableTracker, function: VariableTracker, overloaded: VariableTracker,
    args: VariableTracker | None = None, kwargs: VariableTracker | None = None,
) -> VariableTracker:
    own = cls.live_value()
    if not all(issubclass(own, other.live_value()) for other in overloaded.unpack(ctx)):
        return ConstantVariable(NotImplemented)
    arguments = args.unpack(ctx) if args is not None else []
    with ctx.function_modes.without_subclasses():
        result = function.call(ctx, arguments, _unpack_kwargs(ctx, kwargs))
    return result if function.live_value() in get_default_nowrap_functions() else _wrap_results(ctx, result, own)


def _unpack_kwargs(ctx: TraceContext, kwargs: VariableTracker | None) -> dict[str, VariableTracker]:
    if kwargs is None or (kwargs.is_constant() and kwargs.as_constant() is None):
        return {}
    return {name.as_constant(): kwargs.get_item(ctx, name) for name in kwargs.unpack(ctx)}


def _wrap_results(ctx: TraceContext, result: VariableTracker, cls: type[Any]) -> VariableTracker:
    result = result.read(ctx)
    if isinstance(result, TensorVariable):
        return result if issubclass(result.python_type(), cls) else lower_as_subclass(ctx, result, cls)
    if not isinstance(result, ListVariable | TupleVariable) or isinstance(result, SizeVariable):
        return result
    items = [_wrap_results(ctx, item, cls) for item in result.items]
    if items == result.items:
        return result
    if type(result) is ListVariable:
        return ListVariable(items)
    if type(result) is not TupleVariable:
        ctx.break_graph("DX402", type=cls.__qualname__, because="an operator returns a named tuple of tensors")
    return TupleVariable(items)


# -- torch function disabled --------------------------------------------------------------------------------------------


class DisableTorchFunctionSubclassVariable(ModeManagerVariable):
    """`with torch._C.DisableTorchFunctionSubclass():` calls do not dispatch to tensor subclasses."""

    def __init__(self) -> None:
        super().__init__(_DisableTorchFunctionSubclass)
        self._entered: list[Any] = []

    def enter(self, ctx: TraceContext) -> VariableTracker:
        block = ctx.function_modes.without_subclasses()
        block.__enter__()
        self._entered.append(block)
        return NONE

    def exit(self, ctx: TraceContext) -> None:
        self._entered.pop().__exit__(None, None, None)


@builtin(_DisableTorchFunctionSubclass)
def _disable_torch_function_subclass(ctx: TraceContext) -> VariableTracker:
    return DisableTorchFunctionSubclassVariable()


def with_torch_function_disabled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a compiled graph without dispatch to subclasses: their implementations are already in the graph."""

    def run(*inputs: Any) -> Any:
        with _DisableTorchFunctionSubclass():
            return function(*inputs)

    return run
