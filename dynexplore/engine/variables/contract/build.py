"""The registry: which tracker stands for a live value. First matching row wins.

The idea: a tracker's file declares, beside its operations, which live values become it and which guards that costs:

    @builds(list)
    def build_list(ctx, value, source): ...

`build` looks the exact type up first, then asks the `builds_when` rows in order of their rank. An unknown value becomes an
opaque object (opaque.py), which can be passed around but not looked into.

In: a live value and its source. Out: its one tracker. torch/_dynamo/variables/builder.py does the same job.
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
    """Declare that values of exactly these types become the tracker that the decorated function makes."""

    def declare(row: BuildRow) -> BuildRow:
        for value_type in types:
            _BY_TYPE[value_type] = row
        return row

    return declare


def builds_when(predicate: Callable[[Any], bool], *, rank: int) -> Callable[[BuildRow], BuildRow]:
    """Declare a row for values that satisfy a predicate; lower ranks are asked first."""

    def declare(row: BuildRow) -> BuildRow:
        _WHEN.append((rank, predicate, row))
        _WHEN.sort(key=lambda entry: entry[0])
        return row

    return declare


def row_for(value: object) -> BuildRow:
    """The row that serves a value; the lowest-ranked predicate row catches everything."""
    row = _BY_TYPE.get(type(value))
    if row is not None:
        return row
    for _, predicate, candidate in _WHEN:
        if predicate(value):
            return candidate
    raise LookupError(f"no row builds a {type(value).__qualname__}")
