"""views/traffic_picture.py: arrows to and from memory; widgets/pictures.py shows it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch

import dynexplore
from dynexplore.views.traffic_picture import traffic_picture
from dynexplore.widgets import pictures

pytestmark = pytest.mark.filterwarnings(r"ignore:.torch\.jit\..* is deprecated:DeprecationWarning")  # torch's own, on import


def test_an_arrow_is_a_tensor_that_is_carried() -> None:
    """Two cosines by themselves: two reads and two writes; in one kernel: one of each. The numbers are places in the program."""
    made = dynexplore.inductor_artifacts(lambda x: torch.cos(torch.cos(x)), torch.ones(8, 8), parts=("graph", "diagram"))
    root = ElementTree.fromstring(traffic_picture(made.explanation.recording))
    kinds = [path.get("class") for path in root.findall("path") if path.get("class") in ("read", "write")]
    assert sorted(kinds) == 3 * ["read"] + 3 * ["write"]
    words = [text.text or "" for text in root.findall("text")]
    assert {"1  cos", "2  cos_1", "kernel 1", "2 reads, 2 writes, 1 KiB", "1 read, 1 write, 512 B"} <= set(words)


def test_the_picture_says_itself_in_words() -> None:
    """The label is what the words are: operators first, then kernels with what they hold."""
    made = dynexplore.inductor_artifacts(lambda x: torch.cos(torch.cos(x)), torch.ones(8, 8), parts=("graph", "diagram"))
    shown = pictures.traffic(made)
    root = ElementTree.fromstring(shown._repr_html_())
    assert root.get("aria-label") == str(shown).replace("\n", "; ")
    assert str(shown).splitlines()[-1] == "  kernel 1 (cos, cos_1) reads x; writes cos_1"


def test_each_graph_has_a_picture() -> None:
    """A break between two operators: two graphs, two pictures, and nothing saved."""

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = torch.cos(x)
        dynexplore.graph_break()
        return torch.cos(y)

    made = dynexplore.inductor_artifacts(broken, torch.ones(8), parts=("graph", "diagram"))
    assert traffic_picture(made.explanation.recording).count("<svg") == 2


@pytest.mark.plain("shows a recording without a graph")
def test_without_kernels_it_says_so() -> None:
    """No empty picture."""
    assert traffic_picture(dynexplore.Recording()).startswith("<p>No kernels")
