"""views/capture_picture.py: instructions and the nodes that they left; widgets/pictures.py shows it."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import torch

import dynexplore
from dynexplore.views.capture_picture import capture_picture, steps_and_nodes
from dynexplore.widgets import pictures


def formula(x: Any, w: Any) -> Any:
    h = x * w
    return (h + 1) / h


def test_a_step_that_computes_leaves_a_node_and_others_leave_none() -> None:
    """An argument becomes an input when it is first read; moving names about leaves nothing; the return ends the graph."""
    steps = steps_and_nodes(dynexplore.explain(formula, torch.ones(2), torch.ones(2)).recording)
    left = {step.instruction: step.nodes for step in steps if step.nodes}
    assert list(left) == ["LOAD_FAST x", "LOAD_FAST w", "BINARY_OP *", "BINARY_OP +", "BINARY_OP /", steps[-1].instruction]
    assert left["BINARY_OP *"] == ("mul = operator.mul(x, w)",) and left["LOAD_FAST x"] == ("x: input",)
    assert next(step.stack for step in steps if step.instruction == "BINARY_OP +") == ("add",)


def test_each_round_of_a_loop_leaves_its_own_node() -> None:
    """The same instruction is stepped over twice, and each time it leaves one node."""

    def rounds(x: Any) -> Any:
        for _ in range(2):
            x = x * 3
        return x

    steps = steps_and_nodes(dynexplore.explain(rounds, torch.ones(2)).recording)
    assert [step.nodes for step in steps if step.instruction == "BINARY_OP *"] == [
        ("mul = operator.mul(x, 3)",),
        ("mul_1 = operator.mul(mul, 3)",),
    ]


def test_the_picture_is_well_formed_and_says_itself_in_words() -> None:
    """What the program holds is no markup; the label is what the words are; each node has its box."""

    def compared(x: Any, name: str) -> Any:
        return x * 2 if name == "<b>" else x

    explanation = dynexplore.explain(compared, torch.ones(2), "<b>")
    root = ElementTree.fromstring(capture_picture(explanation.recording))
    shown = pictures.capture(explanation)
    assert root.get("aria-label") == str(shown).replace("\n", "; ")
    assert len(root.findall("rect")) == 3 and "<b>" not in shown._repr_html_()
