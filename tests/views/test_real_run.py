"""The real run as text and as data for the browser."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.translate import dispatch
from dynexplore.recording.recording import Recording
from dynexplore.views import real_run, text
from dynexplore.views.explorer_data import explorer_data
from sample_recordings import toy


def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x = torch.abs(a) + 1
    print(end="")
    return x * b


def recorded(**options: Any) -> Recording:
    return dynexplore.explain(program, **options)(torch.ones(2), torch.full((2,), 3.0)).recording  # type: ignore[no-any-return]


def wrong_constant(frame: Any, step: Any, ctx: Any) -> None:
    original(frame, step, ctx)
    if step.arg == 1:
        frame.pop()
        frame.push(ctx.build(2, None))


original = dispatch.HANDLERS["LOAD_CONST"]


def test_a_clean_run_as_text() -> None:
    """The verdict, and a line for each run of a graph with its wall time."""
    recording = recorded()
    lines = real_run.report(recording).splitlines()
    assert lines[0] == "Matches eager: 2 runs of graphs, 6 values and 2 outputs compared."
    assert [line.split(", ")[0].split(" run ")[1] for line in lines[1:]] == ["1", "1"]
    assert all(" ms: " in line and line.endswith("equal") for line in lines[1:])
    assert "REAL RUN\nMatches eager" in text.report(recording)
    assert "diverge" not in text.explanation(recording)


def test_beside_a_traceback_nothing_is_said_to_be_well() -> None:
    """A run that ended in an exception says so, and what had been compared before it."""

    def raises(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        print(end="")
        raise KeyError(len(y))

    with dynexplore.explain(raises) as watched:
        with pytest.raises(KeyError):
            watched(torch.ones(2))
    said = real_run.verdict(watched.explanation.recording)
    assert said.startswith("It ended in KeyError; before that 1 run of a graph, ")
    assert "Matches eager" not in said


def test_a_divergence_as_text() -> None:
    """Place, step, instruction, what was expected and found."""
    with dispatch.override("LOAD_CONST", wrong_constant):
        recording = recorded()
    line = program.__code__.co_firstlineno + 1
    assert f"at {__file__}:{line} in program: the engine interpreted the instruction differently" in real_run.verdict(recording)
    assert "LOAD_CONST 1: value expected 1, found 2" in " ".join(text.explanation(recording).split())


def test_nothing_is_said_where_nothing_was_recorded() -> None:
    """An older recording, or one without the real run."""
    for recording in (toy(), recorded(real=False)):
        assert real_run.verdict(recording) == real_run.report(recording) == ""
        data = explorer_data(recording)
        assert data["real"]["verdict"] == ""
        assert data["real"]["divergences"] == []
        assert [frame["real"] for frame in data["frames"]] == [{}] * len(data["frames"])


def test_a_recording_of_the_older_schema_is_read() -> None:
    """Schema 1 knew neither `where` of a divergence nor `why` of a value."""
    plain = recorded().to_plain()
    plain["schema"] = 1
    new = {"requires_grad", "moment", "after", "why", "rule"}
    kept = [row for row in plain["events"] if row["event"] not in ("RunCompared", "RunLeftOut")]
    plain["events"] = [{name: value for name, value in row.items() if name not in new} for row in kept]
    old = Recording.from_plain(json.loads(json.dumps(plain)))
    assert old.of(ev.ValueObserved)
    assert explorer_data(old)["frames"][0]["real"]["nodes"]


def test_the_browser_gets_changes() -> None:
    """Node -> from which step on it has which value; the values stand in one table."""

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y += 1
        return y.sum()

    data = explorer_data(dynexplore.explain(f)(torch.ones(2)).recording)
    (frame,) = data["frames"]
    (first, one), (second, other) = frame["real"]["nodes"]["mul"]
    assert first < second
    values = data["real"]["values"]
    assert values[one] == {
        "provenance": "replayed",
        "text": "float32[2] cpu",
        "elements": "min 2 mean 2 max 2, first 2, 2",
        "grad": "",
        "why": "",
    }
    assert values[other]["elements"] == "min 3 mean 3 max 3, first 3, 3"
    assert values[frame["real"]["names"]["x"]]["provenance"] == "real"
    (ran,) = data["real"]["runs"]
    assert (ran["frame"], ran["graph"], ran["run"]) == (1, frame["graphs"][0]["name"], 1) and ran["time"].endswith(" ms")
    assert ran["compared"].endswith("compared: equal")
    assert frame["real"]["unlike"] == {} and not any(frame["real"]["contents"].values())
    moments = [(one["moment"], one["name"], values[one["value"]]["provenance"]) for one in frame["real"]["ran"]]
    assert ("entry", "x", "real") in moments
    json.dumps(data)


def test_a_divergence_leads_to_its_state() -> None:
    """The number of the state within the frame, of the attempt that counts."""
    with dispatch.override("LOAD_CONST", wrong_constant):
        data = explorer_data(recorded())
    found = data["real"]["divergences"][0]
    state = data["frames"][0]["states"][found["state"]]
    assert (state["text"], state["attempt"]) == ("LOAD_CONST 1", 2)
    assert data["rules"]["LOAD_CONST"].endswith("wrong_constant")


def test_the_rule_of_a_step_is_its_handler() -> None:
    """Every step says which handler interpreted it: file, line, name."""
    rules = {step.op: step.rule for step in recorded().steps}
    assert rules["BINARY_OP"].startswith("operators.py:")
    assert rules["BINARY_OP"].endswith(" binary_op")
    assert all(rules.values())
