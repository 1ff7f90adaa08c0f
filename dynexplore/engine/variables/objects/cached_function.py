"""Functions under `functools.lru_cache`: what the cache holds is the answer.

The idea: a program sees its caches. It gets the very object that a call left there, which may be stale by now, and counts hits and
misses with `cache_info()`. So a call of the program's own cached function gives what the cache holds under these arguments in this
call, guarded like a value that is read from anywhere; when the graph has run, the function is called for real: that is a hit, which
counts it and keeps the entry from being thrown out. Where the cache holds nothing, the frame breaks, and Python calls the function;
the break stands only as long as there is nothing. Arguments that are no constants, such as tensors, break as well.

Functions of installed packages are traced at each call, as PyTorch's Dynamo does with all: they hold back work that gives the same
again.

In: live cached functions. Out: trackers of what they hold. The cache is no attribute of the function, but what the garbage
collector finds from it (CPython's Modules/_functoolsmodule.c, lru_cache_tp_traverse).
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from dynexplore.engine.policy.files import is_of_the_program
from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import CallSource, Source
from dynexplore.engine.variables.contract.base import NotConstant, VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.objects.builtin_value import BuiltinValueVariable
from dynexplore.engine.variables.objects.class_facts import ClassAttribute, attribute_source
from dynexplore.engine.variables.objects.class_lookup import binds, constant_source
from dynexplore.engine.variables.objects.function import BoundMethodVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_Cached: Any = type(functools.lru_cache(len))
_KEYS = (int, str, float, bool, bytes, complex, type(None), torch.dtype, torch.device)
"""Types of arguments whose hash and equality run no code of the program."""


# -- the real cache ---------------------------------------------------------------------------------------------------


def _parts_of(function: Any) -> tuple[dict[Any, Any], object]:
    """What a cache holds, and the mark that stands between positional and named arguments in its keys."""
    bound, size = _Cached.cache_info(function)[2:]
    referents = gc.get_referents(function)
    after = 1 if bound is None else 1 + 3 * size  # an entry of a cache with a bound: its key, its result, its class
    content = referents[after] if bound is None else dict(zip(referents[1:after:3], referents[2:after:3], strict=True))
    return content, referents[after + 2]


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
    """Whether the cache has a result under a key."""
    return key in _parts_of(function)[0]


def held_by(key: Any, function: Any) -> Any:
    """What the cache has under a key. Raises KeyError."""
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

    def call(self, ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        wrapped = vars(self.value).get("__wrapped__")
        code = getattr(wrapped, "__code__", None)
        if code is not None and not is_of_the_program(code.co_filename):
            return ctx.call_function(self.get_attribute(ctx, "__wrapped__"), args, kwargs)
        try:
            given = tuple(_constant(arg.read(ctx)) for arg in args)
            named = {name: _constant(arg.read(ctx)) for name, arg in kwargs.items()}
        except NotConstant:
            self._left_to_python(ctx, "not all arguments are constants")
        return self._held(ctx, given, named)

    def _held(self, ctx: TraceContext, args: tuple[Any, ...], kwargs: dict[str, Any]) -> VariableTracker:
        """What the cache holds for this call, or a break as long as it holds nothing."""
        key = key_of(self.value, args, kwargs)
        own = self.source or ctx.module_guards.source_of(self.value, self.text())
        is_there = CallSource(own, functools.partial(holds, key), "holds a result for this call")
        if not holds(key, self.value):
            ctx.passing.append(lambda inner: inner.guard(is_there, "EQUALS", False))
            self._left_to_python(ctx, "its cache has no result for these arguments yet")
        ctx.guard(is_there, "EQUALS", True)
        hit = _CacheHit(functools.partial(self.value, *args, **kwargs))
        ctx.journal.must_replay(hit, self.text())
        return ctx.build(held_by(key, self.value), CallSource(own, functools.partial(held_by, key), "cached result"))

    def _left_to_python(self, ctx: TraceContext, because: str) -> NoReturn:
        name = vars(self.value).get("__qualname__", self.text())
        ctx.break_graph("DX201", function=f"functools.lru_cache({name})", because=because)

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name in vars(self.value):
            source = self.source or ctx.module_guards.source_of(self.value, self.text())
            return ctx.build(vars(self.value)[name], source.attribute(name))
        if ctx.module_guards.hold(self.value, self.text()) is not None:
            ctx.module_guards.rely_on_absence(self.value, name)
        return super().get_attribute(ctx, name)

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_object(self.value)


class _CacheHit(VariableTracker):
    """A call whose result was in the cache: made for real when the graph has run."""

    kind = "call"

    def __init__(self, again: functools.partial[Any]) -> None:
        self.again = again

    def write_back(self, build: Reconstruction) -> None:
        def emit() -> None:
            build.call_object(self.again)
            build.writer.pop_top()

        build.later(emit)


def _constant(arg: VariableTracker) -> Any:
    """An argument that is a constant and can be looked up. Raises NotConstant."""
    value = arg.as_constant()
    if not _is_plain(value):
        raise NotConstant(arg)
    return value


def _is_plain(value: Any) -> bool:
    return all(map(_is_plain, value)) if type(value) is tuple else type(value) in _KEYS


@binds(_Cached)
def _bind_cached(ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    """A method under a cache."""
    function = ctx.build(attribute.raw, attribute_source(ctx, attribute) or constant_source(ctx, attribute))
    return function if instance is None else BoundMethodVariable(function, instance)


@builds(_Cached)
def build_cached_function(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A function under a cache, guarded by identity."""
    if source is not None:
        ctx.guard(source, "ID_MATCH", Identity(value, keep=False))
    return CachedFunctionVariable(value, source)
