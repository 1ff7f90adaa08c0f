"""The tab Memory on the bare page: the picture, the operator that the pointer or a key names, both themes."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from browser.pages import Opened, pane, resize
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from sample_recordings import toy

NASTY = '<img src=x onerror="document.title=1">'


def with_memory() -> Recording:
    """The sample `toy`, whose first graph has a forward and a backward of three nodes each."""
    recording = toy()
    frame, name = recording.graphs[0].frame, recording.graphs[0].name
    forward = [ev.NodeMemory(f"n{at}", "torch._ops.aten.mm.default", 100 * (at + 2), 100, 100, place=NASTY) for at in range(3)]
    backward = [ev.NodeMemory(f"b{at}", "torch._ops.aten.sum.default", 500 - 100 * at, 0, 100) for at in range(3)]
    kept = (ev.SavedStorage(NASTY, 100),)
    recording.record(ev.MemoryPlanned(frame=frame, graph=name, stage="forward", inputs=100, nodes=tuple(forward), saved=kept))
    recording.record(ev.MemoryPlanned(frame=frame, graph=name, stage="backward", inputs=100, nodes=tuple(backward)))
    return recording


@pytest.mark.parametrize("theme", ("light", "dark"))
def test_the_pointer_and_the_arrows_name_the_operator(opened: Opened, theme: str) -> None:
    """At first it is the operator at the peak; every text stays a text."""
    page = opened(with_memory(), color_scheme=theme)
    shown = pane(page, "memory")
    words = shown.locator(".dynx-memory-node")
    expect(words).to_have_text("4 of 6 · backward · b0 = aten.sum · 500 B live · makes nothing")
    picture = shown.get_by_role("slider")
    box = picture.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] / 2)
    expect(words).to_have_text(f"2 of 6 · forward · n1 = aten.mm · 300 B live · makes 100 B · {NASTY}")
    picture.focus()
    page.keyboard.press("End")
    expect(picture).to_have_attribute("aria-valuenow", "6")
    expect(words).to_contain_text("b2 = aten.sum")
    shown.get_by_text("Saved for backward: 1").click()
    expect(shown.locator("details li")).to_have_text(f"{NASTY}: 100 B")
    assert shown.locator("svg img").count() == 0 and opened.errors == [] == opened.requests


def test_a_recording_that_does_not_know_has_no_tab(opened: Opened) -> None:
    """Older files have no memory: nothing is shown that has nothing to say."""
    page = opened(toy())
    assert page.get_by_role("tab", name="Memory").count() == 0


def test_all_of_the_picture_is_seen_in_a_notebook(opened: Opened) -> None:
    """Its foot says where the bytes begin and what the shades are: a picture without it would say something else."""
    page = opened(with_memory())
    resize(page, 960, 700)
    page.evaluate("dynexplore.root.style.setProperty('--dynx-height', '620px')")
    body, foot = pane(page, "memory", " .dynx-body"), page.get_by_text("inputs and parameters", exact=True)
    inside, below = body.bounding_box(), foot.bounding_box()
    assert inside is not None and below is not None
    assert below["y"] + below["height"] <= inside["y"] + inside["height"]
    told = page.locator(".dynx-memory-told").bounding_box()
    assert told is not None and told["x"] > below["x"], "the answers stand beside it"
