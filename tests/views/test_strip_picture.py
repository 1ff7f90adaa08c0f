"""views/strip_picture.py: what a run became, as one picture that says the same in words."""

from __future__ import annotations

from xml.etree import ElementTree

import torch

import dynexplore
from dynexplore.recording.recording import Recording
from dynexplore.views.strip_picture import signs, strip_picture, strip_text
from sample_recordings import toy


def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


def talks(x: torch.Tensor) -> torch.Tensor:
    print("<one>")
    print("two")
    print("three")
    print("four")
    return x + 1


def test_a_break_stands_between_its_graphs() -> None:
    """Though the engine meets it before the graph in front of it is compiled."""
    assert strip_text(toy()) == (
        "graph 1 (5 operators), graph break, graph 2 (2 operators), 1 cache hit, recompile\nline 11: `if` on a tensor value"
    )


def test_recompiles_and_hits_in_order() -> None:
    """Hits one after the other are one sign, a recompile comes before its graph."""
    x = torch.ones(2)
    recording = dynexplore.explain(scaled).calls((x, 2.0), (x, 2.0), (x, 2.0), (x, 3.0)).recording
    assert [(one.kind, one.count) for one in signs(recording)] == [("graph", 1), ("hit", 2), ("again", 0), ("graph", 2)]


def test_the_picture_is_well_formed_and_small() -> None:
    """Its label is its text, each sign that it has is named, and of many lines that break the rest is counted."""
    root = ElementTree.fromstring(strip_picture(toy()))
    assert root.get("aria-label") == strip_text(toy()).replace("\n", "; ")
    texts = ["".join(one.itertext()) for one in root.iter("text")]
    assert texts[-2:] == ["◆ graph break    ↻ recompile    ● cache hit", "line 11: if on a tensor value"]
    with dynexplore.config.patch(log_level="ERROR"):
        picture = strip_picture(dynexplore.explain(talks, torch.ones(2)).recording)
    assert "... and 1 more line" in picture and len(picture) < 3_000


def test_nothing_is_a_picture_too() -> None:
    """Of an empty recording."""
    assert ElementTree.fromstring(strip_picture(Recording())).get("aria-label") == "nothing was captured"
