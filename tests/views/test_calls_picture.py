"""views/calls_picture.py: calls against cache entries; widgets/pictures.py shows it."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import torch

import dynexplore
from dynexplore.views.calls_picture import Answer, calls_picture, rows
from dynexplore.widgets import pictures


def choose(x: Any, mode: str) -> Any:
    return x + 1 if mode == "<b>" else x * 2


def explained() -> dynexplore.Explanation:
    x = torch.ones(4)
    return dynexplore.explain(choose).calls((x, "<b>"), (x, "<b>"), (x, "times"), (x, "<b>"))


def test_a_row_is_a_call_and_says_who_served_it_and_who_refused() -> None:
    """A compile makes an entry, a hit is served by one, a recompile is refused by those that are there and makes one more."""
    made = rows(explained().recording)
    first, second = made[0].answers[0].entry, made[2].answers[-1].entry
    assert [row.title.partition(": ")[2] for row in made] == ["compile", "hit", "recompile", "hit"]
    assert made[0].answers == (Answer(first, "compiled"),) and made[1].answers == made[3].answers == (Answer(first, "hit"),)
    assert made[2].answers == (Answer(first, "miss", "`mode` changed from '<b>' to 'times'"), Answer(second, "compiled"))


def test_the_picture_is_well_formed_and_says_itself_in_words() -> None:
    """What the program was called with is no markup; the label is what the words are; each answer has its box."""
    explanation = explained()
    root = ElementTree.fromstring(calls_picture(explanation.recording))
    shown = pictures.calls(explanation)
    assert root.get("aria-label") == str(shown).replace("\n", "; ")
    assert [box.get("class") for box in root.findall("rect")] == ["compiled", "hit", "miss", "compiled", "hit"]
    assert "<b>" not in shown._repr_html_()


def test_only_the_latest_calls_are_drawn_where_that_is_asked() -> None:
    """Numbers of calls stay what they were."""
    assert [row.title for row in rows(explained().recording, 2)] == ["call 3: recompile", "call 4: hit"]


def test_each_frame_of_a_call_has_its_row() -> None:
    """After a break the rest of the function is a frame of its own, with an entry of its own."""

    def stops(x: Any) -> Any:
        y = x + 1
        dynexplore.graph_break()
        return y * 2

    made = rows(dynexplore.explain(stops).calls((torch.ones(2),)).recording)
    assert [row.title for row in made] == ["call 1: compile", "call 1: compile"]
    assert len({row.answers[0].entry for row in made}) == 2
    assert made[1].detail.endswith(f"stops, from line {stops.__code__.co_firstlineno + 2} on")
