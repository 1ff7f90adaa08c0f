"""The explorer's HTML file in a real Chromium: steps, links, search, keys, themes, and no request to any host."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from browser.pages import Opened, node, pane, rows, status, tab
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.explorer_data import SCHEMA, explorer_data
from dynexplore.views.links import Links
from sample_recordings import SAMPLES, inlined, items_of, toy


def test_steps_go_both_ways(opened: Opened) -> None:
    """Buttons, keys and slider lead to the same states; stack and locals are the state's."""
    page = opened(toy())
    tab(page, "state")
    expect(page.locator(".dynx-status")).to_have_text("18 of 52, attempt 1: graph break: if on a tensor value")
    page.keyboard.press("a")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Step forward").click()
    assert status(page).endswith("LOAD_GLOBAL torch")
    assert [" ".join(t.split()) for t in pane(page, "state", " tbody").first.locator("tr").all_inner_texts()] == [
        "+ 1 torch",
        "0 a: float32[10] cpu",
    ]
    page.get_by_role("button", name="Step back").click()
    assert status(page).endswith("LOAD_FAST a")
    page.keyboard.press("End")
    assert status(page).startswith("39 of 52")
    page.keyboard.press("Home")
    assert status(page).startswith("1 of 52")
    page.evaluate("dynexplore.go(29)")
    assert status(page) == "30 of 52: STORE_FAST x"
    assert "+ x truediv: float32[10] cpu" in rows(page, "state", "new")
    assert rows(page, "state", "gone") == ["− popped truediv: float32[10] cpu"]


def test_a_graph_break_is_between_the_instructions_around_it(opened: Opened) -> None:
    """With discarded attempts hidden, the step before a break is the last instruction of the kept attempt."""
    page = opened(toy())
    page.evaluate("dynexplore.stepper.showAttempts(false)")
    assert ": graph break: if on a tensor value" in status(page)
    frame = page.evaluate("dynexplore.frame.id")
    page.keyboard.press("ArrowLeft")
    before = status(page)
    assert page.evaluate("dynexplore.frame.id") == frame
    assert page.evaluate("dynexplore.frame.states[dynexplore.position].attempt") == 2
    assert page.evaluate("dynexplore.frame.states[dynexplore.position].kind ?? ''") == ""
    page.keyboard.press("ArrowRight")
    assert "graph break" in status(page)
    page.keyboard.press("ArrowRight")
    after = status(page)
    assert page.evaluate("dynexplore.frame.id") == frame
    assert page.evaluate("dynexplore.frame.states[dynexplore.position].attempt") == 2
    page.keyboard.press("ArrowLeft")
    assert "graph break" in status(page)
    page.keyboard.press("ArrowLeft")
    assert status(page) == before != after
    page.keyboard.press("Home")
    seen = [status(page)]
    while len(seen) < 80 and (page.keyboard.press("ArrowRight") or status(page) != seen[-1]):
        seen.append(status(page))
    back = [seen[-1]]
    while len(back) < 80 and (page.keyboard.press("ArrowLeft") or status(page) != back[-1]):
        back.append(status(page))
    assert back[::-1] == seen and len(set(seen)) == len(seen)


@pytest.mark.parametrize("name", SAMPLES)
def test_links_are_those_of_the_table(opened: Opened, name: str) -> None:
    """For every item the browser finds what Links.related finds."""
    recording = SAMPLES[name]()
    page, links = opened(recording), Links(recording)
    items = sorted(set(items_of(recording)))
    found = page.evaluate("items => items.map(item => [...dynexplore.links.related(item)])", items)
    for item, related in zip(items, found, strict=True):
        assert set(related) == links.related(item), item


def test_every_state_is_the_timelines(opened: Opened) -> None:
    """Jumping backwards through all states folds the same stacks as going forwards."""
    recording = toy()
    page = opened(recording)
    tab(page, "state")
    there = page.evaluate(
        "() => { const all = () => [...document.querySelectorAll('.dynx-state td')].map(c => c.textContent).join('|');"
        "const n = dynexplore.frame.states.length, forth = [], back = [];"
        "for (let i = 0; i < n; i++) { dynexplore.go(i); forth.push(all()); }"
        "for (let i = n - 1; i >= 0; i--) { dynexplore.go(i); back.unshift(all()); } return [forth, back]; }"
    )
    assert there[0] == there[1] and len(set(there[0])) > 10
    assert len(there[0]) == len(explorer_data(recording)["frames"][0]["states"])


def test_a_node_lights_up_all_that_belongs_to_it(opened: Opened) -> None:
    """Click a node: the step that made it is shown; instruction, span, values and modified rows are lit."""
    page = opened(toy())
    node(page, "lt")
    assert status(page).endswith("COMPARE_OP <")
    assert rows(page, "original", "lit") == ["28 COMPARE_OP <"]
    assert "".join(page.locator(".dynx-source .dynx-lit").all_inner_texts()) == "b.sum() < 0"
    assert rows(page, "graph", "chosen")[0].startswith("call_function lt operator.lt")
    assert rows(page, "state", "lit") == ["+ 0 lt: bool[] cpu"]
    assert rows(page, "modified", "lit")[1:3] == ["2 call graph LOAD_FAST __compiled_fn_0", "8 call graph CALL 2"]


def test_each_pane_links_to_the_others(opened: Opened) -> None:
    """Guards, breaks, modified and original instructions and source spans can be clicked, too."""
    page = opened(toy())
    pane(page, "guards", " tbody tr").nth(3).click()
    assert rows(page, "original", "lit") == ["11 20 LOAD_FAST b"]
    pane(page, "breaks", " .dynx-block").first.click()
    assert "graph break: " in status(page)
    assert rows(page, "modified", "lit")[-1] == "14 original POP_JUMP_IF_FALSE to 28 30"
    pane(page, "modified", " .dynx-row").nth(3).click()
    assert rows(page, "original", "lit") == ["11 20 LOAD_FAST b"]
    pane(page, "original", " .dynx-row").nth(7).click()
    assert rows(page, "graph", "lit")[0].startswith("call_function add")
    tab(page, "source")
    page.locator(".dynx-span", has_text="abs").first.click()
    assert [row.split()[1] for row in rows(page, "guards", "lit")] == ["global"]


def test_frames_and_callees(opened: Opened) -> None:
    """The tree leads to resume functions and into inlined callees, whose code is shown."""
    page = opened(toy())
    tab(page, "frames")
    page.get_by_role("button", name="frame 2: toy, from line").click()
    assert rows(page, "graph", "row")[1].startswith("call_function mul operator.mul")
    page = opened(inlined())
    tab(page, "frames")
    page.get_by_role("button", name="into inner").click()
    assert "inner" in page.locator(".dynx-source h3").inner_text()
    node(page, "relu")
    assert rows(page, "original", "now") == ["6 CALL 0"]


def test_search_is_over_all_panes(opened: Opened) -> None:
    """Search marks rows of every pane and counts them; Enter leads to one after the other."""
    page = opened(toy())
    page.get_by_role("searchbox").fill("truediv")
    expect(page.locator(".dynx-hits")).to_have_text("3 found")
    page.keyboard.press("Enter")
    assert rows(page, "graph", "chosen")[0].startswith("call_function truediv")
    page.get_by_role("searchbox").fill("")
    assert page.locator(".dynx-found").count() == 0


def test_keys_do_not_leak(opened: Opened) -> None:
    """With the focus inside, no key reaches the notebook but those that are its own; also when a row is gone."""
    page = opened(toy())
    page.evaluate("() => { globalThis.heard = []; document.addEventListener('keydown', e => heard.push(e.key)); }")
    pane(page, "state", " tbody tr").last.click()
    for key in ("j", "d", "d", "ArrowRight", "Escape", "Enter", "Home", "End", "x"):
        page.keyboard.press(key)
    page.get_by_role("searchbox").fill("a")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Step back").focus()
    page.keyboard.press("j")
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_role("tab").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("heard") == []
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("Control+s")
    assert [key for key in page.evaluate("heard") if key not in ("Shift", "Control")] == ["Enter", "s"]


NOTEBOOK_7 = """() => {
  globalThis.heard = [];
  const leftOut = 'data-lm-suppress-shortcuts';
  document.addEventListener('keydown', ({ key, target }) => target.hasAttribute(leftOut) || heard.push(key), true);
}"""
"""Hears keys before the explorer does, as Notebook 7 does, and leaves out what its shortcuts leave out."""


def test_keys_do_not_leak_to_who_hears_them_first(opened: Opened) -> None:
    """Notebook 7 hears keys at the document, before the explorer: only those that are its own, also behind others."""
    page = opened(toy())
    page.evaluate(NOTEBOOK_7)
    page.get_by_role("button", name="Step forward").focus()
    for key in ("j", "d", "d", "ArrowRight", "x"):
        page.keyboard.press(key)
    assert page.evaluate("heard") == []
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("d")
    page.keyboard.press("Control+s")
    page.get_by_role("searchbox").press("j")
    page.evaluate("dynexplore.root.focus()")
    page.keyboard.press("j")
    page.get_by_role("button", name="Step forward").press("Control+c")
    assert page.locator("[data-lm-suppress-shortcuts]").count() == 0  # nothing around the button keeps its keys
    assert [key for key in page.evaluate("heard") if key not in ("Shift", "Control")] == ["Enter", "s", "c"]


def test_rows_are_reached_by_keyboard(opened: Opened) -> None:
    """Arrow keys move between the rows of the pane that has the focus, and Enter chooses one."""
    page = opened(toy())
    pane(page, "graph", " .dynx-body").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert rows(page, "graph", "chosen")[0].startswith("call_function add")
    assert status(page).endswith("BINARY_OP +")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(opened: Opened, scheme: str) -> None:
    """Ink and paper follow the theme, with a contrast of at least 4.5 for text and for the softer labels."""
    page = opened(toy(), color_scheme=scheme)

    def light(selector: str, what: str) -> float:
        color = page.locator(selector).first.evaluate(f"e => getComputedStyle(e).{what}")
        parts = [int(part) / 255 for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
        red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    paper = light(".dynexplore", "backgroundColor")
    assert (paper > 0.5) == (scheme == "light")
    for selector in (".dynx-original td", ".dynx-line", ".dynx-facts", ".dynx-original th", ".dynx-where", ".dynx-kind"):
        ink = light(selector, "color")
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, selector


@pytest.mark.parametrize("name", SAMPLES)
def test_the_data_arrives_as_it_was(opened: Opened, name: str) -> None:
    """What a file holds packed is unpacked to what the views made."""
    recording = SAMPLES[name]()
    page = opened(recording)
    there = page.evaluate("dynexplore.data")
    links = "({ items, places }) => ({ items: Object.fromEntries(items), places })"
    there["links"] = page.evaluate(f"({links})(dynexplore.links)")  # which unpacks them
    assert {frame: len(drawings) for frame, drawings in there["diagrams"].items()} == {
        str(frame["id"]): len(frame["graphs"]) for frame in there["frames"]
    }
    assert {key: there[key] for key in explorer_data(recording)} == json.loads(json.dumps(explorer_data(recording)))


def test_two_explorers_on_one_page_step_on_their_own(opened: Opened) -> None:
    """The same recording shown twice: stepping the one leaves the other where it was."""
    page = opened(toy())
    page.evaluate("new dynexplore.constructor(document.getElementById('explorer'), dynexplore.data)")
    second = page.locator(".dynexplore").nth(1)
    second.get_by_role("tab", name="Story").click()
    second.get_by_role("button", name="Last step").click()
    said = page.locator(".dynx-status").all_inner_texts()
    assert said[0].startswith("18 of 52") and said[1].startswith("39 of 52")


def test_everything_has_a_name(opened: Opened) -> None:
    """Every control and table can be told by a screen reader."""
    page = opened(toy())
    nameless = "e => e.filter(x => !(x.getAttribute('aria-label') || x.textContent.trim()).length).map(x => x.outerHTML)"
    assert page.eval_on_selector_all("button, input, table, section .dynx-body", nameless) == []


def test_nothing_of_a_recording_becomes_markup(opened: Opened) -> None:
    """Names and sources that look like HTML are shown as they are."""
    nasty = "<img src=x onerror=alert(1)></script>"
    code = ev.CodeView(1, nasty, nasty, 1, nasty, (ev.ListingRow(0, nasty, nasty, 1, 1, 0, 4),))
    r = Recording(title=nasty)
    view = ev.ValueView(1, nasty, nasty)
    r.record(ev.FrameEntered(frame=r.next_frame_id(), parent=None, code=code, arguments=((nasty, view),)))
    r.record(ev.AttemptStarted(frame=1, attempt=1))
    r.record(ev.InstructionStepped(frame=1, attempt=1, offset=0, step=0, op=nasty, stack=(view,)))
    page = opened(r)
    assert page.locator("img").count() == 0
    assert nasty in pane(page, "original", " tbody").inner_text()


def test_an_empty_recording_says_so(opened: Opened) -> None:
    """Nothing was captured, and the page says that; keys do nothing."""
    page = opened(Recording(title="nothing"))
    page.keyboard.press("ArrowRight")
    assert "nothing was captured" in page.locator(".dynx-verdict-line").inner_text()
    for key in "2345":
        page.keyboard.press(key)
        assert "No function that the engine can capture was called." in page.locator(".dynx-panel:visible").inner_text()


def test_without_scripts_the_static_text_is_there(opened: Opened) -> None:
    """Where no script runs the page shows the same recording as plain tables."""
    page = opened(toy(), java_script_enabled=False)
    text = page.locator("noscript").inner_text()
    assert "Graph break DX104" in text and "operator.truediv" in text


def test_data_of_another_version_is_refused(opened: Opened) -> None:
    """Data of another shape gives one sentence."""
    page = opened(toy(), change=(f"const SCHEMA = {SCHEMA};", "const SCHEMA = 99;"))
    assert page.locator(".dynexplore").inner_text() == "This recording was saved by a different version of dynexplore."
