"""The item that a round of a loop chooses: `self.experts[i]`, where `i` is another number in each round.

The idea: what a resume function in a loop is given changes from round to round, and so does the item at that place. Were the place
taken as it is, each round would be compiled again. So the item's source says how it is reached (`ChosenItemSource`), the index is
not guarded, and what the program relies on of the item is guarded there, relative to the index: items that look alike share one
entry. Of what is reached so nothing is guarded by identity (`TraceContext.is_stable`).

In: a live container that the frame has not changed, its source, an index or key. Out: the item's tracker, or None where the index
is taken as it is. torch/_dynamo has no counterpart: it does not resume inside loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.contract.base import VariableTracker

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def dynamic_item(ctx: TraceContext, items: Any, source: Source | None, key: VariableTracker) -> VariableTracker | None:
    """`items[key]` of an exact list, tuple or dict; None where the key does not vary, or nothing is there in this call.

    `source` is that of a container which existed before the frame, None otherwise.
    """
    varying = key.varying_key()
    if varying is None or source is None:
        return None
    current_key, place = varying
    try:
        value = items[current_key]
    except (IndexError, KeyError, TypeError):  # the program's exception tells which key it was
        return None
    key.python_type()  # another kind of key (a slice) would mean another thing
    selected = source.dynamic_item(place)
    if type(value) in (int, float, str):  # carried along without a guard of its own: it must be there
        ctx.guard(selected, "TYPE_MATCH", type(value))
    return ctx.build(value, selected)
