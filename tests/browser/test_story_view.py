"""The views in a real Chromium: the overview, and the story with source, stack, graph and strip on one screen."""

from __future__ import annotations

import io
import itertools
import linecache
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect
from torch import nn

import dynexplore
from browser.large import long_program
from browser.pages import Opened, pane, resize, status, tab
from dynexplore.engine import events as ev
from dynexplore.engine.errors import BackendCompilerError
from dynexplore.recording.recording import Recording
from dynexplore.views.modified_python import python_of_frame
from sample_recordings import inlined, toy, watched

X = torch.ones(2, 4)


def chatty(x: torch.Tensor) -> torch.Tensor:
    for number in range(5):
        x = x * (number + 1)
        print("round", number)
    return x.relu()


def prints(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print("one")
    x = x * 2
    print("two")
    x = x - 3
    print("three")
    return x.relu()


def says_five(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print("one")
    x = x + 2
    print("two")
    x = x + 3
    print("three")
    x = x + 4
    print("four")
    x = x + 5
    print("five")
    return x.relu()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def trains(x: torch.Tensor) -> torch.Tensor:
    model = MODEL
    loss = x.sum()
    for _ in range(2):
        loss = (model(x) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.grad = None
    return loss


MODEL = Model()


def explained(function: Any, *args: Any) -> Recording:
    with dynexplore.config.patch(log_level="ERROR"):
        recording: Recording = dynexplore.explain(function, *args).recording
    return recording


RECORDINGS = {
    "toy": toy,
    "chatty": lambda: explained(prints, X),
    "loop": lambda: explained(chatty, X),
    "module": lambda: explained(MODEL, X),
    "training": lambda: explained(trains, X),
}

SEEN = """() => {
  const { root } = dynexplore, home = root.getBoundingClientRect();
  const inside = (e, b = home) => {
    const r = e.getBoundingClientRect();
    return r.height > 0 && r.top >= b.top - 1 && r.bottom <= b.bottom + 1;
  };
  const parts = ['.dynx-head', '.dynx-stepper', '.dynx-source .dynx-body', '.dynx-boxes .dynx-body', '.dynx-growing .dynx-body',
    '.dynx-strip', '.dynx-tablist'];
  const lost = parts.filter((one) => !inside(root.querySelector(one)));
  const line = root.querySelector('.dynx-source .dynx-line.dynx-now');
  const source = root.querySelector('.dynx-source .dynx-body').getBoundingClientRect();
  if (line && !inside(line.querySelector('.dynx-number'), source)) lost.push('line at hand');
  return [home.height, lost];
}"""
"""How high the explorer is, and which parts of the story are not in view."""


@pytest.mark.parametrize("width", [1040, 914])
@pytest.mark.parametrize("name", RECORDINGS)
def test_everything_is_in_view_at_each_step(opened: Opened, name: str, width: int) -> None:
    """Headline, source with the line at hand, stack, graph and strip, 620 pixels high, at every step of every frame."""
    page = opened(RECORDINGS[name]())
    resize(page, width, 900)
    page.evaluate("dynexplore.root.style.setProperty('--dynx-height', '620px')")
    page.evaluate("dynexplore.show(dynexplore.walk[0], 0)")
    total = page.evaluate("dynexplore.walk.reduce((sum, { states }) => sum + states.length, 0)")
    found = page.evaluate(
        f"count => {{ const seen = {SEEN}, found = []; for (let at = 0; at < count; at += 1)"
        " { found.push(...[seen()].filter(([height, lost]) => height > 620 || lost.length)); dynexplore.step(1); } return found; }",
        total,
    )
    assert found == []
    assert page.evaluate("dynexplore.walk.at(-1) === dynexplore.frame"), "the steps lead through all frames"


CUT = """() => {
  const body = dynexplore.root.querySelector('.dynx-boxes .dynx-body'), view = body.getBoundingClientRect();
  const line = body.querySelector('.dynx-more-boxes'), low = line.hidden ? view.bottom : line.getBoundingClientRect().top;
  const boxes = [...body.querySelectorAll('.dynx-box')].map((box) => box.getBoundingClientRect());
  const at = (edge) => boxes.some(({ top, bottom }) => top < edge - 1 && bottom > edge + 1);
  const pushed = body.querySelector('.dynx-pushed')?.getBoundingClientRect();
  const below = boxes.filter(({ bottom }) => bottom > low + 1).length;
  return [at(view.top), at(low), Boolean(pushed) && pushed.bottom > low + 1, below !== parseInt(line.textContent || 0)];
}"""
"""Whether a box is cut at the upper or at the lower edge, what was pushed is not seen, or the count of those below is wrong."""


@pytest.mark.parametrize("width", [1040, 914])
@pytest.mark.parametrize("name", ["training", "loop"])
def test_no_box_of_the_stack_is_cut(opened: Opened, name: str, width: int) -> None:
    """Where there is no room for all boxes each takes one line, rows are seen whole or not at all, and those below are counted."""
    page = opened(RECORDINGS[name](), reduced_motion="reduce")
    resize(page, width, 900)
    page.evaluate("dynexplore.root.style.setProperty('--dynx-height', '620px')")
    page.evaluate("dynexplore.show(dynexplore.walk[0], 0)")
    found = page.evaluate(
        f"async () => {{ const cut = {CUT}, found = []; for (let at = 0; at < 300; at += 1) {{"
        " await new Promise(requestAnimationFrame);"
        " if (cut().includes(true)) found.push([dynexplore.root.querySelector('.dynx-status').textContent, ...cut()]);"
        " dynexplore.step(1); } return found; }"
    )
    assert found == []


def crowded(x: torch.Tensor) -> torch.Tensor:
    one, two, three, four = x * -1.5, x * 3.25, x * 17.125, x.reshape(16, 1, 8)
    five, six, seven, eight = one + two, two + three, one * three, three - one
    nothing = x * 0 + 1
    return one + two + three + four + five + six + seven + eight + nothing


HALF = """() => [...dynexplore.root.querySelectorAll('.dynx-dense .dynx-box')].flatMap((box) => {
  const { bottom, right } = box.getBoundingClientRect();
  const isSeen = (r) => r.top < bottom - 2;
  const words = [...box.querySelectorAll('.dynx-kind, .dynx-really')].flatMap((part) => {
    const text = part.firstChild, found = [...text.data.matchAll(/[^ ]+/g)];
    return found.map((word) => {
      const range = document.createRange();
      range.setStart(text, word.index); range.setEnd(text, word.index + word[0].length);
      return [word[0], part.className, [...range.getClientRects()]];
    });
  });
  const isHalf = ([, , rects]) => rects.some(isSeen) && rects.some((r) => !isSeen(r) || r.right > right - 2);
  const values = words.filter(([, name]) => name === 'dynx-really').map(([, , [rect]]) => isSeen(rect));
  return [...words.filter(isHalf).map(([word]) => word), ...(new Set(values).size > 1 ? ['half a value'] : [])];
})"""
"""The words in boxes of one line that are seen in part, and whether a value is."""


@pytest.mark.parametrize("width", [1040, 914])
def test_no_value_is_cut_so_that_another_one_reads_there(opened: Opened, width: int) -> None:
    """A box of one line shows a number whole or not at all; what it keeps back is told by the pointer."""
    page = opened(explained(crowded, torch.randn(16, 8)), reduced_motion="reduce")
    resize(page, width, 900)
    page.evaluate("dynexplore.root.style.setProperty('--dynx-height', '620px')")
    page.keyboard.press("End")
    assert page.locator(".dynx-dense .dynx-really").count() > 8, "the boxes take one line each"
    found = page.evaluate(f"() => {{ const half = {HALF}, found = []; for (let at = 0; at < 40; at += 1) {{"
    " found.push(...half()); dynexplore.step(-1); } return found; }")  # fmt: skip
    assert found == []
    page.keyboard.press("End")
    one = page.locator(".dynx-dense .dynx-box", has=page.get_by_text("one", exact=True)).last
    assert "f32[16, 8]" in one.inner_text() and "min -" in str(one.get_attribute("title"))
    assert "all 1" in page.locator(".dynx-box", has=page.get_by_text("nothing", exact=True)).last.inner_text()


class Chooses(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(6, 32)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.body(state))
        if hidden.norm() > 2.5:
            return hidden * 2
        return hidden + 1


def test_a_value_goes_on_below_where_there_is_room(opened: Opened) -> None:
    """Boxes that do not fit below each other put name, type and value on shared lines first: each value is whole."""
    page = opened(explained(Chooses(), torch.linspace(-1.12345, 1.12345, 6).reshape(1, 6)), reduced_motion="reduce")
    resize(page, 1440, 860)
    page.evaluate("dynexplore.go(dynexplore.frame.states.findIndex(({ kind }) => kind === 'GraphBroke'))")
    assert page.locator(".dynx-dense").count() == 0
    state = page.locator(".dynx-tight .dynx-box", has=page.get_by_text("state", exact=True)).last
    assert state.locator(".dynx-really").inner_text().count(",") == 5
    assert state.evaluate("box => box.scrollHeight <= box.clientHeight + 1 && box.scrollWidth <= box.clientWidth + 1")


@pytest.mark.parametrize("text", ["float32[1024, 1024, 1024, 1024]", "[1.25, 3.25, 17.125, 33.3333, 12]"])
def test_a_long_text_of_a_box_goes_on_below(opened: Opened, text: str) -> None:
    """It is whole, and within its box; a text of hundreds of letters ends behind a number."""
    page = opened(toy())
    says = "text => dynexplore.data.values.filter(({ node }) => node).forEach((value) => (value.text = text))"
    page.evaluate(says, text)
    page.keyboard.press("End")
    kind = page.locator(".dynx-box .dynx-kind", has_text=text[-5:]).first
    assert kind.inner_text() == text.replace("float", "f") and kind.evaluate("e => e.scrollWidth <= e.clientWidth")
    page.evaluate(says, text * 10)
    page.evaluate("dynexplore.go(0); dynexplore.go(Infinity)")
    shown = page.locator(".dynx-box .dynx-kind", has_text="…").first.inner_text()
    assert shown.endswith(", …") and (text * 10).replace("float", "f", 1).startswith(shown.removesuffix(" …"))


LONG = "\n".join(["def long(x):", *[f"    y{at} = {at}" for at in range(120)], "    x = x.sin()", "    return x + 1", ""])


def test_what_is_built_before_it_stands_in_the_page_scrolls_when_it_does(opened: Opened) -> None:
    """Notebooks build an output first and show it then: the line and the instruction at hand are in view all the same."""
    linecache.cache["long.py"] = (len(LONG), None, LONG.splitlines(keepends=True), "long.py")
    names: dict[str, Any] = {}
    exec(compile(LONG, "long.py", "exec"), names)
    page = opened(explained(names["long"], X))
    page.evaluate(
        "() => { const host = document.createElement('div'); const { data, constructor } = dynexplore; dynexplore.root.remove();"
        " globalThis.dynexplore = new constructor(host, data); document.querySelector('body').prepend(host); }"
    )
    page.evaluate("dynexplore.tabs.openAgain('story')")
    resize(page, 1040, 900)
    page.wait_for_function(f"() => ({SEEN})()[1].length === 0")
    assert "sin" in page.locator(".dynx-source .dynx-line.dynx-now").inner_text()
    row = page.locator(".dynx-original tr.dynx-now")
    inside = "e => { const r = e.getBoundingClientRect(), b = e.closest('.dynx-body').getBoundingClientRect();"
    assert row.evaluate(inside + " return r.top >= b.top && r.bottom <= b.bottom; }")


def test_where_it_is_narrow_source_and_graph_take_turns(opened: Opened) -> None:
    """At 600 pixels steps, strip and views stay in view; a button shows the graph in place of source and state, one leads back."""
    page = opened(explained(MODEL, X))
    resize(page, 600, 700)
    page.evaluate("dynexplore.root.style.setProperty('--dynx-height', '620px')")
    expect(page.locator(".dynexplore")).to_have_attribute("data-width", "narrow")
    in_view = f"(() => {{ const lost = ({SEEN})()[1]; return lost; }})()"
    assert page.evaluate(in_view) == [".dynx-growing .dynx-body"]
    page.get_by_role("button", name="Graph", exact=True).click()
    assert page.evaluate(in_view)[:2] == [".dynx-source .dynx-body", ".dynx-boxes .dynx-body"]
    assert page.locator(".dynx-growing .dynx-newest").is_visible()
    page.get_by_role("button", name="Source", exact=True).click()
    assert page.evaluate(in_view) == [".dynx-growing .dynx-body"]


def test_where_it_is_narrow_every_view_is_seen_and_no_opcode_is_cut(opened: Opened) -> None:
    """The five views have room, and a listing has the whole width, which is enough for its texts."""
    page = opened(explained(trains, X))
    resize(page, 600, 700)
    expect(page.locator(".dynexplore")).to_have_attribute("data-width", "narrow")
    views = page.locator(".dynx-tablist")
    assert page.get_by_role("tab").count() == 5 and views.evaluate("e => e.scrollWidth <= e.clientWidth")
    cut = "cells => cells.filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)"
    for shown, hidden in (("original", "modified"), ("modified", "original")):
        tab(page, shown)
        assert page.locator(f".dynx-{hidden}:visible").count() == 0
        assert page.locator(f".dynx-{shown} td:nth-child(3):visible").count() > 3
        assert page.locator(f".dynx-{shown} td:nth-child(3):visible").evaluate_all(cut) == []
    resize(page, 1400, 700)
    expect(page.locator(".dynexplore")).to_have_attribute("data-width", "wide")
    assert all(page.locator(f".dynx-{key}").is_visible() for key in ("source", "boxes", "growing", "modified"))


def test_inputs_bear_the_names_of_the_program(opened: Opened) -> None:
    """A module's arguments are those of `forward`, and its parameters paths in it: the picture has none."""
    page = opened(explained(MODEL, X))
    page.keyboard.press("End")
    drawn = page.locator(".dynx-growing .dynx-input text:first-of-type").all_text_contents()
    assert drawn == ["x"]
    tab(page, "graph")
    assert "first.weight" in page.locator(".dynx-graph tbody tr").nth(1).inner_text()


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Model(), nn.Sequential(nn.Linear(2, 4), nn.Tanh())])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_module_is_found_by_its_path(opened: Opened) -> None:
    """A search for `layers.1.0`, as PyTorch names it, leads to the operator of that layer, and the call at hand is marked."""
    page = opened(explained(Layers(), X))
    assert page.locator(".dynx-source h3").inner_text().startswith("Layers.forward")
    field = page.get_by_role("searchbox")
    field.fill("layers.1.0")
    field.press("Enter")
    field.press("Enter")
    chosen = page.evaluate("dynexplore.frame.graphs[0].nodes.find(({ key }) => key === dynexplore.chosen).module")
    assert chosen == "layers.1.0"
    page.evaluate(
        "dynexplore.choose(dynexplore.frame.graphs[0].nodes.find("
        "({ module, op }) => module === 'layers.1.0' && op !== 'placeholder').key)"
    )
    tab(page, "frames")
    assert page.locator(".dynx-frames [aria-current=step]").inner_text() == "into Linear.forward"


def many_calls() -> Recording:
    """toy, and then 2,000 calls that find its code compiled."""
    recording = toy()
    for number in range(2, 2002):
        recording.record(ev.CallBegan(frame=0, call=number))
        recording.record(ev.CacheHit(frame=recording.next_frame_id(), entry=1, code=1, function="toy", compiled_by=1))
        recording.record(ev.CallEnded(frame=0, call=number))
    return recording


def test_equal_hits_are_one(opened: Opened) -> None:
    """Two thousand calls that only hit are one dot with a count in the strip, and one row of the table of calls."""
    page = opened(many_calls())
    assert page.locator(".dynx-call-label").all_inner_texts() == ["call 1", "calls 2 to 2001"]
    assert page.locator(".dynx-dot").last.inner_text() == "2000"
    last = " ".join(pane(page, "timeline", " table").first.locator("tbody tr").last.inner_text().split())
    assert last == "4 to 2003 ✓ ✓ Cache hit all guards of version 1 hold in 2000 calls 0 s"


def test_a_program_of_three_hundred_frames_and_ten_thousand_calls(opened: Opened) -> None:
    """Each segment can be read, the line above leads anywhere, hits are one dot, the table has a row for each entry."""
    page = opened(long_program(300, 33))
    assert page.locator(".dynx-dot").all_inner_texts() == ["9900"]
    kept = page.locator(".dynx-segment:not(.dynx-thrown)")
    assert kept.count() == 300
    assert kept.evaluate_all("all => all.every(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)")
    line = page.locator(".dynx-overview")
    box = line.bounding_box()
    assert box is not None and box["width"] <= 1400
    line.click(position={"x": box["width"] * 0.5, "y": 4})
    name = page.evaluate("dynexplore.frame.title")
    assert 100 < int(name.removeprefix("step_")) < 200
    current = page.locator(".dynx-segment[aria-current]")
    expect(current).to_be_in_viewport()  # the strip has scrolled to it
    before = int(status(page).split()[0])
    page.keyboard.press("ArrowRight")
    assert int(status(page).split()[0]) == before + 1
    tab(page, "timeline")
    page.get_by_label("Function", exact=True).last.select_option(index=7)
    assert page.locator(".dynx-called").count() == 2  # compiled, then one row for all of its hits


def test_a_recompile_is_told_in_words(opened: Opened) -> None:
    """What was different stands in a sentence, which leads to the report of the guard."""
    page = opened(explained_calls(doubles, torch.ones(8, 2), torch.ones(9, 2)))
    assert pane(page, "timeline", " .dynx-why").all_inner_texts() == ["first call", "x changed from 8 rows to 9"]
    expect(pane(page, "miss")).to_contain_text("1 version did not fit")


def test_a_recompile_is_told_by_the_entry_that_was_nearest(opened: Opened) -> None:
    """The latest entry takes any number of rows; what it does not take is the other number."""
    rows = [(torch.ones(count, 2), number) for count, number in ((2, 5), (3, 5), (4, 6))]
    page = opened(explained_calls(multiplies, *rows))
    assert pane(page, "timeline", " .dynx-why").all_inner_texts()[2] == "n changed from 5 to 6"


def multiplies(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


def doubles(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def explained_calls(function: Any, *calls: Any) -> Recording:
    with dynexplore.config.patch(log_level="ERROR"):
        recording: Recording = dynexplore.explain(function).calls(*calls).recording
    return recording


def test_the_overview_leads_there(opened: Opened) -> None:
    """The verdict counts in two lines; the row of the break has its place and its remedy, and opens the story at the break."""
    page = opened(toy(), view="overview")
    verdict = page.locator(".dynx-summary .dynx-verdict-line").inner_text()
    assert "1 recompile" in verdict and "1 graph break" in verdict
    row = page.locator(".dynx-cost", has_text="Graph break")
    told = " ".join(row.inner_text().split())
    assert "toy example.py:11" in told and "if on a tensor value" in told and "Use torch.where, or move the if out" in told
    assert (row.locator(".dynx-badge").get_attribute("title") or "").startswith("Graph break: A point where the capture cannot")
    row.get_by_role("button", name="Graph break").click()
    page.get_by_role("button", name="Open the story", exact=True).click()
    assert page.get_by_role("tab", selected=True).inner_text() == "Story" and "graph break: " in status(page)


def test_two_versions_are_compared(opened: Opened) -> None:
    """A function that was compiled again has its two versions side by side; without one the view says why, and what next."""
    page = opened(explained_calls(doubles, torch.ones(8, 2), torch.ones(9, 2)), view="compare")
    shown = pane(page, "compare")
    expect(shown).to_contain_text("Operators: 2 of 2 rows differ")
    tables = shown.locator("table").evaluate_all("all => all.map(({ tHead }) => [...tHead.rows[0].cells].map(c => c.textContent))")
    assert tables[0] == ["function", "A: before", "compile", "B: after", "compile", "change"]
    assert tables[1] == ["", "line", "A: before", "line", "B: after"]
    expect(shown.locator(".dynx-differs-changed").first).to_contain_text("input x  float32[8, 2]")
    page = opened(explained(doubles, X), view="compare")
    told = pane(page, "compare", " .dynx-body").inner_text()
    assert "no two versions to compare" in told and "dynexplore compare SCRIPT.py --engines" in told


def test_the_source_is_annotated(opened: Opened) -> None:
    """Each line has the number of its graph; the one that breaks says why and what to do."""
    page = opened(toy())
    gutters = page.locator(".dynx-source .dynx-gutter")
    assert gutters.all_inner_texts() == ["", "1", "◆", "2", "2"]
    note = page.locator(".dynx-break-note")
    assert note.inner_text() == (
        "The graph breaks: if on a tensor value. Use torch.where, or move the if out of the compiled function."
    )
    assert note.locator("code").all_inner_texts() == ["if", "if"]
    one, broke, two = [gutters.nth(at).evaluate("e => getComputedStyle(e).backgroundColor") for at in (1, 2, 3)]
    assert one == two != broke  # a number tells graphs apart: other colors are those of lines


def printing(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print(end="")
    return y * 2


def test_a_story_that_opens_first_says_what_happened(opened: Opened) -> None:
    """Where the page opens with the story, a line above it has the verdict; where it opens with the overview, that has it."""
    page = opened(dynexplore.explain(printing, torch.ones(2)).recording, view="")
    opens, verdict = page.evaluate("(({ opens, verdict }) => [opens.view, verdict[0]])(dynexplore.data.overview)")
    assert opens == "story"
    expect(page.locator(".dynx-panel-story .dynx-story-verdict")).to_have_text(verdict)
    page = opened(dynexplore.explain(wave, torch.ones(2)).recording, view="story")
    assert page.locator(".dynx-story-verdict").count() == 0


def wave(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return torch.sin(y) + 1


def failing(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    for node in graph.graph.nodes:
        if node.target is torch.sin:
            raise NotImplementedError("no kernel for sin")
    return graph.forward


def test_a_failing_backend_opens_the_story_with_its_error(opened: Opened) -> None:
    """The error stands above the source from the beginning, and the verdict of the overview says the same. The operator at which
    the backend stopped is red, has a sign and is in view, in the story and in the view Graph, where no graph was compiled."""
    with dynexplore.explain(wave, backend=failing) as fn, pytest.raises(BackendCompilerError):
        fn(X)
    page = opened(fn.explanation.recording, view="")
    assert page.get_by_role("tab", selected=True).inner_text() == "Story"
    failure = page.locator(".dynx-failure").inner_text()
    assert failure.startswith("✕ Backend failed at ")
    assert "no kernel for sin" in failure and "Add this operator to failing" in failure
    assert f"at test_story_view.py:{wave.__code__.co_firstlineno + 2}." in failure
    page.keyboard.press("1")
    assert page.locator(".dynx-verdict-line").inner_text().startswith("The backend failed")
    for key, drawing in (("2", "growing"), ("3", "diagram")):
        page.keyboard.press(key)
        operator = page.locator(f".dynx-{drawing} .dynx-failed")
        expect(operator).to_be_in_viewport()
        assert "✕ sin" in (operator.text_content() or "")
        assert operator.locator("rect").evaluate("e => getComputedStyle(e).stroke") == page.locator(".dynx-failure b").evaluate(
            "e => getComputedStyle(e).color"
        )
    expect(page.locator(".dynx-diagram [role=status]")).to_contain_text("The backend failed: 3 operators")


def stops_at_sort(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    for node in graph.graph.nodes:
        if node.target is torch.sort:
            raise NotImplementedError("no kernel for sort")
    return graph.forward


def ordered(x: torch.Tensor) -> torch.Tensor:
    return torch.sort(x * 2, descending=True).indices


def test_the_failing_operator_is_the_one_that_is_marked(opened: Opened) -> None:
    """Also where its step added another operator behind it, such as the one that takes an item of its result."""
    with dynexplore.explain(ordered, backend=stops_at_sort) as fn, pytest.raises(BackendCompilerError):
        fn(X)
    page = opened(fn.explanation.recording, view="")
    newest = page.locator(".dynx-growing .dynx-newest .dynx-first-line")
    assert newest.all_text_contents() == ["✕ sort"]


def looks_up(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    rows = table * 2
    picked = torch.index_select(rows, 0, index)
    return picked.sum(-1) + 1


def test_an_operator_that_raised_when_it_ran_is_red(opened: Opened) -> None:
    """As that of a failing backend is: in the story, which opens there, and in the view Graph. The line of the error names it."""
    with dynexplore.explain(looks_up) as fn, pytest.raises(IndexError):
        fn(torch.ones(4, 8), torch.tensor([0, 9]))
    recording = fn.explanation.recording
    line = next(node.line for node in recording.graphs[0].nodes if node.name == "index_select")
    recording.record(ev.ProgramEnded(frame=0, status=1, error="IndexError: index out of range in self", file=__file__, line=line))
    page = opened(recording, view="")
    assert "index out of range" in page.locator(".dynx-failure").inner_text()
    assert page.locator(".dynx-source .dynx-line.dynx-now").inner_text().startswith(str(line))
    for key, drawing in (("2", "growing"), ("3", "diagram")):
        page.keyboard.press(key)
        operator = page.locator(f".dynx-{drawing} .dynx-failed")
        expect(operator).to_be_in_viewport()
        assert "✕ index_select" in (operator.text_content() or "")
    expect(page.locator(".dynx-diagram [role=status]")).to_contain_text("✕ IndexError: index out of range in self")


def test_what_each_line_gives_stands_at_its_end(opened: Opened) -> None:
    """The dtype and shape of the last operator of a line, and nothing beside a line without one."""
    page = opened(toy())
    lines = page.locator(".dynx-source .dynx-line")
    shapes = [lines.nth(at).locator(".dynx-shape").all_inner_texts() for at in range(5)]
    assert shapes == [[], ["f32[10]"], ["bool[]"], ["f32[10]"], ["f32[10]"]]


def fans_out(x: torch.Tensor) -> torch.Tensor:
    parts = [x + number for number in range(30)]
    for part in parts:
        x = x * part
    return x.sin()


def residual(x: torch.Tensor) -> torch.Tensor:
    h = torch.sin(x)
    h = torch.cos(h)
    return x + h


BEHIND = """() => {
  const svg = document.querySelector('.dynx-growing svg'), home = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll('.dynx-node rect')].map((e) => e.getBoundingClientRect());
  return [...svg.querySelectorAll('.dynx-edge')].flatMap((edge) => {
    const length = edge.getTotalLength(), behind = [];
    for (let at = 2; at < length - 2; at += 1) {
      const point = edge.getPointAtLength(at), [x, y] = [point.x + home.left, point.y + home.top];
      if (boxes.some((b) => x > b.left + 1 && x < b.right - 1 && y > b.top + 1 && y < b.bottom - 1)) behind.push(at);
    }
    return behind;
  });
}"""
"""Where edges run behind boxes."""


@pytest.mark.parametrize("program", [residual, crowded, fans_out, trains])
def test_no_edge_runs_behind_a_box(opened: Opened, program: Any) -> None:
    """Edges run in the gaps between boxes, and each ends with an arrowhead."""
    page = opened(explained(program, X if program is not crowded else torch.randn(16, 8)))
    page.evaluate("dynexplore.show(dynexplore.walk[0], dynexplore.walk[0].states.length - 1)")
    edges = page.locator(".dynx-growing .dynx-edge")
    assert edges.count() > 3 and page.evaluate(BEHIND) == []
    assert all(head.startswith("url(#") for head in edges.evaluate_all("all => all.map((e) => e.getAttribute('marker-end'))"))


def test_codes_of_breaks_stand_in_what_is_copied_only(opened: Opened) -> None:
    """No view says DX104: it names the report, and a person reads the cause."""
    page = opened(toy())
    for key in "12345":
        page.keyboard.press(key)
        assert "DX104" not in page.locator(".dynx-panel:visible").inner_text()
    page.keyboard.press("2")
    for turn in page.locator(".dynx-panel-story .dynx-turn:visible").all():
        turn.click()
        assert "DX104" not in page.locator(".dynx-panel-story").inner_text()


def boxes(page: Page, shelf: int) -> list[str]:
    """The texts of the boxes of the stack (0) or the locals (1)."""
    return [
        " ".join(text.split()) for text in page.locator(".dynx-boxes .dynx-shelf").nth(shelf).locator(".dynx-box").all_inner_texts()
    ]


def test_stack_and_locals_are_boxes(opened: Opened) -> None:
    """What was pushed and popped bears a sign; a click chooses the value; the real value stands below."""
    page = opened(toy())
    page.evaluate("dynexplore.choose('node:1:add')")
    assert boxes(page, 0) == ["a f32[10]", "+add f32[10]", "−abs_1 f32[10]", "−1"]
    assert boxes(page, 1) == ["a f32[10]", "b f32[10]"]
    page.locator(".dynx-box", has_text="add").click()
    expect(page.locator(".dynx-growing .dynx-lit")).to_contain_text("add")
    page = opened(explained(prints, torch.tensor([1.0, -2.0])))
    page.evaluate("dynexplore.show(dynexplore.walk[0], 0)")
    page.evaluate("dynexplore.choose('node:1:add')")
    assert "+add f32[2] [2, -1]" in boxes(page, 0)


def test_a_box_that_tells_the_same_stays(opened: Opened) -> None:
    """A step makes the boxes anew that say something else, and no others; what was lit is so no longer."""
    page = opened(toy())
    page.evaluate("dynexplore.choose('node:1:add')")
    told = boxes(page, 1)
    page.locator(".dynx-shelf").nth(1).locator(".dynx-box").first.click()
    page.evaluate("document.querySelectorAll('.dynx-box').forEach((box) => (box.isKept = true))")
    page.evaluate("dynexplore.step(1)")
    assert boxes(page, 1) == told
    kept = "all => all.map(({ isKept, classList }) => [Boolean(isKept), classList.contains('dynx-chosen')])"
    assert page.locator(".dynx-shelf").nth(1).locator(".dynx-box").evaluate_all(kept) == [[True, False]] * len(told)
    assert [False, False] in page.locator(".dynx-shelf").nth(0).locator(".dynx-box").evaluate_all(kept)


def test_the_graph_grows_and_shrinks(opened: Opened) -> None:
    """What a step has made so far is marked, the rest is pale, and nothing moves; a click chooses a node."""
    page = opened(toy())
    page.evaluate("dynexplore.show(dynexplore.walk[0], 19)")  # the second attempt begins
    expect(page.locator(".dynx-growing .dynx-node")).to_have_count(0)
    sizes, places = [], set()
    where = "all => all.map((e) => e.outerHTML).join()"
    for _ in range(15):
        page.keyboard.press("ArrowRight")
        sizes.append(page.locator(".dynx-growing .dynx-node").count())
        places.add(page.locator(".dynx-growing :is(.dynx-node, .dynx-later) > rect").evaluate_all(where))
    assert sizes == sorted(sizes) and sizes[-1] == 7 and len(places) == 1
    assert page.locator(".dynx-growing h3").inner_text() == "Graph 1: 5 operators; then graph 2"  # whose boxes are not counted
    page.keyboard.press("ArrowLeft")
    assert page.locator(".dynx-growing .dynx-node").count() == 6
    page.evaluate("dynexplore.choose('node:1:abs_1')")
    assert "abs_1" in page.locator(".dynx-growing .dynx-newest").text_content()
    page.locator(".dynx-growing .dynx-node").first.click()
    expect(page.locator(".dynx-growing .dynx-chosen")).to_contain_text("a")
    page.evaluate("dynexplore.show(dynexplore.walk[0], 17)")
    assert page.locator(".dynx-growing h3").inner_text() == "Graph 1: 5 operators; then graph 2"
    page.evaluate("dynexplore.show(dynexplore.walk[1], dynexplore.states(dynexplore.walk[1]).lastInstruction)")
    assert page.locator(".dynx-growing h3").inner_text() == "Graph 2: 2 operators; after graph 1"


def test_both_graphs_of_a_break_are_one_picture(opened: Opened) -> None:
    """The break is a line between them, and edges lead across it; what comes behind it is pale until it is made."""
    page = opened(toy())
    page.evaluate("dynexplore.show(dynexplore.walk[0], 17)")
    assert page.locator(".dynx-growing .dynx-seam text").text_content() == "◆ graph break at line 11, then graph 2"
    first = "e => e.querySelector('rect').getBBox().y"
    seam = page.locator(".dynx-growing .dynx-seam").evaluate(first)
    assert all(y < seam for y in page.locator(".dynx-growing .dynx-node").evaluate_all(f"all => all.map({first})"))
    assert all(y > seam for y in page.locator(".dynx-growing .dynx-later").evaluate_all(f"all => all.map({first})"))
    assert page.locator(".dynx-growing .dynx-later").count() == 2 and page.evaluate(BEHIND) == []


def announces(x: torch.Tensor) -> torch.Tensor:
    for scale in (1.0, 2.0):
        x = x * scale
        print("mean", x.mean().item(), end="", file=io.StringIO())
    return x


EACH_STATE = """() => dynexplore.walk.flatMap((frame) => frame.states.map((_, at) => {
  dynexplore.show(frame, at);
  const shelves = [...document.querySelectorAll('.dynx-boxes .dynx-shelf')];
  const textOf = (title) => title.textContent.replace(/^[+~]/, '');
  const textsOf = (shelf) => [...shelf.querySelectorAll('.dynx-box:not(.dynx-popped) > b')].map(textOf);
  const [stack, locals] = shelves.map((shelf) => textsOf(shelf).filter((title) => title.startsWith('stack slot')));
  const heading = document.querySelector('.dynx-growing h3').textContent;
  return { stack, locals, heading, nodes: document.querySelectorAll('.dynx-growing :is(.dynx-node, .dynx-later)').length };
}))"""


def test_a_part_without_operators_is_between_two_graphs(opened: Opened) -> None:
    """The heading denies no graph that is drawn below it. What a resume function receives for the stack is shown there, once."""
    page = opened(explained(announces, X))
    states = page.evaluate(EACH_STATE)
    headings = {state["heading"] for state in states if state["nodes"]}
    assert any(heading.endswith("no operators in this part") for heading in headings)
    assert not any(heading.startswith("No graph") for heading in headings)
    slots = [state["stack"] for state in states]
    assert any(slots)
    assert [shown for shown in slots if len(set(shown)) < len(shown)] == []
    assert not any(state["locals"] for state in states)


def test_a_line_has_one_color_in_source_graph_and_bytecode(opened: Opened) -> None:
    """What comes from a line has its band and says its number; where the pointer rests on one of them, all are marked."""
    page = opened(toy())
    page.evaluate("dynexplore.show(dynexplore.walk[0], 17)")
    band = page.locator(".dynx-source .dynx-line", has_text="abs(").get_attribute("data-band")
    of_line = page.locator(f"[data-band='{band}']")
    names = "all => [...new Set(all.map((e) => [...e.classList].find((n) => /^dynx-band-/.test(n))))]"
    assert len(of_line.evaluate_all(names)) == 1
    texts = page.locator(f".dynx-growing [data-band='{band}'] .dynx-first-line").all_text_contents()
    assert texts == ["abs", "add", "truediv"]
    assert "BINARY_OP" in " ".join(page.locator(f".dynx-original [data-band='{band}']").all_inner_texts())
    page.locator(f".dynx-growing [data-band='{band}']").first.hover()
    assert page.locator(".dynx-hovered").count() == of_line.count() > 6
    page.locator(".dynx-growing h3").hover()
    expect(page.locator(".dynx-hovered")).to_have_count(0)


@pytest.mark.parametrize("width", [1440, 914])
def test_the_newest_node_of_a_tall_graph_is_in_view(opened: Opened, width: int) -> None:
    """Where many nodes stand below each other, the graph is scrolled to where it grows."""
    page = opened(explained(fans_out, X))
    resize(page, width, 900)
    in_view = """() => {
      const body = document.querySelector('.dynx-growing .dynx-body').getBoundingClientRect();
      const at = document.querySelector('.dynx-growing .dynx-newest').getBoundingClientRect();
      return at.left >= body.left && at.right <= body.right && at.top >= body.top && at.bottom <= body.bottom;
    }"""
    for node in ("add_29", "mul_20", "mul_29", "sin"):
        page.evaluate(f"dynexplore.choose('node:1:{node}')")
        assert page.evaluate(in_view), node
    assert page.locator(".dynx-growing h3").inner_text().endswith("(40 of 62 nodes drawn)")


@pytest.mark.parametrize("width", [1440, 914])
def test_no_row_of_a_tall_graph_is_cut_at_the_upper_edge(opened: Opened, width: int) -> None:
    """A graph that is scrolled to its newest node begins with a whole row, unless that would hide the newest."""
    page = opened(explained(fans_out, X))
    resize(page, width, 900)
    cut = """() => {
      const body = document.querySelector('.dynx-growing .dynx-body');
      const view = body.getBoundingClientRect();
      const all = [...body.querySelectorAll('.dynx-node')].map((e) => e.getBoundingClientRect());
      const newest = document.querySelector('.dynx-growing .dynx-newest').getBoundingClientRect();
      const isIn = newest.top >= view.top && newest.bottom <= view.bottom;
      return [isIn, all.filter(({ top, bottom }) => top < view.top - 1 && bottom > view.top + 5).length];
    }"""
    page.evaluate("dynexplore.root.style.setProperty('--dynx-height', '620px')")
    found = {}
    for number in range(2, 30):
        page.evaluate(f"dynexplore.choose('node:1:add_{number}')")
        found[number] = page.evaluate(cut)
    assert {number: seen for number, seen in found.items() if seen != [True, 0]} == {}


@pytest.mark.parametrize("view", ["overview", "story", "graph", "recompiles", "compare"])
@pytest.mark.parametrize("width", [740, 600])
def test_where_it_is_narrow_nothing_is_cut(opened: Opened, width: int, view: str) -> None:
    """A verdict of more lines takes its room from the list: the lower edge stays inside the 620 pixels."""
    page = opened(explained(trains, X), view=view)
    resize(page, width, 700)
    page.evaluate("dynexplore.root.style.setProperty('--dynx-height', '620px')")
    expect(page.locator(".dynexplore")).to_have_attribute("data-width", "narrow")
    page.evaluate("document.querySelector('.dynx-verdict-line').append(' and more words for one more line'.repeat(2))")
    within = "(({ root }) => [root.scrollHeight - root.clientHeight, root.scrollWidth - root.clientWidth])(dynexplore)"
    assert page.evaluate(within) == [0, 0]


def test_b_visits_all_breaks_across_frames(opened: Opened) -> None:
    """From the first step on, one press leads to each break of the program, in whatever frame, and Shift leads back."""
    page = opened(explained(says_five, X))
    page.evaluate("dynexplore.show(dynexplore.walk[0], 0)")
    lines = []
    for _ in range(5):
        page.keyboard.press("b")
        lines.append(page.locator(".dynx-source .dynx-line.dynx-now .dynx-number").inner_text().strip())
    first = says_five.__code__.co_firstlineno
    assert [int(number) - first for number in lines] == [2, 4, 6, 8, 10]
    before = status(page)
    page.keyboard.press("b")
    assert status(page) == before
    for line in reversed(lines[:-1]):
        page.keyboard.press("Shift+B")
        assert page.locator(".dynx-source .dynx-line.dynx-now .dynx-number").inner_text().strip() == line


def test_views(opened: Opened) -> None:
    """Five views, one on show at a time; the digits open them, every pane is in one of them, and arrows step after a click, too."""
    page = opened(toy())
    names = [" ".join(name.split()) for name in page.get_by_role("tab").all_inner_texts()]
    assert names == ["Overview", "Story", "Graph", "Recompiles 1", "Compare"]
    for at, name in enumerate(names):
        page.keyboard.press(str(at + 1))
        assert " ".join(page.get_by_role("tab", selected=True).inner_text().split()) == name
        assert page.locator(".dynx-panel:visible").count() == 1
    page.get_by_role("tab", name="Story").click()
    page.keyboard.press("Home")
    before = status(page)
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", selected=True).inner_text() == "Story" and status(page) != before


PLACES = """() => {
  const parts = '.dynx-panel:not([hidden]) > *, .dynx-overview-body > *, .dynx-left > *, .dynx-right > *';
  const box = (e) => { const { x, y, width, height } = e.getBoundingClientRect(); return [x, y, width, height]; };
  return [...document.querySelectorAll(parts)].map((e) => [e.className.split(' ')[0], ...box(e)].join(' '));
}"""
"""Where the panes of the view on show stand."""


@pytest.mark.parametrize("size", [(1440, 900), (1040, 620), (700, 620)])
def test_no_pane_moves_on_choosing(opened: Opened, size: tuple[int, int]) -> None:
    """Rows of the overview, filters, steps and searches change what panes show, and the place of none."""
    page = opened(explained(says_five, X), view="overview")
    resize(page, size[0], size[1])
    page.evaluate("height => dynexplore.root.style.setProperty('--dynx-height', `${height}px`)", size[1] - 40)
    page.wait_for_timeout(100)
    if size[0] > 880:  # in one column what is chosen stands below the list
        before = page.evaluate(PLACES)
        for _ in range(3):
            page.keyboard.press("ArrowDown")
            assert page.evaluate(PLACES) == before
        page.locator(".dynx-chip").last.click()
        assert page.evaluate(PLACES) == before
    page.keyboard.press("2")
    page.keyboard.press("Home")
    before = page.evaluate(PLACES)
    for _ in range(20):
        page.keyboard.press("ArrowRight")
        assert page.evaluate(PLACES) == before
    page.get_by_role("searchbox").fill("add")
    assert page.evaluate(PLACES) == before


def test_edges_between_panes_move_and_are_remembered(opened: Opened) -> None:
    """An arrow key moves an edge that has the focus; another explorer has it there, too; a double click puts it back."""
    page = opened(toy())
    width = "document.querySelector('.dynx-source').offsetWidth"
    first = page.evaluate(width)
    edge = page.locator(".dynx-panel-story > .dynx-edge-code")
    edge.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(width) == pytest.approx(first + 48, abs=4)
    page.evaluate(
        "() => { const { data, host, constructor: Explorer } = dynexplore; dynexplore.root.remove();"
        " globalThis.dynexplore = new Explorer(host, data); }"
    )
    page.evaluate("dynexplore.tabs.openAgain('story')")
    assert page.evaluate(width) == pytest.approx(first + 48, abs=4)
    page.locator(".dynx-panel-story > .dynx-edge-code").dblclick()
    assert page.evaluate(width) == pytest.approx(first, abs=2)


def test_a_line_is_one_step(opened: Opened) -> None:
    """Steps go by line unless another unit is chosen, visit no discarded attempt, and the unit is remembered."""
    page = opened(toy(), view="")
    page.evaluate("dynexplore.stepper.stepBy('line'); dynexplore.tabs.openAgain('story'); dynexplore.show(dynexplore.walk[0], 0)")
    seen: list[str] = []
    for _ in range(6):
        page.keyboard.press("ArrowRight")
        seen += [text.strip() for text in page.locator(".dynx-source .dynx-line.dynx-now .dynx-number").all_inner_texts()]
    assert {"10", "11", "12"} <= set(seen) and all(one != other for one, other in itertools.pairwise(seen) if one != "11"), seen
    assert not page.evaluate("dynexplore.state.attempt && dynexplore.state.attempt !== dynexplore.states().lastAttempt")
    page.keyboard.press("i")
    assert page.locator(".dynx-unit[aria-pressed=true]").inner_text() == "Instruction"
    before = int(status(page).split()[0])
    page.keyboard.press("ArrowLeft")
    assert int(status(page).split()[0]) == before - 1


def test_no_text_is_smaller_than_thirteen_pixels(opened: Opened) -> None:
    """In every view every text that is seen is 13 pixels high or more; drawings of graphviz are fitted and left out."""
    page = opened(toy())
    small = """() => [...document.querySelectorAll('.dynexplore *')].filter((e) => e.checkVisibility()
      && !e.closest('.dynx-figure, .dynx-memory svg') && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())
      && parseFloat(getComputedStyle(e).fontSize) < 13).map((e) => e.className + e.textContent)"""
    for key in "12345":
        page.keyboard.press(key)
        assert page.evaluate(small) == [], key


def test_a_pane_follows_when_its_view_is_opened(opened: Opened) -> None:
    """What was hidden while the steps went on shows the step at hand as soon as it is seen."""
    page = opened(toy())
    page.evaluate("dynexplore.choose('node:1:lt')")
    tab(page, "state")
    assert "lt: bool[] cpu" in page.locator(".dynx-state .dynx-new").inner_text()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("3")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("2")
    assert "lt: bool[] cpu" in page.locator(".dynx-state .dynx-new").inner_text()


def test_the_way_back_out_of_a_callee(opened: Opened) -> None:
    """Where a call was traced through, the heading of the source names the callers, each a way back."""
    page = opened(inlined())
    assert page.locator(".dynx-source h3").inner_text().startswith("outer › inner")


def reads_the_configuration_of_the_model(x: torch.Tensor) -> torch.Tensor:
    return collects_what_all_the_layers_gave(x)


def collects_what_all_the_layers_gave(x: torch.Tensor) -> torch.Tensor:
    return embeds_the_words(x)


def embeds_the_words(x: torch.Tensor) -> torch.Tensor:
    return x.relu()


def test_callers_with_long_names_leave_the_source_its_height(opened: Opened) -> None:
    """The nearest has a way back of its own, those around it share one."""
    page = opened(explained(reads_the_configuration_of_the_model, X))
    heading = page.locator(".dynx-source h3")
    assert heading.inner_text().startswith("… › collects_what_all_the_layers_gave › embeds_the_words")
    heading.get_by_role("button", name="back to reads_the_configuration_of_the_model").click()
    assert heading.inner_text().startswith("reads_the_configuration_of_the_model")


@pytest.mark.parametrize("name", ["toy", "loop"])
def test_without_steps_the_graph_grows_by_nodes(opened: Opened, name: str) -> None:
    """A recording of torch.compile tells no steps: one goes from node to node, with the line marked, and no stack is claimed."""
    page = opened(watched(RECORDINGS[name]()))
    resize(page, 1040, 900)
    page.evaluate("dynexplore.root.style.setProperty('--dynx-height', '620px')")
    expect(page.locator(".dynx-boxes .dynx-body").get_by_text("not recorded").first).to_be_visible()
    page.locator(".dynexplore").press("Home")
    grown, lines = set(), set()
    for _ in range(page.evaluate("dynexplore.frame.states.length")):
        height, lost = page.evaluate(SEEN)
        assert height <= 620 and not lost
        grown.add(page.locator(".dynx-growing .dynx-node").count())
        lines.update(page.locator(".dynx-source .dynx-line.dynx-now .dynx-number").all_inner_texts())
        page.locator(".dynexplore").press("ArrowRight")
    assert len(grown) >= 3 and lines


def test_modified_code_as_python(opened: Opened) -> None:
    """The tab "Python" holds the function that runs in the frame's place, each frame its own; a frame without says so."""
    recording = explained(prints, X)
    page = opened(recording)
    text = pane(page, "python", " .dynx-text").inner_text()
    assert text.startswith("# ") and "___out_0, = ___v_0" in text
    page.evaluate("dynexplore.show(dynexplore.data.frames[0], 0)")
    first = pane(page, "python", " pre").inner_text()
    assert first == python_of_frame(recording, recording.frames[0].frame) and "def prints(x):" in first and "('one')" in first
    page.evaluate("dynexplore.show(dynexplore.data.frames[1], 0)")
    expect(pane(page, "python", " pre")).to_contain_text("def __resume_at_")


def test_steps_are_numbered_over_all_frames_as_they_ran(opened: Opened) -> None:
    """From 1 to the last without a gap, in the order of the recording; what a frame's code does in a later call comes later."""
    with dynexplore.config.patch(log_level="ERROR"):
        page = opened(dynexplore.explain(prints).calls(X, X).recording)
    page.evaluate("{ const { frame, from } = dynexplore.order.runs[0]; dynexplore.show(frame, from); }")
    total = page.evaluate("dynexplore.order.total")
    assert total == page.evaluate("dynexplore.walk.reduce((sum, { states }) => sum + states.length, 0)")
    numbers = page.evaluate(
        "count => { const numbers = []; for (let at = 0; at < count; at += 1) {"
        " numbers.push(Number(dynexplore.stepper.status.textContent.split(' ')[0])); dynexplore.step(1); } return numbers; }",
        total,
    )
    assert numbers == list(range(1, total + 1))
    page.evaluate("dynexplore.step(1)")  # behind the last there is none
    assert page.evaluate("Number(dynexplore.stepper.status.textContent.split(' ')[0])") == total
    frames = page.evaluate("dynexplore.order.runs.map(({ frame }) => dynexplore.walk.indexOf(frame))")
    assert frames != sorted(frames), "a frame comes back in the second call"
    strip = "dynexplore.stepper.strip.segments.some((one) => one.frame === frame && one.from <= from && from < one.to)"
    assert page.evaluate(f"dynexplore.order.runs.every(({{ frame, from }}) => {strip})")
