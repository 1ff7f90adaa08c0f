"""views/stack_picture.py: the value stack, instruction by instruction; widgets/pictures.py shows it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch

import dynexplore
from dynexplore.widgets import pictures


@pytest.mark.plain("draws stacks that are given")
def test_what_an_instruction_puts_there_is_new() -> None:
    """What was there below stays as it is; an instruction that only takes leaves nothing new; values are no markup."""
    shown = pictures.stack([("LOAD", "x", ["<3>"]), ("LOAD", 1, ["<3>", 1]), ("ADD", "+", [4]), ("STORE", "y", [])])
    root = ElementTree.fromstring(shown._repr_html_())
    assert [cell.get("class") for cell in root.findall("rect")] == ["new", "old", "new", "new"]
    assert root.get("aria-label") == "LOAD x: <3>; LOAD 1: <3>, 1; ADD +: 4; STORE y: empty" == str(shown).replace("\n", "; ")


def test_the_stacks_of_a_recording_can_be_drawn() -> None:
    """The engine's steps, with the stand-ins that lie on its stack: at the end it is empty."""
    recording = dynexplore.explain(lambda x: x + 1, torch.ones(2)).recording
    shown = pictures.stack((step.op, step.arg, [value.node or value.text for value in step.stack]) for step in recording.steps)
    words = str(shown).splitlines()
    assert "BINARY_OP +: add" in words and words[-1] == "RETURN_VALUE: empty"
