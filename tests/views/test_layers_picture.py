"""views/layers_picture.py: which layer is to blame; widgets/pictures.py shows it."""

from __future__ import annotations

from xml.etree import ElementTree

import torch

import dynexplore
from dynexplore.widgets import pictures


def test_the_first_that_fails_is_marked_and_says_what_is_wrong() -> None:
    """Capture and AOTAutograd agree with plain Python; the backend does not, and its failure stands below."""

    def off_by_one(graph: torch.fx.GraphModule, example_inputs: object) -> object:
        return lambda *inputs: [one + 1 for one in graph(*inputs)]

    shown = pictures.layers(dynexplore.diagnose(lambda x: x * 2, torch.ones(2), backend=off_by_one))
    root = ElementTree.fromstring(shown._repr_html_())
    assert [box.get("class") for box in root.findall("rect")] == ["ok", "ok", "ok", "fails"]
    assert root.get("aria-label") == str(shown).replace("\n", "; ")
    assert str(shown).splitlines()[-1].startswith("backend: fails: the value differs by")


def test_where_nothing_fails_nothing_stands_below() -> None:
    """Four boxes and no sentence."""
    shown = pictures.layers(dynexplore.diagnose(lambda x: x * 2, torch.ones(2), backend="eager"))
    assert {box.get("class") for box in ElementTree.fromstring(shown._repr_html_()).findall("rect")} == {"ok"}
