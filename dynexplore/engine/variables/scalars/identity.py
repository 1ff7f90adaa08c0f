"""Object identity: `a is b`, and the guards that its result requires.

The idea: the result of `a is b` holds for this call's objects, but another call may pass one object twice, or two objects instead
of one. Two values that are one object have one tracker, and a guard on that from the start (ALIAS). Two different objects are
recorded, and the frame guards at its end that they are different (`Journal.observe_identity`). Implicit identity comparisons do the
same: `==` of plain objects, `in`, dict keys and set members.

Equal numbers and strings are constants and do not represent one object; the source of each object is kept
(`ConstantVariable.origin`) and guarded here. Some values are singletons in CPython. A constant that the frame computes and leaves
behind is a copy if its code has an equal literal (`copy_of_constant`).

In: two trackers. Out: True, False, or None if it is not known. PyTorch's counterpart: `handle_is` in
torch/_dynamo/variables/builtin.py, which compares constants by value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.guards import same_constant
from dynexplore.engine.provenance.sources import ComputedSource, ObjectSource, Source
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def identical(ctx: TraceContext, left: VariableTracker, right: VariableTracker) -> bool | None:
    """Whether two values are the same object."""
    left, right = left.read(ctx), right.read(ctx)
    if left is not right and isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
        same = left.same_object(right)
        return _one_constant(ctx, left, right) if same or same_constant(left.value, right.value) else same
    same = left.same_object(right)
    if same is None or right.same_object(left) is None:
        return None
    if not same:
        ctx.journal.observe_identity(left, right)
    return same


def _one_constant(ctx: TraceContext, left: ConstantVariable, right: ConstantVariable) -> bool | None:
    """The same for two equal constants."""
    if _has_one_object(left.value):
        return True
    same = left.value is right.value
    sources = [_source_of(left), _source_of(right)]
    if any(source is not None and (isinstance(source, ComputedSource) or not source.guardable) for source in sources):
        return None  # a new object is created at each access
    if any(source is not None for source in sources):  # otherwise both are literals of the program or were created by the frame
        first, second = (
            source or ObjectSource(value.value, value.text()) for source, value in zip(sources, (left, right), strict=True)
        )
        ctx.guard(first, "ALIAS" if same else "DISTINCT", second if same else [second])
    return same


def _source_of(value: ConstantVariable) -> Source | None:
    """The source of a constant's object."""
    return value.source if value.source is not None else value.origin


def _has_one_object(value: Any) -> bool:
    """Whether CPython has only one object with this value."""
    if value is None or value is Ellipsis or type(value) is bool:
        return True
    if type(value) is int:
        return -5 <= value <= 256
    return type(value) in (str, bytes) and len(value) == 0  # a one-letter string may exist twice: "".join(["", "a"])


def literal_key(value: Any) -> object:
    """Equal for constants that are equal in every respect; 0.0 and -0.0 are not."""
    return type(value), repr(value) if type(value) in (float, complex) else value


def copy_of_constant(value: Any) -> Any:
    """An equal constant that is another object, if Python can have two of them; the modified code calls it."""
    match value:
        case str() if len(value) == 1:
            return chr(ord(value))  # before 3.12 a literal is not the one that Python keeps for such a text
        case str():
            return value[:1] + value[1:]
        case bytes():
            return value[:1] + value[1:]
        case bool():
            return value
        case int():
            return value + 1 - 1
        case float() | complex():
            return value * 1
    return value
