"""The explorer for everyone: axe-core finds nothing serious, and everything is done by keyboard alone."""

from __future__ import annotations

import hashlib

import pytest
import torch
from playwright.sync_api import Page, expect

import dynexplore
from browser.axe_core import AXE, found_by_axe
from browser.pages import Opened, node, pane, rows, status, tab
from dynexplore.recording.recording import Recording
from sample_recordings import toy


class Gate(torch.nn.Module):
    """Breaks on its own data, so that its recording has every pane filled."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(size, size)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        """Linear, relu, and a branch."""
        y = torch.relu(self.linear(x)) * scale  # a comment
        if y.sum() > 1e9:
            return x + y
        return x - y


def gates(x: torch.Tensor, blocks: list[Gate], name: str = "out") -> dict[str, torch.Tensor]:
    """Several frames: one for each block and what goes on behind it."""
    for block in blocks:
        x = block(x)
    return {name: x.softmax(-1), f"{name}_max": x.max()}


@pytest.fixture(scope="module")
def several() -> Recording:
    """A recording with frames, callees, attempts, breaks, resume functions and recompiles."""
    with dynexplore.config.patch(log_level="ERROR", nested_graph_breaks=False):  # nested, they are three frames
        recording: Recording = dynexplore.explain(gates, torch.ones(2, 4), [Gate(4), Gate(4)]).recording
    assert len(recording.frames) > 5 and recording.breaks
    return recording


def test_axe_is_the_one_that_we_name() -> None:
    """The vendored file is unchanged."""
    digest = hashlib.sha256((AXE / "axe.min.js").read_bytes()).hexdigest()
    assert digest in (AXE / "README.md").read_text()


def test_axe_would_find_something(opened: Opened) -> None:
    """A button without a name, and text that cannot be read, are found."""
    page = opened(toy())
    page.evaluate("dynexplore.root.append(document.createElement('button'))")
    page.evaluate("dynexplore.root.style.setProperty('--dynx-soft', '#eeeeee')")
    assert {line.split(":")[0] for line in found_by_axe(page)} >= {"button-name", "color-contrast"}


@pytest.mark.parametrize(
    ("scheme", "state"),
    [(scheme, state) for scheme in ("light", "dark") for state in ("overview", "chosen", "search", "tour")]
    + [("light", "break"), ("light", "keys"), ("light", "empty")],
)
def test_axe_finds_nothing_serious(opened: Opened, several: Recording, scheme: str, state: str) -> None:
    """In both themes, over all panes, and with what opens over them."""
    page = opened(several if state != "empty" else Recording(title="nothing"), color_scheme=scheme)
    if state == "chosen":
        tab(page, "frames")
        page.get_by_role("button", name="frame 2: ").click()
        node(page, "relu")
    elif state == "overview":
        page.keyboard.press("1")
    elif state == "break":
        page.keyboard.press("Home")
        page.keyboard.press("b")
    elif state == "search":
        page.get_by_role("searchbox", name="Search all panes").fill("load")
        page.keyboard.press("Enter")
    elif state == "keys":
        page.keyboard.press("?")
    elif state == "tour":
        page.get_by_role("button", name="What am I looking at?").click()
        page.keyboard.press("ArrowRight")
    assert found_by_axe(page) == []


@pytest.mark.parametrize("context", [{"forced_colors": "active"}, {"contrast": "more"}])
def test_high_contrast(opened: Opened, several: Recording, context: dict[str, str]) -> None:
    """With the system's high contrast nothing is lost: what is chosen and at hand has an outline of its own."""
    page = opened(several, **context)
    tab(page, "frames")
    page.get_by_role("button", name="frame 2: ").click()
    node(page, "relu")
    assert found_by_axe(page) == []
    if "forced_colors" in context:
        style = "e => getComputedStyle(e).outlineStyle"
        assert pane(page, "graph", " .dynx-chosen").evaluate(style) == "dashed"
        assert pane(page, "original", " .dynx-now").evaluate(style) == "solid"


# -- by keyboard alone -------------------------------------------------------------------------------------------------


def focused(page: Page) -> str:
    """What has the focus: its name, or its first words."""
    return str(page.evaluate("(e => e.getAttribute('aria-label') || e.textContent.slice(0, 40))(document.activeElement)"))


def tab_to(page: Page, name: str) -> None:
    """Press Tab until something has the focus whose name begins so."""
    for _ in range(80):
        if focused(page).startswith(name):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab never reaches {name!r}")


def test_every_control_is_reached_by_tab_and_shows_it(opened: Opened, several: Recording) -> None:
    """One round of Tab visits every button, field and pane once, each with a visible ring; rows are left to the arrows."""
    page = opened(several)
    wanted = page.evaluate(
        "[...document.querySelectorAll('button, input, select, summary, textarea, .dynx-body, [role=tab], [role=slider],"
        " [role=separator], .dynx-scrolls[tabindex], .dynx-cost-detail')]"
        ".filter(e => e.tabIndex >= 0 && e.offsetParent).length"
    )
    seen = []
    for _ in range(wanted):
        page.keyboard.press("Tab")
        ring = page.evaluate(
            "(e => getComputedStyle(e).outlineStyle + ' ' + getComputedStyle(e).outlineWidth)(document.activeElement)"
        )
        assert ring == "solid 2px" or page.evaluate("document.activeElement.type") == "range", (focused(page), ring)
        seen.append(focused(page))
    assert len(seen) == wanted < 80
    for name in (
        "Step forward",
        "Play",
        "Search all panes",
        "Next graph break",
        "Source",
        "Stack and locals",
        "Graph",
        "Step",
        "Bytecode",
        "Original bytecode",
        "Copy original bytecode",
        "Keys (?)",
    ):
        assert any(words.startswith(name) for words in seen), name


def test_a_whole_visit_by_keyboard(opened: Opened, several: Recording) -> None:
    """Choose a frame, go to its break and back, choose a node in its graph, find a word: no mouse."""
    page = opened(several)
    page.keyboard.press("2")
    tab_to(page, "Functions")
    page.keyboard.press("Enter")
    tab_to(page, "frame ")
    for key in ("ArrowUp",) * 20 + ("ArrowDown", "Enter"):  # from the first row one down
        page.keyboard.press(key)
    assert page.locator(".dynx-frame[aria-current]").inner_text().startswith("frame 2: ")
    page.keyboard.press("B")
    assert "graph break: " in status(page)
    page.keyboard.press("a")
    assert status(page).endswith(": attempt 2")
    page.keyboard.press("3")
    tab_to(page, "Table")
    page.keyboard.press("Enter")  # the table in place of the diagram
    page.keyboard.press("Tab")
    tab_to(page, "FX graph")
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert rows(page, "graph", "chosen")[0].startswith("call_function linear")
    page.keyboard.press("/")
    page.keyboard.type("softmax")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    expect(page.locator(".dynx-frame[aria-current]")).to_contain_text(", from line ")
    page.keyboard.press("Escape")
    page.keyboard.press("Home")
    assert page.evaluate("dynexplore.position") == 0  # the first step of this frame; numbers count those of all frames


def test_compare_is_searched_while_it_is_open(opened: Opened, several: Recording) -> None:
    """Its pair may be of any frame (it opens with that whose compile time changed most): no match of the frame at hand."""
    page = opened(several)
    page.evaluate("dynexplore.show(dynexplore.data.frames[1], dynexplore.states(dynexplore.data.frames[1]).first)")
    page.keyboard.press("5")
    page.locator(".dynx-panel-compare .dynx-pairs button", has_text="gates, from line ").click()
    page.keyboard.press("/")
    page.keyboard.type("softmax")
    expect(page.locator(".dynx-hits")).to_contain_text("2 found here")
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    page.locator(".dynx-search").fill("")
    page.locator(".dynx-search").fill("softmax")
    expect(page.locator(".dynx-hits")).to_contain_text("0 found here")


def test_the_list_of_keys(opened: Opened, several: Recording) -> None:
    """`?` opens it and closes it; Esc closes it; the focus is back where it was; keys do nothing behind it."""
    page = opened(several)
    before = status(page)
    tab_to(page, "Original bytecode")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert (focused(page), status(page)) == ("Original bytecode", before)
    page.keyboard.press("?")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_tour(opened: Opened, several: Recording) -> None:
    """Enter and the arrows lead through the bubbles, each of which points at a pane; Esc leaves at any time."""
    page = opened(several)
    tab_to(page, "What am I looking at?")
    page.keyboard.press("Enter")
    titles = []
    while page.get_by_role("dialog").count():
        titles.append(page.get_by_role("dialog").locator("h3").inner_text())
        assert page.locator(".dynx-pointed").count() >= 1
        assert page.get_by_role("dialog").is_visible()
        assert focused(page) in ("Next", "Done")
        page.keyboard.press("Enter")
    assert 5 <= len(titles) <= 8 and titles[0].startswith("1/") and len(set(titles)) == len(titles)
    assert focused(page) == "What am I looking at?" and page.locator(".dynx-pointed").count() == 0
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("dialog").locator("h3")).to_have_text(titles[0])
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_pane_is_enlarged_and_put_back(opened: Opened, several: Recording) -> None:
    """A click on its title or z gives it all of its view; the same again or Esc puts it back."""
    page = opened(several)
    pane = page.locator(".dynx-growing")
    small = pane.bounding_box()
    page.locator(".dynx-growing h3").click()
    large, view = pane.bounding_box(), page.locator(".dynx-panel-story").bounding_box()
    assert large == view and large != small
    page.keyboard.press("Escape")
    assert pane.bounding_box() == small
    page.locator(".dynx-growing .dynx-body").focus()
    page.keyboard.press("z")
    assert pane.bounding_box() == large
    page.keyboard.press("z")
    assert pane.bounding_box() == small


def test_n_and_p_go_through_what_was_found(opened: Opened, several: Recording) -> None:
    """While something is searched for, n is the next match and p the one before; without a search p plays."""
    page = opened(several)
    page.keyboard.press("/")
    page.keyboard.type("relu")
    page.keyboard.press("Escape")
    count = page.locator(".dynx-hits")
    for key, at in (("n", 1), ("n", 2), ("p", 1)):
        page.keyboard.press(key)
        expect(count).to_contain_text(f"{at} of ")


def test_keys_stay_inside_dialogs_too(opened: Opened, several: Recording) -> None:
    """No key leaves a bubble but those that are the notebook's own."""
    page = opened(several)
    page.evaluate("() => { globalThis.heard = []; document.addEventListener('keydown', e => heard.push(e.key)); }")
    page.get_by_role("button", name="What am I looking at?").click()
    for key in ("j", "d", "ArrowRight", "Tab", "Enter", "Escape", "p", "b", "a", "m", "?", "x", "Escape"):
        page.keyboard.press(key)
    assert page.evaluate("heard") == []
    page.keyboard.press("?")
    page.keyboard.press("Control+s")
    page.keyboard.press("Shift+Enter")
    assert [key for key in page.evaluate("heard") if key not in ("Shift", "Control")] == ["s", "Enter"]
