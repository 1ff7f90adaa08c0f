"""TensorVariable: an FX node that computes a tensor, and a FakeTensor that knows its metadata.

The idea: an operation on a tensor is not run. It becomes a node of the FX graph, and its result is a new TensorVariable. The
metadata (shape, dtype, device, strides) is known at once from the fake tensor. The elements are not known, so an operation that
depends on them is data-dependent and breaks the graph.

A graph input has a `source` and is loaded from there. Any other tensor that is live after the graph becomes a graph output.

In: live tensors, operations on tensors. Out: nodes, and trackers of their results. PyTorch's counterpart: `TensorVariable` in
torch/_dynamo/variables/tensor.py.
"""

from __future__ import annotations

import operator
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from dynexplore.engine.aliasing.autograd_graph import grad_fn_is_accessible
from dynexplore.engine.aliasing.stale_views import is_leaf_unless_stale
from dynexplore.engine.native import no_instance_override
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import class_dict, instance_dict
from dynexplore.engine.specialization.shape_env import is_never_negative
from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import TruthNotProxyable, VariableTracker, type_tracker
from dynexplore.engine.variables.contract.build import builds_when
from dynexplore.engine.variables.contract.write_back import write_attributes
from dynexplore.engine.variables.objects.type_lookup import (
    guard_on_names,
    guard_on_plain_access,
    peek,
    raw_lookup,
    refuse_missing,
)
from dynexplore.engine.variables.operators import BINARY, COMPARE, UNARY, binary_rule, dunders, unary_rule
from dynexplore.engine.variables.rules import ATTRIBUTES, METHODS, SETTERS, attribute, method, setter
from dynexplore.engine.variables.scalars.constant import ConstantVariable, is_constant_value
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.torch_.indexing import lower_getitem, lower_setitem
from dynexplore.engine.variables.torch_.tensor.numpy_index import lower_array_index
from dynexplore.engine.variables.torch_.tensor.tensor_metadata_guards import UNGUARDED_METADATA, guard_on_metadata

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

# Attributes that the fake tensor answers: metadata, not data.
FAKE_TENSOR_ATTRIBUTES = frozenset({
    "dtype", "device", "layout", "ndim", "requires_grad", "is_leaf", "is_cuda", "is_cpu", "is_sparse", "is_quantized",
    "is_mkldnn", "is_meta", "is_mps", "is_xpu", "is_nested", "is_complex", "itemsize", "output_nr", "names", "is_inference",
    "is_sparse_csr", "is_xla", "is_ipu", "is_vulkan", "is_mtia", "retains_grad", "_is_view",
})
_AUTOGRAD_ATTRIBUTES = frozenset({"requires_grad", "is_leaf", "output_nr", "retains_grad", "grad_fn"})
# Attributes that are operations: they become a `getattr` node, as in Dynamo.
OPERATION_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag"})
# Methods that need data.
DATA_DEPENDENT_METHODS = {
    "item": "DX101", "tolist": "DX102", "data_ptr": "DX112",
    "untyped_storage": "DX112", "storage": "DX112", "__bool__": "DX105", "__float__": "DX101", "__int__": "DX101",
    "__index__": "DX101", "__complex__": "DX101", "__repr__": "DX103", "__str__": "DX103", "__format__": "DX103",
    "register_hook": "DX404", "register_post_accumulate_grad_hook": "DX404", "set_": "DX408",
    "resize_": "DX408", "__deepcopy__": "DX416", "__reduce_ex__": "DX416", "share_memory_": "DX408",
    "__dlpack__": "DX112", "is_set_to": "DX112", "is_shared": "DX112",
}


# The attributes of torch's own classes; one that a program adds to the class is not the tensor's.
_ORIGINAL_ATTRIBUTES = {
    name: peek(torch.Tensor, name) for cls in torch.Tensor.__mro__ for name in class_dict(cls)
}


DISABLED_TORCH_FUNCTION: Any = torch._C._disabled_torch_function_impl
TORCH_TENSOR_CLASSES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


class TensorVariable(VariableTracker):
    """A tensor: `node` computes it, `fake` has its metadata."""

    kind = "tensor"
    text_changes = "with the graph"
    before_set_data: TensorVariable | None = None  # its tracker before the frame assigned to its `.data`
    assigned_data: TensorVariable | None = None
    grad_is_cleared = False  # since the program assigned None to `grad`

    def __init__(self, node: torch.fx.Node, fake: torch.Tensor, source: Source | None = None,
                 real: torch.Tensor | None = None) -> None:
        self.node = node
        self.fake = fake
        self.source = source
        self.real = real  # the live tensor, if it existed before the frame

    def python_type(self) -> type[Any]:
        return type(self.real) if self.real is not None else torch.Tensor

    def torch_function_class(self) -> type[Any] | None:
        """Its class, if a call dispatches to it: a subclass of Tensor whose `__torch_function__` is not disabled."""
        cls = self.python_type()
        return None if cls is torch.Tensor or cls.__torch_function__ is DISABLED_TORCH_FUNCTION else cls

    def live_value(self) -> Any:
        return self.real if self.real is not None else super().live_value()

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return self

    def length(self, ctx: TraceContext) -> VariableTracker:
        self._guard_on_torch_method(ctx, "__len__")
        if ctx.function_modes.may_dispatch:
            return self.call_method(ctx, "__len__", [], {})
        if self.fake.dim() == 0:
            ctx.raise_exception(TypeError, "len() of a 0-d tensor")
        return self.size(ctx, 0)

    def size(self, ctx: TraceContext, dim: int) -> VariableTracker:
        """The size of one dimension: a constant, or a symbolic number."""
        return self.get_attribute(ctx, "shape").get_item(ctx, ConstantVariable(dim))

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        self._guard_on_torch_method(ctx, "__iter__")
        if ctx.function_modes.may_dispatch:
            return self.call_method(ctx, "__iter__", [], {}).unpack(ctx)
        if self.fake.dim() == 0:
            ctx.raise_exception(TypeError, "iteration over a 0-d tensor")
        # `unbind`, as in eager: autograd rejects mutation of one of several views. It specializes a symbolic size.
        return self.call_method(ctx, "unbind", [ConstantVariable(0)], {}).unpack(ctx)

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        self._guard_on_torch_method(ctx, "__iter__")
        return ctx.values.iterator_over(self.unpack(ctx))

    def hash_key(self, ctx: TraceContext) -> object:
        self._guard_on_torch_method(ctx, "__hash__")
        return self

    def call(
        self, ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        self._guard_on_torch_method(ctx, "__call__")
        return super().call(ctx, args, kwargs)

    def _dispatch_torch_function(
        self, ctx: TraceContext, name: str, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker | None:
        """The result of a user-defined TorchFunctionMode for a call; None if it is not called.

        A method that torch wrote in Python dispatches from inside, for itself or for the functions that it calls.
        """
        in_python = peek(torch.Tensor, name)
        if isinstance(in_python, types.FunctionType):
            return ctx.build(in_python, None).call(ctx, [self, *args], kwargs)
        return ctx.calls.dispatch_torch_function("call_method", name, [self, *args], kwargs)

    def _guard_on_torch_method(self, ctx: TraceContext, name: str) -> None:
        """Guard that torch's class still has its own method under this name."""
        guard_on_names(ctx, self.python_type(), name)
        if self._is_user_defined(name, peek(self.python_type(), name)):
            ctx.break_graph("DX213", method=f"Tensor.{name}")

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        ctx.break_graph("DX105", operation="`in`")

    # -- attributes

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        guard_on_plain_access(ctx, self.python_type(), name)
        dispatched = ctx.calls.dispatch_torch_function("get_attr_of", name, [self], {}) if ctx.function_modes.may_dispatch else None
        if dispatched is not None:
            return dispatched
        if name == "shape":
            return ctx.values.wrap_size(self.fake.shape, self)
        ctx.graph.asked_about_gradients |= name in _AUTOGRAD_ATTRIBUTES
        if self.before_set_data is not None and name in _AUTOGRAD_ATTRIBUTES:
            return self.before_set_data.get_attribute(ctx, name)
        if name in UNGUARDED_METADATA:
            guard_on_metadata(ctx, self, name)
        if name in FAKE_TENSOR_ATTRIBUTES:
            value = getattr(self.fake, name)
            if not callable(value) or isinstance(value, torch.dtype):
                return ctx.build(value, None)
        if name in OPERATION_ATTRIBUTES:
            return ctx.operation("call_function", getattr, [self, ConstantVariable(name)], {})
        if name == "__class__":
            return type_tracker(ctx, self)
        row = ATTRIBUTES.get((torch.Tensor, name))
        if row is not None:
            return row(ctx, self)
        return self._find_attribute(ctx, name)

    def _find_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        raw = peek(self.python_type(), name)
        if self._is_user_defined(name, raw) and hasattr(type(raw), "__set__"):
            ctx.break_graph("DX411", attribute=name)
        if self.real is not None and self.source is not None:
            own = instance_dict(self.real)
            if name in own:
                return ctx.build(own[name], self.source.attribute(name))
            if raw is None or self._is_user_defined(name, raw):
                ctx.guard(self.source, "ATTRIBUTE_ABSENT", name)
            else:
                self._guard_on_no_override(ctx, name)
        if self._is_user_defined(name, raw):
            if not is_constant_value(raw):
                ctx.break_graph("DX411", attribute=name)
            return type_tracker(ctx, self).get_attribute(ctx, name)
        if callable(raw):
            return TensorMethodVariable(self, name)
        if raw is None and not hasattr(self.fake, name):
            refuse_missing(ctx, self.python_type(), name)
            ctx.raise_exception(AttributeError, f"{self.python_type().__name__!r} object has no attribute {name!r}")
        ctx.break_graph("DX411", attribute=name)

    def _guard_on_no_override(self, ctx: TraceContext, name: str) -> None:
        """Guard that the tensor itself has no attribute of that name; for most tensors one guard covers all methods."""
        if self.real is None or self.source is None:
            return
        if name in instance_dict(self.real):  # the node would call the tensor's own attribute
            ctx.break_graph("DX411", attribute=name)
        if no_instance_override(self.real):
            ctx.guard(self.source, "NO_INSTANCE_OVERRIDE", None)
        else:
            ctx.guard(self.source, "ATTRIBUTE_ABSENT", name)

    def _is_user_defined(self, name: str, raw: object) -> bool:
        """Whether the program added this attribute to torch's class."""
        return _ORIGINAL_ATTRIBUTES.get(name) is not raw and peek(self.python_type(), name) is raw

    def set_attribute(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        row = SETTERS.get((torch.Tensor, name))
        if row is None:
            ctx.break_graph("DX407" if name == "requires_grad" else "DX411", attribute=name)
        guard_on_plain_access(ctx, self.python_type(), name)
        row(ctx, self, value)

    def write_back(self, build: Reconstruction) -> None:
        assigned: dict[str, VariableTracker] = {} if self.assigned_data is None else {"data": self.assigned_data}
        if self.grad_is_cleared:
            assigned["grad"] = ConstantVariable(None)
        write_attributes(build, self, assigned)

    # -- items

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        _break_on_overflowing_slice(ctx, key)
        _guard_on_operator(ctx, "__getitem__")
        return lower_getitem(ctx, self, lower_array_index(ctx, key))

    def set_item(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        _break_on_overflowing_slice(ctx, key)
        _guard_on_operator(ctx, "__setitem__")
        lower_setitem(ctx, self, lower_array_index(ctx, key), value)

    # -- calls

    def call_method(
        self, ctx: TraceContext, name: str, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        guard_on_plain_access(ctx, self.python_type(), name)
        self._guard_on_torch_method(ctx, name)
        self._guard_on_no_override(ctx, name)
        row = METHODS.get((torch.Tensor, name))
        if ctx.function_modes.may_dispatch:
            dispatched = self._dispatch_torch_function(ctx, name, args, kwargs)
            if dispatched is not None:
                return dispatched
        if row is not None:
            return row(ctx, self, args, kwargs)
        if name in UNGUARDED_METADATA:
            guard_on_metadata(ctx, self, name)
        if name in DATA_DEPENDENT_METHODS:
            ctx.break_graph(DATA_DEPENDENT_METHODS[name], operation=f"Tensor.{name}()")
        if not hasattr(torch.Tensor, name):
            return self.get_attribute(ctx, name).call(ctx, args, kwargs)
        return ctx.operation("call_method", name, [self, *args], kwargs)

    # -- into the graph and out of it

    def as_proxy(self) -> Any:
        return self.node

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_output(self.node)

    def text(self) -> str:
        sizes = ", ".join(map(str, self.fake.shape))
        return f"{str(self.fake.dtype).removeprefix('torch.')}[{sizes}] {self.fake.device}"

    # -- for those who watch

    def unguarded_value(self, depth: int = 8) -> Any:
        return self.node

    def identity(self) -> object | None:
        return self.node

    def hashes_by_identity(self) -> bool:
        return True


class DataAliasVariable(TensorVariable):
    """`x.data`. A backend would treat it as `x.detach()`, so it leaves the frame as an access to the original tensor."""

    mutable = True

    def __init__(self, node: torch.fx.Node, fake: torch.Tensor, owner: TensorVariable) -> None:
        super().__init__(node, fake)
        self.owner = owner

    def reconstruct(self, build: Reconstruction) -> None:
        if self.fake._version:  # after a mutation its version counter is observable
            build.call_object(data_with_version, self.owner, ConstantVariable(self.fake._version))
            return
        build.push(self.owner)
        build.writer.load_attr("data")


def data_with_version(tensor: torch.Tensor, changes: int) -> torch.Tensor:
    """`tensor.data` with this version counter: it is separate from the tensor's, and starts at 0 for each new alias."""
    data = tensor.data
    torch._C._autograd._unsafe_set_version_counter((data,), (changes,))
    return data


class TensorMethodVariable(VariableTracker):
    """A bound method of a tensor, such as `x.sum`."""

    kind = "method"
    text_changes = "never"

    def __init__(self, tensor: VariableTracker, name: str) -> None:
        self.tensor, self.name = tensor, name

    def python_type(self) -> type[Any]:
        return type(torch.empty(0).sum)

    def call(
        self, ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        return self.tensor.call_method(ctx, self.name, args, kwargs)

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "__self__":
            return self.tensor
        if name == "__name__":
            return ConstantVariable(self.name)
        return super().get_attribute(ctx, name)

    def reconstruct(self, build: Reconstruction) -> None:
        build.push(self.tensor)
        build.writer.load_attr(self.name)

    def text(self) -> str:
        return f"Tensor.{self.name}"


class DeferredBoolVariable(VariableTracker):
    """bool(value) of a value that is only known at run time; on the stack until the jump that uses it."""

    kind = "deferred bool"

    def __init__(self, value: VariableTracker) -> None:
        self.value = value

    def python_type(self) -> type[Any]:
        return bool

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return self

    def same_object(self, other: VariableTracker) -> bool | None:
        """It will be True or False, which are singletons."""
        if self is other:
            return True
        return None if other.python_type() is bool else False

    def as_proxy(self) -> Any:
        raise TruthNotProxyable(self.type_name())

    def reconstruct(self, build: Reconstruction) -> None:
        build.push(self.value)
        build.writer.to_bool()

    def text(self) -> str:
        return f"bool({self.value.text()})"


def _break_on_overflowing_slice(ctx: TraceContext, key: VariableTracker) -> None:
    """Break the graph at a slice bound beyond int64: torch warns, naming the program's line."""
    for part in key.items if isinstance(key, TupleVariable) else [key]:
        for end in part.parts if isinstance(part, SliceVariable) else ():
            if _overflows_int64(end.read(ctx)):
                ctx.break_graph("DX205", function="a slice of a tensor", arguments="a number that overflows int64")


def _overflows_int64(number: VariableTracker) -> bool:
    """Whether it is beyond int64; guarded for a dynamic number, while a size never is."""
    if isinstance(number, SymbolicNumberVariable):
        value = number.value
        if not isinstance(value, torch.SymInt) or not value.node.has_hint() or is_never_negative(value):
            return False
        return bool(value < _MIN_INLINE_INT) or bool(value > sys.maxsize)
    if not number.is_constant() or number.python_type() is not int:
        return False
    return not _MIN_INLINE_INT <= number.as_constant() <= sys.maxsize


_MIN_INLINE_INT = -(1 << 62)
"""The least integer that c10/core/SymInt.h stores inline."""


def defer_bool(ctx: TraceContext, value: VariableTracker) -> VariableTracker:
    """bool(value) as a value, if it depends on graph data; a tensor with several elements raises here, not later."""
    if isinstance(value, TensorVariable):
        sizes: Sequence[Any] = value.fake.shape
        if any(isinstance(size, torch.SymInt) or size != 1 for size in sizes):
            ctx.break_graph("DX104", condition=value.text())
    return DeferredBoolVariable(value)


# -- methods that do not map to one operation ----------------------------------------------------------------------------


@method(torch.Tensor, "size")
def _size(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
          kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    sizes = tensor.get_attribute(ctx, "shape")
    dim = args[0] if args else kwargs.get("dim")
    if dim is None or (dim.is_constant() and dim.as_constant() is None):
        return sizes
    if not dim.is_constant() or not -tensor.fake.dim() <= dim.as_constant() < max(tensor.fake.dim(), 1):
        return ctx.operation("call_method", "size", [tensor, dim], {})
    return sizes.get_item(ctx, dim)


@method(torch.Tensor, "__len__")
def _len(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
         kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return tensor.length(ctx)


@method(torch.Tensor, "__iter__")
def _iter(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
          kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return tensor.iterate(ctx)


@method(torch.Tensor, "__getitem__")
def _getitem(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
             kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return tensor.get_item(ctx, args[0])


@method(torch.Tensor, "__setitem__")
def _setitem(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
             kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    tensor.set_item(ctx, args[0], args[1])
    return ConstantVariable(None)


@method(torch.Tensor, "type")
def _type(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
          kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """`x.type(torch.FloatTensor)`: legacy tensor types are passed by name, for which FX can generate code."""
    dtype = args[0] if args else kwargs.get("dtype")
    if dtype is not None and not dtype.is_constant() and issubclass(dtype.python_type(), type(torch.FloatTensor)):
        cls = dtype.live_value()
        return ctx.operation("call_method", "type", [tensor, ConstantVariable(f"{cls.__module__}.{cls.__name__}")], {})
    return ctx.operation("call_method", "type", [tensor, *args], kwargs)


@method(torch.Tensor, "dim", "ndimension")
def _dim(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
         kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return ConstantVariable(tensor.fake.dim())


@attribute(torch.Tensor, "data")
def _get_data(ctx: TraceContext, tensor: TensorVariable) -> VariableTracker:
    """`x.data`: an alias with its own version counter, unlike `detach()`, which shares the tensor's."""
    if tensor.fake.is_inference():  # an inference tensor has no version counter
        return ctx.operation("call_method", "detach", [tensor], {})
    if tensor.assigned_data is not None:
        if torch.is_grad_enabled():  # in grad mode, autograd records what is written to it
            ctx.break_graph("DX408", attribute="data", because="it is read after it was assigned")
        return ctx.operation("call_method", "detach", [tensor.assigned_data], {})
    ctx.graph.fake_mode.data_aliases.append((tensor.fake, tensor.fake._version))
    alias = ctx.operation("call_function", getattr, [tensor, ConstantVariable("data")], {})
    assert isinstance(alias, TensorVariable)
    return DataAliasVariable(alias.node, alias.fake, tensor)


@attribute(torch.Tensor, "_version")
def _get_version(ctx: TraceContext, tensor: TensorVariable) -> VariableTracker:
    """The version counter: how often the tensor was mutated in place."""
    changes = ctx.graph.version_of(tensor.fake)
    if changes is None:
        ctx.break_graph("DX411", attribute="_version")
    return ConstantVariable(changes)


@attribute(torch.Tensor, "grad")
def _get_grad(ctx: TraceContext, tensor: TensorVariable) -> VariableTracker:
    if tensor.grad_is_cleared:
        return ConstantVariable(None)
    if tensor.real is None or tensor.source is None:
        if not tensor.fake.requires_grad:
            return ConstantVariable(None)
        ctx.break_graph("DX411", attribute="grad")
    return ctx.build(tensor.real.grad, tensor.source.attribute("grad", "getattr"))


@setter(torch.Tensor, "grad")
def _set_grad(ctx: TraceContext, tensor: TensorVariable, value: VariableTracker) -> None:
    """`p.grad = None`, as in `zero_grad`: recorded, and replayed after the graph has run. Assigning a tensor breaks the graph."""
    is_none = isinstance(value := value.read(ctx), ConstantVariable) and value.value is None
    existed = type(tensor) is TensorVariable and tensor.real is not None and tensor.source is not None and tensor.source.guardable
    if not (is_none and existed) or ctx.function_modes.may_dispatch or torch._C._functorch.peek_interpreter_stack() is not None:
        ctx.break_graph("DX411", attribute="grad")
    ctx.journal.must_replay(tensor, f"{tensor.describe()}.grad")
    tensor.grad_is_cleared = True


@attribute(torch.Tensor, "grad_fn")
def _get_grad_fn(ctx: TraceContext, tensor: TensorVariable) -> VariableTracker:
    guard_on_metadata(ctx, tensor, "is_leaf")
    if tensor.fake.requires_grad and not tensor.fake.is_leaf:
        ctx.break_graph("DX411", attribute="grad_fn")
    return ConstantVariable(None)


@method(torch.Tensor, "backward")
def _backward(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
              kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    for index, name in ((2, "create_graph"), (1, "retain_graph")):
        option = kwargs.get(name, args[index] if len(args) > index else None)
        if option is not None and not (option.is_constant() and not option.as_constant()):
            ctx.break_graph("DX406", operation=f"Tensor.backward({name}=True)")
    ctx.break_graph("DX406", operation="Tensor.backward()")


@method(torch.Tensor, "retain_grad")
def _retain_grad(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
                 kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """No effect on a leaf, which accumulates its gradient anyway; other tensors need
    a grad_fn that a compiled graph does not have.
    """
    guard_on_metadata(ctx, tensor, "is_leaf")
    if not tensor.fake.requires_grad or not tensor.fake.is_leaf:
        ctx.break_graph("DX404", operation="Tensor.retain_grad()")
    return ConstantVariable(None)


@method(torch.Tensor, "requires_grad_")
def _requires_grad(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
                   kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    requires_grad = args[0] if args else kwargs.get("requires_grad", ConstantVariable(True))
    ctx.graph.asked_about_gradients = True
    if not requires_grad.is_constant() or bool(requires_grad.as_constant()) != tensor.fake.requires_grad:
        ctx.break_graph("DX407", operation="requires_grad_()")
    return tensor


@method(torch.Tensor, "detach_")
def _detach(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
            kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """`detach_()`: a compiled graph would detach its input first, so tensors computed from it earlier would lose their grad_fn."""
    if tensor.node.op in ("placeholder", "get_attr") and tensor.fake.requires_grad:
        ctx.break_graph("DX407", operation="detach_()")
    return ctx.operation("call_method", "detach_", [tensor, *args], kwargs)


def _comparison(name: str) -> Any:
    compare = getattr(operator, name)

    def handler(ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker],
               kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        other = args[0].read(ctx) if len(args) == 1 and not kwargs else None
        number = isinstance(other, ConstantVariable) and other.python_type() in (bool, int, float)
        if not number and (type(other) is not TensorVariable or type(tensor) is not TensorVariable):
            ctx.break_graph("DX213", method="comparison dunder of a tensor")  # it may return NotImplemented
        return ctx.operation("call_function", compare, [tensor, other], {})

    return handler


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    method(torch.Tensor, _name)(_comparison(_name))


# -- building and operators -------------------------------------------------------------------------------------------


def _is_plain_tensor(value: object) -> bool:
    return type(value) in TORCH_TENSOR_CLASSES


@builds_when(_is_plain_tensor, rank=10)
def build_tensor(ctx: TraceContext, value: torch.Tensor, source: Source | None) -> VariableTracker:
    """A live tensor becomes a graph input."""
    if source is None:
        return ctx.values.constant_tensor(value)
    return build_input(ctx, value, source, TensorVariable)


def build_input(
    ctx: TraceContext, value: torch.Tensor, source: Source, tracker: Callable[..., TensorVariable]
) -> TensorVariable:
    """A graph input and its tracker."""
    for tensor in (value,) if value._base is None else (value, value._base):  # a fake view is made from its fake base
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
            ctx.break_graph("DX409", layout="nested" if tensor.is_nested else str(tensor.layout))
    if value.requires_grad and not (value.dtype.is_floating_point or value.dtype.is_complex):
        ctx.break_graph("DX409", dtype=str(value.dtype), because="an integer tensor with a grad_fn, which a write gave it")
    base = ctx.graph.written_base(value)
    if base is not None and base.dtype is not value.dtype:
        ctx.break_graph("DX409", dtype=str(value.dtype), because=f"a view of a {base.dtype} tensor that got a grad_fn here")
    if value._base is not None and value.is_inference() is not value._base.is_inference():
        ctx.break_graph("DX409", because="its data was replaced, and either it or its base is an inference tensor")
    if not grad_fn_is_accessible(value):
        ctx.break_graph("DX411", attribute="grad_fn")
    for name in _ATTRIBUTE_ACCESS:
        if not isinstance(raw_lookup(ctx, type(value), name), _SLOT_TYPES):
            ctx.break_graph("DX402", type=type(value).__qualname__)  # added by the program: fake tensors would dispatch to it, too
    if (is_leaf_unless_stale(value) or value.retains_grad) and not _is_valid_grad(value.grad, value):
        ctx.break_graph("DX408", attribute="data", because="its gradient belongs to its previous data")  # no fake tensor has it
    node = ctx.values.guard_tensor(value, source)
    return tracker(node, node.meta["example_value"], source, value)


def _is_valid_grad(gradient: torch.Tensor | None, tensor: torch.Tensor) -> bool:
    """Whether autograd would accept this as the tensor's gradient now (torch/csrc/autograd/python_variable.cpp)."""
    if gradient is None:
        return True
    return (gradient.shape, gradient.dtype, gradient.device) == (tensor.shape, tensor.dtype, tensor.device)


_ATTRIBUTE_ACCESS = ("__getattribute__", "__getattr__", "__setattr__")
_SLOT_TYPES = (types.WrapperDescriptorType, type(None))
_TENSOR_RANK = 20


def _guard_on_operator(ctx: TraceContext, *names: str) -> None:
    """Guard that torch's class still has its own operators: a compiled graph does not look them up in the class again."""
    guard_on_names(ctx, torch.Tensor, *names)
    for name in names:
        if peek(torch.Tensor, name) is not _ORIGINAL_ATTRIBUTES.get(name):
            ctx.break_graph("DX213", method=f"Tensor.{name}")


@binary_rule(TensorVariable, VariableTracker, rank=_TENSOR_RANK)
def _tensor_left(ctx: TraceContext, symbol: str, lhs: TensorVariable, rhs: VariableTracker) -> VariableTracker:
    if symbol == "@=":  # tensors have no __imatmul__, and FX would store the new tensor under the old one's name
        symbol = "@"
    _guard_on_operator(ctx, *dunders(symbol))
    return ctx.operation("call_function", BINARY.get(symbol) or COMPARE[symbol], [lhs, rhs], {})


@binary_rule(VariableTracker, TensorVariable, rank=_TENSOR_RANK + 1)
def _tensor_right(ctx: TraceContext, symbol: str, lhs: VariableTracker, rhs: TensorVariable) -> VariableTracker:
    function = BINARY.get(symbol) or COMPARE[symbol]
    if symbol in BINARY and symbol.endswith("="):  # `1 += x` is `1 + x`
        function = BINARY[symbol[:-1]]
    _guard_on_operator(ctx, *dunders(symbol))
    return ctx.operation("call_function", function, [lhs, rhs], {})


@unary_rule(TensorVariable, "neg", "pos", "invert", rank=_TENSOR_RANK)
def _tensor_unary(ctx: TraceContext, symbol: str, operand: TensorVariable) -> VariableTracker:
    _guard_on_operator(ctx, f"__{symbol}__")
    return ctx.operation("call_function", UNARY[symbol], [operand], {})


@unary_rule(TensorVariable, "not", rank=_TENSOR_RANK)
def _tensor_not(ctx: TraceContext, symbol: str, operand: TensorVariable) -> VariableTracker:
    ctx.break_graph("DX105", operation="not")
