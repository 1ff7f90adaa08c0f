"""widgets/controls.py: sliders and switches that bring their front end along."""

from __future__ import annotations

import pytest

from dynexplore.widgets.controls import Controls

pytestmark = pytest.mark.plain("widgets without a capture")


def test_each_move_draws_anew_and_no_other() -> None:
    """By code, or by the state that the page sends; a value that is there already is no move."""
    drawn: list[dict[str, object]] = []

    def draw() -> str:
        drawn.append(controls.values)
        return f"<p>{len(drawn)}</p>"

    controls = Controls({"size": 4, "keep_it": False}, draw, {"size": 12})
    assert controls.controls == [{"name": "size", "label": "size", "most": 12}, {"name": "keep_it", "label": "keep it"}]
    controls.draw()
    controls.move(size=4)
    controls.move(size=5, keep_it=True)
    controls.set_state({"values": {"size": 6, "keep_it": True}})
    assert controls.html == "<p>4</p>"
    assert [tuple(values.values()) for values in drawn] == [(4, False), (5, False), (5, True), (6, True)]
    with pytest.raises(KeyError):
        controls.move(width=1)


def test_what_a_notebook_saves_has_both_forms() -> None:
    """The widget, and what stands in for it."""
    data = Controls({"on": True}, lambda: "").bundle("on", "<p>on</p>")
    assert data["text/plain"] == "on" and data["text/html"] == "<p>on</p>" and "application/vnd.jupyter.widget-view+json" in data
