"""Every reason to skip a backend is met by the program that the docs show for it, is said wherever the backend is named, and the
program does what eager does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from recorded import recorded

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.aliasing.eligibility import NO_COMPILER, RULES, STAGES, Rule, docs_page
from dynexplore.engine.errors import BackendCompilerError, MissingCompiler
from dynexplore.engine.runtime import backends
from dynexplore.recording.recording import Recording
from dynexplore.views import text
from dynexplore.views.explorer_data import graph_facts
from engine_checks import CountingBackend, assert_same_as_eager

DOCS = Path(__file__).parents[3] / "docs" / "backend-eligibility.md"
CANNOT_BE_COMPARED = {"BE24"}  # torch raises when the view that this program returns is looked at
OLDER = pytest.mark.skipif(
    not hasattr(torch._functorch.predispatch, "_unwrap_for_grad"), reason="older versions unwrap in C: torch.func.vjp breaks"
)
WITH_EXAMPLE = [
    pytest.param(rule, id=rule.id, marks=OLDER if "torch.func" in rule.example else ()) for rule in RULES.values() if rule.example
]


def program_of(rule: Rule) -> tuple[Any, tuple[Any, ...]]:
    """The example's function, and what it is called with."""
    namespace: dict[str, Any] = {"__name__": "example", "torch": torch}
    exec(compile(rule.example.strip() + "\n", f"<example of {rule.id}>", "exec"), namespace)
    return namespace["f"], namespace.get("args", (torch.ones(3),))


@pytest.mark.parametrize("rule", WITH_EXAMPLE)
def test_the_example_skips_the_backend_as_its_row_says(rule: Rule) -> None:
    """Running the example under AOTAutograd, one of its graphs runs as captured, and its event names the row."""
    function, arguments = program_of(rule)
    recording = recorded(function, arguments, backend="aot_eager")
    reasons = [one.because.id for one in recording.of(ev.SubgraphCompiled) if one.because is not None]
    assert rule.id in reasons, (reasons, recording.breaks)
    assert all((one.ran_by == "eager") == (one.because is not None) for one in recording.of(ev.SubgraphCompiled))
    assert dynexplore.counters["backend_skipped"][f"{rule.id}: {rule.title}"] >= 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("rule", [row for row in WITH_EXAMPLE if row.id not in CANNOT_BE_COMPARED])
def test_the_example_does_what_eager_does(rule: Rule, backend: str) -> None:
    """Value, exception, mutations and gradients of the example are the same with and without the engine."""
    function, arguments = program_of(rule)
    assert_same_as_eager(function, *arguments, backend=backend, calls=2)


def test_a_mutation_beside_a_view_without_gradients_is_what_eager_makes_of_it() -> None:
    """AOTAutograd raises where it regenerates the view; the graph runs as captured instead, and mutates the leaf."""
    function, (leaf,) = program_of(RULES["BE24"])
    result, _ = dynexplore.optimize("aot_eager")(function)(leaf)
    assert result is leaf and leaf.tolist() == [2.0, 2.0, 2.0]
    assert dynexplore.counters["backend_skipped"][RULES["BE24"].reason.line] == 1


def overlap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.add_(1)
    return a * b


def overlapping_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    """Of two dtypes: there is no synthetic base for them."""
    base = torch.arange(6.0)
    return base, base.view(torch.int32)


def test_a_skipped_backend_is_not_counted_as_having_compiled() -> None:
    """The backend is not called, "eager" is what ran the graph, and the reason is counted once."""
    backend = CountingBackend("aot_eager")
    dynexplore.optimize(backend, nopython=True)(overlap)(*overlapping_inputs())
    assert backend.graphs == []
    assert dynexplore.counters["backend"] == {"eager": 1}
    assert dynexplore.counters["backend_skipped"] == {RULES["BE16"].reason.line: 1}


def test_a_graph_that_its_backend_compiles_has_no_reason() -> None:
    """The event of such a graph names the backend as what runs it."""
    for backend in ("eager", "aot_eager"):
        (compiled,) = recorded(overlap, (torch.ones(3), torch.ones(3)), backend=backend).of(ev.SubgraphCompiled)
        assert (compiled.ran_by, compiled.because) == (backend, None)
    assert not dynexplore.counters["backend_skipped"]


def test_explain_names_the_reason() -> None:
    """The headline says that the backend did not compile the graph, and the report says why and what to do."""
    told = str(dynexplore.explain(overlap, *overlapping_inputs(), backend="aot_eager"))
    assert told.startswith("overlap is one graph of 2 operators, but `aot_eager` did not compile it")
    rule = RULES["BE16"]
    assert all(text in " ".join(told.split()) for text in (rule.reason.line, rule.why, rule.fix, rule.reason.page))


def test_a_recording_keeps_the_reason() -> None:
    """The reason goes to JSON and back, and reaches the explorer's table of the graph; graphs without one have no such keys."""
    recording = recorded(overlap, overlapping_inputs(), (torch.ones(3), torch.ones(3)), backend="aot_eager")
    skipped, compiled = Recording.from_json(recording.to_json()).graphs
    assert skipped.skipped == RULES["BE16"].reason
    assert graph_facts(skipped, ())["skipped"] == RULES["BE16"].reason.line
    assert compiled.skipped is None
    assert "skipped" not in graph_facts(compiled, ())
    assert "backend aot_eager skipped (BE16)" in text.graph(skipped)


def test_a_missing_compiler_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where explain goes on without a compiler, the graph is not said to be compiled."""

    def backend(graph: Any, inputs: Any) -> Any:
        raise MissingCompiler("a C++ compiler")

    monkeypatch.setattr(backends, "_backend_error", lambda error, *rest: error)
    explained = dynexplore.explain(overlap, torch.ones(3), torch.ones(3), backend=backend)
    (graph,) = explained.recording.graphs
    assert graph.skipped == RULES["BE29"].reason
    assert RULES["BE29"].stage == NO_COMPILER


def test_a_failing_backend_is_no_reason() -> None:
    """A backend that raises on a graph whose backward does not is to blame for it."""

    def backend(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("a view too many")

    with pytest.raises(BackendCompilerError):
        dynexplore.optimize(backend)(lambda x: x.sin().cos())(torch.ones(3, requires_grad=True))
    assert not dynexplore.counters["backend_skipped"]


def test_what_stands_beside_a_recurrent_layer_goes_to_the_backend() -> None:
    """A graph with an LSTM and other operators is compiled around the LSTM, and has no reason."""
    layer = torch.nn.LSTM(3, 3)
    (compiled,) = recorded(lambda x: layer(x)[0].sin() * 2, (torch.ones(2, 1, 3),), backend="aot_eager").of(ev.SubgraphCompiled)
    assert (compiled.ran_by, compiled.because) == ("aot_eager", None)
    assert dynexplore.counters["backend"]["aot_eager"] > 0


@pytest.mark.plain("reads the table")
def test_rows_are_told_apart() -> None:
    """Ids are in order, titles differ, and each row has an example but the one that depends on the machine."""
    assert list(RULES) == [f"BE{number:02}" for number in range(1, len(RULES) + 1)]
    assert len({rule.title for rule in RULES.values()}) == len(RULES)
    assert [rule.id for rule in RULES.values() if not rule.example] == ["BE29"]
    assert {rule.stage for rule in RULES.values()} == set(STAGES)


@pytest.mark.plain("reads the docs")
def test_the_docs_page_is_up_to_date() -> None:
    """docs/backend-eligibility.md is what `python -m dynexplore.engine.aliasing.eligibility` prints; each row has its anchor."""
    assert DOCS.read_text() == docs_page()
    assert all(f'<a id="{rule.id.lower()}"></a>' in docs_page() for rule in RULES.values())
