"""tools/break_report.py: all breaks at once, the most expensive first."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore


@dynexplore.disable
def opaque(x: Any) -> Any:
    return x.sin().cos().exp()


def program(x: Any) -> Any:
    x = x + 1
    print("woo")
    x = opaque(x * 2)
    if x.sum() > 0:
        x = x + 1
    return x


def test_ordered_by_what_they_cost(capsys: Any) -> None:
    """The disabled call leaves three operators outside and comes first; each has place, cure and page."""
    report = dynexplore.all_breaks(program, torch.ones(2))
    assert report[0].broke.kind == "DX202" and report[0].operators == ("aten::sin", "aten::cos", "aten::exp")
    assert {cost.broke.kind for cost in report} == {"DX202", "DX206", "DX104"}
    assert len(report) == 3 and report.operators > report.inside > 0
    text = str(report)
    assert "3 places break the graph" in text and "see docs/graph-breaks.md#dx206" in text
    assert text.index("DX202") < text.index("DX206") and "<table>" in report._repr_html_()


def test_as_an_issue() -> None:
    """Versions, the break and the line."""
    issue = dynexplore.all_breaks(program, torch.ones(2))[0].as_issue()
    assert f"torch {torch.__version__}" in issue and "x = opaque(x * 2)" in issue and issue.startswith("### Graph break DX202")


def test_counters_stay_and_exceptions_pass() -> None:
    """Asking changes no count; what the call raises is raised."""
    dynexplore.reset()
    assert len(dynexplore.all_breaks(program, torch.ones(2))) == 3
    assert dict(dynexplore.counters) == {}
    with pytest.raises(ZeroDivisionError):
        dynexplore.all_breaks(lambda x: 1 // 0, torch.ones(2))
