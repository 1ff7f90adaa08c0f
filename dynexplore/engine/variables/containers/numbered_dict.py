"""NumberedDictVariable: an OrderedDict that existed before the frame, whose keys are numbers that nothing has relied on yet.

The idea: a registry with numbers from a counter as keys (torch's hooks: each handle takes the next number) has other keys in each
run of the program, but the same values. So only the number of its entries is guarded at first. Whoever takes all items gets numbers
that are guarded where they are needed (`UnspecializedVariable`). Any other use of the dict guards all of its keys.

In: a live OrderedDict whose keys are integers. Out: its tracker. PyTorch's counterpart: none; Dynamo omits guards on hooks
(`skip_nnmodule_hook_guards`).
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import keys_of
from dynexplore.engine.variables.containers.dict_views import Entries, Pair
from dynexplore.engine.variables.containers.mapping import OrderedDictVariable, existing_entries
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.contract.inspection import Contents
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


_MOST = 16


class NumberedDictVariable(OrderedDictVariable):
    """An OrderedDict with integers as keys; reading `entries` guards the keys."""

    def __init__(self, ctx: TraceContext, real: OrderedDict[int, Any], source: Source) -> None:
        self.ctx, self.keys_of_source, self.is_guarded = ctx, source, True
        ctx.guard(source, "TYPE_MATCH", OrderedDict)
        ctx.guard(source, "LIST_LENGTH", len(real))
        super().__init__(
            OrderedDict(
                (key, (ctx.values.lazy(key, source.numbered_key(index)), ctx.values.lazy(value, source.numbered_value(index))))
                for index, (key, value) in enumerate(real.items())
            ),
            source, real,
        )  # fmt: skip
        self.is_guarded = False

    @property
    def entries(self) -> Entries:
        """All entries; from now on the keys are guarded."""
        if not self.is_guarded:
            self.is_guarded = True
            keys = tuple(self._entries)
            self.ctx.guard(self.keys_of_source, "DICT_KEYS", keys)
            for key in keys:
                self._entries[key] = ConstantVariable(key), self._entries[key][1]
        return self._entries

    @entries.setter
    def entries(self, entries: Entries) -> None:
        self._entries = entries

    def like(self, entries: Entries) -> OrderedDictVariable:
        return OrderedDictVariable(entries)

    def pairs_in_order(self) -> list[Pair]:
        return list(self._entries.values())

    def contents(self, most: int | None = None) -> Contents | None:
        return Contents(list(itertools.islice(self._entries.values(), most)))

    def bulk(self) -> int:
        return len(self._entries)

    def content_at(self, key: Any) -> Any:
        return super().content_at(key) if self.is_guarded else None

    def text(self) -> str:
        return super().text() if self.is_guarded else f"{self.type_name()} of {len(self._entries)}"

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return bool(self._entries)

    def length(self, ctx: TraceContext) -> VariableTracker:
        return ConstantVariable(len(self._entries))


def is_numbered(value: OrderedDict[Any, Any]) -> bool:
    """Whether a dict has entries, but not many (finding the n-th takes n steps), and all of its keys are integers; no method of
    dict changed it behind its back.
    """
    keys = list(dict.keys(value)) if 0 < len(value) <= _MOST else []
    if not keys or not all(type(key) is int for key in keys):
        return False
    in_order = keys_of(value)
    return all(type(key) is int for key in in_order) and {*in_order} == {*keys}


@builds(OrderedDict)
def build_ordered_dict(ctx: TraceContext, value: OrderedDict[Any, Any], source: Source | None) -> VariableTracker:
    """An OrderedDict: guarded like a dict; if its keys are numbers, they are guarded as soon as something depends on them."""
    if source is not None and is_numbered(value):
        return NumberedDictVariable(ctx, value, source)
    return OrderedDictVariable(existing_entries(ctx, value, source), source, value)
