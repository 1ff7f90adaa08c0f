"""variables/contract/nested_text.py: the text of a container is short, however deep it is."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.variables.contract.nested_text import nested_text

LISTS = "for i in range(40):\n        d = [d, d, d, d]"
DICTS = "for i in range(40):\n        d = {0: d, 1: d, 2: d}"
TUPLES = "for i in range(40):\n        d = (d, d, d)"


@pytest.mark.parametrize("loop", [LISTS, DICTS, TUPLES])
def test_a_container_that_holds_another_one_several_times_is_shown_at_once(loop: str) -> None:
    """Forty levels, each of which holds the next several times, are explained: no view walks all of them."""
    namespace: dict[str, Any] = {}
    exec(f"def f(x):\n    d = [1]\n    {loop}\n    return x + len(d)", namespace)
    explanation = dynexplore.explain(namespace["f"], torch.ones(2))
    assert len(explanation.recording.graphs) == 1


@pytest.mark.plain("a method of a class of the test")
def test_a_container_in_itself_and_below_the_third_level_is_an_ellipsis() -> None:
    """What follows the third level is `...`, and so is a container that holds itself."""

    class Held:
        def __init__(self, inside: Held | None) -> None:
            self.inside = inside

        @nested_text
        def text(self) -> str:
            return f"[{self.inside.text() if self.inside is not None else ''}]"

    assert Held(Held(Held(None))).text() == "[[[]]]"
    assert Held(Held(Held(Held(None)))).text() == "[[[...]]]"
    itself = Held(None)
    itself.inside = itself
    assert itself.text() == "[...]"
