"""views/clock_picture.py: several processes on one clock; widgets/pictures.py shows it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from dynexplore.widgets import pictures

BARS = [
    ("rank 1", "backward", "piece <2>", 5.000, 5.002),
    ("rank 0", "backward", "piece <2>", 5.001, 5.003),
    ("rank 0", "sent", "bucket 0", 5.002, 5.006),
]


@pytest.mark.plain("draws times that are given")
def test_all_bars_share_one_axis() -> None:
    """Lengths are times, places are when, lanes are in order; names are no markup, and each bar has its time as title."""
    shown = pictures.clock(BARS)
    root = ElementTree.fromstring(shown._repr_html_())
    bars = [(float(bar.get("x", "")), float(bar.get("width", "")), float(bar.get("y", ""))) for bar in root.findall("rect")]
    zero, sent, one = bars
    assert zero[1] == pytest.approx(one[1], abs=0.2) and sent[1] == pytest.approx(2 * zero[1], abs=0.2)
    assert one[0] < zero[0] < sent[0] and zero[2] < sent[2] < one[2]
    assert next(title.text for title in root.iter("title")) == "piece <2>, 2.0 ms"
    assert root.get("aria-label") == str(shown).replace("\n", "; ")


@pytest.mark.plain("draws times that are given")
def test_nothing_that_ran_is_an_empty_picture() -> None:
    """No bars, no error."""
    assert ElementTree.fromstring(pictures.clock([])._repr_html_()).findall("rect") == []


@pytest.mark.plain("draws times that are given")
def test_bars_of_one_row_that_overlap_stand_below_each_other() -> None:
    """The second is on its way before the first has come; the third begins when the first has ended, and has its line."""
    bars = [("rank 0", "sent", f"bucket {number}", begins, ends) for number, (begins, ends) in enumerate([(0, 3), (1, 5), (3, 4)])]
    root = ElementTree.fromstring(pictures.clock(bars)._repr_html_())
    first, third, second = [float(bar.get("y", "")) for bar in root.findall("rect")]
    assert first == third < second
