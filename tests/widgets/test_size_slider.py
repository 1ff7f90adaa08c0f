"""widgets/size_slider.py: moving the slider calls the function, and shows what came of it."""

from __future__ import annotations

from typing import Any

import torch

import dynexplore
from dynexplore.widgets.size_slider import SizeSlider


def mean_of_squares(x: Any) -> Any:
    return (x * x).sum() / x.shape[0]


def made() -> SizeSlider:
    return SizeSlider(dynexplore.explain(mean_of_squares).calls(), lambda size: (torch.ones(size),))


def test_each_move_is_a_call_against_the_cache_that_is_there() -> None:
    """The second size becomes a symbol, from 2 up; 1 is captured for itself; a place where it stands already is no move."""
    slider = made()
    for size in (5, 6, 1, 1, 7):
        slider.size = size
    assert slider.explanation.outcomes == ["compile", "recompile", "hit", "recompile", "hit"]


def test_what_stands_below_the_slider_is_the_latest_call() -> None:
    """The picture is drawn anew with each move, by hand or by code."""
    slider = made()
    assert "size 4: <b>compile</b>" in slider.widget.html
    slider.widget.set_state({"values": {"size": 9}})  # as the page sends it
    assert slider.size == 9
    assert "size 9: <b>recompile</b>" in slider.widget.html and "call 2: recompile" in slider.widget.html


def test_its_state_stands_in_for_it_where_no_widget_runs() -> None:
    """A saved notebook keeps the picture and its words."""
    slider = made()
    data = slider._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data and slider._display_() is slider.widget
    assert "<svg" in data["text/html"] and data["text/plain"].startswith("call 1: compile (float32[4] cpu)")
