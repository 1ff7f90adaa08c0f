"""The stepper of the explorer's file: playing, jumps, attempts, what a step did, and places that the address names."""

from __future__ import annotations

import importlib
import itertools
import sys
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from browser.pages import Opened, node, pane, rows, status, tab
from dynexplore.engine import events as ev
from sample_recordings import inlined, toy
from source_tree import ROOT


def position(page: Page) -> int:
    """The number of the state that is shown, from 1."""
    return int(status(page).split()[0])


def test_playing_goes_forward_and_stops(opened: Opened) -> None:
    """Play steps on up to the end; p pauses; a step by hand pauses, too."""
    page = opened(toy())
    page.keyboard.press("Home")
    page.evaluate("dynexplore.go(33)")
    page.get_by_role("button", name="Play the steps").click()
    expect(page.locator(".dynx-status")).to_contain_text("39 of 52", timeout=20_000)
    expect(page.get_by_role("button", name="Play the steps")).to_have_text("Play")
    page.get_by_role("button", name="Play the steps").focus()
    page.keyboard.press("p")  # from the end it begins anew
    expect(page.locator(".dynx-status")).to_contain_text("2 of 52")
    page.keyboard.press("p")
    at = position(page)
    page.wait_for_timeout(1200)
    assert position(page) == at
    page.keyboard.press("p")
    expect(page.get_by_role("button", name="Play the steps")).to_have_text("Pause")
    page.keyboard.press("End")
    expect(page.get_by_role("button", name="Play the steps")).to_have_text("Play")


def test_steps_go_on_into_the_next_frame(opened: Opened) -> None:
    """Behind the last step of a frame stands the first of the next, and before it the last of this one; numbers go on, too."""
    page = opened(toy())
    page.keyboard.press("End")
    assert status(page).startswith("39 of 52")
    page.keyboard.press("ArrowRight")
    assert page.locator(".dynx-source h3").inner_text().startswith("toy, from line 12 on") and position(page) == 40
    page.keyboard.press("ArrowLeft")
    assert status(page).startswith("39 of 52")


def test_it_opens_at_the_first_break_or_operator(opened: Opened) -> None:
    """Where nothing breaks it is the first operator that a line of the user put into the graph."""
    assert status(opened(toy())).endswith("attempt 1: graph break: if on a tensor value")
    page = opened(inlined())
    assert "relu" in page.locator(".dynx-growing .dynx-newest").text_content()
    assert page.locator(".dynx-source .dynx-line.dynx-now").inner_text().endswith("return y.relu()")
    page.get_by_role("button", name="back to outer").click()
    assert page.locator(".dynx-source h3").inner_text().startswith("outer")


BACK = """() => {
  const found = [];
  const { states } = dynexplore.frame;
  for (let at = 0; at < states.length; at += 1) {
    dynexplore.go(at);
    const { calls = [], attempt = 0 } = states[at];
    const buttons = document.querySelectorAll('.dynx-source h3 [aria-label^="back to "]');
    if (!buttons.length) continue;
    buttons[buttons.length - 1].click();
    const outer = calls.slice(0, -1).join();
    let walked = at;
    while (walked > 0 && ((states[walked].attempt ?? 0) !== attempt || (states[walked].calls ?? []).join() !== outer)) walked -= 1;
    found.push([dynexplore.position, walked]);
  }
  return found;
}"""


def test_the_way_back_is_the_callers_last_step(opened: Opened) -> None:
    """At each step of a callee, the button leads to the last step before it that the caller made, in the same attempt."""
    found = opened(inlined()).evaluate(BACK)
    assert len(found) > 4 and all(shown == walked for shown, walked in found), found


def test_jumps_to_breaks(opened: Opened) -> None:
    """b and Shift+b go from break to break, in whatever frame; where there is none the buttons say so and do nothing."""
    recording = toy()
    first = recording.breaks[0]
    elsewhere = replace(first, frame=2, attempt=1)
    recording.record(elsewhere)  # once more, in another frame
    page = opened(recording)
    page.keyboard.press("Home")
    page.keyboard.press("b")
    assert position(page) == 18 and "graph break: " in status(page)
    assert page.get_by_role("button", name="Previous graph break").get_attribute("aria-disabled") == "true"
    page.get_by_role("button", name="Next graph break").click()
    assert page.locator(".dynx-source h3").inner_text().startswith("toy, from line 12 on")
    there = status(page)
    assert "graph break: " in there
    assert page.get_by_role("button", name="Next graph break").get_attribute("aria-disabled") == "true"
    page.get_by_role("button", name="Next graph break").click(force=True)
    page.keyboard.press("b")
    assert status(page) == there
    page.keyboard.press("B")
    assert position(page) == 18 and page.locator(".dynx-source h3").inner_text().startswith("toy example.py")


def test_who_steps_by_line_reads_the_line(opened: Opened) -> None:
    """The position names the line while one steps by line, and the instruction while one steps by that."""
    page = opened(toy(), view="")
    page.keyboard.press("2")
    page.keyboard.press("l")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    line = page.evaluate("dynexplore.lineOf(dynexplore.state)")
    assert status(page).endswith(f": line {line}")
    page.keyboard.press("i")
    assert status(page).endswith(f": {page.evaluate('dynexplore.state.text')}")


def test_discarded_attempts_are_shown_where_they_are_wanted(opened: Opened) -> None:
    """At first no strip shows them and no step visits them, but for the break that one met; the button or the key brings them."""
    page = opened(toy(), view="")
    page.keyboard.press("2")
    page.keyboard.press("i")
    thrown = page.locator(".dynx-strip .dynx-thrown")
    expect(thrown).to_be_hidden()
    assert status(page).endswith(" of 52: graph break: if on a tensor value")
    playhead = page.locator(".dynx-strip .dynx-playhead")
    assert playhead.evaluate("one => one.parentElement.textContent") == "toy: graph 1"
    discarded = "dynexplore.state.attempt && dynexplore.state.attempt !== dynexplore.states().lastAttempt"
    page.keyboard.press("ArrowRight")
    for _ in range(12):
        assert not page.evaluate(discarded)
        page.keyboard.press("ArrowRight")
    page.keyboard.press("B")
    page.get_by_role("button", name="Show discarded attempts").click()
    expect(thrown).to_be_visible()
    assert ", attempt 1: graph break" in status(page)
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(discarded) and ", attempt 1: " in status(page)
    page = opened(inlined(), view="story")
    expect(page.get_by_role("button", name="Show discarded attempts")).to_be_hidden()  # there are none


def test_the_strip_has_calls_frames_and_attempts(opened: Opened) -> None:
    """What was discarded is pale, a break has an edge, a hit is a dot; a click goes there, a and Shift+a jump between attempts."""
    page = opened(toy())
    segments = page.locator(".dynx-segment")
    assert segments.evaluate_all("all => all.map(e => e.textContent)") == ["", "toy: graph 1", "line 12: graph 2"]
    assert "discarded: graph break" in str(segments.nth(0).get_attribute("title"))
    assert [("dynx-thrown" in str(one.get_attribute("class"))) for one in segments.all()] == [True, False, False]
    assert [("dynx-breaks" in str(one.get_attribute("class"))) for one in segments.all()] == [True, True, False]
    assert page.locator(".dynx-dot").all_inner_texts() == ["1"]
    assert segments.nth(0).get_attribute("aria-current") == "true"
    segments.nth(1).click(position={"x": 2, "y": 5})
    assert ": attempt 2" in status(page) and segments.nth(1).get_attribute("aria-current") == "true"
    page.keyboard.press("A")
    assert status(page).endswith("attempt 1: attempt 1")
    page.keyboard.press("a")
    assert ": attempt 2" in status(page)
    page.keyboard.press("a")
    assert page.locator(".dynx-source h3").inner_text().startswith("toy, from line 12 on")
    strip = page.get_by_role("slider", name="Step")
    assert strip.get_attribute("aria-valuenow") == str(position(page))
    assert strip.get_attribute("aria-valuetext") == status(page)


def test_to_what_made_it(opened: Opened) -> None:
    """With a node, a guard or a break chosen, m and the button lead back to the step that made it, and it stays chosen."""
    page = opened(toy())
    node(page, "lt")
    made = status(page)
    page.keyboard.press("Home")  # the step is what is chosen now: nothing made it
    tab(page, "source")
    assert page.get_by_role("button", name="Go to the step that created").get_attribute("aria-disabled") == "true"
    node(page, "lt")
    assert status(page) == made
    page.evaluate("dynexplore.go(3, 'node:1:lt')")  # as the what-if panes do: another step, the same item
    tab(page, "source")
    page.get_by_role("button", name="Go to the step that created").click()
    assert status(page) == made and rows(page, "graph", "chosen")[0].startswith("call_function lt")
    page.evaluate("dynexplore.go(3, 'guard:1:2')")
    page.keyboard.press("m")
    assert rows(page, "guards", "chosen")[0].startswith("2 ")
    assert page.evaluate("dynexplore.frame.states[dynexplore.position].guards") == ["guard:1:2"]


def test_what_a_step_did(opened: Opened) -> None:
    """The heading counts what was pushed, popped and changed, and a local that changed says what it was."""
    view = [ev.ValueView(number, "TensorVariable", f"float32[{number}]", "") for number in range(3)]
    r = toy()
    frame = r.next_frame_id()
    code = r.frames[0].code
    r.record(ev.FrameEntered(frame=frame, parent=None, code=code, arguments=(("a", view[0]),)))
    r.record(ev.AttemptStarted(frame=frame, attempt=1))
    step = ev.InstructionStepped(frame=frame, attempt=1, offset=0, step=0, op="RESUME", stack=(view[1],))
    r.record(step)
    r.record(ev.InstructionStepped(frame=frame, attempt=1, offset=2, step=1, op="STORE_FAST", arg="a", changed=(("a", view[1]),)))
    page = opened(r)
    tab(page, "frames")
    page.get_by_role("button", name=f"frame {frame}: ").click()
    tab(page, "state")
    page.keyboard.press("End")
    assert pane(page, "state", " h3").inner_text() == "Stack and locals: 1 popped, 1 local changed"
    assert rows(page, "state", "gone") == ["− popped float32[1]"]
    assert rows(page, "state", "new") == ["~ a float32[1] float32[0]"]


@pytest.mark.parametrize("item", ["", "&item=node%3A1%3Alt"])
def test_the_address_names_the_place(opened: Opened, item: str) -> None:
    """A link opens the page at its frame, step and item; every step changes the address, and the way back leaves the page."""
    page = opened(toy(), place=f"#frame=1&step=25{item}")
    assert position(page) == 25
    assert len(rows(page, "graph", "chosen")) == (1 if item else 0)
    tab(page, "source")
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(400)
    assert page.evaluate("location.hash") == "#frame=1&step=26"
    tab(page, "frames")
    page.get_by_role("button", name="frame 2: ").first.click()
    page.wait_for_timeout(400)
    assert page.evaluate("location.hash").startswith("#frame=2&step=")
    assert page.evaluate("history.length") <= 2
    page.evaluate("location.hash = '#frame=1&step=3'")
    expect(page.locator(".dynx-status")).to_contain_text("3 of 52")


def test_a_link_opens_the_story_or_the_view_that_it_names(opened: Opened) -> None:
    """A link to a step shows it, though the page would open with its overview; the address names any other view that is open."""
    page = opened(toy(), place="#frame=1&step=1", view="")
    expect(page.get_by_role("tab", name="Story")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".dynx-status")).to_contain_text("1 of 52")
    page.get_by_role("tab", name="Graph").click()
    page.wait_for_timeout(400)
    assert page.evaluate("location.hash") == "#frame=1&step=1&view=graph"
    page.evaluate("location.hash = '#frame=1&step=2'")
    expect(page.get_by_role("tab", name="Story")).to_have_attribute("aria-selected", "true")
    page.evaluate("location.hash = '#frame=1&step=3&view=graph'")
    expect(page.get_by_role("tab", name="Graph")).to_have_attribute("aria-selected", "true")


@pytest.mark.parametrize(
    "place", ["#frame=99&step=1", "#frame=1&step=0", "#frame=1&step=9999", "#step=x", "#%%%", "#frame=1&step=2&item=<img>"]
)
def test_a_link_to_nowhere_is_left_alone(opened: Opened, place: str) -> None:
    """What the address names and the recording does not have does no harm."""
    page = opened(toy(), place=place)
    assert position(page) in (2, 18)


def test_an_explorer_that_is_not_the_page_leaves_the_address_alone(opened: Opened) -> None:
    """In a notebook the address is the notebook's."""
    page = opened(toy())
    page.evaluate("new dynexplore.constructor(document.getElementById('explorer'), dynexplore.data)")
    page.wait_for_timeout(400)
    before = page.evaluate("location.hash")
    page.locator(".dynexplore").nth(1).get_by_role("tab", name="Story").click()
    page.locator(".dynexplore").nth(1).get_by_role("button", name="Last step").click()
    page.wait_for_timeout(400)
    assert page.evaluate("location.hash") == before
    assert page.locator(".dynexplore").nth(1).get_by_role("button", name="link to this step").count() == 0


def test_the_benchmark_steps_back_from_the_end(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty presses in a recording with fewer steps: each but those at an end shows another step, so that none times nothing."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module("explorer")
    monkeypatch.delitem(sys.modules, "explorer")
    page = opened(toy())
    page.evaluate(benchmark.PAINTED)
    page.evaluate("dynexplore.go(20)")
    seen = []
    for _ in range(60):
        page.evaluate(benchmark.STEP)
        seen.append(position(page))
    assert max(seen) - min(seen) > 15 and sum(one == other for one, other in itertools.pairwise(seen)) <= 2
