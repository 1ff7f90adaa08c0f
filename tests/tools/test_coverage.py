"""tools/coverage.py and operator_profile.py: what runs inside graphs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.tools.coverage import Coverage
from dynexplore.tools.operator_profile import profiled


@dynexplore.disable
def left_out(x: Any) -> Any:
    return x.sin().cos()


def mixed(x: Any) -> Any:
    return left_out(x + 1).exp() * 2


def test_a_share_of_operators() -> None:
    """Five operators, two of them in a disabled function."""
    found = dynexplore.coverage(mixed, torch.ones(2))
    assert (found.operators_inside, found.operators, found.graphs) == (3, 5, 2)
    assert found.of_operators == 0.6 and 0 < found.of_time < 1
    assert dict(found.outside) == {"aten::sin": 1, "aten::cos": 1}
    assert str(found).startswith("3 of 5 operators (60.0%)")


def test_everything_inside_and_nothing_at_all() -> None:
    """Operators that operators call are not counted again; a program without operators is covered."""
    layer = torch.nn.Linear(3, 3)
    assert dynexplore.coverage(lambda x: layer(x).relu(), torch.ones(1, 3)).of_operators == 1
    assert dynexplore.coverage(lambda x: x, torch.ones(1)).of_operators == 1


@pytest.mark.plain("profiles a call that is not captured")
def test_the_profile_in_order() -> None:
    """Operators of plain Python belong to no graph."""
    ran = profiled(lambda: torch.ones(2).sin())
    assert [run.name for run in ran] == ["aten::ones", "aten::sin"] and not any(run.graph for run in ran)


@pytest.mark.plain("prints a record")
def test_a_long_coverage_is_cut() -> None:
    """Of many operators the most frequent are shown, and the rest is counted."""
    outside = tuple((f"aten::op{number}", 100 - number) for number in range(60))
    one = Coverage(1, 61, 0.5, 1.0, 1, outside)
    lines = one.text(40).split("\n")
    assert len(lines) == 40 and lines[-1] == "  ... and 22 more operators (--full)"
    assert len(str(one).split("\n")) == 61
    assert one.text(61) == str(one)
