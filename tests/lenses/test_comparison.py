"""A comparison as text and as HTML: short answer first, nothing fetched, everything escaped, no program needed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dynexplore.engine.events import NodeAdded
from dynexplore.lenses.comparison import Comparison
from dynexplore.lenses.comparison_text import time
from dynexplore.lenses.outcome import Graph, Outcome, Probe, Verdict
from dynexplore.views.text import MOST_LINES


def node(name: str, op: str, target: str, **more: Any) -> NodeAdded:
    return NodeAdded(frame=0, graph="g", name=name, op=op, target=target, **more)


ROWS = (
    node("x", "placeholder", "x", dtype="float32", shape="[2]"),
    node("add", "call_function", "operator.add", args="(x, '<b>')", inputs=("x",), dtype="float32", shape="[2]"),
    node("output", "output", "output", args="(add,)", inputs=("add",)),
)


@pytest.fixture
def comparison() -> Comparison:
    about = ("reads things", "how it works", "what it is for")
    same = (Verdict("as given", "same"), Verdict("negated", "same", captured_anew=True))
    return Comparison(
        "f<script>",
        [Probe("as given", False, 1e-5), Probe("negated", True, 1e-5)],
        [
            Outcome("fx", "torch.fx.symbolic_trace", *about, failure="it <cannot>", message="TraceError: no"),
            Outcome("jit.trace", "torch.jit.trace", *about, (Graph("t", ROWS, ("add", "mul")),),
                    verdicts=(Verdict("as given", "same"), Verdict("negated", "wrong", "off by 1")), capture_seconds=0.2),
            Outcome("dynexplore", "dynexplore", *about, (Graph("g", ROWS, ("add", "sub")),), verdicts=same, breaks=("a print",)),
        ],
    )  # fmt: skip


def test_text_says_who_is_wrong(comparison: Comparison) -> None:
    """The table has one row per method; failures, wrong answers, breaks and differences stand below."""
    shown = str(comparison)
    assert re.search(r"torch\.jit\.trace +reads things +1 +2 +same +WRONG +200 ms", shown)
    assert re.search(r"torch\.fx\.symbolic_trace +reads things +failed\n", shown)
    assert "negated  off by 1" in shown and "failed   it <cannot>" in shown and "break    a print" in shown
    assert "differs  mul where dynexplore has sub (operator 2)" in shown
    assert "* eager takes a different path" in shown
    assert comparison.summary() == "Comparison(f<script>: 3 methods, 2 captured, 1 sound on 2 calls)"


def test_the_text_of_a_training_step_is_one_screen() -> None:
    """What would be hundreds of lines keeps the table and the first remarks of each method; the whole is there on request."""
    about = ("reads things", "how it works", "what it is for")
    graphs = tuple(Graph(f"graph {n}", ROWS[:1] + ROWS[1:2] * 150 + ROWS[2:], ("add", "mul") * 150) for n in range(2))
    same = (Verdict("as given", "same"), Verdict("negated", "same"))
    breaks = ("a print", "an item", "a sort")
    outcomes = [Outcome(f"m{n}", f"method {n}", *about, graphs, verdicts=same, breaks=breaks) for n in range(7)]
    long = Comparison("step", [Probe("as given", False, 1e-5), Probe("negated", True, 1e-5)], outcomes)
    assert len(str(long).splitlines()) <= MOST_LINES and "graph 1" not in str(long)
    assert "method 6, 1 more remark\n  break    a print\n  break    an item" in str(long)
    assert str(long).endswith("All remarks and the graphs: --full, in Python comparison.text()")
    assert "a sort" in long.text() and long.text().count("  graph 1\n") == 7
    assert long.text(10_000) == long.text()


def test_html_is_escaped_and_fetches_nothing(comparison: Comparison) -> None:
    """Every text of the program is escaped, there is no script and no address to fetch from."""
    bundle = comparison._repr_mimebundle_()
    page = bundle["text/html"]
    assert "<script" not in page and "f&lt;script&gt;" in page and "&#x27;&lt;b&gt;&#x27;" in page
    assert "src=" not in page and "@import" not in page and "url(" not in page
    assert '<td class="wrong">WRONG</td>' in page and '<td class="failed">failed</td>' in page
    assert bundle["text/plain"] == comparison.summary()


def test_html_is_short_until_a_method_is_opened(comparison: Comparison) -> None:
    """Each method is one folded line: why it failed, where it is wrong, or else how it works; what is right is marked, too."""
    page = comparison._repr_html_()
    assert page.count('<details class="method"><summary>') == 3 == page.count("</summary><p>")
    assert "torch.fx.symbolic_trace: <span>failed: it &lt;cannot&gt;</span>" in page
    assert "torch.jit.trace: <span>wrong on the call negated: off by 1" in page
    assert '<td class="right">same</td>' in page


def test_ids_of_diagrams_do_not_collide(comparison: Comparison) -> None:
    """The same graph drawn twice on a page has no id twice."""
    found = re.findall(r'\sid="([^"]*)"', comparison._repr_html_())
    assert len(found) == len(set(found))


def test_a_missing_dot_is_no_error(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the program dot its input is shown instead."""
    monkeypatch.setenv("PATH", "")
    page = comparison._repr_html_()
    assert "dot is not installed" in page and "digraph" in page and "<svg" not in page


def test_a_graph_is_text_and_dot(comparison: Comparison) -> None:
    """One graph prints as the table that a recording's graph prints, and is drawn by the same file."""
    graph = comparison["dynexplore"].graph
    assert "operator.add" in str(graph) and graph.call_count == 1
    assert graph.dot().startswith("digraph g {") and "x -> add" in graph.dot()


@pytest.mark.parametrize(("seconds", "words"), [(12.3, "12 s"), (0.25, "250 ms"), (0.0021, "2.1 ms"), (9e-6, "9 us"), (None, "")])
def test_times_have_units(seconds: float | None, words: str) -> None:
    """Two digits and a unit."""
    assert time(seconds) == words
