"""Rules for `operator` and `functools`: operators as functions, partial objects, `reduce`, `wraps`.

The idea: `operator.add(a, b)` is `a + b`, looked up in the same tables. `partial` is a tracker that calls its function with more
arguments, and `reduce` is a loop.

In: calls of these functions, live partial objects. Out: trackers. PyTorch's counterpart: `FunctoolsPartialVariable` in
torch/_dynamo/variables/functions.py, polyfills/functools.py and polyfills/operator.py.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from types import WrapperDescriptorType
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import CallSource, Source
from dynexplore.engine.raw_attributes import class_mro, name_in_messages
from dynexplore.engine.variables.callables.function import FunctionVariable, NestedFunctionVariable, is_unevaluated
from dynexplore.engine.variables.containers.mapping import DictVariable, pairs_of
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.objects.builtin_value import NONE, BuiltinValueVariable
from dynexplore.engine.variables.objects.object_rules import attribute_or_none
from dynexplore.engine.variables.objects.type_lookup import defines, raw_lookup
from dynexplore.engine.variables.operators import BINARY, COMPARE, binary, compare, unary
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, run_now
from dynexplore.engine.variables.scalars.identity import identical
from dynexplore.engine.variables.scalars.specialize import equal, specialize_bool, specialize_index
from dynexplore.engine.variables.signatures import builtin, refuse_arguments
from dynexplore.engine.variables.type_errors import raise_if_refused, type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


# -- operator ---------------------------------------------------------------------------------------------------------


def _declare_binary(symbol: str, function: Any, handler: Callable[..., VariableTracker]) -> None:
    @builtin(function)
    def row(ctx: TraceContext, lhs: VariableTracker, rhs: VariableTracker, /) -> VariableTracker:
        return handler(ctx, symbol, lhs, rhs)


for _symbol, _function in BINARY.items():
    _declare_binary(_symbol, _function, binary)
for _symbol, _function in COMPARE.items():
    _declare_binary(_symbol, _function, compare)


def _declare_concatenation(symbol: str, function: Any) -> None:
    """Unlike `+`, it is for sequences alone and asks no `__radd__` (Objects/abstract.c, PySequence_Concat)."""

    @builtin(function)
    def row(ctx: TraceContext, lhs: VariableTracker, rhs: VariableTracker, /) -> VariableTracker:
        first, second = type_of(lhs), type_of(rhs)
        if first is not None and not defines(first, "__getitem__"):
            run_now(ctx, function, _nothing_like(first), None)  # raises
        raise_if_refused(ctx, function, lhs, rhs)
        if first not in _SEQUENCES or second is None or defines(second, "__radd__"):
            arguments = f"{lhs.type_name()} and {rhs.type_name()}"
            ctx.break_graph("DX205", function=f"operator.{function.__name__}", arguments=arguments)
        return binary(ctx, symbol, lhs, rhs)


def _nothing_like(kind: type[Any]) -> Any:
    """An object that supports nothing, with the name that messages give for a type."""
    return type(name_in_messages(kind), (), {})()


_SEQUENCES = (list, tuple, str, bytes)
for _symbol, _function in (("+", operator.concat), ("+=", operator.iconcat)):
    _declare_concatenation(_symbol, _function)


def _declare_unary(symbol: str, function: Any) -> None:
    @builtin(function)
    def row(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
        return unary(ctx, symbol, value)


for _symbol, _unary in (("neg", operator.neg), ("pos", operator.pos), ("invert", operator.invert)):
    _declare_unary(_symbol, _unary)


@builtin(operator.not_)
def _not(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
    return ConstantVariable(not specialize_bool(ctx, value))


@builtin(operator.truth)
def _truth(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
    return ConstantVariable(specialize_bool(ctx, value))


def _same(ctx: TraceContext, lhs: VariableTracker, rhs: VariableTracker) -> bool:
    same = identical(ctx, lhs, rhs)
    if same is None:
        ctx.break_graph("DX205", function="operator.is_", arguments=f"{lhs.type_name()} and {rhs.type_name()}")
    return same


@builtin(operator.is_)
def _is(ctx: TraceContext, lhs: VariableTracker, rhs: VariableTracker, /) -> VariableTracker:
    return ConstantVariable(_same(ctx, lhs, rhs))


@builtin(operator.is_not)
def _is_not(ctx: TraceContext, lhs: VariableTracker, rhs: VariableTracker, /) -> VariableTracker:
    return ConstantVariable(not _same(ctx, lhs, rhs))


@builtin(operator.contains)
def _contains(ctx: TraceContext, container: VariableTracker, item: VariableTracker, /) -> VariableTracker:
    return container.contains(ctx, item)


@builtin(operator.getitem)
def _getitem(ctx: TraceContext, container: VariableTracker, key: VariableTracker, /) -> VariableTracker:
    return container.get_item(ctx, key)


@builtin(operator.setitem)
def _setitem(ctx: TraceContext, container: VariableTracker, key: VariableTracker, value: VariableTracker, /) -> VariableTracker:
    container.set_item(ctx, key, value)
    return NONE


@builtin(operator.delitem)
def _delitem(ctx: TraceContext, container: VariableTracker, key: VariableTracker, /) -> VariableTracker:
    container.delete_item(ctx, key)
    return NONE


@builtin(operator.index)
def _index(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
    if value.kind == "symbolic number" or (value.varying_key() is not None and value.python_type() is int):
        return value
    return ConstantVariable(specialize_index(ctx, value, "operator.index()"))


@builtin(operator.countOf)
def _count_of(ctx: TraceContext, items: VariableTracker, item_to_count: VariableTracker, /) -> VariableTracker:
    kind = type_of(items)
    if kind is not None and not defines(kind, "__iter__") and not defines(kind, "__getitem__"):
        run_now(ctx, operator.countOf, _nothing_like(kind), None)  # raises
    return ConstantVariable(sum(equal(ctx, item, item_to_count) for item in items.unpack(ctx)))


# -- callable objects: itemgetter, attrgetter, methodcaller, partial ---------------------------------------------------


class GetterVariable(BuiltinValueVariable):
    """`operator.itemgetter(...)`, `attrgetter(...)`, `methodcaller(...)`."""

    kind = "getter"
    mutable = True

    def __init__(self, maker: Any, args: Args, kwargs: Kwargs | None = None) -> None:
        self.maker, self.args, self.kwargs = maker, list(args), dict(kwargs or {})

    def python_type(self) -> type[Any]:
        return self.maker  # type: ignore[no-any-return]

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        if len(args) != 1 or kwargs:
            refuse_arguments(ctx, self.maker("name"), self.type_name(), args, kwargs)
        (value,) = args
        if self.maker is operator.methodcaller:
            return value.get_attribute(ctx, self.args[0].as_constant()).call(ctx, self.args[1:], self.kwargs)
        values = [_GETTERS[self.maker](ctx, value, key) for key in self.args]
        return values[0] if len(values) == 1 else TupleVariable(values)

    def reconstruct(self, build: Reconstruction) -> None:
        if self.kwargs:
            raise NotImplementedError("methodcaller with keyword arguments")
        build.call_object(self.maker, *self.args)


def _attribute_path(ctx: TraceContext, value: VariableTracker, path: VariableTracker) -> VariableTracker:
    for name in path.as_constant().split("."):
        value = value.get_attribute(ctx, name)
    return value


_GETTERS: dict[Any, Callable[..., VariableTracker]] = {
    operator.itemgetter: lambda ctx, value, key: value.get_item(ctx, key),
    operator.attrgetter: _attribute_path,
}


def _declare_getter(maker: Any) -> None:
    @rule(maker)
    def row(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        names = args[:1] if maker is operator.methodcaller else args if maker is operator.attrgetter else []
        if not args or (kwargs and maker is not operator.methodcaller):
            refuse_arguments(ctx, maker, maker.__name__, args, kwargs)
        if not all(name.is_constant() and isinstance(name.as_constant(), str) for name in names):
            ctx.break_graph("DX218", callee=maker.__name__)
        return GetterVariable(maker, args, kwargs)


for _maker in (operator.itemgetter, operator.attrgetter, operator.methodcaller):
    _declare_getter(_maker)


@builds(operator.itemgetter, operator.attrgetter, operator.methodcaller)
def build_getter(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A getter that existed before the frame: guarded by identity, since it is immutable."""
    maker, args = value.__reduce__()[:2]
    if maker is not type(value):
        ctx.break_graph("DX302", question="call", type=type(value).__qualname__)
    if source is not None:
        ctx.guard(source, "ID_MATCH", Identity(value, keep=True))
    getter = GetterVariable(maker, [ctx.build(arg, None) for arg in args])
    getter.source = source
    return getter


class PartialVariable(BuiltinValueVariable):
    """`functools.partial(function, *args, **kwargs)`."""

    kind = "partial"
    mutable = True
    value_type = functools.partial

    def __init__(
        self, function: VariableTracker, args: TupleVariable, keywords: DictVariable, source: Source | None = None,
        value: functools.partial[Any] | None = None,
    ) -> None:
        self.function, self.args, self.keywords = function, args, keywords
        self.source = source
        self.value = value  # the live object; None for one made in this frame

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        named = {key.as_constant(): value for key, value in self.keywords.pairs(ctx)}
        positional = self.args.unpack(ctx)
        left_out = sum(map(is_placeholder, positional))
        if len(args) < left_out:
            sentence = f"missing positional arguments in 'partial' call; expected at least {left_out}, got {len(args)}"
            ctx.raise_exception(TypeError, sentence)
        function = self.function.read(ctx)
        ctx.frames.forward_call(self, function)
        return function.call(ctx, fill_placeholders(positional, args), {**named, **kwargs})

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        parts = {"func": self.function, "args": self.args, "keywords": self.keywords}
        if name in parts or self.source is None:
            return parts[name].read(ctx) if name in parts else super().get_attribute(ctx, name)
        if self.value is not None and not hasattr(functools.partial, name):  # because reading `__dict__` would create it
            if hasattr(self.value, name):
                return ctx.build(getattr(self.value, name), self.source.attribute(name))
            ctx.guard(self.source, "ATTRIBUTE_ABSENT", name)
        return super().get_attribute(ctx, name)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(make_partial, self.function, self.args, self.keywords)


def is_placeholder(arg: VariableTracker) -> bool:
    """Whether it is `functools.Placeholder` (Python 3.14), which a later argument replaces."""
    return "Placeholder" in vars(functools) and arg.is_constant() and arg.as_constant() is vars(functools)["Placeholder"]


def fill_placeholders(args: Args, later: Args) -> list[VariableTracker]:
    """The arguments of a partial, with the first later ones in place of placeholders, and the others appended."""
    fresh = iter(later)
    return [next(fresh, arg) if is_placeholder(arg) else arg for arg in args] + list(fresh)


def make_partial(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """`partial(function, *args, **keywords)`."""
    return functools.partial(function, *args, **keywords)


@builtin(functools.partial)
def _partial(
    ctx: TraceContext, function: VariableTracker, /, *args: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    raise_if_refused(ctx, functools.partial, function)
    if args and is_placeholder(args[-1]):
        ctx.raise_exception(TypeError, "trailing Placeholders are not allowed")
    if any(map(is_placeholder, kwargs.values())):
        ctx.raise_exception(TypeError, "Placeholder cannot be passed as a keyword argument")
    first, named = list(args), DictVariable()
    if _guard_on_flattening(ctx, function) and isinstance(function, PartialVariable):
        first = fill_placeholders(function.args.unpack(ctx), first) if first else function.args.unpack(ctx)
        for key, value in function.keywords.pairs(ctx):
            named.store(ctx, key, value)
        function = function.function.read(ctx)
    for name, value in kwargs.items():
        named.store(ctx, ConstantVariable(name), value)
    return PartialVariable(function, TupleVariable(first), named)


def _guard_on_flattening(ctx: TraceContext, function: VariableTracker) -> bool:
    """Whether a partial of it is flattened to one partial: it has no `__dict__` yet, and is called as a partial is, or since
    Python 3.13 is one by its class (functoolsmodule.c, partial_new). For an existing partial, CPython itself decides.
    """
    if not isinstance(function, PartialVariable):
        cls = function.python_type()
        owners = [base.__name__ for base in class_mro(cls)]  # a class that extends it, even from a second import
        called_alike = "partial" in owners and isinstance(raw_lookup(ctx, cls, "__call__"), WrapperDescriptorType)
        if called_alike or functools.partial in class_mro(cls):
            ctx.break_graph("DX302", question="what a partial of it holds", type=function.type_name())
        return False
    if function.source is None or function.value is None:
        return True
    flattened = flattens(function.value)
    ctx.guard(CallSource(function.source, flattens, "whether a partial of it is one with "), "EQUALS", flattened)
    return flattened


def flattens(value: functools.partial[Any]) -> bool:
    """Whether a partial of this one calls the inner function directly."""
    return functools.partial(value).func is not value


@builds(functools.partial)
def build_partial(ctx: TraceContext, value: functools.partial[Any], source: Source | None) -> VariableTracker:
    """A partial object: its function and arguments are read through C members."""
    if source is None:
        source = ctx.module_guards.fixed_source_of(value, "a partial")
    ctx.guard(source, "TYPE_MATCH", functools.partial)
    parts = [ctx.build(getattr(value, name), source.attribute(name, "getattr")) for name in ("func", "args", "keywords")]
    function, args, keywords = parts
    assert isinstance(args, TupleVariable)
    assert isinstance(keywords, DictVariable)
    return PartialVariable(function, args, keywords, source, value)


@builtin(functools.reduce)
def _reduce(
    ctx: TraceContext, function: VariableTracker, iterable: VariableTracker, initial: VariableTracker | None = None, /
) -> VariableTracker:
    iterator = iterable.iterate(ctx)
    total = iterator.next_item(ctx) if initial is None else initial
    if total is None:
        ctx.raise_exception(TypeError, "reduce() of empty iterable with no initial value")
    while (item := iterator.next_item(ctx)) is not None:
        total = function.call(ctx, [total, item], {})
    return total


# -- wrappers ---------------------------------------------------------------------------------------------------------


@builtin(functools.update_wrapper)
def _update_wrapper(
    ctx: TraceContext,
    wrapper: VariableTracker,
    wrapped: VariableTracker,
    assigned: VariableTracker | None = None,
    updated: VariableTracker | None = None,
) -> VariableTracker:
    """`functools.wraps`: copy names and attributes of the wrapped function, then set `__wrapped__`."""
    for name in functools.WRAPPER_ASSIGNMENTS if assigned is None else _texts(ctx, assigned):
        metadata = _metadata(ctx, wrapper, wrapped, name)
        if metadata is not None:
            wrapper.set_attribute(ctx, name, metadata)
    for name in functools.WRAPPER_UPDATES if updated is None else _texts(ctx, updated):
        _update_attribute(ctx, wrapper, wrapped, name)
    wrapper.set_attribute(ctx, "__wrapped__", wrapped)
    return wrapper


def _texts(ctx: TraceContext, names: VariableTracker) -> list[str]:
    return [plain.as_constant() for plain in names.unpack(ctx)]


def _update_attribute(ctx: TraceContext, wrapper: VariableTracker, wrapped: VariableTracker, name: str) -> None:
    """`getattr(wrapper, name).update(getattr(wrapped, name, {}))`; the `__dict__` of a function holds its attributes."""
    own = _own_names(wrapped) if name == "__dict__" else None
    if own is not None and _own_names(wrapper) is not None:
        for attribute in own:
            wrapper.set_attribute(ctx, attribute, wrapped.get_attribute(ctx, attribute))
        return
    updates = attribute_or_none(ctx, wrapped, name) or DictVariable()
    if _own_names(wrapper) is None or name != "__dict__":
        wrapper.get_attribute(ctx, name).call_method(ctx, "update", [updates], {})
        return
    for key, value in pairs_of(ctx, updates):
        wrapper.set_attribute(ctx, key.as_constant(), value)


def _own_names(wrapped: VariableTracker) -> list[str] | None:
    """The attributes in a function's own `__dict__`; None if it is no function."""
    if isinstance(wrapped, NestedFunctionVariable):
        return [name for name in wrapped.attributes if name not in functools.WRAPPER_ASSIGNMENTS]
    return list(wrapped.function.__dict__) if isinstance(wrapped, FunctionVariable) else None


def _metadata(ctx: TraceContext, wrapper: VariableTracker, wrapped: VariableTracker, name: str) -> VariableTracker | None:
    """An attribute of the wrapped function; what a live one lacks is omitted where the wrapper lacks it, too."""
    if name == "__type_params__" and isinstance(wrapped, NestedFunctionVariable):
        return wrapped.attributes.get(name)
    if isinstance(wrapped, FunctionVariable) and isinstance(wrapper, NestedFunctionVariable):
        is_plain = wrapper.annotate is None and wrapper.annotations is None and name not in wrapper.attributes
        if name == "__type_params__" and not getattr(wrapped.function, name, ()):
            return None  # nor has the wrapper any: making a function that has some is a graph break
        if is_plain and name == "__annotate__" and getattr(wrapped.function, name, None) is None:
            return None
        if is_plain and name == "__annotations__" and not is_unevaluated(wrapped.function) and not wrapped.function.__annotations__:
            return None
    return attribute_or_none(ctx, wrapped, name)
