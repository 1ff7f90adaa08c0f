"""In a log the guards of a recompile say which others had failed."""

from __future__ import annotations

import pytest

from dynexplore.traces.contradictions import contradictions
from dynexplore.traces.guard_text import PrintedGuard


def tensor(source: str, expected: str) -> PrintedGuard:
    return PrintedGuard("local", source, "TENSOR_MATCH", expected, "", 3)


def number(source: str, value: object) -> PrintedGuard:
    return PrintedGuard("local", source, "EQUALS_MATCH", "", f"{source} == {value!r}", 4)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ([number("n", 3), number("m", "a")], [number("n", 5), number("m", "b")], [("3", "5"), ("'a'", "'b'")]),
        ([number("n", 3)], [], []),
        ([number("n", 3)], [number("n", 3)], []),
        ([number("n", 3)], [PrintedGuard("local", "n", "TYPE_MATCH", "", "type", 4)], []),
        ([tensor("x", "float32[2, 4] cpu")], [tensor("x", "float32[?, 4] cpu")], []),
        ([tensor("x", "float32[2] cpu")], [tensor("x", "float64[2] cpu")], [("float32[2] cpu", "float64[2] cpu")]),
        ([tensor("x", "float32[2] cpu")], [tensor("x", "float32[2, 1] cpu")], [("float32[2] cpu", "float32[2, 1] cpu")]),
        ([tensor("x", "float32[2] cpu")], [tensor("x", "float32[2] cuda:0")], [("float32[2] cpu", "float32[2] cuda:0")]),
    ],
    ids=["values", "no longer guarded", "the same", "another kind", "a size that varies", "dtype", "dimensions", "device"],
)
def test_only_what_cannot_both_hold_is_a_reason(
    before: list[PrintedGuard], after: list[PrintedGuard], found: list[tuple[str, str]]
) -> None:
    """What the successor takes as it comes contradicts nothing: each reason that is told is true."""
    assert [row[1:] for row in contradictions(before, after)] == found
