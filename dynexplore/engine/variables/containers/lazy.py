"""LazyVariable: an item of a container, or a local, that the program has not read yet.

The idea: a list argument may hold a hundred tensors of which the function reads two. An item becomes a real tracker, with guards
and a graph input, only when it is read. Containers and locals may hold a lazy value. **The stack holds one only while it moves**: a
number or string that is loaded to be stored or bound to a parameter (bytecode/moved_loads.py).

In: a live value and its source. Out: its tracker, on the first `read`. PyTorch's counterpart: `LazyVariableTracker` in
torch/_dynamo/variables/lazy.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.contract.base import VariableTracker

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


class LazyVariable(VariableTracker):
    """A live value with a source that has not become a tracker yet."""

    kind = "unread"

    def __init__(self, value: object, source: Source) -> None:
        self.value = value
        self.source = source
        self._read: VariableTracker | None = None

    def read(self, ctx: TraceContext) -> VariableTracker:
        if self._read is None:
            assert self.source is not None
            self._read = ctx.build(self.value, self.source)
        return self._read

    def python_type(self) -> type[Any]:
        return type(self.value)

    def same_object(self, other: VariableTracker) -> bool | None:
        if isinstance(other, LazyVariable):
            return self.value is other.value
        return self._read is other if self._read is not None else None

    def unguarded_value(self, depth: int = 8) -> Any:
        return super().unguarded_value(depth) if self._read is None else self._read.unguarded_value(depth)

    def text(self) -> str:
        return f"unread {type(self.value).__qualname__}"
