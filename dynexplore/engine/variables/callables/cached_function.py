"""Functions under `functools.lru_cache`: a cache hit returns the stored object.

The idea: caches are observable. A hit returns the very object that an earlier call stored, even if it is stale by now, and
`cache_info()` counts hits and misses. So a call of a user-defined cached function yields the object that the cache holds for these
arguments, guarded like a value read from any other source; after the graph has run, the real function is called, which counts the
hit and keeps the entry from being evicted. On a miss, or with dynamic numbers as arguments, the wrapped function is traced
(cached_call.py). If it is not pure, the graph breaks and Python calls it; a break at an empty cache is temporary. Tensor arguments
break the graph as well.

Cached functions of installed packages are always traced, as in Dynamo: they only save work.

In: live cached functions. Out: trackers of the cached results. The cache is not accessible as an attribute; it is found through the
garbage collector (CPython's Modules/_functoolsmodule.c, lru_cache_tp_traverse). PyTorch's counterpart:
`WrapperUserFunctionVariable` in torch/_dynamo/variables/functions.py.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from dynexplore.engine.policy.trace_rules import is_of_the_program
from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import CallSource, Source
from dynexplore.engine.raw_attributes import literal_text
from dynexplore.engine.variables.callables.cached_call import (
    CachedCall,
    Hit,
    call_while_tracing,
    call_with_varying_numbers,
    hashes_by_identity,
)
from dynexplore.engine.variables.callables.function import BoundMethodVariable
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotConstant, VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.objects.builtin_value import BuiltinValueVariable
from dynexplore.engine.variables.objects.descriptors import binds, constant_source
from dynexplore.engine.variables.objects.type_lookup import ClassAttribute, attribute_source

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_Cached: Any = type(functools.lru_cache(len))
_KEYS = (int, str, float, bool, bytes, complex, type(None), torch.dtype, torch.device)
"""Argument types whose hash and equality run no user code."""


# -- the real cache ---------------------------------------------------------------------------------------------------


def _parts_of(function: Any) -> tuple[dict[Any, Any], object]:
    """The dict of a cache, and the sentinel that separates positional and keyword arguments in its keys."""
    bound, size = _Cached.cache_info(function)[2:]
    referents = gc.get_referents(function)
    end = 1 if bound is None else 1 + 3 * size  # an entry of a bounded cache: its key, its result, its class
    content = referents[end] if bound is None else dict(zip(referents[1:end:3], referents[2:end:3], strict=True))
    return content, referents[end + 2]


def key_of(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The key of a call in the function's cache.

    >>> key_of(functools.lru_cache(max), (3,), {}), key_of(functools.lru_cache(max, typed=True), (3,), {})
    (3, (3, <class 'int'>))
    """
    typed = vars(function)["cache_parameters"]()["typed"]
    if len(args) == 1 and not kwargs and not typed and type(args[0]) in (int, str):
        return args[0]
    key = args
    if kwargs:
        key += (_parts_of(function)[1], *(part for item in kwargs.items() for part in item))
    if typed:
        key += (*map(type, args), *map(type, kwargs.values()))
    return key


def holds(key: Any, function: Any) -> bool:
    """Whether the cache has a result for a key."""
    return key in _parts_of(function)[0]


def cached_value(key: Any, function: Any) -> Any:
    """The cached result for a key. Raises KeyError."""
    return _parts_of(function)[0][key]


# -- trackers ---------------------------------------------------------------------------------------------------------


class CachedFunctionVariable(BuiltinValueVariable):
    """A function under `functools.lru_cache`."""

    kind = "function"

    def __init__(self, value: Any, source: Source | None) -> None:
        self.value, self.source = value, source

    def python_type(self) -> type[Any]:
        return type(self.value)

    def live_value(self) -> Any:
        return self.value

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        wrapped = vars(self.value).get("__wrapped__")
        code = getattr(wrapped, "__code__", None)
        if code is not None and not is_of_the_program(code.co_filename):
            return self.get_attribute(ctx, "__wrapped__").call(ctx, args, kwargs)
        args, kwargs = [arg.read(ctx) for arg in args], {name: arg.read(ctx) for name, arg in kwargs.items()}
        try:
            positional = tuple([_hashable_argument(ctx, arg) for arg in args])
            named = {name: _hashable_argument(ctx, arg) for name, arg in kwargs.items()}
        except NotConstant:
            return self._traced(ctx, args, kwargs, "not all arguments are constants")
        key = key_of(self.value, positional, named)
        if not holds(key, self.value) and not self._is_called_now(ctx, key, positional, named, (args, kwargs)):
            is_there = self._presence(ctx, key)
            ctx.effects.transient_break_guards.append(lambda inner: inner.guard(is_there, "EQUALS", False))
            return self._traced(ctx, args, kwargs, "its cache has no result for these arguments yet")
        return self._cached_result(ctx, key, positional, named)

    def _cached_result(self, ctx: TraceContext, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> VariableTracker:
        """The result that the cache holds for this call."""
        ctx.guard(self._presence(ctx, key), "EQUALS", True)
        ctx.journal.must_replay(_CacheHit(Hit(self.value, key, args, kwargs)), self.text())
        result = CallSource(self._own_source(ctx), functools.partial(cached_value, key), f"cached result of {_shown(key)} in ")
        return ctx.build(cached_value(key, self.value), result)

    def _presence(self, ctx: TraceContext, key: Any) -> Source:
        return CallSource(self._own_source(ctx), functools.partial(holds, key), f"holds a result of {_shown(key)} ")

    def _own_source(self, ctx: TraceContext) -> Source:
        return self.source or ctx.module_guards.source_of(self.value, self.text())

    def _is_called_now(
        self,
        ctx: TraceContext,
        key: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        trackers: tuple[Sequence[VariableTracker], Mapping[str, VariableTracker]],
    ) -> bool:
        """Whether the cache could be filled at trace time."""
        wrapped = self._wrapped(ctx)
        if wrapped is None or not call_while_tracing(ctx, self.value, wrapped, key, args, kwargs, trackers):
            return False
        return holds(key, self.value)

    def _traced(self, ctx: TraceContext, args: Args, kwargs: Kwargs, because: str) -> VariableTracker:
        """The result of the wrapped function, traced instead of reading the cache."""
        wrapped = self._wrapped(ctx)
        if wrapped is not None:
            result = call_with_varying_numbers(ctx, self.value, wrapped, _parts_of(self.value)[0], args, kwargs)
            if result is not None:
                return result
        self._left_to_python(ctx, because)

    def _wrapped(self, ctx: TraceContext) -> VariableTracker | None:
        """The function that the cache calls, if it is written in Python."""
        wrapped = vars(self.value).get("__wrapped__")
        keeps_nothing = vars(self.value)["cache_parameters"]()["maxsize"] == 0
        if keeps_nothing or type(wrapped) is not FunctionType or not any(wrapped is part for part in gc.get_referents(self.value)):
            return None
        return self.get_attribute(ctx, "__wrapped__")

    def _left_to_python(self, ctx: TraceContext, because: str) -> NoReturn:
        name = vars(self.value).get("__qualname__", self.text())
        ctx.break_graph("DX201", function=f"functools.lru_cache({name})", because=because)

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name in vars(self.value):
            return ctx.build(vars(self.value)[name], self._own_source(ctx).attribute(name))
        if ctx.module_guards.track(self.value, self.text()) is not None:
            ctx.module_guards.guard_on_absence(self.value, name)
        return super().get_attribute(ctx, name)

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_object(self.value)


class _CacheHit(CachedCall):
    """A call whose result was in the cache: it counts a hit, and keeps the entry from being evicted."""

    def __init__(self, again: Callable[[], object]) -> None:
        self.again = again

    def write_back(self, build: Reconstruction) -> None:
        def emit() -> None:
            build.call_object(self.again)
            build.writer.pop_top()

        build.later(emit)


def _hashable_argument(ctx: TraceContext, arg: VariableTracker) -> Any:
    """An argument that can be part of a cache key: a constant, or an object that compares by identity. Raises NotConstant."""
    if isinstance(arg, TupleVariable):
        return tuple([_hashable_argument(ctx, item.read(ctx)) for item in arg.items])
    if not arg.is_constant() and arg.source is not None and hashes_by_identity(arg) and ctx.specializer.specializes(arg.source):
        value = arg.live_value()
        ctx.guard(arg.source, "ID_MATCH", Identity(value, keep=False))
        return value
    value = arg.as_constant()
    if not _is_plain(value):
        raise NotConstant(arg)
    return value


def _shown(key: Any) -> str:
    """A key as text, different for each key, since sources of different results must differ."""
    if isinstance(key, tuple):
        return f"({', '.join(map(_shown, key))})"
    return literal_text(key) if _is_plain(key) else f"{type(key).__qualname__} {id(key):x}"


def _is_plain(value: Any) -> bool:
    return all(map(_is_plain, value)) if type(value) is tuple else type(value) in _KEYS


@binds(_Cached)
def _bind_cached(ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    """A cached function found in a class binds as a method."""
    function = ctx.build(attribute.raw, attribute_source(ctx, attribute) or constant_source(ctx, attribute))
    return function if instance is None else BoundMethodVariable(function, instance)


@builds(_Cached)
def build_cached_function(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A cached function, guarded by identity."""
    if source is not None:
        ctx.guard(source, "ID_MATCH", Identity(value, keep=False))
    return CachedFunctionVariable(value, source)
