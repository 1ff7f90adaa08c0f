"""tools/break_report.py: all breaks at once, the most expensive first."""

from __future__ import annotations

import contextvars
import importlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore


@dynexplore.disable
def opaque(x: Any) -> Any:
    return x.sin().cos().exp()


def program(x: Any) -> Any:
    x = x + 1
    print("woo")
    x = opaque(x * 2)
    if x.sum() > 0:
        x = x + 1
    return x


def test_ordered_by_what_they_cost(capsys: Any) -> None:
    """The disabled call leaves three operators outside and comes first; each has place, cure and page."""
    report = dynexplore.all_breaks(program, torch.ones(2))
    assert report[0].graph_break.kind == "DX202" and report[0].operators == ("aten::sin", "aten::cos", "aten::exp")
    assert {cost.graph_break.kind for cost in report} == {"DX202", "DX206", "DX104"}
    assert len(report) == 3 and report.operators > report.inside > 0
    text = str(report)
    assert "the graph breaks in 3 places" in text and "see docs/graph-breaks.md#dx206" in text
    assert text.index("DX202") < text.index("DX206") and "<table>" in report._repr_html_()


def test_known_differences_are_linked() -> None:
    """A break at `backward` names the entries of docs/differences.md about autograd; one at an `if` names none."""

    def trains(x: Any) -> Any:
        loss = (x * 2).sum()
        loss.backward()
        return loss

    (cost,) = dynexplore.all_breaks(trains, torch.ones(3, requires_grad=True))
    assert (cost.graph_break.kind, cost.differences) == ("DX406", ("DIFF19", "DIFF20"))
    assert "see docs/differences.md#diff19" in str(cost)
    others = {cost.graph_break.kind: cost for cost in dynexplore.all_breaks(program, torch.ones(2))}
    assert "differences.md" not in str(others["DX104"])


def test_a_nested_break_has_its_chain() -> None:
    """The report names the calls that lead to a break in a callee, and none where the function itself breaks."""

    def leaf(x: Any) -> Any:
        print("leaf")
        return x * 2

    def middle(x: Any) -> Any:
        return leaf(x + 1) - 1

    def root(x: Any) -> Any:
        return middle(x * 3) + x

    (cost,) = report = dynexplore.all_breaks(root, torch.ones(2))
    first = root.__code__.co_firstlineno
    chain = f"test_break_report.py:{first + 1} > test_break_report.py:{middle.__code__.co_firstlineno + 1}"
    assert f"in test_a_nested_break_has_its_chain.<locals>.leaf\n   called at {chain}\n   fix" in str(report) and cost.count == 1
    assert "called at" not in str(dynexplore.all_breaks(leaf, torch.ones(2)))


def test_as_an_issue() -> None:
    """Versions, the break and the line."""
    issue = dynexplore.all_breaks(program, torch.ones(2))[0].as_issue()
    assert f"torch {torch.__version__}" in issue and "x = opaque(x * 2)" in issue and issue.startswith("### Graph break DX202")


def test_counters_stay_and_exceptions_pass() -> None:
    """Asking changes no count; what the call raises is raised."""
    dynexplore.reset()
    assert len(dynexplore.all_breaks(program, torch.ones(2))) == 3
    assert dict(dynexplore.counters) == {}
    with pytest.raises(ZeroDivisionError):
        dynexplore.all_breaks(lambda x: 1 // 0, torch.ones(2))


def test_a_long_report_of_breaks_is_cut() -> None:
    """Of many places the most expensive are shown, and the rest is counted; printed by itself it is whole."""
    lines = ["def f(x):", *["    dynexplore.graph_break(); x = x + 1"] * 12, "    return x"]
    namespace: dict[str, Any] = {"dynexplore": dynexplore}
    exec(compile("\n".join(lines), "model.py", "exec"), namespace)
    report = dynexplore.all_breaks(namespace["f"], torch.ones(2))
    cut = report.text(40).split("\n")
    assert len(report) == 12 and len(str(report).split("\n")) > 40
    assert len(cut) <= 40 and cut[-1].startswith("... and ") and cut[-1].endswith(" more places (--full)")


def test_two_lines_of_the_program_that_reach_one_line_of_a_library_are_two_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each names the program's own line first, and the library's after it."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "shows_tensors.py").write_text("def shown(x):\n    print(end='')\n    return x + 1\n")
    monkeypatch.syspath_prepend(str(folder))
    shown = importlib.import_module("shows_tensors").shown

    def calls(x: Any) -> Any:
        x = shown(x * 2)
        return shown(x * 3)

    report = dynexplore.all_breaks(calls, torch.ones(2))
    first = calls.__code__.co_firstlineno
    places = sorted(cost.place for cost in report)
    assert [place.partition(" in ")[0].rpartition(":")[2] for place in places] == [str(first + 1), str(first + 2)]
    assert all("shows_tensors.py:2" in place for place in places), places


SETTING, LOCAL = contextvars.ContextVar("setting", default=1), threading.local()
LOCAL.scale = 2


BREAKS_AT = {
    "ContextVar.get": lambda x: x * SETTING.get(),
    "_local.scale": lambda x: x + LOCAL.scale,
    "json.dumps": lambda x: x + len(json.dumps({"a": 1})),
}


@pytest.mark.parametrize("named", BREAKS_AT)
def test_a_break_names_the_attribute_or_the_function_that_it_is_about(named: str) -> None:
    """Which attribute of what, which function: in the text, and in the table of a notebook."""
    report = dynexplore.all_breaks(BREAKS_AT[named], torch.ones(2))
    assert f"({named})" in str(report) and f"({named})" in report._repr_html_(), str(report)


def pieces(x: Any) -> Any:
    for number in range(3):
        yield x * number


@pytest.mark.plain("a function that is not captured")
def test_a_generator_function_has_a_reason() -> None:
    """Its body runs while somebody iterates, outside of the call that was asked about: that is said, and no "0 places" alone."""
    words = "runs as plain Python: generators and coroutines are captured only when a captured function runs them"
    report = dynexplore.all_breaks(pieces, torch.ones(2))
    assert words in str(report).replace("\n  ", " ") and words in report._repr_html_()
    explanation = dynexplore.explain(pieces, torch.ones(2))
    assert "generators and coroutines are captured only" in str(explanation) and "no graph was captured" in str(explanation)


def test_no_graph_breaks_are_said_as_such() -> None:
    """In the same words as in other reports."""
    report = dynexplore.all_breaks(lambda x: x.sin() * 2, torch.ones(2))
    assert str(report).endswith("<lambda>: no graph breaks; 2 of 2 operators run in graphs")
