"""Rules for builtins that iterate, measure, aggregate and construct containers: `iter`, `len`, `sum`, `max`, `list`, `dict`, ...

The idea: each builtin is one rule, a Python function with the builtin's own signature. It calls the trackers' protocol methods
(`iterate`, `length`, `hash_key`, ...) in the order in which CPython's C function calls the slots, so that a faulty program raises
the same exception at the same point.

In: calls of builtins. Out: trackers. PyTorch's counterpart: torch/_dynamo/variables/builtin.py. The other builtins are in
number_rules.py, text_rules.py, object_rules.py and functional_rules.py; those that are iterators in builtin_iterators.py.
"""

from __future__ import annotations

import builtins
import collections
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dynexplore.engine.raw_attributes import name_in_messages
from dynexplore.engine.variables.callables.function import ClassMethodOfCVariable
from dynexplore.engine.variables.callables.generator import GeneratorVariable
from dynexplore.engine.variables.containers.builtin_iterators import CallIteratorVariable
from dynexplore.engine.variables.containers.iterator import IteratorVariable
from dynexplore.engine.variables.containers.list_items import each_item, list_items, tuple_items
from dynexplore.engine.variables.containers.mapping import (
    DefaultDictVariable,
    DictVariable,
    MappingProxyVariable,
    OrderedDictVariable,
    update,
)
from dynexplore.engine.variables.containers.ranges import RangeVariable, SliceVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, SizeVariable, TupleVariable
from dynexplore.engine.variables.containers.set_ import FrozenSetVariable, SetVariable, frozen, members_of
from dynexplore.engine.variables.containers.sorting import keyed, sorted_items
from dynexplore.engine.variables.contract.base import Kwargs, VariableTracker
from dynexplore.engine.variables.objects.builtin_value import NONE, BuiltinValueVariable
from dynexplore.engine.variables.objects.descriptors import binds, class_tracker
from dynexplore.engine.variables.objects.type_lookup import ClassAttribute, has_name, peek, raw_lookup
from dynexplore.engine.variables.operators import binary, compare
from dynexplore.engine.variables.rules import rule, rule_for
from dynexplore.engine.variables.scalars.constant import ConstantVariable, run_now
from dynexplore.engine.variables.scalars.minmax import are_symbolic_numbers, extreme_of_numbers, extreme_of_tensors
from dynexplore.engine.variables.scalars.specialize import (
    equal,
    is_specializable,
    is_tensor,
    specialize,
    specialize_bool,
    specialize_index,
)
from dynexplore.engine.variables.signatures import builtin, builtin_method
from dynexplore.engine.variables.torch_.tensor.tensor import defer_bool
from dynexplore.engine.variables.type_errors import raise_if_refused, type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

CONSTANT_ZERO, CONSTANT_ONE = ConstantVariable(0), ConstantVariable(1)


# -- length and iteration ----------------------------------------------------------------------------------------------


@builtin(len)
def _len(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
    if isinstance(value, (IteratorVariable, GeneratorVariable)):
        ctx.raise_exception(TypeError, f"object of type {value.python_type().__name__!r} has no len()")
    return value.length(ctx)


@builtin(iter)
def _iter(ctx: TraceContext, value: VariableTracker, sentinel: VariableTracker | None = None, /) -> VariableTracker:
    if sentinel is not None:
        kind = type_of(value)
        if kind is not None and not has_name(ctx, kind, "__call__"):
            raise_if_refused(ctx, lambda: iter(object(), None))  # type: ignore[call-overload]
        return CallIteratorVariable(value, sentinel)
    return value.iterate(ctx)


@builtin(next)
def _next(ctx: TraceContext, iterator: VariableTracker, default: VariableTracker | None = None, /) -> VariableTracker:
    if isinstance(iterator, BuiltinValueVariable) and not hasattr(iterator.python_type(), "__next__"):
        ctx.raise_exception(TypeError, f"{name_in_messages(iterator.python_type())!r} object is not an iterator")
    if default is None:
        return iterator.next_or_raise(ctx)
    item = iterator.next_item(ctx)
    return default if item is None else item


@builtin(all)
def _all(ctx: TraceContext, items: VariableTracker, /) -> VariableTracker:
    return ConstantVariable(all(specialize_bool(ctx, item) for item in _iter_items(ctx, items)))


@builtin(any)
def _any(ctx: TraceContext, items: VariableTracker, /) -> VariableTracker:
    return ConstantVariable(any(specialize_bool(ctx, item) for item in _iter_items(ctx, items)))


def _iter_items(ctx: TraceContext, items: VariableTracker) -> Any:
    """Yield the items one at a time, reading no further than the consumer does."""
    iterator = items.iterate(ctx)
    while (item := iterator.next_item(ctx)) is not None:
        yield item


@builtin(bool)
def _bool(ctx: TraceContext, value: VariableTracker = NONE, /) -> VariableTracker:
    truth = value.truth(ctx)
    return ConstantVariable(truth) if isinstance(truth, bool) else defer_bool(ctx, truth)


# -- gather -----------------------------------------------------------------------------------------------------------


@builtin(sum)
def _sum(ctx: TraceContext, iterable: VariableTracker, /, start: VariableTracker = CONSTANT_ZERO) -> VariableTracker:
    """Leading numbers are summed by Python's own `sum`, which compensates float rounding errors from 3.12 on."""
    if isinstance(start, ConstantVariable) and isinstance(start.value, (str, bytes, bytearray)):
        run_now(ctx, sum, (), start.value)
    items = iterable.unpack(ctx)
    total, rest = start, items
    if isinstance(start, ConstantVariable):
        leading = next((index for index, item in enumerate(items) if type(item) is not ConstantVariable), len(items))
        constants = [item.as_constant() for item in items[:leading]]
        total, rest = ctx.build(run_now(ctx, sum, constants, start.value), None), items[leading:]
    for item in rest:
        total = binary(ctx, "+", total, item)
    return total


def _extreme(function: Any, symbol: str) -> None:
    """`max` and `min`."""

    @builtin(function)
    def row(
        ctx: TraceContext, first: VariableTracker, /, *others: VariableTracker, key: VariableTracker | None = None,
        default: VariableTracker | None = None,
    ) -> VariableTracker:  # fmt: skip
        if others and default is not None:
            run_now(ctx, function, 0, 0, default=0)  # which raises the TypeError for these arguments
        items = [first, *others] if others else first.unpack(ctx)
        if not items:
            if default is not None:
                return default
            run_now(ctx, function, ())
        return _best(ctx, function, symbol, items, key)


def _best(
    ctx: TraceContext, function: Any, symbol: str, items: list[VariableTracker], key: VariableTracker | None
) -> VariableTracker:
    keys = [keyed(ctx, key, item) for item in items]
    if all(map(is_specializable, keys)) and all(type(item_key) is ConstantVariable for item_key in keys):
        constants = [specialize(item_key) for item_key in keys]
        best: int = run_now(ctx, function, range(len(items)), key=constants.__getitem__)
        return items[best]
    if key is None and any(map(is_tensor, items)):
        return _fold_tensors(ctx, function, items)
    if key is None and are_symbolic_numbers(items):
        return extreme_of_numbers(ctx, function, items)
    best_index = 0
    for index in range(1, len(items)):
        comparison = compare(ctx, symbol, keys[index], keys[best_index])
        if specialize_bool(ctx, comparison, "DX105", operation=f"{function.__name__}()"):
            best_index = index
    return items[best_index]


def _fold_tensors(ctx: TraceContext, function: Any, items: list[VariableTracker]) -> VariableTracker:
    best = items[0]
    for item in items[1:]:
        extreme = extreme_of_tensors(ctx, function, best, item)
        if extreme is None:
            ctx.break_graph("DX105", operation=f"{function.__name__}()")
        best = extreme
    return best


_extreme(max, ">")
_extreme(min, "<")


@builtin(sorted)
def _sorted(
    ctx: TraceContext,
    iterable: VariableTracker,
    /,
    *,
    key: VariableTracker | None = None,
    reverse: VariableTracker | None = None,
) -> VariableTracker:
    return ListVariable(sorted_items(ctx, list_items(ctx, iterable), key, reverse))


# -- make containers --------------------------------------------------------------------------------------------------


@builtin(list)
def _list(ctx: TraceContext, iterable: VariableTracker | None = None, /) -> VariableTracker:
    return ListVariable([] if iterable is None else list_items(ctx, iterable))


@builtin(tuple)
def _tuple(ctx: TraceContext, iterable: VariableTracker | None = None, /) -> VariableTracker:
    if type(iterable) is TupleVariable:
        return iterable
    return TupleVariable([] if iterable is None else tuple_items(ctx, iterable))


@builtin(set)
def _set(ctx: TraceContext, iterable: VariableTracker | None = None, /) -> VariableTracker:
    return SetVariable() if iterable is None else members_of(ctx, iterable)


@builtin(frozenset)
def _frozenset(ctx: TraceContext, iterable: VariableTracker | None = None, /) -> VariableTracker:
    if isinstance(iterable, FrozenSetVariable):
        return iterable
    return FrozenSetVariable() if iterable is None else frozen(members_of(ctx, iterable))


def _filled(ctx: TraceContext, mapping: DictVariable, other: VariableTracker | None, named: Kwargs) -> VariableTracker:
    if other is not None:
        update(ctx, mapping, other)
    for name, value in named.items():
        mapping.store(ctx, ConstantVariable(name), value)
    return mapping


@builtin(dict)
def _dict(ctx: TraceContext, other: VariableTracker | None = None, /, **named: VariableTracker) -> VariableTracker:
    return _filled(ctx, DictVariable(), other, named)


@builtin(OrderedDict)
def _ordered(ctx: TraceContext, other: VariableTracker | None = None, /, **named: VariableTracker) -> VariableTracker:
    return _filled(ctx, OrderedDictVariable(), other, named)


@builtin(defaultdict)
def _defaultdict(
    ctx: TraceContext,
    factory: VariableTracker = NONE,
    other: VariableTracker | None = None,
    /,
    **named: VariableTracker,
) -> VariableTracker:
    missing = factory.is_constant() and factory.as_constant() is None
    if not missing and raw_lookup(ctx, factory.python_type(), "__call__") is None:
        ctx.raise_exception(TypeError, "first argument must be callable or None")
    return _filled(ctx, DefaultDictVariable(factory=factory), other, named)


@builtin(MappingProxyType)
def _mapping_proxy(ctx: TraceContext, mapping: VariableTracker, /) -> VariableTracker:
    if not isinstance(mapping, DictVariable) or isinstance(mapping, MappingProxyVariable):
        ctx.break_graph("DX205", function="mappingproxy", arguments=mapping.type_name())
    return MappingProxyVariable(mapping)


def _from_keys(make: Callable[[], DictVariable]) -> Callable[..., VariableTracker]:
    def row(
        ctx: TraceContext, class_method: VariableTracker, iterable: VariableTracker, value: VariableTracker = NONE, /
    ) -> VariableTracker:
        mapping = make()
        for key in iterable.unpack(ctx):
            mapping.store(ctx, key, value)
        return mapping

    return row


@binds(types.ClassMethodDescriptorType)
def _bind_c_class_method(
    ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]
) -> VariableTracker:
    """`dict.fromkeys`, `itertools.chain.from_iterable`: a new bound object at each access, so the rule is found by class and
    name.

    If the defining class has a rule for it (`torch.autograd.Function.apply`), that rule serves every subclass.
    """
    bound = attribute.raw.__get__(None, cls)
    if rule_for(attribute.raw) is not None:
        return ClassMethodOfCVariable(bound, class_tracker(ctx, cls))
    return ctx.build(bound, None)


builtin_method(dict, "fromkeys")(_from_keys(DictVariable))
builtin_method(OrderedDict, "fromkeys")(_from_keys(OrderedDictVariable))
builtin_method(defaultdict, "fromkeys")(_from_keys(DefaultDictVariable))


@builtin(collections._count_elements)  # type: ignore[attr-defined]
def _count_elements(ctx: TraceContext, counts: VariableTracker, items: VariableTracker, /) -> VariableTracker:
    """The counting loop of `collections.Counter`. It calls the object's `get` only if that is not dict's own
    (Modules/_collectionsmodule.c, _collections__count_elements).
    """
    own = counts.python_type()
    by_method = any(peek(own, name) is not peek(dict, name) for name in ("get", "__setitem__"))
    for item in each_item(ctx, items):
        if by_method:
            count = counts.get_attribute(ctx, "get").call(ctx, [item, CONSTANT_ZERO], {})
        else:
            count = counts.container().call_method(ctx, "get", [item, CONSTANT_ZERO], {})
        counts.set_item(ctx, item, binary(ctx, "+", count, CONSTANT_ONE))
    return NONE


@builtin(range)
def _range(
    ctx: TraceContext, first: VariableTracker, second: VariableTracker | None = None, third: VariableTracker | None = None, /
) -> VariableTracker:
    ends = tuple(end for end in (first, second, third) if end is not None)
    for end in ends:
        if is_tensor(end):
            ctx.break_graph("DX109", function="range()")
    if all(end.is_constant() for end in ends):
        return ctx.build(run_now(ctx, range, *(end.as_constant() for end in ends)), None)
    ends = tuple(end if end.python_type() is int else ConstantVariable(specialize_index(ctx, end, "range()")) for end in ends)
    start, stop, step = (CONSTANT_ZERO, ends[0], CONSTANT_ONE) if len(ends) == 1 else (*ends, CONSTANT_ONE)[:3]
    if equal(ctx, step, CONSTANT_ZERO):
        ctx.raise_exception(ValueError, "range() arg 3 must not be zero")
    return RangeVariable(start, stop, step)


@builtin(slice)
def _slice(
    ctx: TraceContext, first: VariableTracker, second: VariableTracker | None = None, third: VariableTracker | None = None, /
) -> VariableTracker:
    ends = [end for end in (first, second, third) if end is not None]
    start, stop, step = (NONE, ends[0], NONE) if len(ends) == 1 else (*ends, NONE)[:3]
    return SliceVariable(start, stop, step)


def _declare_size() -> None:
    import torch

    @builtin(torch.Size)
    def size(ctx: TraceContext, iterable: VariableTracker | None = None, /) -> VariableTracker:
        return SizeVariable([] if iterable is None else tuple_items(ctx, iterable))


_declare_size()


# -- what must happen when the function runs --------------------------------------------------------------------------


def _breaks(kind: str, *functions: Any) -> None:
    for function in functions:

        def row(ctx: TraceContext, args: Any, kwargs: Any, _name: str = function.__name__) -> VariableTracker:
            ctx.break_graph(kind, function=_name)

        rule(function)(row)


_breaks("DX206", print)
_breaks("DX215", input, open, breakpoint)
_breaks("DX217", eval, exec, compile, builtins.globals, builtins.locals)
