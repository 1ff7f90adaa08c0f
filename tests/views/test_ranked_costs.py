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
    assert {"`n`", "`word`"} <= {reason.change.name for reason in recompile.reasons.values()}
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


def loops_and_breaks(xs: list[torch.Tensor]) -> torch.Tensor:
    total = xs[0] * 0
    for x in xs:
        print(end="")
        total = total + x.sin()
    return total


def test_what_needs_no_action_comes_last_however_often_it_came() -> None:
    """The last round of a loop is compiled once for each part of the function: there is nothing to do about it."""
    explained = dynexplore.explain(loops_and_breaks, [torch.ones(2)] * 2)
    for _ in range(2):
        dynexplore.reset()
        explained.call([torch.ones(2)] * 3)
    costs = costs_of(explained.recording)
    assert any(cost.is_expected for cost in costs), costs
    assert [cost.is_expected for cost in costs] == sorted(cost.is_expected for cost in costs)
    assert not costs[0].advice.startswith("No action needed")


def branches(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    if x.abs().max() > 100:
        x = x / 100
    return x


def test_a_size_that_changed_in_a_resume_function_is_told_as_one_of_the_function() -> None:
    """Also where what continues has no operator: the new version accepts other sizes, too, and nothing has to be made alike."""
    explained = dynexplore.explain(branches, torch.ones(32, 2))
    explained.call(torch.ones(4, 2))
    advice = {cost.place.partition(" (")[0]: cost.advice for cost in costs_of(explained.recording) if cost.kind == "recompile"}
    assert len(advice) == 2 and all("accepts other sizes, too" in words for words in advice.values()), advice


def test_of_many_sizes_the_size_is_named_and_the_call_that_marks_it() -> None:
    """A version for each size is no answer."""
    explained = dynexplore.explain(torch.sin, torch.ones(2, 8), dynamic=False)
    for size in (9, 10, 11):
        explained.call(torch.ones(2, size))
    (cost,) = [cost for cost in costs_of(explained.recording) if cost.kind == "recompile"]
    assert "`dynexplore.mark_dynamic(" in cost.advice and cost.advice.endswith("to one size.") and ", 1)`" in cost.advice, cost
