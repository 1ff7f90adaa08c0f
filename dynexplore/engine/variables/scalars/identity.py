"""Whether two values are one object, and what is relied on where the program asks that.

The idea: `a is b` is decided by the objects of this call, and the next call may bring others: one object twice, or two where there
was one. Two that are one object have one tracker, and a guard says so from the start (ALIAS). Two that are different are noted, and
the frame relies on their difference at its end (`Journal.observe_identity`). So does whatever compares by identity in passing: `==`
of plain objects, `in`, keys of dicts and members of sets.

Equal numbers and texts are constants and stand for their objects; where these come from is remembered (`ConstantVariable.origin`)
and guarded here. Of some values CPython has one object only.

In: two trackers. Out: True, False, or None where nobody knows. PyTorch's Dynamo compares constants by value.
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
    """Whether two values are one object."""
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
    """The same for equal constants."""
    if _has_one_object(left.value):
        return True
    same = left.value is right.value
    places = [_place(left), _place(right)]
    if any(place is not None and (isinstance(place, ComputedSource) or not place.guardable) for place in places):
        return None  # it is made anew when it is asked for
    if any(place is not None for place in places):  # else both stand in the program or were made by the frame
        first, second = (
            place or ObjectSource(value.value, value.text()) for place, value in zip(places, (left, right), strict=True)
        )
        ctx.guard(first, "ALIAS" if same else "DISTINCT", second if same else [second])
    return same


def _place(value: ConstantVariable) -> Source | None:
    """Where the object of a constant comes from."""
    return value.source if value.source is not None else value.origin


def _has_one_object(value: Any) -> bool:
    """Whether CPython has one object only of this value."""
    if value is None or value is Ellipsis or type(value) is bool:
        return True
    if type(value) is int:
        return -5 <= value <= 256
    return type(value) in (str, bytes) and len(value) == 0  # a single letter may be there twice: "".join(["", "a"])
