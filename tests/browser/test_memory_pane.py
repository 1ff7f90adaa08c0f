"""The tab Memory on the bare page: the picture, the operator that the pointer or a key names, both themes."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from browser.pages import Opened, pane
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
    kept = (ev.KeptStorage(NASTY, 100),)
    recording.record(ev.MemoryPlanned(frame=frame, graph=name, stage="forward", inputs=100, nodes=tuple(forward), kept=kept))
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
    shown.get_by_text("What is kept for backward: 1").click()
    expect(shown.locator("details li")).to_have_text(f"{NASTY}: 100 B")
    assert shown.locator("svg img").count() == 0 and opened.errors == [] == opened.requests


def test_a_recording_that_does_not_know_has_no_tab(opened: Opened) -> None:
    """Older files have no memory: nothing is shown that has nothing to say."""
    page = opened(toy())
    assert page.get_by_role("tab", name="Memory").count() == 0
