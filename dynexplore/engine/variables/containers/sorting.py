"""Sorting: `sorted` and `list.sort` on trackers.

The idea: constant keys are sorted by Python itself. Other keys are compared pairwise with `<`, in the order of listobject.c's sort;
a comparison that depends on tensor data breaks the graph.

In: the items, a key function, reverse. Out: the items in order. PyTorch's counterpart: `call_sorted` in
torch/_dynamo/variables/builtin.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.operators import compare
from dynexplore.engine.variables.scalars.constant import ConstantVariable, run_now
from dynexplore.engine.variables.scalars.specialize import is_specializable, specialize, specialize_bool
from dynexplore.engine.variables.type_errors import type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


class _Compared:
    """A sort key that implements only `<`, the one comparison that sorting uses.

    If all keys have one class, listobject.c calls its `__lt__` directly first (`unsafe_object_compare`): one that returns
    NotImplemented is called once more by the regular comparison that follows.
    """

    __slots__ = ("ctx", "key", "of_one_class")

    def __init__(self, ctx: TraceContext, key: VariableTracker, of_one_class: bool) -> None:
        self.ctx, self.key, self.of_one_class = ctx, key, of_one_class

    def __lt__(self, other: _Compared) -> bool:
        if self.of_one_class:
            is_less = self.key.own_less_than(self.ctx, other.key)
            if is_less is not None:
                return specialize_bool(self.ctx, is_less, "DX104", operation="sorting")
        return specialize_bool(self.ctx, compare(self.ctx, "<", self.key, other.key), "DX104", operation="sorting")


def sorted_items(
    ctx: TraceContext, items: list[VariableTracker], key: VariableTracker | None, reverse: VariableTracker | None
) -> list[VariableTracker]:
    """The items in order, stable."""
    keys = [keyed(ctx, key, item) for item in items]
    backwards = reverse is not None and specialize_bool(ctx, reverse)
    if all(map(is_specializable, keys)):
        constants = [specialize(key) for key in keys]
        order = run_now(ctx, sorted, range(len(items)), key=constants.__getitem__, reverse=backwards)
    else:
        of_one_class = len({type_of(key) for key in keys}) == 1
        compared: list[Any] = [_Compared(ctx, key, of_one_class) for key in keys]
        order = sorted(range(len(items)), key=compared.__getitem__, reverse=backwards)
    return [items[index] for index in order]


def keyed(ctx: TraceContext, key: VariableTracker | None, item: VariableTracker) -> VariableTracker:
    """`key(item)`, or the item itself if there is no key function."""
    if key is None or (isinstance(key, ConstantVariable) and key.value is None):
        return item
    return key.call(ctx, [item], {})
