"""views/records.py: every answer of a recording has words and a picture of its own; nothing is the dump of a data class."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections import Counter
from types import NoneType
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.recording.recording import GraphView, Recording
from dynexplore.session.explain import Explanation
from dynexplore.views.records import MOST_LINES, picture, words
from sample_recordings import toy

RAW = {"events", "codes"}
"""Properties of a recording that are its data as they are."""


def branching(x: torch.Tensor) -> torch.Tensor:
    y = x.relu() + 1
    if y.sum() > 0:
        return y * 2
    return y - 1


def answers(shown: Any) -> dict[str, Any]:
    """Public property -> its value."""
    names = [name for name, one in inspect.getmembers(type(shown), lambda one: isinstance(one, property)) if name[0] != "_"]
    return {name: getattr(shown, name) for name in names if name not in RAW}


def is_readable(value: Any) -> bool:
    """Whether a notebook shows it as people read it: plain, one line, torch's own, or with a picture of its own."""
    if isinstance(value, str) and "\n" not in value:
        return True
    if isinstance(value, NoneType | int | float | torch.nn.Module) or callable(value):
        return True
    if hasattr(value, "_repr_html_") or hasattr(value, "_repr_mimebundle_"):
        return not repr(value).startswith(type(value).__name__ + "(") or hasattr(value, "_repr_pretty_")
    return isinstance(value, list | tuple) and all(map(is_readable, value))


def test_every_answer_is_readable() -> None:
    """A property that is added to a recording or an explanation, and shows as a dump or an escaped text, fails here."""
    explanation = dynexplore.explain(branching).calls(torch.ones(2), torch.ones(3))
    for shown in (explanation.recording, explanation):
        unreadable = [name for name, value in answers(shown).items() if not is_readable(value)]
        assert unreadable == []
    assert len(explanation.graphs) == len(explanation.recording.graphs) == 4 and isinstance(explanation, Explanation)
    assert str(explanation.recording.graphs[0]).startswith("__compiled_fn_") and "<img" in picture(explanation.recording.graphs[0])
    assert repr(explanation.session).startswith("Session(branching: 2 calls, ")
    assert "DX104" in repr(explanation.breaks) and "test_records.py:" in repr(explanation.breaks)
    assert repr(explanation.session.check(torch.ones(2))).startswith("entry ")


@pytest.mark.plain("recordings written by hand")
@pytest.mark.parametrize("width", [80, 120])
def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Columns that are too wide are folded between words, and no word is lost; what goes to a file stays as wide as it is."""
    recording = dynexplore.explain(branching, torch.ones(2, 4)).recording
    tables = {"guards": recording.guards, "breaks": recording.breaks, "frames": recording.frames, "steps": recording.steps}
    before = {name: str(one) for name, one in tables.items()}
    assert max(map(len, before["guards"].splitlines())) > 120 and len(recording.breaks) == 1
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    for name, one in tables.items():
        assert max(map(len, str(one).splitlines())) <= width, name
        assert Counter("".join(str(one).split()).replace("-", "")) == Counter("".join(before[name].split()).replace("-", "")), name


def test_every_kind_of_event_is_told() -> None:
    """Each event of a recording has words, which name no class, and HTML, in which its texts are escaped."""
    recording = toy()
    for event in recording:
        assert words(event) == str(event) and not str(event).startswith(type(event).__name__)
        assert type(event).__name__ + "(" not in picture(event) == event._repr_html_()
    dangerous = dataclasses.replace(recording.breaks[0], reason="<script>")
    assert "<script>" in str(dangerous) and "&lt;script&gt;" in picture(dangerous)


@pytest.mark.plain("recordings written by hand")
def test_the_index_is_that_of_the_tuple() -> None:
    """Rows begin with the index under which the record is found; more rows than fit are counted."""
    steps = toy().steps
    lines = repr(steps).splitlines()
    assert lines[2].split()[:3] == ["[0]", str(steps[0].frame), steps[0].op] and len(lines) == 2 + len(steps)
    many = Recording()
    for _ in range(MOST_LINES + 7):
        many.record(steps[0])
    assert repr(many.steps).endswith("... and 7 more")


@pytest.mark.plain("recordings written by hand")
def test_a_step_stands_for_its_number() -> None:
    """`step` and `real` take the step itself as well as its number."""
    recording = toy()
    step = recording.step(3)
    assert recording.step(step) is step and recording.real(step) == recording.real(3)
    assert str(recording.real(step)).splitlines()[0] == f"{step.op} {step.arg}".strip() + f" (frame {step.frame})"


NO_RESULT = {
    "optimize", "optimize_assert", "compile", "run", "disable", "skip", "reset", "graph_break", "allow_in_graph",
    "disallow_in_graph", "substitute_in_graph", "is_compiling", "assume_constant_result", "mark_dynamic", "mark_unbacked",
    "maybe_mark_dynamic", "mark_static", "record_frame", "override_handler", "stance", "GuardFilterEntry", "comptime",
    "error_on_graph_break", "disable_nested_graph_breaks", "list_backends", "register_backend", "config", "exc", "graph_breaks",
    "counters", "export", "break_hunt",
}  # fmt: skip
"""Public names that give functions, modules, names and numbers, or nothing."""

RESULTS = {
    "explain": "dynexplore.session.explain.Explanation",
    "Explanation": "dynexplore.session.explain.Explanation",
    "Recording": "dynexplore.recording.recording.Recording",
    "watch": "dynexplore.watching.watch.Watch",
    "open_ranks": "dynexplore.ranks.ranks.Ranks",
    "Ranks": "dynexplore.ranks.ranks.Ranks",
    "compare": "dynexplore.lenses.comparison.Comparison",
    "Comparison": "dynexplore.lenses.comparison.Comparison",
    "compare_engines": "dynexplore.two_engines.two_captures.TwoCaptures",
    "TwoCaptures": "dynexplore.two_engines.two_captures.TwoCaptures",
    "diagnose": "dynexplore.tools.diagnosis.Diagnosis",
    "minify": "dynexplore.tools.shrinking.Minified",
    "replay": "dynexplore.tools.replay.Replay",
    "all_breaks": "dynexplore.tools.break_report.BreakReport",
    "coverage": "dynexplore.tools.coverage.Coverage",
    "inductor_artifacts": "dynexplore.tools.inductor_artifacts.InductorArtifacts",
    "until_quiet": "dynexplore.tools.quiescence.Quiescence",
    "CompilationProfiler": "dynexplore.tools.compilation_profiler.CompilationProfiler",
    "compile_times": "dynexplore.tools.compile_times.CompileTimes",
}
"""Public name -> the class of what it gives."""


@pytest.mark.plain("classes, looked at")
def test_every_public_name_has_a_result_with_a_picture() -> None:
    """A public name that is added says here what it gives; what it gives has words and a picture."""
    assert NO_RESULT | set(RESULTS) == set(dynexplore.PUBLIC)
    for name, where in RESULTS.items():
        module, _, kind = where.rpartition(".")
        result = getattr(__import__(module, fromlist=[kind]), kind)
        assert hasattr(result, "_repr_html_") or hasattr(result, "_repr_mimebundle_"), name
        own = (result.__str__, result.__repr__)
        assert own[0] is not object.__str__ or own[1] is not object.__repr__, name
        assert own[0] is not object.__str__ or "dataclasses" not in getattr(own[1], "__module__", ""), name
    assert GraphView.__str__ is ev.Event.__str__ is not object.__str__
