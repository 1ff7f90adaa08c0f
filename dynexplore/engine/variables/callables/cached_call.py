"""Calls of `functools.lru_cache` functions that miss the cache, or have dynamic arguments: the wrapped function is traced.

The idea: bypassing a cache is not observable if the wrapped function is pure and returns the same result again. torch.compile
assumes that of every cached function: it traces the wrapped function, warns, and neither reads nor fills the cache. In CPython the
cache comes first: a hit returns the very object stored, however stale; a miss computes the result, stores it and counts. Here the
wrapped function is traced, too, but under three checks:

- **It must be pure.** It mutates no object that existed before, adds no operator, draws no random number. Otherwise the graph
  breaks and Python calls it.
- **All arguments are constants.** Then the real function is called once, at trace time, so that the cache holds the result, which
  is read from there like any other (cached_function.py). This is the program's own call, made slightly earlier, which is not
  observable: the function mutates nothing, and the frame has mutated nothing that it could read. The hit and miss counts are
  corrected when the frame runs (`Hit`).
- **Sizes or unspecialized numbers are among the arguments.** Then the traced result replaces the cached one, if the cache is not
  stale (some of its results are traced again and compared); a stale cache breaks the graph. After the graph has run, the real
  function is called with this call's numbers, so that counts and content match eager. Objects of the result never leave the frame
  and are never mutated, since other calls share the cache's own objects; otherwise Python makes the call.

In: the cached function, trackers of the arguments. Out: the tracker of the result, or None if Python must make the call. PyTorch's
counterpart: `WrapperUserFunctionVariable` in torch/_dynamo/variables/functions.py.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

from dynexplore.engine.graph.subgraphs import last_node, nodes_after
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.native import RegionCall
from dynexplore.engine.provenance.guards import same_constant
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotConstant, VariableTracker, progress
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_HASH_BY_IDENTITY: tuple[Any, ...] = (object.__hash__, type.__hash__)
_EQUAL_BY_IDENTITY: tuple[Any, ...] = (object.__eq__, type.__eq__)

_COMPARED_RESULTS = 4
"""How many results of a cache are compared with the wrapped function's current results: the oldest and the newest."""

_called_while_tracing: WeakKeyDictionary[Any, Counter[Any]] = WeakKeyDictionary()
"""Function -> key -> calls that were made at trace time and that no run of a frame has counted yet."""


# -- constants: the program's call, a moment early -----------------------------------------------------------------------


def call_while_tracing(
    ctx: TraceContext,
    function: Any,
    wrapped: VariableTracker,
    key: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    trackers: tuple[Sequence[VariableTracker], Mapping[str, VariableTracker]],
) -> bool:
    """Fill the cache by a real call, if making it at trace time is not observable; returns whether it was made."""
    has_changes = any(not isinstance(changed, CachedCall) for changed in ctx.journal.changed)
    if has_changes or ctx.active_modes or ctx.function_modes.entered:
        return False  # what the function reads may not have its final value yet
    if trace_pure(ctx, wrapped, *trackers) is None:
        return False
    try:
        function(*args, **kwargs)
    except Exception:
        return False
    _called_while_tracing.setdefault(function, Counter())[key] += 1
    return True


class Hit:
    """A call of a cached function that counts a hit when the frame runs; a call made at trace time has been counted already."""

    def __init__(self, function: Any, key: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.function, self.key = function, key
        self.again = functools.partial(RegionCall(function, None), *args, **kwargs)

    def __call__(self) -> None:
        if not (_called_while_tracing and _is_counted(self.function, self.key)):
            self.again()


def _is_counted(function: Any, key: Any) -> bool:
    """Whether a call made at trace time was already counted for this one."""
    waiting = _called_while_tracing.get(function)
    if waiting is None or key not in waiting:
        return False
    waiting -= Counter([key])
    if not waiting:
        del _called_while_tracing[function]
    return True


# -- numbers that vary: the wrapped function in the cache's place --------------------------------------------------------


def call_with_varying_numbers(
    ctx: TraceContext,
    function: Any,
    wrapped: VariableTracker,
    content: Mapping[Any, Any],
    args: Args,
    kwargs: Kwargs,
) -> VariableTracker | None:
    """The traced result, if the cache agrees with it; None if Python must make the call."""
    arguments = [*args, *kwargs.values()]
    if not all(map(is_number_or_constant, arguments)):
        return None
    for call in list(ctx.journal.changed):
        if isinstance(call, _RealCall) and call.is_call_of(function, arguments, tuple(kwargs)):
            ctx.journal.must_replay(_RealCall(function, arguments, tuple(kwargs), call.result), "cached function")
            return call.result
    result = trace_pure(ctx, wrapped, args, kwargs)
    if result is None or not all(_agrees(ctx, wrapped, key, cached, args, kwargs) for key, cached in _samples(content)):
        return None
    ctx.journal.must_replay(_RealCall(function, arguments, tuple(kwargs), result), "cached function")
    return result


def is_number_or_constant(value: VariableTracker) -> bool:
    """Whether an argument is a symbolic number, a constant, an object that compares by identity, or a tuple of these."""
    if isinstance(value, TupleVariable):
        return all(map(is_number_or_constant, value.items))
    return isinstance(value, SymbolicNumberVariable) or value.is_constant() or hashes_by_identity(value)


def hashes_by_identity(value: VariableTracker) -> bool:
    """Whether a cache key with this object can never equal a key with another object."""
    if value.kind not in ("object", "function", "class"):
        return False
    methods: Any = value.python_type()
    return methods.__hash__ in _HASH_BY_IDENTITY and methods.__eq__ in _EQUAL_BY_IDENTITY


def _can_be_rebuilt(value: VariableTracker) -> bool:
    if isinstance(value, TupleVariable):
        return all(map(_can_be_rebuilt, value.items))
    return value.source is not None or isinstance(value, SymbolicNumberVariable) or value.is_constant()


def _samples(content: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """A sample of the cache's content: keys and results."""
    pairs, half = list(content.items()), _COMPARED_RESULTS // 2
    return pairs if len(pairs) <= _COMPARED_RESULTS else [*pairs[:half], *pairs[-half:]]


def _agrees(
    ctx: TraceContext,
    wrapped: VariableTracker,
    key: Any,
    cached: Any,
    args: Args,
    kwargs: Kwargs,
) -> bool:
    """Whether the wrapped function still returns the cached result, if that belongs to a call with the same signature."""
    parts = _parts_of_key(key, len(args), tuple(kwargs))
    if parts is None:
        return True
    values = [_argument(value, arg) for value, arg in zip(parts, [*args, *kwargs.values()], strict=True)]
    arguments = [value for value in values if value is not None]
    if len(arguments) < len(values):
        return True
    retraced = trace_pure(ctx, wrapped, arguments[: len(args)], dict(zip(kwargs, arguments[len(args) :], strict=True)))
    return retraced is not None and _is_same(ctx, retraced, cached)


def _parts_of_key(key: Any, count: int, names: tuple[str, ...]) -> tuple[Any, ...] | None:
    """The arguments in a cache key; None if it is the key of a call with another signature."""
    if type(key) is not tuple:  # a single number or string
        return (key,) if count == 1 and not names else None
    positional, named = key[:count], key[count + 1 : count + 1 + 2 * len(names)] if names else ()
    return (*positional, *named[1::2]) if len(positional) == count and named[::2] == names else None


def _argument(value: Any, arg: VariableTracker) -> VariableTracker | None:
    """The tracker of an argument of an earlier call; None if this call has a different object or constant there."""
    if isinstance(arg, SymbolicNumberVariable):
        return ConstantVariable(value) if type(value) in (int, float, bool) else None
    if isinstance(arg, TupleVariable):
        if not isinstance(value, tuple) or len(value) != len(arg.items):
            return None
        items = [_argument(part, item) for part, item in zip(value, arg.items, strict=True)]
        return None if None in items else TupleVariable([item for item in items if item is not None])
    if arg.is_constant():
        return arg if same_constant(arg.as_constant(), value) else None
    return arg if arg.source is not None and arg.live_value() is value else None


def _is_same(ctx: TraceContext, result: VariableTracker, cached: Any) -> bool:
    """Whether a traced result equals the cached one."""
    result = result.read(ctx)
    if isinstance(result, ListVariable | TupleVariable):
        alike = type(cached) is result.python_type() and len(cached) == len(result.items)
        return alike and all(_is_same(ctx, item, part) for item, part in zip(result.items, cached, strict=True))
    if isinstance(result, DictVariable):
        pairs = result.pairs(ctx)
        if type(cached) is not dict or len(cached) != len(pairs):
            return False
        rows = zip(pairs, cached.items(), strict=True)
        return all(_is_same(ctx, key, at) and _is_same(ctx, value, part) for (key, value), (at, part) in rows)
    try:
        return same_constant(result.as_constant(), cached)
    except NotConstant:
        return False


class CachedCall(VariableTracker):
    """A call of a cached function to be made for real after the graph has run."""

    kind = "call"


class _RealCall(CachedCall):
    """A call with dynamic numbers: it fills the cache and counts."""

    def __init__(self, function: Any, args: list[VariableTracker], names: tuple[str, ...], result: VariableTracker) -> None:
        self.function, self.args, self.names, self.result = function, args, names, result

    def is_call_of(self, function: Any, args: list[VariableTracker], names: tuple[str, ...]) -> bool:
        """Whether another call would hit the cache entry that this one creates."""
        same_signature = self.function is function and self.names == names and len(self.args) == len(args)
        return same_signature and all(map(_is_same_argument, self.args, args))

    def write_back(self, build: Reconstruction) -> None:
        if not all(map(_can_be_rebuilt, self.args)):
            return  # an object of another result, which never leaves the frame
        plain: Any = RegionCall(self.function, None)  # no region: the wrapped function must not be captured again
        function = functools.partial(_call_by_name, plain, self.names) if self.names else plain
        build.call_object(function, *self.args)
        build.writer.pop_top()


def _is_same_argument(first: VariableTracker, second: VariableTracker) -> bool:
    if isinstance(first, TupleVariable) and isinstance(second, TupleVariable):
        return len(first.items) == len(second.items) and all(map(_is_same_argument, first.items, second.items))
    if isinstance(first, SymbolicNumberVariable) and isinstance(second, SymbolicNumberVariable):
        return bool(first.value.node.expr == second.value.node.expr)
    constants = first.is_constant() and second.is_constant()
    return first is second or (constants and same_constant(first.as_constant(), second.as_constant()))


def _call_by_name(function: Any, names: tuple[str, ...], *args: Any) -> Any:
    """Call a function, with its last arguments passed by name."""
    count = len(args) - len(names)
    return function(*args[:count], **dict(zip(names, args[count:], strict=True)))


# -- tracing -------------------------------------------------------------------------------------------------------------


def trace_pure(ctx: TraceContext, wrapped: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """The result of the wrapped function if it is pure; None if it has side effects or raises."""
    before, draws = last_node(ctx.graph.graph), len(ctx.effects.draws)
    with progress.of_a_body() as is_made_inside, ctx.journal.mutations_during() as changed:
        try:
            result = wrapped.call(ctx, args, kwargs).read(ctx)
            result.read_items(ctx)
        except (GraphBreak, ObservedException):
            return None
        values = [node.meta.get("example_value") for node in nodes_after(ctx.graph.graph, before) if node.op != "placeholder"]
        if len(ctx.effects.draws) > draws or any(isinstance(value, torch.Tensor) for value in values):
            return None
        if not all(map(is_made_inside, changed)):
            return None
        ctx.journal.mark_cached(is_made_inside)
    return result
