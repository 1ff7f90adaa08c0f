"""views/split_picture.py: a split function as boxes and what travels between them; widgets/pictures.py shows it."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import torch

import dynexplore
from dynexplore.views.split_picture import split_picture, stations
from dynexplore.widgets import pictures


def read_out(x: Any, name: str) -> Any:
    h = torch.relu(x)
    total = h.sum().item()
    print(name, "<b>", total)
    return h / (total + 1)


def test_boxes_are_what_ran_in_order() -> None:
    """Graph, Python, Python, graph: a frame without operators has no box, and what a resume function takes stands on the arrow."""
    made = stations(dynexplore.explain(read_out, torch.ones(2), "x").recording)
    assert [(one.is_graph, one.detail) for one in made if one.is_graph] == [(True, "relu, sum"), (True, "truediv")]
    assert [one.is_graph for one in made] == [True, False, False, True]
    assert made[1].detail == "total = h.sum().item()" and made[1].travels[:3] == ("x", "name", "h")
    assert made[1].travels[-1].startswith("stack ")


def test_the_picture_is_well_formed_and_says_itself_in_words() -> None:
    """What the program's source holds is no markup; the label is what the words are."""
    explanation = dynexplore.explain(read_out, torch.ones(2), "x")
    root = ElementTree.fromstring(split_picture(explanation.recording))
    shown = pictures.split(explanation)
    assert root.get("aria-label") == str(shown).replace("\n", "; ")
    assert len(root.findall("rect")) == 4 and "<b>" not in shown._repr_html_()


def test_a_whole_function_is_one_box() -> None:
    """No break, no arrow."""
    root = ElementTree.fromstring(split_picture(dynexplore.explain(lambda x: x + 1, torch.ones(2)).recording))
    assert len(root.findall("rect")) == 1 and root.findall("path") == []
