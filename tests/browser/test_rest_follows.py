"""The first view of a large recording in a real Chromium, and all of the recording as it takes its place.

The page stands for JupyterLab: it holds the widget's model, whose data changes once.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Page, expect

import dynexplore
from browser.pages import Heard, status, tab
from dynexplore.recording.recording import Recording
from dynexplore.views import first_view
from dynexplore.widgets import assets
from dynexplore.widgets.explorer import Explorer

PAGE = """<!doctype html><meta charset="utf-8"><style>{style}</style><input id="elsewhere"><div id="host"></div>
<script type="module">{script}
const heard = [];
globalThis.show = (data) => {{
  globalThis.first = data;
  const told = {{}};
  globalThis.asked = [];
  const model = {{
    get: (name) => (name === "data" ? data : told[name]),
    on: (what, f) => {{
      if (what === "change:data") heard.push(f);
      if (what === "change:interrupted") globalThis.interrupt = () => f((told.interrupted = true));
    }},
    off() {{}},
    send: (question) => asked.push(question.about),
  }};
  renders.render({{ model, el: document.getElementById("host") }});
  globalThis.mounted = (text) => mount(document.body.appendChild(document.createElement("div")), JSON.parse(text));
  globalThis.states = mount(document.createElement("div"), JSON.parse(data)).frame.states;
  globalThis.arrive = (whole) => {{ data = whole; heard.forEach((f) => f()); }};
}};
</script>"""


class Layer(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return y + 1


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(60))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        if x.sum() > 0:
            x = x - 1
        return x.relu()


@pytest.fixture(scope="module")
def recording() -> Recording:
    made: Recording = dynexplore.explain(Layers())(torch.ones(3)).recording
    return made


def long(x: torch.Tensor) -> torch.Tensor:
    """Of more steps than the first view has before the break."""
    x = x * 2 + 1
    x = x * 3 + 2
    x = x * 4 + 3
    return x * 5 + 4


def many(x: torch.Tensor) -> torch.Tensor:
    for _ in range(20):
        x = long(x)
    if x.sum() > 0:
        x = x - 1
    return x.relu()


@pytest.fixture(scope="module")
def of_functions() -> Recording:
    made: Recording = dynexplore.explain(many)(torch.ones(3)).recording
    return made


@pytest.fixture
def shown(browser: Browser, tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> tuple[Page, str, Heard]:
    """A page with the first view of the recording, and the data of the whole."""
    return page_of(recording, browser, tmp_path, monkeypatch)


@pytest.fixture
def shown_functions(
    browser: Browser, tmp_path: Path, of_functions: Recording, monkeypatch: pytest.MonkeyPatch
) -> tuple[Page, str, Heard]:
    return page_of(of_functions, browser, tmp_path, monkeypatch)


def page_of(recording: Recording, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Page, str, Heard]:
    monkeypatch.setattr(first_view, "LARGE", 100)
    monkeypatch.setattr(first_view, "BEFORE", 20)
    monkeypatch.setattr(first_view, "BEHIND", 6)
    explorer = Explorer(recording, later=True)
    view = explorer.data
    explorer.complete()
    explorer.end()
    path = tmp_path / "page.html"
    script = assets.SCRIPT.replace("export default {", "const renders = {")
    path.write_text(PAGE.format(style=assets.STYLE, script=script), encoding="utf-8")
    page, heard = browser.new_page(viewport={"width": 1040, "height": 900}), Heard()
    heard.listen(page)
    page.goto(path.as_uri())
    page.evaluate("data => show(data)", view)
    page.locator(".dynexplore").press("2")
    page.locator(".dynexplore").press("i")
    return page, explorer.data, heard


def story(page: Page) -> dict[str, object]:
    """What the story says: headline, marked source, boxes, graph, strip, and where one is; not the shapes at line ends, which come
    with the rest."""
    page.evaluate("for (const shape of document.querySelectorAll('.dynx-shape')) shape.remove()")
    texts = {
        name: page.locator(selector).all_inner_texts()
        for name, selector in {
            "headline": ".dynx-headline",
            "source": ".dynx-source .dynx-line",
            "now": ".dynx-source .dynx-line.dynx-now",
            "title": ".dynx-source h3",
            "boxes": ".dynx-boxes .dynx-box",
            "growing": ".dynx-growing h3",
            "drawn": ".dynx-growing .dynx-node",
            "strip": ".dynx-strip",
            "tints": ".dynx-gutter",
        }.items()
    }
    return {**texts, "status": status(page)}


def test_the_story_is_the_same_before_and_after_the_rest_has_come(shown: tuple[Page, str, Heard]) -> None:
    """The break that it opens at, with source, stack, graph and numbers; then the rest is there, and so are the tabs."""
    page, whole, heard = shown
    before = story(page)
    assert "if x.sum() > 0" in str(before["now"]) and "122 operators" in str(before["growing"]) and before["boxes"]
    assert page.evaluate("states.filter((state) => state.isSketch).length") > 500  # most of the steps are not told
    assert page.locator(".dynx-guards").count() == 0
    assert "Loading all" in page.locator(".dynx-views").inner_text()
    page.locator("#elsewhere").focus()
    page.evaluate("whole => arrive(whole)", whole)
    assert page.locator(".dynexplore").count() == 1 and story(page) == before
    assert page.evaluate("document.activeElement.id") == "elsewhere"  # whoever writes a cell goes on writing
    tab(page, "guards")
    expect(page.locator(".dynx-guards tbody tr").first).to_be_visible()
    assert heard.errors == []


def test_a_step_that_is_not_told_yet_is_gone_to_when_it_is(shown: tuple[Page, str, Heard]) -> None:
    """Steps within the first view are made at once; one that leads out of it waits, and says so. Keys stay in the explorer."""
    page, whole, heard = shown
    page.locator("button.dynx-attempts").click()  # it opens at the break of a discarded attempt, whose steps are walked on request
    page.locator(".dynexplore").focus()
    opened = int(status(page).split(" ")[0])
    page.keyboard.press("ArrowLeft")
    assert int(status(page).split(" ")[0]) == opened - 1
    page.keyboard.press("Home")
    assert int(status(page).split(" ")[0]) == opened - 1 and "still loading" in page.locator(".dynx-said").inner_text()
    page.evaluate("whole => arrive(whole)", whole)
    assert status(page).startswith("1 of ")
    page.keyboard.press("ArrowRight")
    assert status(page).startswith("2 of ")
    assert heard.errors == []


BACK = """(text) => {
  const [early, late] = [mounted(first), mounted(text)];
  for (const explorer of [early, late]) explorer.tabs.openAgain("story");
  const ways = (explorer, at) => {
    explorer.go(at);
    const buttons = [...explorer.root.querySelectorAll('.dynx-source h3 [aria-label^="back to "]')];
    return buttons.map((button) => {
      explorer.go(at);
      button.click();
      return [at, button.getAttribute("aria-label"), explorer.wanted?.[1] ?? explorer.position];
    });
  };
  const [from, to] = early.frame.told;
  const told = Array.from({ length: to - from }, (_, at) => from + at);
  return [early, late].map((explorer) => told.flatMap((at) => ways(explorer, at)));
}"""
"""The ways back to callers at each step of the first view, in it and in the whole recording."""


def test_the_way_back_to_a_caller_is_known_before_the_rest_has_come(shown_functions: tuple[Page, str, Heard]) -> None:
    """The function that is explained is the caller: a step that is not told yet is no step of it."""
    page, whole, heard = shown_functions
    early, late = page.evaluate(BACK, whole)
    assert early == late and {label for _, label, _ in early} == {"back to many"} and len(early) > 5
    assert heard.errors == []


def test_a_rest_that_was_interrupted_is_made_when_somebody_wants_it(shown: tuple[Page, str, Heard]) -> None:
    """One line says that it does not follow by itself; its button asks the kernel for it, and so does a step that is not there."""
    page, whole, heard = shown
    page.evaluate("interrupt()")
    panels, button = page.locator(".dynx-views > .dynx-facts"), page.get_by_role("button", name="Load all")
    assert "was interrupted" in panels.inner_text() and "Loading all" not in panels.inner_text()
    button.click()
    assert page.evaluate("asked") == ["rest"] and button.is_disabled()  # one is enough
    page.evaluate("whole => arrive(whole)", whole)
    assert button.count() == 0
    tab(page, "guards")
    expect(page.locator(".dynx-guards tbody tr").first).to_be_visible()
    page.evaluate("data => show(data)", page.evaluate("first"))
    page.evaluate("interrupt()")
    page.locator(".dynexplore").last.press("2")
    page.keyboard.press("Home")
    assert page.evaluate("asked") == ["rest"]
    assert heard.errors == []
