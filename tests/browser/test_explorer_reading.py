"""Reading the explorer's file: colours, aligned bytecode, search over frames, the filter, and copies."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from browser.pages import Opened, pane, rows, status, tab
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from sample_recordings import SAMPLES, inlined, toy

OFFSET = "row => [...row.children].map(cell => cell.textContent)"


def copied(page: Page, name: str) -> str:
    """What a copy button puts on the clipboard; it stands in some tab."""
    if name == "guard":
        tab(page, "guards")
    for one in page.get_by_role("tab").all():
        if page.get_by_role("button", name=f"Copy {name}", exact=True).is_visible():
            break
        one.click()
    page.get_by_role("button", name=f"Copy {name}", exact=True).click()
    expect(page.locator(".dynx-said")).to_have_text(f"{name} copied")
    return str(page.evaluate("navigator.clipboard.readText()"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_source_has_colours(opened: Opened, scheme: str) -> None:
    """Keywords, names and numbers look different, and can be read on the theme's paper."""
    page = opened(toy(), color_scheme=scheme)
    words = {kind: page.locator(f".dynx-source .dynx-py-{kind}").all_inner_texts() for kind in ("keyword", "definition", "number")}
    assert "def" in words["keyword"] and "return" in words["keyword"]
    assert words["definition"] == ["toy"] and "1" in words["number"]
    assert (
        "".join(page.locator(".dynx-source .dynx-line").first.locator("span:not(.dynx-number):not(.dynx-gutter)").all_inner_texts())
        == "def toy(a, b):"
    )
    kinds = ("keyword", "definition", "number")
    colours = {page.locator(f".dynx-source .dynx-py-{kind}").first.evaluate("e => getComputedStyle(e).color") for kind in kinds}
    assert len(colours) == 3


@pytest.mark.parametrize("name", SAMPLES)
def test_listings_lose_nothing(opened: Opened, name: str) -> None:
    """Each listing has all its rows, equally high; in the new one no row stands above the instruction that it comes from."""
    recording = SAMPLES[name]()
    page = opened(recording)
    page.evaluate("dynexplore.go(2)")  # in the function itself
    sides = {}
    for side in ("original", "modified"):
        sides[side] = pane(page, side, " tbody tr").evaluate_all(f"rows => rows.map({OFFSET})")
        heights = page.locator(f".dynx-{side} tbody tr").evaluate_all("e => e.map(r => r.offsetHeight)")
        assert len(set(heights)) == 1
    offsets = [cells[1].strip("» \xa0") for cells in sides["original"]]
    code, modified = recording.original_code(1), recording.modified_code(1)
    assert modified is not None
    assert offsets == [str(row.offset) for row in code.rows]
    shown = [(place, cells) for place, cells in enumerate(sides["modified"]) if cells[0].strip("\xa0")]
    assert [cells[0] for _, cells in shown] == [str(row.offset) for row in modified.rows]
    assert len(sides["modified"]) >= len(offsets), "what left the code stands there as a gap"
    for place, cells in shown:
        if cells[4]:
            assert offsets.index(cells[4]) <= place


def test_roles_are_words_and_colours(opened: Opened) -> None:
    """Each emitted instruction bears its role as a label; a gap says what became of the instruction beside it."""
    page = opened(toy())
    labels = pane(page, "modified", " .dynx-role")
    roles = labels.all_inner_texts()
    assert {"call graph", "load input", "resume"} <= set(roles)
    colours = dict(zip(roles, labels.evaluate_all("e => e.map(one => getComputedStyle(one).borderLeftColor)"), strict=True))
    assert len({colours["call graph"], colours["resume"], colours["original"]}) == 3
    gaps = [" ".join(text.split()) for text in pane(page, "modified", " .dynx-blank").all_inner_texts()]
    assert {"in the graph", "at compile time"} <= set(gaps)
    assert page.locator(".dynx-blank").first.get_attribute("aria-hidden") == "true"


def long_frame() -> Recording:
    """One frame whose aligned listings are higher than their panes."""
    rows = tuple(ev.ListingRow(2 * i, "NOP", str(i), 1, 1, 0, 1) for i in range(90))
    code = ev.CodeView(1, "f", "f.py", 1, "x", rows)
    r = Recording(title="long")
    r.record(ev.FrameEntered(frame=r.next_frame_id(), parent=None, code=code, arguments=()))
    r.record(ev.AttemptStarted(frame=1, attempt=1))
    for i in range(90):
        r.record(ev.InstructionStepped(frame=1, attempt=1, offset=2 * i, step=i, op="NOP"))
    emitted = tuple(ev.ListingRow(2 * i, "NOP", str(i), 1, 1, 0, 1, role="original", origin=2 * i) for i in range(90))
    r.record(ev.CodeEmitted(frame=1, attempt=1, code=ev.CodeView(2, "f", "f.py", 1, "", emitted)))
    return r


def test_the_row_at_hand_is_in_view_in_either_listing(opened: Opened) -> None:
    """After a step, and after a click in one of them, the row that belongs to it is in view in the one that is opened."""
    page = opened(long_frame())
    inside = """side => { const body = document.querySelector(`.dynx-${side} .dynx-body`).getBoundingClientRect();
      const row = document.querySelector(`.dynx-${side} :is(.dynx-chosen, .dynx-now, .dynx-lit)`).getBoundingClientRect();
      return row.top >= body.top && row.bottom <= body.bottom; }"""
    for side in ("original", "modified"):
        tab(page, side)
        page.keyboard.press("End")  # the code that was emitted
        page.keyboard.press("ArrowLeft")
        assert page.evaluate(inside, side)
        page.evaluate("dynexplore.choose('modified:1:0')")
        assert page.evaluate(inside, side)


def test_search_goes_through_all_frames(opened: Opened) -> None:
    """Other frames are searched as well; Enter leads into them and comes back; `this frame` leaves them out."""
    page = opened(toy())
    field, count = page.get_by_role("searchbox", name="Search all panes"), page.locator(".dynx-hits")
    field.fill("operator.mul")
    expect(count).to_have_text("0 found here, 2 in 1 other frame")
    field.press("Enter")
    tab(page, "frames")
    assert page.locator(".dynx-frame[aria-current]").inner_text().startswith("frame 2: ")
    assert rows(page, "graph", "chosen")[0].startswith("call_function mul operator.mul")
    first = status(page)
    field.press("Enter")
    assert status(page) != first and rows(page, "graph", "chosen")[0].startswith("call_function mul_1")
    field.fill("truediv")
    field.press("Enter")
    tab(page, "frames")
    assert page.locator(".dynx-frame[aria-current]").inner_text().startswith("frame 1: ")
    page.get_by_label("Search in").select_option("this frame")
    field.fill("operator.mul")
    expect(count).to_have_text("0 found")
    field.press("Enter")
    tab(page, "frames")
    assert page.locator(".dynx-frame[aria-current]").inner_text().startswith("frame 1: ")


def test_search_finds_what_stands_in_callees(opened: Opened) -> None:
    """The source of an inlined callee that is not at hand is found, and Enter shows it."""
    r = toy()
    for event in inlined():  # its frame after those of toy
        r.record(
            event.__class__(**{name: getattr(event, name) for name in event.__dataclass_fields__} | {"frame": event.frame + 10})
        )
    page = opened(r)
    field = page.get_by_role("searchbox", name="Search all panes")
    field.fill("def inner")
    field.press("Enter")
    assert "inner" in page.locator(".dynx-source h3").inner_text()
    assert "def inner" in page.locator(".dynx-source .dynx-found").inner_text()


def test_frames_can_be_filtered(opened: Opened) -> None:
    """A tree of many frames has a filter that keeps what holds the word, and what is around it."""
    r = Recording(title="many")
    for number in range(1, 9):
        code = ev.CodeView(
            number, f"f{number}", "f.py", 1, f"def f{number}(): pass", (ev.ListingRow(0, "RESUME", "0", 1, 1, 0, 1),)
        )
        r.record(ev.FrameEntered(frame=r.next_frame_id(), parent=number - 1 if number % 2 == 0 else None, code=code, arguments=()))
    page = opened(r)
    tab(page, "frames")
    page.get_by_label("Filter frames").fill("f4")
    assert [text.split("\n")[0].strip() for text in pane(page, "frames", " .dynx-frame:visible").all_inner_texts()] == [
        "frame 3: f3",
        "frame 4: f4",
    ]
    page.get_by_label("Filter frames").fill("")
    assert pane(page, "frames", " .dynx-frame:visible").count() == 8


def test_copies(opened: Opened) -> None:
    """Code, listings, the graph's table, a guard, and a break as an issue can be copied."""
    r = toy()
    r.versions = "Python 3.12.1, torch 2.13.0"
    page = opened(r, permissions=["clipboard-read", "clipboard-write"])
    assert copied(page, "source") == r.frames[0].code.source.rstrip("\n")
    assert copied(page, "original bytecode").splitlines()[2].split()[1:3] == ["0", "RESUME"]
    tab(page, "modified")
    assert "POP_JUMP_IF_FALSE" in copied(page, "modified bytecode")
    pane(page, "graph")
    table = copied(page, "graph table").splitlines()
    assert table[0] == "__compiled_fn_0" and table[1].split()[:3] == ["opcode", "name", "target"]
    assert len(table) == 3 + len(r.graphs[0].nodes)
    tab(page, "guards")
    assert len(copied(page, "guard").splitlines()) == 2 + 4
    pane(page, "guards", " .dynx-row").nth(2).click()
    assert len(copied(page, "guard").splitlines()) == 3
    tab(page, "breaks")
    issue = copied(page, "graph break as an issue")
    assert (
        issue.startswith("### Graph break DX104: ")
        and "Python 3.12.1, torch 2.13.0" in issue
        and "```python\ndef toy(a, b):" in issue
    )
    tab(page, "state")
    assert "stack 0" in copied(page, "stack and locals")


def test_copying_without_a_clipboard(opened: Opened) -> None:
    """Where the browser has no clipboard for the page, the text is still copied, and the focus stays."""
    page = opened(toy())
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.get_by_role("button", name="Copy source", exact=True).click()
    expect(page.locator(".dynx-said")).to_have_text("source copied")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Copy source"
    page.get_by_role("searchbox", name="Search all panes").focus()
    page.keyboard.press("Control+v")
    assert page.get_by_role("searchbox", name="Search all panes").input_value().startswith("def toy(a, b):")


def test_arrows_go_through_long_lists(opened: Opened) -> None:
    """Rows that do not stand in the page yet are reached by the arrow keys, too, one by one."""
    rows_ = tuple(ev.ListingRow(2 * i, "NOP", str(i), 1, 1, 0, 1) for i in range(1500))
    r = Recording(title="long")
    code = ev.CodeView(1, "f", "f.py", 1, "x", rows_)
    r.record(ev.FrameEntered(frame=r.next_frame_id(), parent=None, code=code, arguments=()))
    r.record(ev.AttemptStarted(frame=1, attempt=1))
    r.record(ev.InstructionStepped(frame=1, attempt=1, offset=0, step=0, op="NOP"))
    page = opened(r)
    pane(page, "original", " .dynx-body").focus()
    for _ in range(160):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.children[1].textContent") == str(2 * 159)


def test_no_source_is_said_in_a_sentence(opened: Opened) -> None:
    """A function whose source is not available says so; all else is there."""
    r = Recording(title="f")
    code = ev.CodeView(1, "f", "<string>", 1, "", (ev.ListingRow(0, "RESUME", "0", 1, 1, 0, 1),))
    r.record(ev.FrameEntered(frame=r.next_frame_id(), parent=None, code=code, arguments=()))
    page = opened(r)
    assert "The source of f is not available" in page.locator(".dynx-source").inner_text()
    assert "RESUME" in pane(page, "original", " tbody").inner_text()
    node_count = pane(page, "graph", " tbody tr").count()
    assert node_count == 0


def test_a_long_line_of_the_source_goes_on_below_itself(opened: Opened) -> None:
    """No letter of a long line is cut by the pane's edge, and nobody scrolls sideways to read it."""
    r = Recording(title="f")
    sum_of_many = " + ".join(["x"] * 80)
    row = ev.ListingRow(0, "RESUME", "0", 1, 1, 0, 4)
    code = ev.CodeView(1, "f", "f.py", 1, f"def f(x):\n    return {sum_of_many}", (row,))
    r.record(ev.FrameEntered(frame=r.next_frame_id(), parent=None, code=code, arguments=()))
    page = opened(r)
    body = page.locator(".dynx-source .dynx-body").first
    assert body.evaluate("each => each.scrollWidth <= each.clientWidth")
    first, second = (page.locator(".dynx-source .dynx-line").nth(at).bounding_box() for at in (0, 1))
    assert first is not None and second is not None and second["height"] >= 2 * first["height"]
