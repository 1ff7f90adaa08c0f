"""Hash keys of objects whose class defines `__hash__` and `__eq__`.

The idea: containers keep real dicts and sets of hash keys. For such an object `__hash__` is traced once; `__eq__` is traced
whenever a real dict or set compares keys, which is exactly when Python would call it. But to have a hash for each key, the engine
calls `__hash__` more often than Python, which stores the hashes of a dict's keys: methods with side effects (that count their
calls, say) break the graph, so that Python calls them.

In: an object's tracker. Out: a key for DictVariable and SetVariable.
torch/_dynamo/variables/hashable.py (HashableTracker) does the same job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.operators import compare
from dynexplore.engine.variables.scalars.special_results import checked_result
from dynexplore.engine.variables.scalars.specialize import specialize_bool, specialize_index

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

T = TypeVar("T")


class ProgramKey:
    """An object as a key; see the head of this file."""

    __slots__ = ("ctx", "number", "value")

    def __init__(self, ctx: TraceContext, value: VariableTracker, number: int) -> None:
        self.ctx, self.value, self.number = ctx, value, number

    def __hash__(self) -> int:
        return self.number  # CPython makes a hash of it as it does for the object: what fits a machine word stays as it is

    def __eq__(self, other: object) -> bool:
        tracker = self._tracker(other)
        if self.value is tracker:
            return True
        return unnoticed(
            self.ctx, self.value, lambda: specialize_bool(self.ctx, compare(self.ctx, "==", self.value, tracker), "DX111")
        )

    def _tracker(self, other: object) -> VariableTracker:
        if isinstance(other, ProgramKey):
            return other.value
        return other if isinstance(other, VariableTracker) else self.ctx.build(other, None)


def user_hash_key(ctx: TraceContext, value: VariableTracker) -> ProgramKey:
    """The key of an object whose class defines `__hash__` in Python."""
    def ask() -> VariableTracker:
        return checked_result(ctx, hash, value.python_type(), "__hash__", value.call_method(ctx, "__hash__", [], {}))

    return ProgramKey(ctx, value, specialize_index(ctx, unnoticed(ctx, value, ask), "__hash__()"))


def unnoticed(ctx: TraceContext, value: VariableTracker, ask: Callable[[], T]) -> T:
    """The answer of a method that changes nothing, so that nobody can tell how often it was asked."""
    before = ctx.journal.count
    answer = ask()
    if ctx.journal.count != before:
        ctx.break_graph("DX320", question="a hash or comparison that changes something", type=value.type_name())
    return answer
