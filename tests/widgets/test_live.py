"""What the browser asks of the live program, and what it is told: plain JSON, or one sentence."""

from __future__ import annotations

import gc
import json
import re
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.widgets import live
from dynexplore.widgets.explorer import Explorer
from dynexplore.widgets.live import MOST_RUNS, CannotAnswer, Seat, Shelf
from dynexplore.widgets.turns import TURN


def program(x: torch.Tensor, n: int = 3, more: Any = None) -> torch.Tensor:
    y = x.sin() * n
    dynexplore.graph_break()
    return y + 1


def seat_of(fn: Any, *args: Any) -> tuple[Seat, Any]:
    session = dynexplore.explain(fn, *args).session
    return Seat(session, Shelf()), session


def asked(seat: Seat, about: str, **body: Any) -> dict[str, Any]:
    """An answer, by way of JSON."""
    answer, buffers = seat.answerers[about](json.loads(json.dumps(body)))
    assert buffers == []
    found: dict[str, Any] = json.loads(json.dumps(answer))
    return found


def test_inputs_and_what_if() -> None:
    """The browser learns what can be changed, and what a change would do."""
    seat, session = seat_of(program, torch.ones(4))
    told = asked(seat, "inputs")
    assert [(one["path"], one["kind"]) for one in told["inputs"]] == [("x", "tensor"), ("n", "value"), ("more", "value")]
    assert "float32" in told["dtypes"] and "cpu" in told["devices"]
    answer = asked(seat, "what_if", changes={"x": {"shape": [5], "dtype": "float64"}, "n": {"value": " 2.5"}})
    assert answer["outcome"] == "recompile" and answer["said"].startswith("would recompile: version 1 requires x is float32[4] cpu")
    (entry,) = answer["entries"]
    assert [guard["alone"] for guard in entry["guards"]].count("fail") == 2 and not entry["hits"]
    first = answer["difference"]["graph"][0]
    assert (first["sign"], first["before"]) == ("~", "x = input: float32[4]") and first["after"].startswith("x = input: float64[")
    assert len(answer["breaks"]) == 1 and "DX" not in answer["breaks"][0]
    assert asked(seat, "what_if", changes={})["outcome"] == "hit" and session.call_count == 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n": {"value": "import os"}}, "n takes a Python value such as 3"),
        ({"n": {"value": "__import__('os')"}}, "n takes a Python value such as 3"),
        ({"x": {"shape": ["three"]}}, "a shape is a tuple of sizes"),
        ({"x": {"dtype": "float23"}}, "there is no dtype 'float23'"),
        ({"x": {"device": "cuda:99"}}, "there can be no torch.float32 tensor of shape"),
        ({"nothing": {"value": "1"}}, "there is no input 'nothing'"),
    ],
)
def test_what_cannot_be_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    """Wrong values are refused in a sentence; no text of the browser is run."""
    seat, _ = seat_of(program, torch.ones(4))
    with pytest.raises(CannotAnswer) as raised:
        asked(seat, "what_if", changes=changes)
    assert sentence in str(raised.value) and "\n" not in str(raised.value)


def test_an_edited_source() -> None:
    """The source goes to the browser and comes back changed: before beside after."""
    seat, _ = seat_of(program, torch.ones(4))
    source = asked(seat, "source")["source"]
    answer = asked(seat, "rerun", source=source.replace("dynexplore.graph_break()", "pass"))
    assert answer["before"] == {"graphs": 2, "operators": 3, "breaks": 1}
    data = json.loads(answer["data"])
    assert (data["story"]["graphs"], data["story"]["breaks"]) == (1, 0)
    assert (answer["run"], answer["said"], answer["printed"], answer["automatic"]) == (1, "", "", "")
    raised = asked(seat, "rerun", source=source.replace("y + 1", "y + nothing"))
    assert raised["said"].startswith("It raises NameError in line 4") and raised["line"] == 4 and raised["run"] == 2
    wrong = asked(seat, "rerun", source="def program(:")
    assert wrong["said"].startswith("The text has a syntax error in line 1") and wrong["line"] == 1 and "data" not in wrong


def test_a_question_is_about_the_run_that_it_names() -> None:
    """What if is asked of the edited source where its run is on show, and of the first one otherwise; old runs are let go."""
    seat, _ = seat_of(program, torch.ones(4))
    source = asked(seat, "source")["source"]
    run = asked(seat, "rerun", source=source.replace("dynexplore.graph_break()", "pass"))["run"]
    changes = {"n": {"value": "4"}}
    assert asked(seat, "what_if", run=0, changes=changes)["breaks"] != []
    assert asked(seat, "what_if", run=run, changes=changes)["breaks"] == []
    assert asked(seat, "rerun", run=0, source=source)["before"]["breaks"] == 1
    live = seat._shelf.get(seat)
    for number in range(3, 3 + MOST_RUNS):
        live.runs[number] = live.runs[run]
    live.run_count = 2 + MOST_RUNS
    asked(seat, "rerun", source=source)
    with pytest.raises(CannotAnswer, match="The inputs of this run were released"):
        asked(seat, "inputs", run=run)


def writes(x: torch.Tensor, path: str) -> torch.Tensor:
    print("begins")
    with open(path, "w") as file:
        file.write("x")
    return x + 1


def test_typing_may_run_only_what_is_quick_and_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that wrote a file, and one that took long, say why typing does not repeat them; what is printed is told."""
    seat, _ = seat_of(writes, torch.ones(4), str(tmp_path / "f"))
    source = asked(seat, "source")["source"]
    answer = asked(seat, "rerun", source=source)
    assert re.fullmatch(r"the last run writes \S+f", answer["automatic"]) and answer["printed"] == "begins"
    harmless = "def writes(x, path):\n    return x + 1\n"
    assert asked(seat, "rerun", source=harmless)["automatic"] == ""
    monkeypatch.setattr("dynexplore.widgets.live.QUICK", 0.0)
    assert re.fullmatch(r"the last run took \d\.\d s", asked(seat, "rerun", source=harmless)["automatic"])


def test_two_runs_are_never_made_at_once() -> None:
    """While a question has the turn, an edited source is told that the kernel is busy, and a cell waits for its end."""
    seat, _ = seat_of(program, torch.ones(4))
    source = asked(seat, "source")["source"]
    told: list[dict[str, Any]] = []
    with TURN.question() as has_turn:
        assert has_turn
        other = threading.Thread(target=lambda: told.append(asked(seat, "rerun", source=source)))
        other.start()
        other.join()
    assert [(one["busy"], "data" in one) for one in told] == [(True, False)]
    assert "data" in asked(seat, "rerun", source=source)


def test_live_steps() -> None:
    """Start, step, go to a break and to the end; the answers say where it stands."""
    seat, _ = seat_of(program, torch.ones(4))
    with pytest.raises(CannotAnswer, match="No live run was started"):
        asked(seat, "live", act="step")
    assert asked(seat, "live", act="start")["status"] == "parked"
    stand = asked(seat, "live", act="step", count=4)
    assert stand["moment"] == 3 and stand["function"] == "program" and stand["source"].strip() == "y = x.sin() * n"
    stand = asked(seat, "live", act="until", what="break")
    assert stand["text"].startswith("graph break") and {"name": "n", "value": "3"} in stand["locals"]
    stand = asked(seat, "live", act="until", what="end")
    while stand["status"] == "running":
        time.sleep(0.01)
        stand = asked(seat, "live", act="look")
    assert stand["status"] == "finished" and stand["value"].startswith("tensor(")
    with pytest.raises(CannotAnswer, match="cannot 'dance'"):
        asked(seat, "live", act="dance")


def test_a_slow_live_step_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is "running" when the answer is due is "parked" for a later look: the page can go on."""
    monkeypatch.setattr(live, "PATIENCE", 0)
    seat, _ = seat_of(program, torch.ones(4))
    asked(seat, "live", act="start")
    for act, said in (({"act": "until", "what": "break"}, "graph break"), ({"act": "step"}, "")):
        stand = asked(seat, "live", **act)
        for _ in range(2000):
            if stand["status"] != "running":
                break
            time.sleep(0.01)
            stand = asked(seat, "live", act="look")
        assert stand["status"] == "parked" and stand["text"].startswith(said)


def test_a_function_that_is_gone() -> None:
    """The function is not held: a question about it gets the sentence that says so."""

    def local(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    seat, _ = seat_of(local, torch.ones(2))
    del local
    gc.collect()
    for about in ("inputs", "what_if", "source"):
        with pytest.raises(CannotAnswer, match="the function of this recording no longer exists"):
            asked(seat, about)


def test_only_the_latest_sessions_are_held() -> None:
    """A shelf that is full lets the oldest go, and stops what it runs; an explorer that ends gives its place back."""
    shelf = Shelf(2)
    seats = []
    sessions = []
    for _ in range(3):
        session = dynexplore.explain(program, torch.ones(4)).session
        sessions.append(weakref.ref(session))
        seats.append(Seat(session, shelf))
        seats[-1].answerers["live"]({"act": "start"})
    del session
    gc.collect()
    assert [ref() is None for ref in sessions] == [True, False, False]
    with pytest.raises(CannotAnswer, match="Run the cell again"):
        asked(seats[0], "inputs")
    seats[1].leave()
    seats[2].leave()
    gc.collect()
    assert [ref() for ref in sessions] == [None] * 3


def test_the_explorer_of_an_explanation_answers() -> None:
    """Explorer(explanation) can be asked; when it has ended its session is free."""
    explanation = dynexplore.explain(program, torch.ones(4))
    explorer = Explorer(explanation)
    told: list[dict[str, Any]] = []
    explorer.send = lambda content, buffers=None: told.append(content)  # type: ignore[method-assign]
    explorer._on_question(explorer, {"ask": "a:1", "about": "what_if", "changes": {"n": {"value": "4"}}}, [])
    explorer._on_question(explorer, {"ask": "a:2", "about": "what_if", "changes": {"q": {"value": "4"}}}, [])
    assert told[0]["answer"] == "a:1" and told[0]["outcome"] == "recompile" and told[1]["error"].startswith("there is no input")
    gone = weakref.ref(explanation.session)
    del explanation
    explorer.end()
    gc.collect()
    assert gone() is None
