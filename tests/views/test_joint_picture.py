"""views/joint_picture.py: forward, backward and what is kept; widgets/pictures.py shows it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch

import dynexplore
from dynexplore.views.joint_picture import halves, joint_picture
from dynexplore.widgets import pictures


def wave(x: torch.Tensor) -> torch.Tensor:
    return torch.cos(torch.cos(x))


def made() -> dynexplore.Explanation:
    x = torch.linspace(0, 1, 6, requires_grad=True)
    return dynexplore.inductor_artifacts(wave, x, backend="aot_eager", parts=("graph",)).explanation


def test_what_backward_takes_over_is_kept_and_the_rest_is_computed_once_more() -> None:
    """The min-cut partitioner keeps x alone: the first cosine is computed again."""
    both = halves(made().recording)
    assert both is not None
    assert (both.saved, both.again) == (("primals_1",), ("cos",))
    assert list(both.forward.reads) == ["cos", "cos_1"]


def test_each_arrow_across_the_cut_is_a_use_of_something_kept() -> None:
    """x is read by the cosine that is computed again, and by its derivative; the words are the label."""
    shown = pictures.joint(made())
    root = ElementTree.fromstring(shown._repr_html_())
    assert len([path for path in root.findall("path") if path.get("class") == "kept"]) == 2
    assert root.get("aria-label") == str(shown).replace("\n", "; ")
    assert str(shown).splitlines()[:2] == ["forward: cos, cos_1", "saved for backward: primals_1 (24 B)"]
    assert str(shown).endswith("(cos recomputed)")


def test_without_backward_it_says_so() -> None:
    """Nothing needs a gradient: one sentence."""
    told = dynexplore.inductor_artifacts(wave, torch.ones(2), backend="aot_eager").explanation
    assert joint_picture(told.recording).startswith("<p>No backward")


@pytest.mark.plain("shows a recording without a graph")
def test_nothing_recorded_is_no_error() -> None:
    """An empty recording has no halves."""
    assert halves(dynexplore.Recording()) is None
