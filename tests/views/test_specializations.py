"""views/specializations.py: why a size or number is static or dynamic, as the report and the guard pane show it."""

from __future__ import annotations

from typing import Any

import torch
from recorded import recorded

from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.specializations import decisions, recompiled_because
from dynexplore.views.text import explanation, guard_anatomy


def scaled(x: Any, n: int) -> Any:
    return x * n


SIZE = "x.size()[0] is dynamic: it changed from 2 to 5"


def test_a_recompile_says_whether_another_value_recompiles_again() -> None:
    """The report of a recompile has the decision about the size that had changed, and nothing of the other sizes' kind."""
    r = recorded(scaled, (torch.ones(2, 3), 3), (torch.ones(5, 3), 3))
    assert recompiled_because(r) == [SIZE, "x.size()[1] is static: no other size has been seen here"]
    assert "After the recompiles:" in explanation(r) and f"- {SIZE}" in explanation(r)
    assert not recompiled_because(recorded(scaled, (torch.ones(2, 3), 3)))


def test_a_guard_shows_the_decision_behind_it() -> None:
    """The guard on a tensor says why its sizes are guarded, the guard on a number why that is; in the table and the explorer."""
    r = recorded(scaled, (torch.ones(2, 3), 3), (torch.ones(5, 3), 4))
    frame = r.frames[-1].frame
    assert decisions(r, frame)["n"].because == "it changed from 3 to 4"
    assert SIZE in guard_anatomy(r, frame)
    frames: Any = explorer_data(r)["frames"]
    reasons = [guard["reason"] for guard in frames[-1]["guards"]]
    assert any(SIZE in reason for reason in reasons)
    first = [guard["reason"] for guard in frames[0]["guards"]]
    assert any(reason.endswith("n is static: no other number has been seen here") for reason in first)
