"""session/explain.py: what one call did, beside which nothing changes, and what can be asked afterwards."""

from __future__ import annotations

import gc
import os
import pickle
import weakref
from pathlib import Path

import pytest
import torch

import dynexplore
from dynexplore.engine import native
from dynexplore.recording.recording import Recording
from dynexplore.session.explain import Explanation
from engine_checks import CountingBackend

X = torch.ones(4)


def two_parts(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    dynexplore.graph_break()
    return x.sum() * 2


def straight(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return torch.relu(x) * factor


# -- the explanation ------------------------------------------------------------------------------------------


def test_what_came_of_each_call() -> None:
    """Several calls: their outcomes as words, and a table of calls and cache entries that names the guard of a miss."""
    explanation = dynexplore.explain(straight).calls(X, X, torch.ones(5))
    assert explanation.outcomes == ["compile", "hit", "recompile"]
    rows = [line.split()[:3] for line in explanation.timeline.splitlines()]
    assert ["2", "straight", "hit"] in rows
    assert explanation.timeline.splitlines()[5].startswith("call 3, straight: local 'x' TENSOR_MATCH")
    assert all(len(line) <= 100 for line in explanation.timeline.splitlines())


def test_what_an_explanation_holds() -> None:
    """Recording, graphs, guards, breaks with reasons, counts, resume functions and the value of the call."""
    explanation = dynexplore.explain(two_parts, X)
    assert isinstance(explanation, Explanation) and isinstance(explanation.recording, Recording)
    assert [type(graph).__mro__[1] for graph in explanation.graphs] == [torch.fx.GraphModule] * 2
    assert (explanation.graph_count, explanation.graph_break_count) == (2, 1)
    assert explanation.op_count == 3
    assert [[getattr(op, "__name__", op) for op in ops] for ops in explanation.ops_per_graph] == [["add"], ["sum", "mul"]]
    assert explanation.break_reasons == [broke.reason for broke in explanation.breaks]
    assert "graph_break()" in explanation.break_reasons[0]
    assert explanation.resume_functions[0].name.startswith("__resume_at_")
    assert {guard.kind for guard in explanation.guards} >= {"TENSOR_MATCH"}
    assert explanation.out_guards == list(explanation.guards)
    assert explanation.value.item() == 16


def test_it_unpacks_as_the_early_api_did() -> None:
    """Iterating gives (explanation, out_guards, graphs, ops_per_graph)."""
    text, out_guards, graphs, ops_per_graph = dynexplore.explain(straight, X)
    assert text.splitlines()[2:] == ["1 graph, 0 graph breaks, 2 operators"]
    assert len(graphs) == len(ops_per_graph) == 1 and out_guards


def test_print_and_html() -> None:
    """str and repr are the report; a notebook gets HTML beside it."""
    explanation = dynexplore.explain(two_parts, X)
    assert str(explanation) == repr(explanation)
    lines = str(explanation).splitlines()
    below_headline = lines.index("") + 1
    assert lines[below_headline:][:2] == ["2 graphs, 1 graph break, 3 operators", "Break reasons:"]
    assert "     dynexplore.graph_break()" in lines and any(line.startswith("   fix: ") for line in lines)
    shown = explanation._repr_mimebundle_()
    assert "two_parts" in shown["text/html"] and shown["text/plain"]


def test_every_way_to_call_it() -> None:
    """explain(f, x), explain(f)(x), explain(f)() without arguments, keyword arguments, and options."""

    def nothing() -> torch.Tensor:
        return torch.ones(2) + 1

    def named(x: torch.Tensor, backend: float) -> torch.Tensor:
        return x * backend

    assert dynexplore.explain(straight, X, factor=3.0).value.tolist() == [3.0] * 4
    assert dynexplore.explain(straight)(X).value.tolist() == [2.0] * 4
    assert dynexplore.explain(nothing)().value.tolist() == [2.0, 2.0]
    assert dynexplore.explain(named)(X, backend=5.0).value.tolist() == [5.0] * 4
    counting = CountingBackend()
    assert len(dynexplore.explain(straight, X, backend=counting).graphs) == len(counting.graphs) == 1
    with pytest.raises(dynexplore.exc.Unsupported):
        dynexplore.explain(two_parts, X, nopython=True)
    with pytest.raises(dynexplore.exc.InvalidBackend):
        dynexplore.explain(straight, X, backend="nope")


def test_modules_methods_and_wrappers() -> None:
    """A module, a bound method, an optimized function and an optimized module are explained."""
    module = torch.nn.Linear(4, 2)
    for target in (module, module.forward, dynexplore.optimize()(module)):
        explanation = dynexplore.explain(target, X)
        assert explanation.graph_count == 1 and torch.equal(explanation.value, module(X))
    assert dynexplore.explain(dynexplore.optimize()(straight), X).graph_count == 1


def test_the_program_runs_once() -> None:
    """Prints and side effects happen once; an exception comes out as it is."""
    seen: list[int] = []

    def noisy(x: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return x + 1

    assert dynexplore.explain(noisy, X).graph_count == 1
    assert seen == [1]

    def raises(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        dynexplore.explain(raises, X)
    assert native.current() is None


# -- beside everything else -----------------------------------------------------------------------------------


def test_nothing_else_is_touched() -> None:
    """Caches, counts and breaks are what they were; what is cached elsewhere is not used."""
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(two_parts)
    optimized(X)
    before = dynexplore.counters.snapshot()
    assert dynexplore.explain(two_parts, X, backend=backend).graph_count == 2
    assert dynexplore.counters.snapshot() == before
    graphs = len(backend.graphs)
    optimized(X)
    assert len(backend.graphs) == graphs == 4


def test_inside_a_region() -> None:
    """explain inside an optimized block explains as anywhere."""
    backend = CountingBackend()
    with dynexplore.optimize(backend):
        explanation = dynexplore.explain(straight, X)
        straight(X)
    assert explanation.graph_count == 1 and len(backend.graphs) == 1


def test_the_recording_is_dead_data() -> None:
    """It goes to JSON and back unchanged, and keeps neither function nor inputs alive."""

    def local(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    x = torch.ones(2)
    recording = dynexplore.explain(local, x).recording
    assert len(recording.graphs) == 1
    references = weakref.ref(x), weakref.ref(local)
    assert Recording.from_json(recording.to_json()) == recording
    assert pickle.loads(pickle.dumps(recording.frames)) == recording.frames
    del x, local
    gc.collect()
    assert [reference() for reference in references] == [None, None]


# -- the session ----------------------------------------------------------------------------------------------


def test_would_another_input_hit() -> None:
    """check answers guard by guard for each entry, and runs nothing."""
    session = dynexplore.explain(straight, X).session
    (verdict,) = session.check(torch.zeros(4))
    assert verdict.hits and {guard.verdict for guard in verdict.guards} == {"pass"}
    (verdict,) = session.check(torch.zeros(5))
    assert not verdict.hits
    failed = [guard for guard in verdict.guards if guard.verdict == "fail"]
    assert len(failed) == 1 and failed[0].expected == "float32[4] cpu" and failed[0].actual.startswith("float32[5] cpu")
    assert verdict.guards[0].verdict == "pass" and verdict.guards[-1].verdict in ("fail", "not reached")
    (verdict,) = session.check(X, factor=5.0)
    assert not verdict.hits
    with pytest.raises(TypeError, match="missing a required argument"):
        session.check()


def test_would_another_input_hit_a_module() -> None:
    """The same for modules and bound methods; a change of the module is seen."""
    module = torch.nn.Linear(4, 2)
    for target in (module, module.forward):
        session = dynexplore.explain(target, X).session
        assert [verdict.hits for verdict in session.check(torch.zeros(4))] == [True], target
        assert [verdict.hits for verdict in session.check(torch.zeros(3, 4))] == [False], target
    session = dynexplore.explain(module, X).session
    module.weight = torch.nn.Parameter(torch.zeros(2, 4))
    (verdict,) = session.check(torch.zeros(4))
    assert not verdict.hits and "fail" in {guard.verdict for guard in verdict.guards}


def test_what_would_be_captured() -> None:
    """capture explains another call; entries tells what the recorded one made."""
    session = dynexplore.explain(two_parts, X).session
    assert len(session.entries) == 2 and all(entry.graphs for entry in session.entries)
    other = session.capture(torch.ones(2, 2))
    assert other.recording.frames[0].arguments[0][1].text == "float32[2, 2] cpu"
    assert len(session.entries) == 2 and session.args == (X,)


def test_a_session_does_not_keep_the_function() -> None:
    """The function is held weakly; without it the session says so."""

    def local(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    explanation = dynexplore.explain(local, X)
    session = explanation.session
    assert session.function is local
    assert explanation.graph_count == 1
    del local, explanation
    gc.collect()
    with pytest.raises(LookupError, match="the function of this recording no longer exists"):
        session.capture(X)


def test_the_rank_is_that_of_torch_distributed(tmp_path: Path) -> None:
    """A recording knows its process among those that torch.distributed joined; a process by itself has no rank."""
    assert dynexplore.explain(lambda x: x + 1)(torch.ones(2)).recording.rank is None
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meet'}", rank=0, world_size=1)
    try:
        recording = dynexplore.explain(lambda x: x + 1)(torch.ones(2)).recording
    finally:
        torch.distributed.destroy_process_group()
    assert recording.rank == 0 and recording.process == os.getpid() and len(recording.graphs) == 1


def test_the_graphs_print_with_their_code() -> None:
    """A list of live GraphModules, each with its name, its operators and its code, where torch prints names alone."""
    explanation = dynexplore.explain(lambda x: x.sin() + 1)(torch.ones(2))
    (graph,) = explanation.graphs
    assert isinstance(graph, torch.fx.GraphModule) and isinstance(explanation.graphs, list)
    text = repr(explanation.graphs)
    assert text.startswith(f"{type(graph).__name__}: 2 operators\ndef forward(self, ") and "x.sin()" in text
    assert "<pre>" in explanation.graphs._repr_html_()  # type: ignore[attr-defined]
