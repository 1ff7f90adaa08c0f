"""The builder registry: which tracker represents a live value. The first matching rule wins.

The idea: a tracker's file declares, next to its operations, which live values it represents and which guards that installs:

    @builds(list)
    def build_list(ctx, value, source): ...

A value is looked up by its exact type first, then by the `builds_when` predicates in order of rank. A value of an unknown type
becomes an opaque object (opaque.py), which can be passed around but not inspected.

In: a live value and its source. Out: its tracker. PyTorch's counterpart: `VariableBuilder` in torch/_dynamo/variables/builder.py,
one method with a branch for each kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.contract.base import VariableTracker

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

BuildRow = Callable[["TraceContext", Any, "Source | None"], VariableTracker]

_BY_TYPE: dict[type[Any], BuildRow] = {}
_WHEN: list[tuple[int, Callable[[Any], bool], BuildRow]] = []


def builds(*types: type[Any]) -> Callable[[BuildRow], BuildRow]:
    """Declare that values of exactly these types are represented by the tracker that the decorated function makes."""

    def declare(row: BuildRow) -> BuildRow:
        for value_type in types:
            _BY_TYPE[value_type] = row
        return row

    return declare


def builds_when(predicate: Callable[[Any], bool], *, rank: int) -> Callable[[BuildRow], BuildRow]:
    """Declare a rule for values that satisfy a predicate; lower ranks are tried first."""

    def declare(row: BuildRow) -> BuildRow:
        _WHEN.append((rank, predicate, row))
        _WHEN.sort(key=lambda entry: entry[0])
        return row

    return declare


def row_for(value: object) -> BuildRow:
    """The rule for a value; the predicate with the last rank accepts everything."""
    row = _BY_TYPE.get(type(value))
    if row is not None:
        return row
    for _, predicate, candidate in _WHEN:
        if predicate(value):
            return candidate
    raise LookupError(f"no row builds a {type(value).__qualname__}")
