"""Hash keys of objects whose class defines `__hash__` and `__eq__` in Python.

The idea: dict and set trackers are keyed by hash keys. For such an object `__hash__` is traced once, and `__eq__` whenever the
engine's dict compares keys, which is exactly when Python would call it. However, the engine calls `__hash__` more often than
Python, which stores the hashes of a dict's keys. So a `__hash__` or `__eq__` with side effects (one that counts its calls, for
instance) breaks the graph, and Python calls it.

In: an object's tracker. Out: a key for DictVariable and SetVariable. PyTorch's counterpart: `HashableTracker` in
torch/_dynamo/variables/hashable.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.native import stored_hashes
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.operators import compare
from dynexplore.engine.variables.scalars.special_results import checked_result
from dynexplore.engine.variables.scalars.specialize import specialize_bool, specialize_index

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

T = TypeVar("T")


class ProgramKey:
    """The hash key of a user-defined object; see the head of this file."""

    __slots__ = ("count", "ctx", "number", "value")

    def __init__(self, ctx: TraceContext, value: VariableTracker, number: int) -> None:
        self.ctx, self.value, self.number = ctx, value, number
        self.count = ctx.journal.count

    def __hash__(self) -> int:
        return self.number  # CPython converts it to a hash as it does for the object: an int that fits a machine word is unchanged

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
    return ProgramKey(ctx, value, _hash_of(ctx, value))


def _hash_of(ctx: TraceContext, value: VariableTracker) -> int:
    def ask() -> VariableTracker:
        return checked_result(ctx, hash, value.python_type(), "__hash__", value.call_method(ctx, "__hash__", [], {}))

    return specialize_index(ctx, unnoticed(ctx, value, ask), "__hash__()")


def refuse_stale_hashes(ctx: TraceContext, container: object, keys: Sequence[object], members: Sequence[object]) -> None:
    """Break the graph at a live dict or set that has stored another hash than one of its members has now: it does not find it.

    `keys`: the members' hash keys; fewer than members if two have become equal.
    """
    own = [(key, member) for key, member in zip(keys, members, strict=False) if _has_program_key(key)]
    if not own:
        return
    stored = {id(member): number for member, number in stored_hashes(container)}
    for key, member in own:
        if len(keys) < len(members) or stored.get(id(member), hash(key)) != hash(key):
            ctx.break_graph("DX320", question="a hash that has changed since the key was stored", type=type(member).__qualname__)


def _has_program_key(key: object) -> bool:
    if isinstance(key, (tuple, frozenset)):
        return any(map(_has_program_key, key)) and not any(isinstance(part, VariableTracker) for part in key)
    return isinstance(key, ProgramKey)


def refuse_collisions(keys: Iterable[object]) -> None:
    """Refuse to make a dict or set anew in which the program's `__eq__` keeps two keys apart, or a key has another hash by now.

    Python would call these methods again, when the variables and objects that they read may have other values, where the program's
    own dict has stored the hashes. Raises NotImplementedError.
    """
    own = [key for key in keys if isinstance(key, ProgramKey)]
    if len({key.number for key in own}) < len(own):
        raise NotImplementedError("keys with equal hashes, which an `__eq__` of the program compares")
    if any(map(_has_another_hash, own)):
        raise NotImplementedError("a key whose hash has changed since")


def _has_another_hash(key: ProgramKey) -> bool:
    if key.ctx.journal.count == key.count:
        return False
    try:
        return _hash_of(key.ctx, key.value) != key.number
    except (ObservedException, GraphBreak):
        return True


def unnoticed(ctx: TraceContext, value: VariableTracker, ask: Callable[[], T]) -> T:
    """Run a method that must have no side effects, so that the number of its calls is not observable."""
    before = ctx.journal.count
    returned = ask()
    if ctx.journal.count != before:
        ctx.break_graph("DX320", question="a hash or comparison that changes something", type=value.type_name())
    return returned
