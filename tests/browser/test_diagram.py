"""The diagram of the explorer in a real Chromium: drawn there or at export, part of the links, groups open and close."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Page, expect

import dynexplore
from browser.large import compiled, large, node
from browser.pages import Opened, pane, resize, status, tab
from browser.pages import node as click_row
from dynexplore.views import dot
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.groups import PAGE, grouped, start_closed
from dynexplore.widgets import assets
from sample_recordings import SAMPLES, inlined, toy, watched
from source_tree import ROOT

SCRIPTS = ROOT / "dynexplore/widgets/static/explorer"


def boxes(page: Page) -> list[str]:
    """The first lines of the boxes of the diagram."""
    pane(page, "diagram").scroll_into_view_if_needed()
    page.locator(".dynx-figure svg").first.wait_for()
    return page.locator(".dynx-figure .node").evaluate_all("all => all.map(g => g.querySelector('text').textContent)")


def box(page: Page, name: str) -> Any:
    """One box."""
    return page.locator(f'.dynx-figure .node[data-id="node-{name}"]')


def test_the_view_has_room_for_the_diagram(opened: Opened) -> None:
    """It opens with several boxes around the node at hand, and has most of the page; the story is one key away."""
    for recording, least in ((toy(), 4), (large(nodes=60), 2)):  # letters of 13 pixels come first
        page = opened(recording, graphviz=True)
        resize(page, 1040, 700)
        page.evaluate("dynexplore.root.style.setProperty('--dynx-height', '620px')")
        page.evaluate("dynexplore.choose(dynexplore.frame.graphs[0].nodes[1].key)")
        names = boxes(page)
        view = page.locator(".dynx-diagram .dynx-body").bounding_box()
        assert view is not None and view["height"] >= 400
        seen = page.evaluate("""() => {
          const view = document.querySelector('.dynx-diagram .dynx-body').getBoundingClientRect();
          return [...document.querySelectorAll('.dynx-figure .node')].filter((node) => {
            const { left, right, top, bottom } = node.getBoundingClientRect();
            return left >= view.left && right <= view.right && top >= view.top && bottom <= view.bottom;
          }).map((node) => node.querySelector('text').textContent); }""")
        chosen = page.locator(".dynx-figure .dynx-chosen text").first.text_content()
        assert chosen in seen and least <= len(seen) <= len(names)
        assert page.evaluate("dynexplore.root.scrollHeight <= 620 && dynexplore.root.clientHeight <= 620")
        page.keyboard.press("2")
        for part in (".dynx-source .dynx-line", ".dynx-boxes .dynx-shelf", ".dynx-strip", ".dynx-growing"):
            assert page.locator(part).first.is_visible()


def test_a_search_stays_in_the_diagram(opened: Opened) -> None:
    """The node that is found is marked there; the table does not take its place."""
    page = opened(large(nodes=60), graphviz=True)
    boxes(page)
    page.get_by_role("searchbox").fill("n42")
    page.keyboard.press("Enter")
    expect(page.locator(".dynx-figure .dynx-chosen")).to_contain_text("n42")
    assert page.locator(".dynx-diagram .dynx-body").is_visible()


HOSTILE = (
    ("node", "graph"), ("node", "a:b"), ("<b>", "<a> -> b <c>"), ("1.5", "-1.5"), ("a\"b", 'end\\'), ("a:n", "x\ny"), ("", "1a"),
)  # fmt: skip
"""Modules and names that mean something in DOT."""

RECORDINGS = {
    **SAMPLES,
    "hostile": lambda: large(named=HOSTILE),
    "flat": lambda: large(nodes=130),
    "modules": lambda: large(nodes=3, modules=40),
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_browser_writes_the_same_dot(browser: Browser, name: str) -> None:
    """For every graph, with all groups open, as they are at first, and all closed: the text is that of views/dot.py."""
    recording = RECORDINGS[name]()
    entry = (
        'import { dotOf } from "./dot.js";\nimport { pathsIn } from "./groups.js";\n'
        "globalThis.all = ({ name, nodes, group, startClosed }) => [[], startClosed, pathsIn(group)].map(\n"
        "  closed => dotOf(name, group, nodes, new Set(closed)));\n"
    )
    page = browser.new_page()
    page.add_script_tag(
        type="module",
        content=assets.joined(lambda path: entry if path == "test.js" else (SCRIPTS / path).read_text(encoding="utf-8"), "test.js"),
    )
    page.wait_for_function("Boolean(globalThis.all)")
    plain = [graph for frame in explorer_data(recording)["frames"] for graph in frame["graphs"]]
    for graph, data in zip(recording.graphs, plain, strict=True):
        root = grouped(graph.nodes)
        every = {group.path for group in all_inside(root)}
        wanted = [dot.dot(graph.nodes, name=graph.name, closed=c, piece_of=graph.piece_of) for c in ((), start_closed(root), every)]
        assert page.evaluate("graph => all(graph)", json.loads(json.dumps(data))) == wanted
    page.close()


def all_inside(root: Any) -> list[Any]:
    """All groups below one."""
    return [group for inner in root.inner for group in (inner, *all_inside(inner))]


@pytest.mark.parametrize("graphviz", [True, False])
def test_boxes_are_part_of_the_links(opened: Opened, graphviz: bool) -> None:
    """A box that is clicked leads to its step and lights up its rows; a row that is clicked lights up its box."""
    page = opened(toy(), graphviz=graphviz)
    assert sorted(boxes(page)) == sorted(["a", "abs_1", "add", "truediv", "b", "sum_1", "lt", "output"])
    box(page, "lt").click()
    assert page.locator(".dynx-status").inner_text().endswith("COMPARE_OP <")
    expect(pane(page, "graph", " .dynx-chosen")).to_contain_text("operator.lt")
    click_row(page, "truediv")
    tab(page, "diagram")
    assert "dynx-chosen" in str(box(page, "truediv").get_attribute("class"))
    assert "dynx-chosen" not in str(box(page, "lt").get_attribute("class"))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    assert "dynx-lit" in str(box(page, "truediv").get_attribute("class")), "the node of the step on show is marked"


def test_groups_open_and_close(opened: Opened) -> None:
    """A closed group is one box that opens by click or Enter, and closes again by its heading; all at once, too."""
    page = opened(inlined(), graphviz=True)
    assert boxes(page) == ["x", "relu", "output"]
    page.get_by_role("button", name="close layers.0").click()
    expect(page.locator(".dynx-figure .closed")).to_have_count(1)
    assert boxes(page) == ["x", "+ 0", "output"]
    page.locator(".dynx-figure .closed").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".dynx-figure .closed")).to_have_count(0)
    page.get_by_role("button", name="Close all groups").click()
    expect(page.locator(".dynx-figure .closed")).to_have_count(1)
    click_row(page, "relu")
    tab(page, "diagram")
    assert "dynx-chosen" in str(page.locator(".dynx-figure .closed").get_attribute("class")), "the box that holds it is marked"
    page.get_by_role("button", name="Open all groups").click()
    expect(page.locator(".dynx-figure .closed")).to_have_count(0)


def test_a_large_graph_starts_closed(opened: Opened) -> None:
    """Of 800 nodes a page full of boxes is drawn, by blocks where there are no modules; a block opens."""
    page = opened(large(nodes=800), graphviz=True)
    assert len(boxes(page)) == 40 + 19 <= PAGE
    expect(page.locator(".dynx-bar .dynx-facts")).to_contain_text("800 nodes in 59 boxes")
    page.get_by_role("button", name="open n40 ... n79: 40 nodes").click()
    expect(page.locator(".dynx-figure .node")).to_have_count(2 * 40 + 18)


def test_a_page_without_graphviz_says_that_groups_stay_closed(opened: Opened) -> None:
    """The drawing in the file has closed boxes that light up, but nothing that could be opened."""
    page = opened(large(nodes=200))
    assert len(boxes(page)) == 40 + 4
    expect(page.locator(".dynx-bar .dynx-facts")).to_contain_text("exported without graphviz")
    assert page.locator("[aria-expanded]").count() == 0
    page.evaluate("dynexplore.choose('node:1:n50')")
    assert "40 nodes" in page.locator(".dynx-figure .dynx-chosen").text_content()


def test_without_the_dot_program(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is made where no `dot` is shows the plain drawing, and its boxes can be chosen."""
    monkeypatch.setenv("PATH", "")
    page = opened(toy())
    assert len(boxes(page)) == 8
    box(page, "lt").click()
    assert page.locator(".dynx-status").inner_text().endswith("COMPARE_OP <")


def test_search_marks_boxes(opened: Opened) -> None:
    """Boxes that hold the text are marked, also closed ones that hold a node which does; the table has counted them."""
    page = opened(large(nodes=200), graphviz=True)
    boxes(page)
    page.get_by_role("searchbox").fill("n17")
    found = page.locator(".dynx-figure .dynx-found")
    expect(found).to_have_count(2)  # n17, and the closed block of n170 to n179
    page.get_by_role("searchbox").fill("")
    expect(found).to_have_count(0)


def test_size_and_place(opened: Opened) -> None:
    """Buttons and keys change the size; the box of a step is scrolled into view; dragging moves."""
    page = opened(large(nodes=60), graphviz=True)
    boxes(page)
    svg = page.locator(".dynx-figure svg")
    width = svg.evaluate("e => e.getBoundingClientRect().width")
    page.get_by_role("button", name="Larger (+)").click()
    page.keyboard.press("+")
    assert svg.evaluate("e => e.getBoundingClientRect().width") == pytest.approx(width * 1.25**2, rel=0.01)
    page.evaluate("dynexplore.choose('node:1:n59')")
    body = pane(page, "diagram", " .dynx-body")
    inside = "(e) => { const r = e.getBoundingClientRect(), b = e.closest('.dynx-body').getBoundingClientRect();"
    assert box(page, "n59").evaluate(inside + "return r.left >= b.left && r.right <= b.right; }")
    before = body.evaluate("e => e.scrollLeft")
    area = body.bounding_box()
    assert area is not None
    page.mouse.move(area["x"] + 8, area["y"] + area["height"] - 24)
    page.mouse.down()
    page.mouse.move(area["x"] + 108, area["y"] + area["height"] - 24)
    page.mouse.up()
    assert body.evaluate("e => e.scrollLeft") == before - 100
    page.keyboard.press("0")
    assert svg.evaluate("e => e.getBoundingClientRect().height") <= area["height"]


@pytest.mark.parametrize("graphviz", [True, False])
def test_edges_bear_shapes(opened: Opened, graphviz: bool) -> None:
    """What flows from box to box is written on the edges, drawn here or at export; a box says it to who listens."""
    page = opened(toy(), graphviz=graphviz)
    boxes(page)
    told = page.locator(".dynx-figure").first.locator(".edge text, .flow").all_text_contents()
    assert sorted(told) == ["bool[]", *["f32[10]"] * 6, "f32[]"]
    assert "float32[10]" in (box(page, "add").get_attribute("aria-label") or "")
    assert "f32" not in (box(page, "add").text_content() or "")


def map_of(page: Page) -> Any:
    """The map of the diagram."""
    return page.get_by_role("group", name="Map of the diagram")


VIEW = "e => ['x', 'y', 'width', 'height'].map(name => Number(e.querySelector('.dynx-map-view').getAttribute(name)))"
SCROLLED = "e => [e.scrollLeft, e.scrollTop, e.clientWidth, e.clientHeight]"


def test_a_large_diagram_has_a_map(opened: Opened) -> None:
    """It shows every box and what is in view; pointer, keys and wheel move and zoom by it; the chosen node is marked there."""
    page = opened(large(nodes=60), graphviz=True)
    boxes(page)
    drawn, body = map_of(page), pane(page, "diagram", " .dynx-body")
    assert drawn.locator("rect").count() == 61
    assert drawn.evaluate(VIEW) == body.evaluate(SCROLLED)
    area = drawn.bounding_box()
    assert area is not None
    page.mouse.click(area["x"] + area["width"] - 2, area["y"] + area["height"] / 2)
    end = body.evaluate("e => e.scrollWidth - e.clientWidth")
    expect(drawn.locator(".dynx-map-view")).not_to_have_attribute("x", "0")
    assert body.evaluate("e => e.scrollLeft") == pytest.approx(end, abs=2)
    before = status(page)
    drawn.focus()
    page.keyboard.press("Home")
    assert body.evaluate("e => e.scrollLeft") == 0
    page.keyboard.press("ArrowRight")
    assert body.evaluate("e => e.scrollLeft") == pytest.approx(body.evaluate("e => e.clientWidth") / 3, abs=1)
    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowDown")
    expect(drawn.locator(".dynx-map-view")).to_have_attribute("x", str(body.evaluate("e => e.scrollLeft")))
    assert status(page) == before, "its arrows do not step"
    width = page.locator(".dynx-figure svg").evaluate("e => e.getBoundingClientRect().width")
    page.keyboard.press("+")
    drawn.hover()
    page.mouse.wheel(0, -10)
    page.wait_for_function("width => document.querySelector('.dynx-figure svg').clientWidth > width * 1.5", arg=width)
    page.evaluate("dynexplore.choose('node:1:n59')")
    assert drawn.locator(".dynx-map-chosen").count() == 1


APART = """() => {
  const [one, other] = ['.dynx-diagram .dynx-body', '.dynx-map'].map((e) => document.querySelector(e).getBoundingClientRect());
  return one.right <= other.left || one.bottom <= other.top;
}"""


@pytest.mark.parametrize("width", [1440, 1040, 700])
def test_the_map_stands_beside_the_diagram(opened: Opened, width: int) -> None:
    """It lies upon no box, at any width."""
    page = opened(large(nodes=60), graphviz=True)
    resize(page, width, 900)
    boxes(page)
    expect(map_of(page)).to_be_attached()
    assert page.evaluate(APART)


def test_a_small_diagram_has_its_map_folded_away(opened: Opened) -> None:
    """A button shows it all the same, and folds that of a large one away."""
    page = opened(toy(), graphviz=True)
    boxes(page)
    expect(map_of(page)).to_be_hidden()
    page.get_by_role("button", name="Show or hide the map").click()
    expect(map_of(page)).to_be_visible()
    page = opened(large(nodes=60), graphviz=True)
    boxes(page)
    expect(map_of(page)).to_be_visible()
    page.get_by_role("button", name="Show or hide the map").click()
    expect(map_of(page)).to_be_hidden()


@pytest.mark.parametrize("context", [{"color_scheme": "light"}, {"color_scheme": "dark"}, {"forced_colors": "active"}])
def test_every_theme_has_colours_of_its_own(opened: Opened, context: dict[str, str]) -> None:
    """Letters of the diagram are those of the page, whatever colours graphviz would give."""
    page = opened(toy(), graphviz=True, **context)
    boxes(page)
    ink = page.locator(".dynexplore").evaluate("e => getComputedStyle(e).color")
    assert page.locator(".dynx-figure .node text").first.evaluate("e => getComputedStyle(e).fill") == ink


def test_nothing_of_a_drawing_becomes_more_than_shapes(opened: Opened) -> None:
    """Names that look like markup are letters of the diagram."""
    recording = large(nodes=1)
    nasty = '<script>alert(1)</script>"&amp;'
    recording.record(node("z", nasty, graph="g2", args=nasty, module=nasty))
    recording.record(compiled("g2", 1))
    for graphviz in (True, False):
        page = opened(recording, graphviz=graphviz)
        boxes(page)
        assert page.locator(".dynx-figure script, .dynx-figure a, .dynx-figure [onclick]").count() == 0


# -- in a notebook -----------------------------------------------------------------------------------------------------

KERNEL = """
globalThis.asked = [];
class Model {
  constructor() { this.ears = new Set(); }
  on(_, ear) { this.ears.add(ear); }
  off(_, ear) { this.ears.delete(ear); }
  send(body) {
    asked.push(body.about);
    const answer = globalThis.broken ? { answer: body.ask, error: "The kernel is gone." } : { answer: body.ask };
    const bytes = new TextEncoder().encode(document.getElementById("engine").textContent);
    queueMicrotask(() => this.ears.forEach((ear) => ear(answer, [new DataView(bytes.buffer)])));
  }
}
globalThis.show = (data) => mount(document.body.appendChild(document.createElement("div")), data, new Live(new Model()));
"""


@pytest.fixture
def notebook(browser: Browser) -> Page:
    """A page with a kernel that sends graphviz when it is asked, or that is gone (`broken`)."""
    page = browser.new_page()
    page.add_script_tag(type="text/plain", content=assets.graphviz())
    page.evaluate("document.querySelector('script[type=\"text/plain\"]').id = 'engine'")
    page.add_script_tag(type="module", content=assets.SCRIPT + KERNEL)
    page.wait_for_function("Boolean(globalThis.show)")
    return page


def test_the_kernel_is_asked_once_for_all_explorers(notebook: Page) -> None:
    """Two explorers on one page share the graphviz that the first asked for, and ask only when a diagram is in view."""
    data = json.loads(json.dumps(explorer_data(toy())))
    notebook.evaluate("data => show(data)", data)
    assert "graphviz" not in notebook.evaluate("asked")
    pane(notebook, "diagram").first.scroll_into_view_if_needed()
    notebook.locator(".dynx-diagram .dynx-body").first.press("x")  # every node, which graphviz draws
    expect(notebook.locator(".dynx-figure svg")).to_have_count(1)
    notebook.evaluate("data => show(data)", data)
    tab(notebook.locator(".dynexplore").nth(1), "diagram")
    notebook.locator(".dynx-diagram").nth(1).scroll_into_view_if_needed()
    expect(notebook.locator(".dynx-figure svg")).to_have_count(2)
    assert notebook.evaluate("asked").count("graphviz") == 1


def test_a_kernel_that_is_gone(notebook: Page) -> None:
    """The pane says in a sentence why there is no diagram, and draws it when it is asked again later."""
    notebook.evaluate("data => { globalThis.broken = true; show(data); }", json.loads(json.dumps(explorer_data(toy()))))
    shown = pane(notebook, "diagram")
    shown.scroll_into_view_if_needed()
    shown.locator(".dynx-body").press("x")  # every node, which graphviz draws
    expect(shown.locator(".dynx-body")).to_contain_text("The kernel is gone.")
    notebook.evaluate("globalThis.broken = false")
    shown.get_by_role("button", name="Try again").click()
    expect(notebook.locator(".dynx-figure svg")).to_have_count(1)


class Layer(torch.nn.Module):
    """One of several that are equal: four operators, two of them views that follow each other."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x).reshape(2, 2, 2).reshape(2, 4).relu()


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.sum()


@pytest.mark.parametrize("graphviz", [True, False])
def test_equal_layers_are_one_and_views_a_pill(opened: Opened, graphviz: bool) -> None:
    """It opens folded, with and without graphviz: no parameter, no edge behind a box; x shows every node, and folds again."""
    page = opened(dynexplore.explain(Layers())(torch.randn(2, 4)).recording, graphviz=graphviz, view="")
    page.keyboard.press("3")
    figure = page.locator(".dynx-figure")
    expect(figure.locator(".dynx-repeated text")).to_have_text("× 12   layers[0] to layers[11]")
    assert figure.locator(".dynx-first-line").all_text_contents() == ["x", "linear", "2 views", "relu", "add", "sum", "output"]
    expect(page.locator(".dynx-diagram .dynx-bar [role=status]")).to_have_text("61 operators, folded to 5")
    assert page.evaluate(BEHIND) == []
    page.evaluate("dynexplore.choose(dynexplore.frame.graphs[0].nodes.find(({ name }) => name === 'relu_7').key)")
    assert figure.locator(".dynx-chosen .dynx-first-line").all_text_contents() == ["relu"]
    page.keyboard.press("x")
    expect(figure.locator(".node").first).to_be_attached()
    assert figure.locator(".dynx-repeated").count() == 0
    page.keyboard.press("x")
    expect(figure.locator(".dynx-repeated")).to_have_count(1)


class Linears(torch.nn.Module):
    def __init__(self, count: int, reads: str) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(count))
        self.reads = reads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        results = [x]
        for layer in self.layers:
            results.append(layer(results[-1] if self.reads == "the last" else x))
        return results[-1] - results[1]


@pytest.mark.parametrize(("count", "reads", "frames"), [(3, "the last", 0), (4, "the last", 1), (12, "the last", 1), (12, "x", 0)])
def test_layers_of_one_operator_fold_where_many_read_each_other(opened: Opened, count: int, reads: str, frames: int) -> None:
    """Three boxes say more than a frame, and layers beside each other are no repetition."""
    page = opened(dynexplore.explain(Linears(count, reads))(torch.randn(2, 4)).recording, view="")
    page.keyboard.press("3")
    figure = page.locator(".dynx-figure")
    expect(figure.locator(".dynx-first-line").first).to_be_visible()
    expected = [f"× {count}   layers[0] to layers[{count - 1}]"] * frames
    assert figure.locator(".dynx-repeated text").all_text_contents() == expected


class Normalized(torch.nn.Module):
    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.convolution_and_normalization = torch.nn.Sequential(
            torch.nn.Conv1d(2, 2, 3, padding=1), torch.nn.BatchNorm1d(2, epsilon), torch.nn.ReLU()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.convolution_and_normalization(x)


class LongNames(torch.nn.Module):
    def __init__(self, epsilons: tuple[float, ...]) -> None:
        super().__init__()
        self.equal_layers_of_the_network = torch.nn.ModuleList(map(Normalized, epsilons))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.equal_layers_of_the_network:
            x = layer(x)
        return x


@pytest.mark.parametrize(("last", "count"), [(1e-5, 3), (1e-3, 2)])
def test_layers_with_long_names_of_parameters_fold(opened: Opened, last: float, count: int) -> None:
    """Arguments that are cut within the names of parameters differ in those names only; a constant behind the cut counts."""
    page = opened(dynexplore.explain(LongNames((1e-5, 1e-5, last)))(torch.randn(2, 2, 5)).recording, view="")
    page.keyboard.press("3")
    frame = page.locator(".dynx-figure .dynx-repeated text")
    expect(frame).to_have_text(f"× {count}   equal_layers_of_the_network[0] to equal_layers_of_the_network[{count - 1}]")


class Convolution(torch.nn.Module):
    def __init__(self, dilation: int, rate: float) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv1d(2, 2, 3, padding=dilation, dilation=dilation)
        self.dropout = torch.nn.Dropout(rate)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.convolution(x))  # type: ignore[no-any-return]


class Convolutions(torch.nn.Module):
    def __init__(self, dilations: tuple[int, ...], rates: tuple[float, ...]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(map(Convolution, dilations, rates))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("dilations", "rates", "frames"),
    [
        ((2, 2, 2, 2), (0.1, 0.1, 0.1, 0.1), ["× 4   layers[0] to layers[3]"]),
        ((1, 2, 4, 8), (0.1, 0.1, 0.1, 0.1), []),
        ((1, 1, 1, 1), (0.1, 0.2, 0.3, 0.4), []),
        ((1, 1, 8, 8), (0.1, 0.1, 0.1, 0.1), ["× 2   layers[0] to layers[1]", "× 2   layers[2] to layers[3]"]),
    ],
)
def test_layers_with_other_constants_are_not_equal(
    opened: Opened, dilations: tuple[int, ...], rates: tuple[float, ...], frames: list[str]
) -> None:
    """Dilation and rate are constants in the graph: only layers that have the same ones are one layer "× 4"."""
    page = opened(dynexplore.explain(Convolutions(dilations, rates))(torch.randn(1, 2, 32)).recording, view="")
    page.keyboard.press("3")
    figure = page.locator(".dynx-figure")
    expect(figure.locator(".dynx-first-line").first).to_be_visible()
    assert sorted(figure.locator(".dynx-repeated text").all_text_contents()) == frames


def test_boxes_are_colored_by_time_or_bytes(opened: Opened) -> None:
    """Each box says its part, the list beside it ranks the operators by what the real run measured; no pane moves."""
    page = opened(dynexplore.explain(Layers())(torch.randn(2, 4)).recording, view="")
    page.keyboard.press("3")
    aside, figure = page.locator(".dynx-aside"), page.locator(".dynx-figure")
    place = page.locator(".dynx-diagram .dynx-body").bounding_box()
    for by, unit in (("time", "s"), ("bytes", "B")):
        page.get_by_role("button", name=f"Color by {by}").click()
        expect(aside.locator("h4").first).to_contain_text(re.compile(rf"{by.capitalize()} by operator.*{unit}"))
        parts = [float(text.removesuffix("%")) for text in aside.locator(".dynx-share-value").all_inner_texts()]
        assert parts == sorted(parts, reverse=True) and sum(parts) == pytest.approx(100, abs=3)
        assert sum("%" in text for text in figure.locator(".dynx-small").all_text_contents()) >= 3
        colors = figure.locator(".dynx-heat.dynx-operator rect").evaluate_all("all => all.map((e) => getComputedStyle(e).fill)")
        assert len(set(colors)) > 1
    assert page.locator(".dynx-diagram .dynx-body").bounding_box() == place
    aside.get_by_role("button").first.click()
    expect(aside).to_contain_text("Chosen: ")
    page.get_by_role("button", name="Color by line").click()
    expect(figure.locator(".dynx-heat")).to_have_count(0)


def test_every_node_says_its_part(opened: Opened) -> None:
    """Where every node is drawn, each that costs something says its part in the box, which graphviz makes as wide as that needs."""
    page = opened(dynexplore.explain(Layers())(torch.randn(2, 4)).recording, graphviz=True, view="")
    page.keyboard.press("3")
    page.get_by_role("button", name="Color by bytes").click()
    page.keyboard.press("x")
    figure = page.locator(".dynx-figure")
    expect(figure.locator(".node.dynx-heat text", has_text="%").first).to_be_attached()
    parts = [text for text in figure.locator(".node text").all_text_contents() if re.fullmatch(r"[\d.]+ %", text)]
    assert len(parts) > 20
    page.get_by_role("button", name="Color by line").click()
    expect(figure.locator(".node text", has_text="%")).to_have_count(0)


def test_without_times_it_says_how_to_get_them(opened: Opened) -> None:
    """A recording of torch.compile has no times of operators: the list beside the diagram names the command that measures them."""
    page = opened(watched(toy()), view="")
    page.keyboard.press("3")
    page.get_by_role("button", name="Color by time").click()
    expect(page.locator(".dynx-aside")).to_contain_text("This recording has no times of operators")
    expect(page.locator(".dynx-aside code")).to_contain_text("dynexplore explain")


def test_a_clean_recording_shows_its_graph_beside_the_verdict(opened: Opened) -> None:
    """Where nothing was lost the overview has the whole graph in place of a list; the view Graph has it, too."""
    page = opened(dynexplore.explain(Layers())(torch.randn(2, 4)).recording, view="")
    expect(page.locator(".dynx-panel-overview .dynx-repeated")).to_be_visible()
    page.keyboard.press("3")
    expect(page.locator(".dynx-panel-graph .dynx-repeated")).to_be_visible()
    page.keyboard.press("1")
    expect(page.locator(".dynx-panel-overview .dynx-repeated")).to_be_visible()
    assert page.locator(".dynx-verdict-line").inner_text().startswith("Layers.forward is one graph of 61 operators.")
    resize(page, 700, 800)
    expect(page.locator(".dynexplore")).to_have_attribute("data-width", "narrow")
    graph, below = (page.locator(name).bounding_box() for name in (".dynx-whole-graph", ".dynx-time-pane"))
    assert graph and below and graph["height"] > 200 and graph["y"] + graph["height"] <= below["y"]


def test_the_overview_has_no_box_of_a_step(opened: Opened) -> None:
    """No frame is bold there before somebody clicks; and no key is offered that has no row to act on."""
    page = opened(dynexplore.explain(Layers())(torch.randn(2, 4)).recording, view="")
    boxes = page.locator(".dynx-whole-graph .dynx-node")
    expect(boxes.first).to_be_visible()
    widths = "all => [...new Set(all.map((box) => getComputedStyle(box.querySelector('rect')).strokeWidth))]"
    assert boxes.evaluate_all(widths) == ["1px"]
    assert " ".join(page.locator(".dynx-hints").inner_text().split()) == "1 to 5 switch views"
    boxes.nth(1).click()
    assert "3px" in boxes.evaluate_all(widths)


def test_numbers_in_boxes_are_lines_of_the_file_in_the_heading(opened: Opened) -> None:
    """The heading names function and file; the boxes of a library's function have no line numbers."""
    page = opened(dynexplore.explain(Layers())(torch.randn(2, 4)).recording, view="")
    title = page.locator(".dynx-diagram > .dynx-title h3")
    first = Layers.forward.__code__.co_firstlineno
    expect(title).to_have_text(f"Layers.forward test_diagram.py:{first}; numbers are lines of test_diagram.py")
    assert page.locator(".dynx-figure .dynx-corner").count() > 0
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    page = opened(dynexplore.explain(model)(torch.randn(2, 4)).recording, view="")
    assert page.evaluate("Object.values(dynexplore.data.codes).some(({ ofLibrary }) => ofLibrary)")
    expect(page.locator(".dynx-diagram > .dynx-title h3")).to_have_text("Sequential.forward")
    expect(page.locator(".dynx-figure .dynx-node").first).to_be_visible()
    assert page.locator(".dynx-figure .dynx-corner").count() == 0
    assert page.locator(".dynx-colors button").all_inner_texts() == ["None", "Time", "Bytes"]  # no line colors them


def many_branches(x: torch.Tensor) -> torch.Tensor:
    some = torch.sin(x) + torch.cos(x).relu() + torch.tan(x).neg() + torch.exp(x).abs() + torch.log(x).sigmoid()
    more = torch.sqrt(x).square() + torch.floor(x).tanh() + torch.ceil(x).erf() + torch.atan(x).round() + torch.sinh(x).frac()
    return some + more


IN_VIEW = """body => [...body.querySelectorAll('.dynx-row')].filter((e) => {
  const [inner, outer] = [e.getBoundingClientRect(), body.getBoundingClientRect()];
  return inner.right > outer.left && inner.left < outer.right && inner.bottom > outer.top && inner.top < outer.bottom;
}).length"""
"""How many boxes of the diagram are in view, in part at least."""


@pytest.mark.parametrize("size", [(1440, 900), (700, 700)])
def test_a_wide_diagram_opens_at_a_size_that_can_be_read(opened: Opened, size: tuple[int, int]) -> None:
    """Letters are 13 pixels high or more, though it does not fit; what one looks at first is in view, and not an empty corner."""
    page = opened(dynexplore.explain(many_branches)(torch.rand(2, 4)).recording, view="")
    resize(page, *size)
    page.keyboard.press("3")
    expect(page.locator(".dynx-figure .dynx-row").first).to_be_visible()
    scale = "svg => svg.getBoundingClientRect().height / svg.viewBox.baseVal.height"
    assert page.locator(".dynx-diagram .dynx-figure svg").evaluate(scale) * 13 >= 12.99
    at_hand = page.locator(".dynx-diagram .dynx-figure").locator(".dynx-now, .dynx-chosen, .dynx-row").first
    assert at_hand.evaluate("e => e.closest('.dynx-body').getBoundingClientRect().right > e.getBoundingClientRect().left")
    assert page.locator(".dynx-diagram .dynx-body").evaluate(IN_VIEW) >= 3


def test_an_operator_of_a_callee_has_the_line_of_the_callee(opened: Opened) -> None:
    """Boxes and ranking name the line that computes, not the one that calls the layers, where both are in the same file."""
    page = opened(dynexplore.explain(Layers())(torch.randn(2, 4)).recording, view="")
    page.keyboard.press("3")
    inner, outer = (one.__code__.co_firstlineno for one in (Layer.forward, Layers.forward))
    page.locator(".dynx-figure .dynx-corner").first.wait_for()  # drawn once it is in view
    numbers = {int(text) for text in page.locator(".dynx-figure .dynx-corner").all_text_contents()}
    called = set(range(inner + 1, inner + len(inspect.getsourcelines(Layer.forward)[0])))
    assert outer + 2 not in numbers and outer + 3 in numbers and numbers - {outer + 3} <= called
    ranked = page.locator(".dynx-share-name").all_inner_texts()
    assert {int(text.split()[1]) for text in ranked} <= numbers
    assert page.locator(".dynx-share-code").all_inner_texts()[0] in inspect.getsource(Layer.forward)


def test_no_edge_runs_through_the_title_of_equal_layers(opened: Opened) -> None:
    """The title stands beside the edges that come into the frame, which is as wide as that needs."""
    page = opened(dynexplore.explain(Layers())(torch.randn(2, 4)).recording, view="")
    expect(page.locator(".dynx-repeated text")).to_be_visible()
    crossed = page.evaluate("""() => {
      const { x, y, width, height } = document.querySelector(".dynx-repeated text").getBBox();
      const inside = (point) => point.x > x && point.x < x + width && point.y > y && point.y < y + height;
      const points = (path) => Array.from({ length: 400 }, (_, at) => path.getPointAtLength((at * path.getTotalLength()) / 399));
      const whole = document.querySelector(".dynx-figure svg").viewBox.baseVal;
      const isCrossed = [...document.querySelectorAll(".dynx-edge")].some((path) => points(path).some(inside));
      return [isCrossed, x + width > whole.x + whole.width]; }""")
    assert crossed == [False, False]


def many_windows(signal: torch.Tensor) -> torch.Tensor:
    windows = [torch.log1p(signal[at : at + 64].abs()) for at in range(0, 15 * 64, 64)]
    return torch.stack(windows).mean(0)


def test_equal_branches_are_one(opened: Opened) -> None:
    """Chains of equal operators that read the same are one that says how many there are; any of its operators lights its box."""
    page = opened(dynexplore.explain(many_windows, torch.ones(1024)).recording, view="")
    figure = page.locator(".dynx-figure")
    expect(page.locator(".dynx-diagram .dynx-bar [role=status]")).to_have_text("47 operators, folded to 5")
    expected = ["signal", "getitem × 15", "abs × 15", "log1p × 15", "stack", "mean", "output"]
    assert figure.locator(".dynx-first-line").all_text_contents() == expected
    assert page.evaluate(BEHIND) == []
    page.evaluate("dynexplore.choose(dynexplore.frame.graphs[0].nodes.filter(({ target }) => target.endsWith('log1p'))[7].key)")
    expect(figure.locator(".dynx-chosen .dynx-first-line")).to_have_text("log1p × 15")


def many_slopes(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.nn.functional.leaky_relu(x, slope / 8) for slope in range(1, 7)])


def test_branches_with_other_constants_are_drawn_one_by_one(opened: Opened) -> None:
    """The slope of each is a constant in the graph."""
    page = opened(dynexplore.explain(many_slopes, torch.ones(4)).recording, view="")
    assert page.locator(".dynx-figure .dynx-first-line").all_text_contents().count("leaky_relu") == 6


def projections(x: torch.Tensor) -> torch.Tensor:
    query, key, value = (x.exp().view(2, 2) for _ in range(3))
    return torch.nn.functional.scaled_dot_product_attention(query, key, value)


def test_query_key_and_value_stay_three(opened: Opened) -> None:
    """A few equal branches are drawn one by one, as the program names them."""
    page = opened(dynexplore.explain(projections, torch.ones(4)).recording, view="")
    assert page.locator(".dynx-figure .dynx-first-line").all_text_contents().count("exp") == 3


def unequal_windows(signal: torch.Tensor) -> torch.Tensor:
    return torch.stack([signal[at : at + 64 + at].sum() for at in range(30)])


def test_a_wide_graph_has_letters_that_can_be_read(opened: Opened) -> None:
    """Where no branches are equal, it says so, and scrolls rather than shrinks."""
    page = opened(dynexplore.explain(unequal_windows, torch.ones(1024)).recording, view="")
    resize(page, 1440, 900)
    expect(page.locator(".dynx-diagram .dynx-bar [role=status]")).to_have_text("61 operators, nothing to fold")
    height = "text => text.getBBox().height * text.getScreenCTM().d"
    assert page.locator(".dynx-figure .dynx-first-line").first.evaluate(height) > 9
    assert page.locator(".dynx-diagram .dynx-body").evaluate("body => body.scrollWidth > body.clientWidth")


def silent(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print("a")
    print("b")
    return (y * 2).sum()


def test_a_part_without_a_graph_shows_the_nearest_one(opened: Opened, capsys: pytest.CaptureFixture[str]) -> None:
    """Between two breaks nothing is captured: Graph draws the graph before, says so, and lists all graphs to choose from."""
    with dynexplore.config.patch(log_level="ERROR"):
        recording = dynexplore.explain(silent)(torch.ones(3)).recording
    capsys.readouterr()
    page = opened(recording, view="")
    page.evaluate("dynexplore.show(dynexplore.walk.find(({ numbers }) => !numbers.length), 0)")
    page.keyboard.press("3")
    figure, chooser = page.locator(".dynx-figure"), page.locator(".dynx-graph-chooser")
    expect(figure.locator(".dynx-first-line")).to_have_text(["x", "add", "output"])  # drawn once it is in view
    expect(page.locator(".dynx-diagram .dynx-bar [role=status]")).to_contain_text("has no graph; this is the graph of silent")
    names = chooser.locator("option").all_inner_texts()
    assert len(names) == 2 and names[0] == "Graph 1: silent, 1 operator" and names[1].startswith("Graph 2: silent, from line")
    chooser.select_option(index=1)
    expect(figure.locator(".dynx-first-line")).to_have_text(["y", "mul", "sum", "output"])
    expect(chooser.locator("option:checked")).to_have_text(names[1])


def test_the_ranking_by_line_has_its_code_and_its_color(opened: Opened) -> None:
    """Each row of "Operators by line" holds the line's source and the color of its band, and all bars begin at one place."""
    page = opened(dynexplore.explain(silent_twin)(torch.ones(3)).recording, view="")
    page.keyboard.press("3")
    rows = page.locator(".dynx-shares .dynx-share")
    assert rows.locator("code").all_inner_texts() == ["return (y * 2).sum()", "y = x + 1"]
    bars = rows.locator(".dynx-share-bar")
    assert len(set(bars.evaluate_all("all => all.map((bar) => getComputedStyle(bar).backgroundColor)"))) == 2
    assert len(set(bars.evaluate_all("all => all.map((bar) => bar.getBoundingClientRect().left)"))) == 1


def silent_twin(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return (y * 2).sum()


def test_where_no_graph_is_there_the_cause_is_said(opened: Opened) -> None:
    """A function of which nothing was captured has no ranking beside an empty page, but the reason and the way to it."""
    page = opened(dynexplore.explain(lambda x: x)(torch.ones(3)).recording, view="")
    page.keyboard.press("3")
    expect(page.locator(".dynx-diagram .dynx-empty")).to_contain_text("No graph was captured")
    expect(page.locator(".dynx-aside")).to_be_hidden()


BEHIND = """() => {
  const svg = document.querySelector('.dynx-figure svg');
  const boxes = [...svg.querySelectorAll('.dynx-node > rect')].map((e) => e.getBBox());
  return [...svg.querySelectorAll('.dynx-edge')].flatMap((edge) => {
    const behind = [];
    for (let at = 2; at < edge.getTotalLength() - 2; at += 1) {
      const { x, y } = edge.getPointAtLength(at);
      if (boxes.some((b) => x > b.x + 1 && x < b.x + b.width - 1 && y > b.y + 1 && y < b.y + b.height - 1)) behind.push(at);
    }
    return behind;
  });
}"""
"""Where edges of the folded diagram run behind boxes."""


LETTERS = """() => Math.min(...[...document.querySelectorAll('.dynx-figure svg')].flatMap((svg) => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return [...svg.querySelectorAll('text')].map((text) => parseFloat(getComputedStyle(text).fontSize) * scale); }))"""
"""The height of the smallest letters of the diagram, in pixels."""


@pytest.mark.parametrize("graphviz", [True, False])
@pytest.mark.parametrize("name", ["toy", "many branches", "modules"])
def test_every_node_opens_at_a_size_that_can_be_read(opened: Opened, name: str, graphviz: bool) -> None:
    """Its letters, those at the edges, too, are 13 pixels high or more, and a box is in view; Fit says that one must zoom."""
    recordings = {**RECORDINGS, "many branches": lambda: dynexplore.explain(many_branches)(torch.rand(2, 4)).recording}
    page = opened(recordings[name](), graphviz=graphviz, view="")
    said = page.locator(".dynx-diagram").get_by_text("Too small to read: zoom in (+)")
    for size in ((1440, 900), (1040, 620)):
        resize(page, *size)
        page.keyboard.press("3")
        expect(page.locator(".dynx-figure .dynx-node").first).to_be_visible()
        page.keyboard.press("x")
        expect(page.locator(".dynx-figure .node").first).to_be_attached()
        assert page.evaluate(LETTERS) >= 12.99
        assert page.locator(".dynx-diagram .dynx-body").evaluate(IN_VIEW) >= 1
        expect(said).to_be_hidden()
        place = page.locator(".dynx-diagram .dynx-body").bounding_box()
        page.keyboard.press("f")
        is_small = page.evaluate(LETTERS) < 12.5
        assert is_small or name != "many branches"
        expect(said).to_be_visible(visible=is_small)
        assert page.locator(".dynx-diagram .dynx-body").bounding_box() == place, "nothing moves"
        while page.evaluate(LETTERS) < 12.5:
            page.keyboard.press("+")
        expect(said).to_be_hidden()
        page.keyboard.press("x")
