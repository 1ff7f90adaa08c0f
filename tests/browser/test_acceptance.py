"""What holds of every view at every size: nothing is cut at the foot, nothing is too small, nothing has an internal name.

The sizes are those of a page, of a JupyterLab cell, and of narrow windows.
"""

from __future__ import annotations

import re

import pytest
import torch
from playwright.sync_api import expect

import dynexplore
from browser.pages import Opened, resize, tab
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from sample_recordings import toy, watched

SIZES = [(1440, 900), (1280, 720), (1040, 620), (914, 720), (700, 800)]

CUT = """() => {
  const { root } = dynexplore, [home, found] = [root.getBoundingClientRect(), []];
  const [foot, below] = [root.querySelector('.dynx-foot'), document.querySelector('footer')].map((e) => e.getBoundingClientRect());
  if (foot.bottom > home.bottom + 1) found.push('foot');
  if (below.bottom > innerHeight + 1 || below.top < home.bottom - 1) found.push('line below the page');
  if (root.scrollHeight > root.clientHeight + 1 || root.scrollWidth > root.clientWidth + 1) found.push('page');
  for (const e of root.querySelectorAll('*')) {
    const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!text || !e.checkVisibility() || e.closest('svg, .dynx-unseen, option')) continue;
    if (parseFloat(getComputedStyle(e).fontSize) < 13) found.push('small: ' + e.textContent);
    const { left, right } = e.getBoundingClientRect();
    const scroller = e.closest('.dynx-body, .dynx-scrolls, .dynx-cost-detail, .dynx-strip, .dynx-aside, .dynx-differs');
    if (!scroller && (right > home.right + 1 || left < home.left - 1)) found.push('beside the page: ' + e.textContent);
  }
  return found;
}"""
"""What is cut, too small, or out of the page."""

DRAWN = """() => [...dynexplore.root.querySelectorAll('svg text')].flatMap((text) => {
  if (!text.checkVisibility() || !text.textContent.trim() || !text.getBoundingClientRect().width) return [];
  const { b, d } = text.getScreenCTM();
  const height = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(b, d);
  return height < 12.95 ? [`${height}: ${text.textContent}`] : [];
})"""
"""Letters of drawings that are under 13 pixels as they stand on the screen."""

INTERNAL = r"/___\w+|\b[A-Z]+_(?:MATCH|ENV|STATE)\b|\b[lg]_[a-z]\w*_\b|\b(?:DX|GB)\d{3,4}\b|\w+Variable\b/"
"""Names that the engine, PyTorch's guards and its graphs use, and that no person wrote."""


OPCODES = """() => [...document.querySelectorAll('.dynx-original tbody td:nth-child(3)')]
  .filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent)"""
"""Opcodes that are cut."""


LEVELS = {"small": 1, "large": 2}


@dynexplore.disable
def size_of(x: torch.Tensor) -> str:
    return "large" if x.sum() > 6 else "small"


def scaled(x: torch.Tensor) -> torch.Tensor:
    return (x + 1) * LEVELS[size_of(x)]


def recompiled() -> Recording:
    """A part after a graph break that recompiles, because a value from before the break is another."""
    with dynexplore.config.patch(log_level="ERROR"), dynexplore.explain(scaled) as fn:
        fn(torch.ones(4))
        fn(torch.full((4,), 2.0))
    recording: Recording = fn.explanation.recording
    return recording


RECORDINGS = {"toy": toy, "recompiled": recompiled, "watched": lambda: watched(toy())}


@pytest.mark.parametrize("name", RECORDINGS)
def test_five_views_at_five_sizes(opened: Opened, name: str) -> None:
    """No text is cut at the edges or under 13 pixels, and foot and last line are in sight; "Only misses" is reached at 700, too."""
    page = opened(RECORDINGS[name](), view="")
    for size in SIZES:
        resize(page, *size)
        for key in "12345":
            page.keyboard.press(key)
            assert page.evaluate(CUT) == [], (size, key)
            assert page.evaluate(DRAWN) == [], (size, key)
    page.keyboard.press("4")
    expect(page.get_by_role("button", name="Only misses")).to_be_in_viewport()


def test_no_internal_name_is_seen(opened: Opened) -> None:
    """Guards are conditions, and a value of the stack is one from before the break; names of kinds stand in reports only."""
    page = opened(recompiled(), view="")
    seen = f"view => [...(view.innerText.match({INTERNAL}g) ?? [])]"
    for key in "1345":
        page.keyboard.press(key)
        assert page.locator(".dynx-panel:visible").evaluate(seen) == [], key
        assert page.locator(".dynx-status").evaluate(seen) == []
    tab(page, "miss")
    failing = page.locator(".dynx-miss tbody tr").inner_text()
    assert "a value from before the graph break == 'small'" in " ".join(failing.split())
    expect(page.locator(".dynx-differs")).to_contain_text("a value from before the graph break == 'small'")
    tab(page, "guards")
    assert page.locator(".dynx-guards").evaluate(seen) == []


def branching(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x + 1
    return x - 1


def test_no_opcode_is_cut(opened: Opened) -> None:
    """The names of opcodes are whole at each size, the longest, too: the arguments have what they leave."""
    with dynexplore.config.patch(log_level="ERROR"):
        recording = dynexplore.explain(branching)(torch.ones(4)).recording
    page = opened(recording)
    for size in SIZES:
        resize(page, *size)
        tab(page, "original")
        expect(page.locator(".dynx-original tbody td").first).to_be_visible()
        assert page.evaluate(OPCODES) == [], size


BREAKS = """() => dynexplore.walk.flatMap(({ states }, frame) => states.flatMap(({ kind }, position) =>
  kind === 'GraphBroke' ? [[frame, position]] : []))"""
"""Frame and position of each graph break."""


class Printing(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.fc(x)
        print("h", h.mean().item())
        return x + h


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Printing() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def doubled(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = model(x) * 2
    return result


def test_a_break_in_a_module_shows_locals_of_the_program_only(opened: Opened, capsys: pytest.CaptureFixture[str]) -> None:
    """At a break in a module that a module calls, the state has the locals of the callee, and none of what torch calls between."""
    with dynexplore.config.patch(log_level="ERROR"):
        recording = dynexplore.explain(doubled)(Outer(), torch.ones(2, 4)).recording
    capsys.readouterr()
    page = opened(recording)
    seen = set()
    breaks = page.evaluate(BREAKS)
    assert breaks
    for frame, position in breaks:
        page.evaluate("([frame, position]) => dynexplore.show(dynexplore.walk[frame], position)", [frame, position])
        seen |= set(page.locator(".dynx-boxes .dynx-box b").all_inner_texts())
        assert page.locator(".dynx-boxes").evaluate(f"view => [...(view.innerText.match({INTERNAL}g) ?? [])]") == []
    assert {"self", "x", "h"} <= seen, seen
    assert not any("call_impl" in name or ":" in name for name in seen), seen


def test_the_bar_of_the_verdict_is_filled(opened: Opened) -> None:
    """Also of less than a second: its parts together are as wide as the bar."""
    page = opened(recompiled(), view="overview")
    bar = page.locator(".dynx-spent-bar")
    whole, parts = bar.evaluate("bar => [bar.clientWidth, [...bar.children].reduce((sum, one) => sum + one.offsetWidth, 0)]")
    assert parts >= whole - 2 * bar.locator("span").count()


def test_the_axis_of_the_timeline_is_in_one_unit(opened: Opened) -> None:
    """Its marks are round and equally far apart, each with a line, the last too; what needs no action stands below a heading."""
    page = opened(recompiled(), view="overview")
    ticks = page.locator(".dynx-ticks .dynx-tick")
    for seconds, texts in ((0.6, ["0.0 s", "0.1 s", "0.2 s"]), (0.05, ["0 ms", "10 ms", "20 ms"]), (37.3, ["0 s", "10 s", "20 s"])):
        page.evaluate(
            "seconds => { const { data, constructor, host } = dynexplore; data.overview.timeline.seconds = seconds;"
            " dynexplore.root.remove(); data.overview.rows.at(-1).isExpected = 1;"
            " globalThis.dynexplore = new constructor(host, data); }",
            seconds,
        )
        assert ticks.all_inner_texts()[:3] == texts
        edges = "e => { const { borderLeftStyle: left, borderRightStyle: right, borderRightWidth: width } = getComputedStyle(e);"
        solid = " return [left, right].includes('solid') && (!e.matches('.dynx-last-tick') || width === '1px'); }"
        assert ticks.last.evaluate(edges + solid)
    if page.locator(".dynx-cost").count() > 1:
        expect(page.locator(".dynx-cost-group")).to_have_text("No separate action needed")
        assert page.locator(".dynx-cost-group + .dynx-cost").count() == 1


def test_the_timeline_outlines_what_a_row_cost(opened: Opened) -> None:
    """All pieces whose seconds the chosen row sums, and no other; a click on one of them chooses the row."""
    page = opened(recompiled(), view="overview")
    for at, row in enumerate(page.evaluate("dynexplore.data.overview.rows")):
        page.locator(".dynx-cost-head").nth(at).click()
        assert page.locator(".dynx-span-of-time.dynx-picked").count() == len(row["compiled"]) > 0
        page.locator(".dynx-span-of-time.dynx-picked").first.dispatch_event("click")
        assert page.locator(".dynx-cost-head").nth(at).get_attribute("aria-pressed") == "true"
    expect(page.locator(".dynx-chips .dynx-order")).to_contain_text("Sorted by compile time")


def test_where_nothing_was_compiled_no_pane_is_blank(opened: Opened) -> None:
    """Each view says why there is nothing and what next, with a command to copy; no key is offered that has nothing to act on."""
    recording = Recording(title="train.py", engine="torch.compile")
    recording.record(ev.ProgramEnded(frame=0, status=0))
    page = opened(recording, view="")
    assert page.locator(".dynx-cost-detail").inner_text().startswith("What appears here")
    assert page.locator(".dynx-sign").inner_text() == "i"
    for key in "1234":
        page.keyboard.press(key)
        expect(page.locator(".dynx-panel:visible")).to_contain_text("dynexplore explain train.py")
    assert " ".join(page.locator(".dynx-hints").inner_text().split()) == "1 to 5 switch views"


def test_compilations_are_not_called_calls(opened: Opened) -> None:
    """torch.compile does not report calls that hit its cache: nothing is said of how many calls there were."""
    with dynexplore.config.patch(log_level="ERROR"), dynexplore.explain(branching_free) as fn:
        fn(torch.ones(4))
        fn(torch.ones(5))
    page = opened(watched(fn.explanation.recording), view="recompiles")
    head = page.locator(".dynx-timeline .dynx-verdict-head")
    expect(head.locator("h2")).to_have_text(re.compile(r"^branching_free: 1 recompile\b"))
    expect(head).to_contain_text("Calls that hit the cache are not in this recording.")
    expect(page.locator(".dynx-miss h3")).to_have_text("Compilation 2 of branching_free")


def branching_free(x: torch.Tensor) -> torch.Tensor:
    return (x * 0.12345678912345).sum()


def test_compare_has_lines_of_the_function_and_short_numbers(opened: Opened) -> None:
    """An operator of a module stands at the line that calls the module, numbers have six digits, and a single argument no comma."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return model(x) * 0.12345678912345

    line = scaled.__code__.co_firstlineno + 1
    with dynexplore.config.patch(log_level="ERROR"), dynexplore.explain(scaled) as fn:
        fn(torch.ones(2, 4))
        fn(torch.ones(3, 4))
    page = opened(fn.explanation.recording, view="compare")
    page.get_by_role("button", name="Only differences").click()
    rows = page.locator(".dynx-sides tbody tr")
    texts = [" ".join(text.split()) for text in rows.all_inner_texts()]
    operators = texts[texts.index(next(text for text in texts if text.startswith("Operators"))) + 1 :]
    assert any("0.123457)" in text for text in operators) and any("relu(linear)" in text for text in operators), operators
    places = {cell for cell in rows.locator("td:nth-child(2)").all_inner_texts() if cell} - {str(line - 1)}
    assert places == {str(line)}


def test_high_contrast_shows_what_is_pressed(opened: Opened) -> None:
    """With forced colors the unit of stepping is read on its button, and boxes that come later have the edge of all text."""
    page = opened(toy(), forced_colors="active")
    looks = page.locator(".dynx-unit[aria-pressed='true']").evaluate(
        "button => [getComputedStyle(button).color, getComputedStyle(button).backgroundColor]"
    )
    assert looks[0] != looks[1], looks
    page.evaluate("dynexplore.go(0)")
    edges = page.locator(".dynx-later:not(.dynx-lit) rect").evaluate_all("all => all.map((rect) => getComputedStyle(rect).stroke)")
    ink = page.locator(".dynx-later text").first.evaluate("text => getComputedStyle(text).fill")
    assert edges and set(edges) == {ink}


def test_only_misses_is_in_sight_beside_many_functions(opened: Opened) -> None:
    """However many functions there are to choose from, the switch stands before them."""
    page = opened(recompiled(), view="recompiles")
    chips = page.locator(".dynx-timeline .dynx-chips")
    switch = chips.locator(".dynx-order").bounding_box()
    function = chips.locator(".dynx-chip:not(.dynx-order)").first.bounding_box()
    assert switch and function and (switch["y"], switch["x"]) < (function["y"] + 1, function["x"])
