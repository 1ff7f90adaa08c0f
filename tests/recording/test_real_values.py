"""The real value beside each symbolic one, asked of records written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from dynexplore.engine import events as ev
from dynexplore.recording.real_values import Indexed, RealValue

pytestmark = pytest.mark.plain("asks records written by hand")

X = ev.ValueView(1, "TensorVariable", "float32[2] cpu", "x", "x")
Y = ev.ValueView(2, "TensorVariable", "float32[2] cpu", "", "mul")
DEAD = ev.ValueView(3, "TensorVariable", "float32[2] cpu", "", "dead")
ONE = ev.ValueView(4, "ConstantVariable", "1")
ITEMS = ev.ValueView(5, "ListVariable", "list of 1", "items")
MODULE = ev.ValueView(6, "PythonModuleVariable", "module torch", "torch")


def seen(role: str, name: str, number: float, **more: Any) -> ev.ValueObserved:
    place: dict[str, Any] = {"frame": 1, "attempt": 2, "graph": "g", "run": 1, **more}
    return ev.ValueObserved(role=role, name=name, text="float32[2] cpu", first=(number, 0.0), replayed=role == "node", **place)


def node(name: str, attempt: int = 2, target: str = "mul") -> ev.NodeAdded:
    return ev.NodeAdded(frame=1, attempt=attempt, graph="", name=name, op="call_function", target=target)


def step(attempt: int = 2) -> ev.InstructionStepped:
    return ev.InstructionStepped(frame=1, attempt=attempt, step=0, op="NOP")


EVENTS: list[ev.Event] = [
    ev.AttemptStarted(frame=1, attempt=1),
    node("mul", 1),
    step(1),
    node("other", 1, "sin"),
    step(1),
    ev.AttemptStarted(frame=1, attempt=2),
    node("x"),
    step(),  # 0
    node("mul"),
    step(),  # 1
    node("dead"),
    node("add_"),
    step(),  # 2
    step(),  # 3
    ev.ValueObserved(frame=1, role="local", name="items", moment="entry", text="list of 1: 7"),
    seen("input", "x", 1.0),
    seen("node", "mul", 2.0),
    seen("node", "mul", 3.0, after="add_"),
    seen("node", "other", 9.0),
    ev.ValueObserved(frame=1, attempt=2, role="node", name="secret", replayed=True, run=1, why="it is user code"),
    ev.RunCompared(frame=1, attempt=2, graph="g", run=1),
]


def of(step: int, view: ev.ValueView, attempt: int = 2, events: list[ev.Event] = EVENTS) -> RealValue:
    return Indexed(events).value(1, attempt, step, view)


def test_provenance() -> None:
    """Of the call, replayed, or not observed with the reason."""
    assert (of(1, X).provenance, str(of(1, X))) == ("real", "float32[2] cpu, first 1, 0 [real]")
    assert (of(1, Y).provenance, of(1, Y).observed and of(1, Y).observed.first) == ("replayed", (2.0, 0.0))
    assert str(of(1, ONE)) == "1 [real]"
    assert str(of(1, ITEMS)) == "list of 1: 7, as passed in [real]"
    assert str(of(1, DEAD)) == "not observed, the graph does not need it"
    assert str(of(1, MODULE)) == "module torch [real]"
    assert str(of(1, ev.NULL_VIEW)) == "not observed, it is an empty slot"
    secret = ev.ValueView(9, "TensorVariable", "", "", "secret")
    assert str(of(1, secret)) == "not observed, it is user code"


def test_a_value_changes_with_the_step_that_writes_to_it() -> None:
    """Before, at and after the step with the operator that writes in place."""
    firsts = [value.observed.first[0] for number in range(4) if (value := of(number, Y)).observed]
    assert firsts == [2.0, 2.0, 3.0, 3.0]


def test_an_attempt_that_was_given_up() -> None:
    """What it shares with the graph that ran is known, nothing else: a node of the same name may be another one."""
    assert of(0, Y, attempt=1).provenance == "replayed"
    other = ev.ValueView(7, "TensorVariable", "", "", "other")
    assert of(1, other, attempt=1).why == "this attempt was discarded, and its graph never ran"


def test_another_run_has_other_values() -> None:
    """Each run of a graph is asked for by its number; a run that was not replayed says so."""
    later = [*EVENTS, seen("input", "x", 8.0, run=2), ev.RunLeftOut(frame=1, attempt=2, graph="g", run=2, reason="enough")]
    table = Indexed(later, run=2)
    assert table.value(1, 2, 1, X).observed.first == (8.0, 0.0)  # type: ignore[union-attr]
    assert table.value(1, 2, 1, Y).why == "this run was not replayed: enough"


def test_without_any_real_run() -> None:
    """A recording from before there was one, or with `real=False`."""
    table = Indexed([event for event in EVENTS if not isinstance(event, ev.ValueObserved | ev.RunCompared)])
    assert not table.is_recorded
    assert {table.value(1, 2, 1, view).why for view in (X, Y, ONE, ITEMS)} == {"the real run was not recorded"}
