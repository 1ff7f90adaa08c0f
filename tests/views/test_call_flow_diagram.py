"""views/call_flow_diagram.py: the stations that a call goes through; widgets/pictures.py shows it."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import torch

import dynexplore
from dynexplore.views.call_flow_diagram import call_flow_diagram, call_flows
from dynexplore.widgets import pictures


def scaled(x: Any, name: str) -> Any:
    return x * 2 + 1


def explained() -> dynexplore.Explanation:
    x = torch.ones(2)
    return dynexplore.explain(scaled).calls((x, "<b>"), (x, "<b>"), (x.double(), "<b>"))


def test_a_call_stops_only_where_something_is_done_for_it() -> None:
    """The first finds no entry and is captured; the second is let through; the third is refused by the guards, and captured."""
    first, second, third = call_flows(explained().recording)
    assert list(first.stations) == ["hook", "cache", "capture", "code swap"]
    assert list(second.stations) == ["hook", "cache", "guards", "code swap"]
    assert list(third.stations) == ["hook", "cache", "guards", "capture", "code swap"]
    assert [one.stations["cache"] for one in (first, second, third)] == ["no entry yet", "1 entry", "1 entry"]
    assert (first.refused, second.refused, third.refused) == (False, False, True)
    assert third.stations["guards"].endswith("x changed from float32 to float64")
    assert first.stations["capture"].endswith("a graph with 2 operators")
    assert first.stations["code swap"] == second.stations["code swap"] != third.stations["code swap"]


def test_the_picture_is_well_formed_and_says_itself_in_words() -> None:
    """What the program was called with is no markup; the label is what the words are; each stop has its box."""
    explanation = explained()
    root = ElementTree.fromstring(call_flow_diagram(explanation.recording))
    shown = pictures.way(explanation)
    assert root.get("aria-label") == str(shown).replace("\n", "; ")
    assert len(root.findall("rect")) == 4 + 4 + 5 and "<b>" not in shown._repr_html_()


def test_a_call_without_an_entry_runs_the_original_code() -> None:
    """What is not captured goes on as plain Python, and the picture says so."""
    x = torch.ones(2)
    with dynexplore.config.patch(cache_size_limit=1, log_level="ERROR"):
        explanation = dynexplore.explain(scaled).calls((x, "a"), (x.double(), "a"))
    last = call_flows(explanation.recording)[-1]
    assert list(last.stations) == ["hook", "cache", "guards", "code swap"] and last.refused
    assert last.stations["code swap"] == "nothing: the original code runs"
