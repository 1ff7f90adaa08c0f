"""widgets/toggles.py: moving a switch draws the picture anew."""

from __future__ import annotations

import pytest
import torch

import dynexplore
from dynexplore.widgets import pictures
from dynexplore.widgets.toggles import Toggles


def calls(twice: bool, doubled: bool) -> pictures.Calls:
    explanation = dynexplore.explain(lambda x: x * 2 if doubled else x + 1).calls(*[(torch.ones(2),)] * (1 + twice))
    return pictures.calls(explanation)


def test_each_move_makes_the_picture_anew() -> None:
    """By hand or by code; a switch that stands there already makes nothing."""
    switches = Toggles(calls, twice=False, doubled=True)
    assert str(switches.now).count("call ") == 1
    first = switches.now
    assert switches.move(twice=False) is first
    assert str(switches.move(twice=True)).count("call ") == 2
    switches.widget.set_state({"values": {**switches.states, "twice": False}})  # as the page sends it
    assert str(switches.now).count("call ") == 1 and switches.states == {"twice": False, "doubled": True}


def test_its_state_stands_in_for_it_where_no_widget_runs() -> None:
    """A saved notebook keeps the picture, its words, and how the switches stood."""
    data = Toggles(calls, twice=True, doubled=False)._repr_mimebundle_()
    assert "<svg" in data["text/html"] and data["text/plain"].startswith("twice: on; doubled: off\ncall 1: compile")


@pytest.mark.plain("a switch that is not there")
def test_a_switch_that_is_not_there_is_an_error() -> None:
    """Nothing moves in silence."""
    with pytest.raises(KeyError):
        Toggles(lambda on: pictures.bars({"on": on}, ""), on=True).move(off=True)
