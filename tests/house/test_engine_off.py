"""The run without the engine: its marker wants a reason, its list of tests that owe an assertion names tests that are there."""

from __future__ import annotations

import ast

import pytest

import engine_off


class Item:
    """A collected test with markers."""

    nodeid = "a test"

    def __init__(self, *markers: pytest.MarkDecorator) -> None:
        self._markers = [marker.mark for marker in markers]

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [mark for mark in self._markers if mark.name == name]


@pytest.mark.parametrize("marker", [pytest.mark.plain, pytest.mark.plain(""), pytest.mark.plain("fast"), pytest.mark.plain(3)])
def test_the_marker_takes_a_reason(marker: pytest.MarkDecorator) -> None:
    """`plain` without a sentence ends the run before it begins."""
    with pytest.raises(pytest.UsageError, match="takes the reason"):
        engine_off.check_reasons([Item(marker)])  # type: ignore[list-item]
    engine_off.check_reasons([Item(), Item(pytest.mark.plain("compares tables with each other"))])  # type: ignore[list-item]


def test_what_owes_an_assertion_is_there() -> None:
    """Each line of without_teeth.txt is a test, so that the list can only grow shorter."""
    lines = (engine_off.TESTS / "without_teeth.txt").read_text(encoding="utf-8").splitlines()[1:]
    for line in lines:
        path, _, name = line.partition("::")
        tree = ast.parse((engine_off.TESTS.parent / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, line
    assert len(lines) <= 73
