"""One list of what a run lost, by seconds: the same for reports, the explorer and JSON."""

from __future__ import annotations

import json

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.ranked_costs import block, costs_of, plain

ENGINES = ["dynexplore", pytest.param("torch.compile", marks=pytest.mark.lenses)]


def breaks_and_varies(x: torch.Tensor, n: int, word: str) -> torch.Tensor:
    y = x * len(word) * n
    print(end="")
    return y + 1


def recorded(engine: str = "dynexplore") -> Recording:
    """A graph break, and two recompiles of two arguments each."""
    explained = dynexplore.explain(breaks_and_varies, torch.ones(2), 2, "x", engine=engine, dynamic=False)
    explained.call(torch.ones(2), 3, "yy")
    explained.call(torch.ones(2), 4, "zzz")
    return explained.recording


@pytest.mark.parametrize("engine", ENGINES)
def test_breaks_and_recompiles_stand_in_one_list_by_seconds(engine: str) -> None:
    """Both kinds, with how often, seconds, all reasons and the calling lines."""
    costs = costs_of(recorded(engine))
    assert {cost.kind for cost in costs} == {"graph break", "recompile"}
    assert [cost.seconds for cost in costs if not cost.is_expected] == sorted(
        (cost.seconds for cost in costs if not cost.is_expected), reverse=True
    )
    recompile = next(cost for cost in costs if cost.kind == "recompile")
    assert {"`n`", "`word`"} <= recompile.reasons.keys()
    assert recompile.times == 2 and recompile.seconds > 0 and sum(recompile.callers.values()) == 2
    assert 0 <= recompile.backend_seconds <= recompile.seconds


def test_the_block_says_all_reasons_and_who_called() -> None:
    """What else was another stands under the cause, so that nobody mends one and meets the next."""
    cost = next(cost for cost in costs_of(recorded()) if cost.kind == "recompile")
    lines = " ".join(" ".join(block(1, cost, 100, set())).split())
    assert "also: `" in lines and "called at test_ranked_costs.py:" in lines
    assert lines.count("`word`") >= 1 and lines.count("`n`") >= 1


def test_ids_are_the_same_in_every_run() -> None:
    """A program may remember which cost it has seen; seconds and order may be others."""
    first, second = ({cost.id for cost in costs_of(recorded())} for _ in range(2))
    assert first == second and len(first) == len(costs_of(recorded()))


def test_the_list_is_plain_data() -> None:
    """JSON holds it as it is; each reason says where the value was needed."""
    data = plain(costs_of(recorded()))
    assert data == json.loads(json.dumps(data))
    reasons = next(cost["reasons"] for cost in data if cost["kind"] == "recompile")
    assert {reason["source"] for reason in reasons} == {"n", "word"} and all(reason["line"] for reason in reasons)


def test_a_break_that_splits_nothing_costs_nothing_and_stands_behind_what_does() -> None:
    """Seconds rank, not the order of events."""
    recording = Recording(title="f")
    for frame, kind in enumerate(("cheap", "dear"), 1):
        code = ev.CodeView(frame, kind, "m.py", 10 * frame, "", ())
        recording.record(ev.FrameEntered(frame=frame, parent=None, code=code))
        recording.record(ev.GraphBroke(frame=frame, kind="DX206", title=kind, reason=kind))
        recording.record(ev.FrameFinished(frame=frame, outcome="compiled", seconds=1.0))
    resumed = ev.CodeView(3, "dear", "m.py", 22, "", (), resumes=2)
    recording.record(ev.FrameEntered(frame=3, parent=2, code=resumed))
    recording.record(ev.FrameFinished(frame=3, outcome="compiled", seconds=2.5))
    assert [(cost.place, cost.seconds) for cost in costs_of(recording)] == [("dear", 2.5), ("cheap", 0.0)]
