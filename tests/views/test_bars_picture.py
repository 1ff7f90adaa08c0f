"""views/bars_picture.py: numbers side by side; widgets/pictures.py shows it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from dynexplore.widgets import pictures


@pytest.mark.plain("draws numbers that are given")
def test_lengths_are_in_proportion_from_zero() -> None:
    """Half the number, half the bar; the label says the same in words; no name is markup."""
    shown = pictures.bars({"eager": 4, "<b>": 2, "nothing": 0}, "MiB")
    root = ElementTree.fromstring(shown._repr_html_())
    lengths = [float(bar.get("width", "")) for bar in root.findall("rect")]
    assert lengths[0] == 2 * lengths[1] > 0 == lengths[2]
    assert root.get("aria-label") == "eager: 4 MiB; <b>: 2 MiB; nothing: 0 MiB"


@pytest.mark.plain("draws numbers that are given")
def test_no_numbers_are_an_empty_picture() -> None:
    """Nothing to compare is no error."""
    assert ElementTree.fromstring(pictures.bars({}, "MiB")._repr_html_()).findall("rect") == []


@pytest.mark.plain("draws numbers that are given")
def test_a_single_one_is_not_many() -> None:
    """Where things are counted, one of them is `1 tensor`, in the picture and in words; a measure keeps its name."""
    shown = pictures.bars({"all": 3, "min-cut": 1}, "tensors", "tensor")
    assert [text.text for text in ElementTree.fromstring(shown._repr_html_()).findall("text")][1::2] == ["3 tensors", "1 tensor"]
    assert repr(shown) == "all: 3 tensors\nmin-cut: 1 tensor"
    assert repr(pictures.bars({"eager": 1}, "MiB")) == "eager: 1 MiB"
