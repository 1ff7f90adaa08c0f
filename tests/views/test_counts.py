"""Counts as people say them."""

from __future__ import annotations

import pytest

from dynexplore.views.counts import plural


@pytest.mark.parametrize(("count", "said"), [(0, "0 graphs"), (1, "1 graph"), (2, "2 graphs")])
def test_a_count_and_its_noun(count: int, said: str) -> None:
    """One is one, all others are many."""
    assert plural(count, "graph") == said


def test_a_noun_of_its_own_for_many() -> None:
    """Where an s at the end will not do."""
    assert [plural(count, "entry", "entries") for count in (1, 3)] == ["1 entry", "3 entries"]
