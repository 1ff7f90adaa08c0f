"""The pane "What if" of a watched call: the browser's questions, answered by torch's own guards, beside what torch then does."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.widgets.explorer import Explorer
from dynexplore.widgets.live import CannotAnswer, Seat, Shelf

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]


def helper(x: torch.Tensor) -> torch.Tensor:
    """Has a frame of its own, for the break in it is not inlined."""
    torch._dynamo.graph_break()
    return x * 2


def scaled(x: torch.Tensor, n: int, more: tuple[int, ...] = (1,)) -> torch.Tensor:
    """Two numbers that torch guards."""
    return torch.relu(x) * n + more[0]


def broken(x: torch.Tensor, n: int) -> torch.Tensor:
    """Goes on in a resume function."""
    y = x + n
    torch._dynamo.graph_break()
    return helper(y)


def explained(fn: Any, *calls: tuple[Any, ...]) -> Any:
    """What torch.compile did with some calls."""
    return dynexplore.explain(fn, engine="torch.compile").calls(*calls)


def asked(explanation: Any, about: str, **body: Any) -> dict[str, Any]:
    """An answer to the browser, by way of JSON."""
    answer, _ = Seat(explanation.session, Shelf()).answerers[about](json.loads(json.dumps(body)))
    found: dict[str, Any] = json.loads(json.dumps(answer))
    return found


def test_the_inputs_of_the_latest_call_can_be_changed() -> None:
    """The form shows the tensors and plain values of the latest call."""
    told = asked(explained(scaled, (torch.ones(2), 2), (torch.ones(3), 5)), "inputs")
    assert [(one["path"], one["kind"], one["shape"] or one["text"]) for one in told["inputs"]] == [
        ("x", "tensor", [3]), ("n", "value", "5"), ("more", "value", "(1,)"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "outcome", "entry", "says"),
    [
        ({}, "hit", 2, [(1, False), (2, True)]),
        ({"n": {"value": "9"}}, "hit", 2, [(1, False), (2, True)]),
        ({"x": {"shape": [5]}}, "recompile", -1, [(1, False), (2, False)]),
        ({"x": {"dtype": "float64"}, "n": {"value": "2"}}, "recompile", -1, [(1, False), (2, False)]),
    ],
    ids=["nothing", "number", "size", "dtype"],
)
def test_the_answer_is_what_torch_then_does(
    changes: dict[str, Any], outcome: str, entry: int, says: list[tuple[int, bool]]
) -> None:
    """The entry that would serve the call, or the guard of each entry that says no; the real call then does that."""
    explanation = explained(scaled, (torch.ones(2), 2), (torch.ones(2), 3))
    before = len(explanation.recording)
    for quick in (True, False):
        answer = asked(explanation, "what_if", changes=changes, quick=quick)
        assert (answer["outcome"], answer["entry"]) == (outcome, entry)
        assert sorted((one["entry"], one["hits"]) for one in answer["entries"]) == says
    assert len(explanation.recording) == before
    x = torch.ones(changes.get("x", {}).get("shape", [2]), dtype=getattr(torch, changes.get("x", {}).get("dtype", "float32")))
    explanation.call(x, int(changes.get("n", {}).get("value", 3)))
    assert explanation.outcomes[-1] == outcome
    if entry > 0:
        assert explanation.recording.of(ev.CacheHit)[-1].entry == entry


def test_the_guard_that_says_no_is_that_of_the_table_of_guards() -> None:
    """Of an entry that does not fit one guard is named, with what it expects, what came, and its row in the explorer."""
    explanation = explained(scaled, (torch.ones(2), 2))
    (entry,) = asked(explanation, "what_if", changes={"n": {"value": "7"}})["entries"]
    (guard,) = entry["guards"]
    assert (guard["expected"], guard["actual"], guard["alone"]) == ("2", "7", "fail")
    row = next(one for one in explanation.recording.guards if one.index == guard["index"])
    assert (row.source, entry["frame"]) == ("n", row.frame)
    assert asked(explanation, "what_if", changes={"n": {"value": "7"}})["said"] == "Recompile: no cache entry matches"


def test_frames_of_other_functions_are_refused_in_a_sentence() -> None:
    """A resume function belongs to the call that it goes on with; of a function that was called the inputs were not kept."""
    explanation = explained(broken, (torch.ones(2), 2))
    for frame in explanation.recording.frames:
        if "helper" in frame.code.qualname:
            with pytest.raises(CannotAnswer, match="The inputs of helper were not recorded: explain helper itself"):
                asked(explanation, "what_if", changes={}, frame=frame.frame)
        else:
            said = asked(explanation, "what_if", changes={}, frame=frame.frame)["said"]
            assert said == "Cache hit: torch.compile reuses entry 1, up to its graph break; the rest is unknown"
    assert len(explanation.recording.frames) == 4


def test_what_torchs_engine_has_not_is_declined_in_a_sentence() -> None:
    """An edited source and a live run are questions to the other engine; parts of a module have no call of their own."""
    explanation = explained(scaled, (torch.ones(2), 2))
    for about, body in (("source", {}), ("rerun", {"source": "def f(): ..."}), ("live", {"act": "start"})):
        with pytest.raises(CannotAnswer, match="is not supported with torch.compile: explain"):
            asked(explanation, about, **body)
    net = torch.nn.Sequential(torch.nn.Linear(2, 2))
    net[0].compile(backend="eager")
    parts = dynexplore.explain(net, torch.ones(1, 2))
    with pytest.raises(CannotAnswer, match="Only parts of this module are compiled"):
        asked(parts, "inputs")


def test_an_explorer_of_a_watched_call_answers() -> None:
    """The explorer of the explanation has a seat; that of its recording alone has none."""
    explanation = explained(scaled, (torch.ones(2), 2))
    explorer = Explorer(explanation)
    assert "what_if" in explorer.answerers
    assert "what_if" not in Explorer(explanation.recording).answerers
    explorer.end()
