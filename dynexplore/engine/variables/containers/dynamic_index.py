"""Dynamic indexing: the item at an index that changes from iteration to iteration, as `self.experts[i]` in a loop.

The idea: the arguments of a resume function inside a loop change in each iteration, and so does the item selected by such an index.
Specializing on the index would recompile in each iteration. Instead the index is not guarded, the item's source records how it is
reached (`ChosenItemSource`), and guards on the item are checked at the current index: items with equal properties share one cache
entry. Nothing reached this way is guarded by identity (`Specializer.specializes`).

In: an unmodified live container, its source, an index or key. Out: the item's tracker, or None if the index is specialized.
PyTorch's counterpart: none; Dynamo does not resume inside loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.contract.base import VariableTracker

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def dynamic_item(ctx: TraceContext, items: Any, source: Source | None, key: VariableTracker) -> VariableTracker | None:
    """`items[key]` of an exact list, tuple or dict; None if the key does not vary, or the item does not exist in this call.

    `source` is that of a container that existed before the frame, None otherwise.
    """
    varying = key.varying_key()
    if varying is None or source is None:
        return None
    current_key, key_source = varying
    try:
        value = items[current_key]
    except (IndexError, KeyError, TypeError):  # specialize: the program's exception names the key
        return None
    key.python_type()  # a key of another type (a slice) would select something else
    selected = source.dynamic_item(key_source)
    if type(value) in (int, float, str):  # such a value becomes an input without a guard of its own, so guard that it exists
        ctx.guard(selected, "TYPE_MATCH", type(value))
    return ctx.build(value, selected)
