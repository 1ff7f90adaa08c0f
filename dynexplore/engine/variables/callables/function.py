"""Callables: Python functions (live or created in this frame), bound methods, C functions, and closure cells.

The idea: a call of a Python function interprets its body in a nested symbolic frame ("inlining"), unless policy decides that it is
one node of the graph (torch.nn.functional) or is not traced. A call of a C function looks up its rule (rules.py); without a rule it
is a torch operator that becomes a node, or the graph breaks.

Everything that an inlined function reads (defaults, closure cells, globals) has a source derived from the function's own, so that
it can be guarded.

In: a callable and its arguments. Out: the tracker of the result. PyTorch's counterpart: `UserFunctionVariable`,
`NestedUserFunctionVariable` and `UserMethodVariable` in torch/_dynamo/variables/functions.py, and builtin.py.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.graph.qualified_names import callable_name
from dynexplore.engine.native import evaluated_annotations
from dynexplore.engine.policy import constant_functions, skip
from dynexplore.engine.policy.external_effects import kind_of_break
from dynexplore.engine.policy.markers import RUNS
from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import class_module, is_a, name_in_messages
from dynexplore.engine.variables.callables.assume_constant_result import call_once
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotConstant, VariableTracker
from dynexplore.engine.variables.contract.build import builds, builds_when
from dynexplore.engine.variables.contract.hash_keys import MethodKey
from dynexplore.engine.variables.numpy_.array_rules import call_numpy
from dynexplore.engine.variables.objects.builtin_value import BuiltinValueVariable
from dynexplore.engine.variables.objects.instance_attribute_guards import GUARDED_WHERE_READ, needs_no_source
from dynexplore.engine.variables.objects.type_lookup import peek
from dynexplore.engine.variables.rules import METHODS, MethodHandler, Rule, rule_for
from dynexplore.engine.variables.scalars.constant import ConstantVariable, returns_receiver
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.type_errors import type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

# The `__self__` of a C++ extension's function (pybind11), which is no receiver.
_RECORDS = ("pybind11_detail_function_record", "PyCapsule")
_CONSTANT_ATTRIBUTES = frozenset({"__name__", "__qualname__", "__module__", "__doc__"})


class CellVariable(VariableTracker):
    """A closure cell: a variable shared by a function and the functions nested in it. `content` None: unbound."""

    kind = "cell"
    mutable = True

    def __init__(self, name: str, content: VariableTracker | None, source: Source | None = None,
                 frame_cell: bool = False, was_empty_at: Source | None = None) -> None:
        self.name = name
        self.content = content
        self.source = source
        self.frame_cell = frame_cell  # a cell of the root frame itself, accessed by LOAD_CLOSURE and STORE_DEREF
        self.was_empty_at = was_empty_at  # source of an existing cell that was unbound

    def python_type(self) -> type[Any]:
        return types.CellType

    def load(self, ctx: TraceContext) -> VariableTracker:
        """What the cell holds; an unbound cell raises NameError as Python does."""
        if self.content is None:
            self.guard_on_absence(ctx)
            ctx.raise_exception(NameError, f"cannot access free variable {self.name!r} where it is not associated with a "
                                "value in enclosing scope")
        self.content = self.content.read(ctx)
        return self.content

    def guard_on_absence(self, ctx: TraceContext) -> None:
        """Guard that the cell is unbound, if it was before the frame."""
        if self.was_empty_at is not None:
            ctx.guard(self.was_empty_at, "CELL_EMPTY", None)

    def assigned(self) -> dict[str, VariableTracker | None] | None:
        return {"cell_contents": self.content}

    def identity(self) -> object | None:
        return self

    def store(self, ctx: TraceContext, value: VariableTracker | None) -> None:
        """Bind the cell (None: unbind)."""
        if self.frame_cell:
            ctx.journal.must_replay(self, f"cell {self.name}")
        else:
            ctx.journal.note(self, f"cell {self.name}")
        self.content, self.was_empty_at = value, None

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "cell_contents":
            return self.load(ctx)
        return super().get_attribute(ctx, name)

    def reconstruct(self, build: Reconstruction) -> None:
        if self.frame_cell:
            build.writer.load_closure(self.name)
        elif self.content is None:
            build.call_object(types.CellType)
        else:
            build.call_object(types.CellType, self.content)

    def write_back(self, build: Reconstruction) -> None:
        if self.content is None:
            raise NotImplementedError("an unbound cell")
        build.push(self.content)
        value = build.store_temporary()
        cell = None
        if not self.frame_cell:
            assert self.source is not None
            self.source.load(build.writer, build.namer)
            cell = build.store_temporary()
        build.later(lambda: self._write(build, value, cell))

    def _write(self, build: Reconstruction, value: str, cell: str | None) -> None:
        build.writer.load_fast(value)
        if cell is None:
            build.writer.store_deref(self.name)
        else:
            build.writer.load_fast(cell)
            build.writer.store_attr("cell_contents")

    def text(self) -> str:
        return f"cell of {self.content.text() if self.content is not None else 'nothing'}"


class LiveCallableVariable(VariableTracker):
    """Shared by live functions in Python and in C: they are true, and equal only to themselves (`live_value`)."""

    def truth(self, ctx: TraceContext) -> bool:
        return True

    def hash_key(self, ctx: TraceContext) -> object:
        ctx.journal.observe_identity(self)
        return self.live_value()

    def same_object(self, other: VariableTracker) -> bool | None:
        return isinstance(other, LiveCallableVariable) and self.live_value() is other.live_value()

    def identity(self) -> object | None:
        return self.live_value()  # type: ignore[no-any-return]

    def hashes_by_identity(self) -> bool:
        return True


class DefaultOfFrame:
    """In the twin of a function that the frame defines in a class body: a default that the frame makes, too."""

    def __init__(self, tracker: VariableTracker) -> None:
        self.tracker = tracker


def _has_defaults_of_frame(function: types.FunctionType) -> bool:
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return any(isinstance(default, DefaultOfFrame) for default in defaults)


class FunctionVariable(LiveCallableVariable):
    """A live Python function."""

    kind = "function"
    text_changes = "never"

    def __init__(self, function: types.FunctionType, source: Source | None = None, *, by_code: bool = False) -> None:
        self.function = function
        self.source = source
        self.by_code = by_code  # guarded by code, not by identity: any function with this code is accepted

    def python_type(self) -> type[Any]:
        return types.FunctionType

    def guard_on_code(self, ctx: TraceContext) -> None:
        """Guard the code and the defaults of a function that is about to be interpreted."""
        if not self.by_code:
            ctx.module_guards.guard_on_function(self.function)
            return
        assert self.source is not None
        for name, kind in (("__defaults__", "LIST_LENGTH"), ("__kwdefaults__", "DICT_KEYS")):
            source, value = self.source.attribute(name, "getattr"), getattr(self.function, name)
            if value is None:
                ctx.guard(source, "EQUALS", None)
            else:
                ctx.guard(source, kind, len(value) if kind == "LIST_LENGTH" else tuple(value))

    def live_value(self) -> Any:
        return self.function

    def as_constant(self) -> Any:
        return self.function

    def is_constant(self) -> bool:
        return False

    # -- what an inlined call reads

    @property
    def code(self) -> types.CodeType:
        """The code object to interpret."""
        return self.function.__code__

    def global_namespace(self) -> dict[str, Any]:
        """The function's globals."""
        return self.function.__globals__

    def default(self, ctx: TraceContext, index: int) -> VariableTracker:
        """The positional default at an index."""
        value = (self.function.__defaults__ or ())[index]
        if isinstance(value, DefaultOfFrame):
            return value.tracker.read(ctx)
        source = self._source_of_parts(ctx, value)
        return ctx.build(value, source and source.attribute("__defaults__", "getattr").item(index))

    def keyword_default(self, ctx: TraceContext, name: str) -> VariableTracker | None:
        """The default of a keyword-only parameter."""
        defaults = self.function.__kwdefaults__ or {}
        if name not in defaults:
            return None
        if isinstance(defaults[name], DefaultOfFrame):
            return defaults[name].tracker.read(ctx)  # type: ignore[no-any-return]
        source = self._source_of_parts(ctx, defaults[name])
        return ctx.build(defaults[name], source and source.attribute("__kwdefaults__", "getattr").item(name))

    def _source_of_parts(self, ctx: TraceContext, part: object) -> Source | None:
        """The source of the function, from which parts of it are reached; None if the function
        is the same in each call, so that the part needs none.
        """
        return self.source if needs_no_source(part) else self.own_source(ctx)

    def own_source(self, ctx: TraceContext) -> Source:
        """The source of the function; a function that is the same in each call has a source of its own."""
        return self.source or ctx.module_guards.source_of(self.function, self.text())

    def default_count(self) -> int:
        """The number of positional parameters with a default."""
        return len(self.function.__defaults__ or ())

    def cell(self, ctx: TraceContext, index: int) -> CellVariable:
        """The closure cell at an index; one live cell has one tracker."""
        closure = self.function.__closure__
        assert closure is not None
        return cell_tracker(ctx, closure[index], self.code.co_freevars[index],
                            self.own_source(ctx).attribute("__closure__", "getattr").item(index), of_library=self.source is None)

    # -- questions

    def binds_arguments(self) -> bool:
        return is_only_inlined(self.function)

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        return call_python_function(ctx, self.function, self, args, kwargs)

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "__annotations__" and is_unevaluated(self.function):
            return super().get_attribute(ctx, name)  # reading them runs user code
        if name in _CONSTANT_ATTRIBUTES:
            return ctx.build(getattr(self.function, name), self.own_source(ctx).attribute(name, "getattr"))
        if name in self.function.__dict__:
            return ctx.build(self.function.__dict__[name], self.own_source(ctx).attribute(name))
        if name in _PARTS and hasattr(self.function, name) and not _has_defaults_of_frame(self.function):
            return ctx.build(getattr(self.function, name), self.own_source(ctx).attribute(name, "getattr"))
        if not hasattr(self.function, name):
            self.guard_on_absence(ctx, name)
            ctx.raise_exception(AttributeError, f"'function' object has no attribute {name!r}")
        return super().get_attribute(ctx, name)

    def guard_on_absence(self, ctx: TraceContext, name: str) -> None:
        """Guard that the function has no such attribute itself."""
        if self.by_code:
            assert self.source is not None
            ctx.guard(self.source, "ATTRIBUTE_ABSENT", name)
        elif ctx.module_guards.track(self.function, self.function.__qualname__) is not None:
            ctx.module_guards.guard_on_absence(self.function, name)

    def as_proxy(self) -> Any:
        return super().as_proxy()

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_object(self.function)

    def text(self) -> str:
        return self.function.__qualname__


def is_unevaluated(function: types.FunctionType) -> bool:
    """Whether the annotations are code that has not run yet: from Python 3.14 on they are evaluated on first access."""
    return getattr(function, "__annotate__", None) is not None and evaluated_annotations(function) is None


#: attributes that hold the parts of a function
_PARTS = (
    "__defaults__", "__kwdefaults__", "__dict__", "__code__", "__globals__", "__closure__", "__annotations__", "__annotate__",
)  # fmt: skip


def cell_tracker(ctx: TraceContext, cell: Any, name: str, source: Source | None, *, of_library: bool = False) -> CellVariable:
    """The tracker of a live cell; a function or class in a cell `of_library` is assumed not to change."""
    existing = ctx.journal.tracker_of(cell)
    if isinstance(existing, CellVariable):
        return existing
    content: VariableTracker | None
    try:
        value = cell.cell_contents
    except ValueError:
        content = None
    else:
        is_fixed = of_library and is_a(value, *GUARDED_WHERE_READ)
        content = ctx.values.lazy(value, None if source is None or is_fixed else source.attribute("cell_contents", "getattr"))
    tracker = CellVariable(name, content, source, was_empty_at=source if content is None else None)
    ctx.journal.remember(cell, tracker)
    return tracker


_TRACED_BY_SCRIPT = "__script_if_tracing_wrapper"
#: attributes of functions that stand for another function
_FORWARDS = frozenset({_TRACED_BY_SCRIPT, RUNS})


def call_python_function(
    ctx: TraceContext, function: types.FunctionType, tracker: VariableTracker,
    args: Args, kwargs: Kwargs,
) -> VariableTracker:
    """Call a live Python function as policy decides: by its rule, inlined, as one node, or not traced."""
    row = rule_for(function)
    if row is not None:
        ctx.module_guards.guard_on_function(function)
        return row.call(ctx, function, args, kwargs)
    method = _method_row_of_tensors(ctx, function, args)
    if method is not None:
        return method(ctx, args[0], args[1:], kwargs)
    if _TRACED_BY_SCRIPT in function.__dict__:  # torch.jit.script_if_tracing: TorchScript is not tracing here
        return tracker.get_attribute(ctx, "__original_fn").call(ctx, args, kwargs)
    if RUNS in function.__dict__:  # an optimized function: of nested regions the outermost wins
        return tracker.get_attribute(ctx, RUNS).call(ctx, args, kwargs)
    how = skip.how_to_call(function)
    if how == "skip" and skip.is_numpy(function):
        return call_numpy(ctx, function, function.__qualname__, args, kwargs)
    if how == "inline" or (how == "graph" and any(map(_is_function_of_program, (*args, *kwargs.values())))):
        return ctx.calls.inline(tracker, args, kwargs)
    if how == "graph":
        return ctx.operation("call_function", function, list(args), kwargs)
    if how == "constant":
        ctx.effects.observed_is_compiling |= constant_functions.constant_result(function) is True
        return ctx.build(constant_functions.constant_result(function), None)
    if how == "once":
        return call_once(ctx, function, args, kwargs)
    if how == "break":
        ctx.break_graph("DX208")
    if how == "disabled":
        ctx.break_graph("DX202", function=function.__qualname__, because=skip.why_not_inlined(function))
    ctx.break_graph(kind_of_break(function, "DX203"), function=f"{function.__module__}.{function.__qualname__}")


def is_only_inlined(function: types.FunctionType) -> bool:
    """Whether `call_python_function` inlines a function whatever its arguments are, and only binds them."""
    if rule_for(function) is not None or vars(torch.Tensor).get(function.__name__) is function:
        return False
    is_inlined = _FORWARDS.isdisjoint(function.__dict__) and skip.how_to_call(function) == "inline"
    return is_inlined and not takes_all(function.__code__)


def takes_all(code: types.CodeType) -> bool:
    """Whether a function has `*args` or `**kwargs`: containers, whose items count as used."""
    return bool(code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS))


def _is_function_of_program(argument: VariableTracker) -> bool:
    """Whether a torch operator written in Python would call this user-defined function,
    so that a node cannot represent the call.
    """
    if argument.kind in ("tensor", "constant"):
        return False
    kind = type_of(argument)
    return kind is not None and not issubclass(kind, type) and peek(kind, "__call__") is not None


def _method_row_of_tensors(ctx: TraceContext, function: types.FunctionType, args: Args) -> MethodHandler | None:
    """The rule of a tensor method that torch wrote in Python: `torch.Tensor.backward(x)` is `x.backward()`."""
    name = function.__name__
    if ctx.function_modes.may_dispatch or vars(torch.Tensor).get(name) is not function or not args or args[0].kind != "tensor":
        return None
    return METHODS.get((torch.Tensor, name))


class NestedFunctionVariable(VariableTracker):
    """A function created in this frame by `def` or `lambda`."""

    kind = "function"
    mutable = True  # created once and shared, since identity matters

    def __init__(
        self, code: types.CodeType, namespace: dict[str, Any], cells: Sequence[CellVariable] = (),
        defaults: Sequence[VariableTracker] = (), keyword_defaults: Mapping[str, VariableTracker] | None = None,
        annotations: VariableTracker | None = None, in_frame: bool = True,
    ) -> None:
        self.code = code
        self.namespace = namespace
        self.cells = list(cells)
        self.defaults = list(defaults)
        self.keyword_defaults = dict(keyword_defaults or {})
        self.annotations = annotations
        self.annotate: VariableTracker | None = None  # from Python 3.14 on: the function that evaluates the annotations
        self.in_frame = in_frame  # its globals are the root frame's, so MAKE_FUNCTION can create it
        self.attributes: dict[str, VariableTracker] = {}

    def python_type(self) -> type[Any]:
        return types.FunctionType

    def truth(self, ctx: TraceContext) -> bool:
        return True

    def hash_key(self, ctx: TraceContext) -> object:
        return self

    def guard_on_code(self, ctx: TraceContext) -> None:
        """It was created in this frame, so nothing is guarded."""

    def global_namespace(self) -> dict[str, Any]:
        """The function's globals."""
        return self.namespace

    def default(self, ctx: TraceContext, index: int) -> VariableTracker:
        """The positional default at an index."""
        return self.defaults[index].read(ctx)

    def keyword_default(self, ctx: TraceContext, name: str) -> VariableTracker | None:
        """The default of a keyword-only parameter."""
        default = self.keyword_defaults.get(name)
        return default.read(ctx) if default is not None else None

    def default_count(self) -> int:
        """The number of positional parameters with a default."""
        return len(self.defaults)

    def cell(self, ctx: TraceContext, index: int) -> CellVariable:
        """The closure cell at an index."""
        return self.cells[index]

    def binds_arguments(self) -> bool:
        return not takes_all(self.code)

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        return ctx.calls.inline(self, args, kwargs)

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name in self.attributes:
            return self.attributes[name].read(ctx)
        if name == "__name__":
            return ConstantVariable(self.code.co_name)
        if name == "__qualname__":
            return ConstantVariable(self.code.co_qualname)
        if name == "__module__":
            return ConstantVariable(self.namespace.get("__name__"))
        if name == "__doc__":
            cells = tuple(types.CellType() for _ in self.code.co_freevars)
            return ConstantVariable(types.FunctionType(self.code, {}, closure=cells).__doc__)
        if name == "__annotate__" and name in vars(types.FunctionType):
            return self.annotate or ConstantVariable(None)
        if name == "__annotations__":
            if self.annotate is not None:  # reading them runs it, and caches the result
                return super().get_attribute(ctx, name)
            self.attributes[name] = self._annotations_as_dict(ctx)
            return self.attributes[name]
        if name == "__code__":
            return ctx.build(self.code, None)
        if name == "__defaults__" and not self.defaults:
            return ConstantVariable(None)
        if not hasattr(types.FunctionType, name):
            ctx.raise_exception(AttributeError, f"'function' object has no attribute {name!r}")
        return super().get_attribute(ctx, name)

    def _annotations_as_dict(self, ctx: TraceContext) -> VariableTracker:
        parts = self.annotations.unpack(ctx) if self.annotations is not None else []
        annotations = DictVariable()
        for parameter, annotation in zip(parts[::2], parts[1::2], strict=True):
            annotations.store(ctx, parameter, annotation)
        return annotations

    def set_attribute(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        if name == "__annotations__":
            self._set_annotations(ctx, value)
            return
        # `hasattr` does not see `__annotate__`: a property of `type` hides the function's own, which older Pythons lack
        if name.startswith("__") and (name in vars(types.FunctionType) or hasattr(types.FunctionType, name)):
            if name == "__annotate__" and value.is_constant() and value.as_constant() is None:
                self.annotate = None
                return
            if name == "__annotate__" and isinstance(value, NestedFunctionVariable | FunctionVariable):
                self.attributes.pop("__annotations__", None)
                self.annotate = value
                return
            if name in ("__name__", "__qualname__", "__module__", "__doc__", "__dict__"):
                self.attributes[name] = value
                return
            super().set_attribute(ctx, name, value)
        self.attributes[name] = value

    def _set_annotations(self, ctx: TraceContext, value: VariableTracker) -> None:
        if not issubclass(value.python_type(), dict | types.NoneType):
            ctx.raise_exception(TypeError, "__annotations__ must be set to a dict object")
        self.annotate = None  # what would have evaluated them is forgotten
        self.attributes["__annotations__"] = value

    def reconstruct(self, build: Reconstruction) -> None:
        build.make_function(self)

    def text(self) -> str:
        return self.code.co_qualname


class BoundMethodVariable(VariableTracker):
    """A method with its receiver: `obj.method`."""

    kind = "method"
    text_changes = "never"

    def __init__(self, function: VariableTracker, receiver: VariableTracker, source: Source | None = None) -> None:
        self.function = function
        self.receiver = receiver
        self.source = source

    def python_type(self) -> type[Any]:
        return types.MethodType

    def truth(self, ctx: TraceContext) -> bool:
        return True

    def hash_key(self, ctx: TraceContext) -> object:
        ctx.journal.observe_identity(self.receiver)
        return MethodKey((self.function.hash_key(ctx), self.receiver))

    def same_object(self, other: VariableTracker) -> bool | None:
        return True if self is other else None if isinstance(other, BoundMethodVariable) else False

    def binds_arguments(self) -> bool:
        return self.function.binds_arguments()

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        ctx.frames.forward_call(self, self.function)
        return self.function.call(ctx, [self.receiver, *args], kwargs)

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "__self__":
            return self.receiver
        if name == "__func__":
            return self.function
        return self.function.get_attribute(ctx, name)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(types.MethodType, self.function, self.receiver)

    def text(self) -> str:
        return f"{self.receiver.type_name()}.{self.function.text()}"


class BoundCMethodVariable(BoundMethodVariable):
    """A C method bound to a user-defined object: `obj.__gt__`, inherited from object."""

    def __init__(self, function: VariableTracker, receiver: VariableTracker) -> None:
        super().__init__(function, receiver)
        self.raw: Any = function.live_value()

    def python_type(self) -> type[Any]:
        return types.MethodWrapperType if isinstance(self.raw, types.WrapperDescriptorType) else types.BuiltinMethodType

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "__func__":
            ctx.raise_exception(AttributeError, f"{self.python_type().__name__!r} object has no attribute '__func__'")
        return super().get_attribute(ctx, name)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(self.raw.__get__, self.receiver)


@builtin(types.MethodType)
def _method_type(ctx: TraceContext, function: VariableTracker, receiver: VariableTracker, /) -> VariableTracker:
    """types.MethodType(function, receiver)."""
    return BoundMethodVariable(function, receiver)


_OF_C: tuple[type[Any], ...] = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
)  # fmt: skip
"""Types of callables without instance attributes, so that a missing attribute cannot appear later."""


class BuiltinVariable(LiveCallableVariable):
    """A callable implemented in C: a builtin, a torch operator, a function of some extension."""

    kind = "builtin"
    text_changes = "never"

    def __init__(self, function: Callable[..., Any], source: Source | None = None) -> None:
        self.function = function
        self.source = source

    def python_type(self) -> type[Any]:
        return type(self.function)

    def live_value(self) -> Any:
        return self.function

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name in _CONSTANT_ATTRIBUTES or name in ("__self__",):
            try:
                return ctx.build(getattr(self.function, name), None)
            except AttributeError as missing:  # a method of a C type has no `__module__`
                ctx.raise_exception(AttributeError, *missing.args)
        if type(self.function) in _OF_C and not hasattr(self.function, name):
            ctx.raise_exception(AttributeError, f"'{type(self.function).__name__}' object has no attribute {name!r}")
        if isinstance(getattr(self.function, name, None), Callable):  # type: ignore[arg-type]
            return ctx.build(getattr(self.function, name), None)  # an overload of an operator packet: torch.ops.aten.add.Tensor
        return super().get_attribute(ctx, name)

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        if isinstance(self.function, types.ClassMethodDescriptorType):
            return self._call_class_method(ctx, args, kwargs)
        row = rule_for(self.function)
        if row is not None:
            return row.call(ctx, self.function, args, kwargs)
        method = self._method_row()
        if method is not None:
            return method(ctx, self, args, kwargs)
        if self._is_method_of_tensors(args):
            return args[0].call_method(ctx, self.function.__name__, args[1:], kwargs)
        if skip.is_graph_callable(self.function):
            return ctx.operation("call_function", self.function, list(args), kwargs)
        receiver = args[0] if self._is_method_of(args) else self._storage_of(args)
        if receiver is not None and self._is_resolved_on_class(receiver):
            result = receiver.call_method(ctx, self.function.__name__, args[1:], kwargs)
            return args[0] if returns_receiver(self.function.__name__, result, receiver) else result
        name = self.text()
        if skip.is_numpy(self.function):
            return call_numpy(ctx, self.function, name, args, kwargs)
        module = getattr(self.function, "__module__", None)
        if isinstance(module, str) and module != "builtins" and "." not in name:
            name = f"{module}.{name}"  # `time.sleep`: a bare `sleep` would be ambiguous
        ctx.break_graph(kind_of_break(self.function, "DX204" if module == "builtins" else "DX201"), function=name)

    def _call_class_method(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`vars(dict)["fromkeys"](cls, ...)`: the first argument is the class to which it binds (classmethoddescr_call in
        descrobject.c).
        """
        method: Any = self.function
        function, owner = method.__name__, name_in_messages(method.__objclass__)
        if not args:
            ctx.raise_exception(TypeError, f"descriptor {function!r} of {owner!r} object needs an argument")
        kind = args[0].python_type()
        if not issubclass(kind, type):
            wrong = f"needs a type, not a {name_in_messages(kind)!r} as arg 2"
            ctx.raise_exception(TypeError, f"descriptor {function!r} for type {owner!r} {wrong}")
        try:
            bound = method.__get__(None, args[0].live_value())
        except NotConstant:
            ctx.break_graph("DX201", function=self.text())
        except TypeError as error:  # the class is none that extends the method's
            ctx.raise_exception(TypeError, *error.args)
        if rule_for(self.function) is not None:
            return ClassMethodOfCVariable(bound, args[0]).call(ctx, args[1:], kwargs)
        return ctx.build(bound, None).call(ctx, args[1:], kwargs)

    def _method_row(self) -> MethodHandler | None:
        """The rule of a class method written in C: `dict.fromkeys`, a new object at each access."""
        owner = getattr(self.function, "__self__", None)
        return METHODS.get((owner, self.function.__name__)) if isinstance(owner, type) else None

    def _is_method_of(self, args: Args) -> bool:
        """Whether this is an unbound method of a builtin type with an explicit receiver: `list.append(items, x)`."""
        owner = getattr(self.function, "__objclass__", None)
        return owner is not None and bool(args) and isinstance(args[0], ConstantVariable | BuiltinValueVariable) \
            and issubclass(args[0].python_type(), owner)

    def _is_resolved_on_class(self, receiver: VariableTracker) -> bool:
        """Whether the receiver's own type does not override this method: `dict.__delitem__`
        of an OrderedDict bypasses its order.
        """
        own = peek(receiver.python_type(), self.function.__name__)
        return own is self.function or not hasattr(own, "__objclass__")

    def _is_method_of_tensors(self, args: Args) -> bool:
        """Whether `torch.Tensor.add(x, 1)` can be handled as `x.add(1)`, with the rules of tensor methods."""
        if getattr(self.function, "__objclass__", None) is not torch._C.TensorBase or not args:
            return False
        return args[0].kind == "tensor"

    def _storage_of(self, args: Args) -> VariableTracker | None:
        """The storage for `dict.get(output, key)`, where the class of `output` extends dict."""
        owner = getattr(self.function, "__objclass__", None)
        storage: VariableTracker | None = getattr(args[0], "storage", None) if args else None
        if storage is None or owner is None or owner is object or not issubclass(storage.python_type(), owner):
            return None
        return storage

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_object(self.function)

    def text(self) -> str:
        return callable_name(self.function)


class ClassMethodOfCVariable(BuiltinVariable):
    """A class method written in C, with a rule on the declaring class, and the class
    it was accessed through: a new object each time.
    """

    def __init__(self, function: Any, receiver: VariableTracker, source: Source | None = None) -> None:
        super().__init__(function, source)
        self.receiver = receiver

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        row = row_of_class_method(self.function)
        assert row is not None
        return row.handler(ctx, [self.receiver, *args], kwargs)


def row_of_class_method(function: Any) -> Rule | None:
    """The rule of the underlying class method in C: `F.apply` has that of `torch.autograd.Function`'s own."""
    owner: Any = getattr(function, "__self__", None)
    if not isinstance(function, types.BuiltinFunctionType) or not is_a(owner, type):
        return None
    declared = peek(owner, function.__name__)
    return rule_for(declared) if isinstance(declared, types.ClassMethodDescriptorType) else None


def _is_numpy_function(value: Any) -> bool:
    return class_module(type(value)) == "numpy" and callable(value) and skip.is_numpy(value)


@builds_when(lambda value: issubclass(type(value), torch._ops.OperatorBase | torch._ops.OpOverloadPacket), rank=30)
@builds_when(_is_numpy_function, rank=30)
def build_callable_object(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A callable object implemented in C: a ufunc, a dispatching function of numpy, an operator of torch.ops."""
    if source is not None:
        ctx.guard(source, "FUNCTION_MATCH", Identity(value, keep=True))
    return BuiltinVariable(value, source)


@builds(types.FunctionType)
def build_function(ctx: TraceContext, value: types.FunctionType, source: Source | None) -> VariableTracker:
    """A module-level function is guarded by identity; a local one, which each call
    of its enclosing function creates, by its code.
    """
    if source is not None:
        if "<locals>" in value.__qualname__ and rule_for(value) is None and skip.how_to_call(value) == "inline":
            ctx.guard(source, "TYPE_MATCH", types.FunctionType)
            ctx.guard(source.attribute("__code__", "getattr"), "CODE_MATCH", value.__code__)
            return FunctionVariable(value, source, by_code=not ctx.module_guards.fixes_identity(source))
        else:
            ctx.guard(source, "FUNCTION_MATCH", Identity(value, keep=skip.is_permanent(value)))
    return FunctionVariable(value, source)


@builds(types.MethodType)
def build_method(ctx: TraceContext, value: types.MethodType, source: Source | None) -> VariableTracker:
    """A bound method: its function and its receiver."""
    if _draws_from_numpy(value):
        return BuiltinVariable(value, source)
    if source is None:
        return BoundMethodVariable(ctx.build(value.__func__, None), ctx.build(value.__self__, None))
    if rule_for(value) is not None:  # `random.uniform` is a method of a hidden generator
        ctx.guard(source, "FUNCTION_MATCH", Identity(value, keep=True))
        return BuiltinVariable(value, source)
    ctx.guard(source, "TYPE_MATCH", types.MethodType)
    function = ctx.build(value.__func__, source.attribute("__func__", "getattr"))
    receiver = ctx.build(value.__self__, source.attribute("__self__", "getattr"))
    return BoundMethodVariable(function, receiver, source)


@builds(types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
        types.ClassMethodDescriptorType)
def build_builtin(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A C function, guarded by identity."""
    if row_of_class_method(value) is not None:
        return _class_method_of_c(ctx, value, source)
    if isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType) and not _draws_from_numpy(value):
        receiver = value.__self__
        made_by_extension = type(receiver).__name__.startswith(_RECORDS)
        if receiver is not None and not is_a(receiver, types.ModuleType, type) and rule_for(value) is None \
                and not skip.is_graph_callable(value) and not made_by_extension:
            return _bound_builtin(ctx, value, receiver, source)
    if source is not None:
        ctx.guard(source, "FUNCTION_MATCH", Identity(value, keep=True))
    return BuiltinVariable(value, source)


def _draws_from_numpy(value: Any) -> bool:
    """Whether this is a function of numpy.random: a method of its hidden generator."""
    return class_module(type(value.__self__)).startswith("numpy.random")


def _class_method_of_c(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """`F.apply` as a value, guarded by its name and its class, since each access creates another object."""
    if source is None:
        return ClassMethodOfCVariable(value, ctx.build(value.__self__, None))
    ctx.guard(source, "TYPE_MATCH", type(value))
    ctx.guard(source.attribute("__name__", "getattr"), "EQUALS", value.__name__)
    return ClassMethodOfCVariable(value, ctx.build(value.__self__, source.attribute("__self__", "getattr")), source)


def _bound_builtin(ctx: TraceContext, value: Any, receiver: Any, source: Source | None) -> VariableTracker:
    """`some_list.append` as a value: the method bound to its receiver."""
    if source is None:
        owner = ctx.build(receiver, None)
    else:
        ctx.guard(source, "TYPE_MATCH", type(value))
        ctx.guard(source.attribute("__name__", "getattr"), "EQUALS", value.__name__)
        owner = ctx.build(receiver, source.attribute("__self__", "getattr"))
    bound_method = owner.method_of(ctx, _class_of_method(ctx, value, source), value.__name__)
    if bound_method.source is None:
        bound_method.source = source
    return bound_method


def _class_of_method(ctx: TraceContext, value: Any, source: Source | None) -> type[Any] | None:
    """The class that defines a bound C method (`super().__getitem__` is dict's, whatever the object's class
    overrides); None: the object has an attribute of this name.
    """
    if isinstance(value, types.MethodWrapperType):
        if source is not None:
            ctx.guard(source.attribute("__objclass__", "getattr"), "ID_MATCH", Identity(value.__objclass__, keep=False))
        return value.__objclass__
    classes = [cls for cls in type(value.__self__).__mro__ if type(cls.__dict__.get(value.__name__)) is types.MethodDescriptorType]
    return classes[0] if len(classes) == 1 else None


@builds(types.CellType)
def build_cell(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A cell as a value."""
    return cell_tracker(ctx, value, "cell", source)


@builds(types.CodeType)
def build_code(ctx: TraceContext, value: types.CodeType, source: Source | None) -> VariableTracker:
    """A code object: a constant with all its attributes."""
    if source is not None:
        ctx.guard(source, "CODE_MATCH", value)
    return ConstantVariable(value, source)
