"""The tutorials and the widget in a real JupyterLab: all run to their end, and ask nothing of any other host.

DYNEXPLORE_SCREENSHOTS=FOLDER leaves pictures of every explorer there, to be looked at; no test does.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from browser.axe_core import found_by_axe, set_apart
from browser.lab import NO_DOT, NOTEBOOKS, TOP, Lab, NotebookPage, jupyterlab_is_there, running_lab
from browser.pages import pane, tab
from browser.system_browser import chromium

PICTURES = Path(os.environ["DYNEXPLORE_SCREENSHOTS"]) if os.environ.get("DYNEXPLORE_SCREENSHOTS") else None
TUTORIALS = sorted(NOTEBOOKS.glob("*.ipynb"))
IN_EACH_RUN = ("01", "05", "08")
"""The tutorials that each run of the tests opens in JupyterLab, for a minute each: `make soak` opens all, nbval runs all cells."""

TOY = """
import torch, dynexplore
%load_ext dynexplore
def toy(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b
dynexplore.config.log_level = "ERROR"
explanation = dynexplore.explain(toy, torch.ones(3), -torch.ones(3))
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One server and one browser for all tests of this file."""
    expect.set_options(timeout=20_000)  # the answers are a kernel's, on a machine that may be busy
    with running_lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


def status(explorer: Locator) -> str:
    """What the stepper of an explorer says."""
    return explorer.locator(".dynx-status").inner_text()


def moves(explorer: Locator) -> None:
    """A click on the buttons changes the step, and back."""
    before = status(explorer)
    explorer.get_by_role("button", name="Step forward").click()
    after = status(explorer)
    assert after != before
    explorer.get_by_role("button", name="Step back").click()
    expect(explorer.locator(".dynx-status")).to_have_text(before)


@pytest.fixture(scope="module")
def pictured() -> set[str]:
    """The panes of which there is a picture: one of each is enough, beside those of whole explorers."""
    if PICTURES:
        shutil.rmtree(PICTURES / "panes", ignore_errors=True)
    return set()


def keep_pictures(notebook: NotebookPage, pictures: Path, pictured: set[str]) -> None:
    """The whole notebook and every explorer in the light and in the dark theme, and panes that there was none of yet."""
    folder = pictures / notebook.name.removesuffix(".ipynb")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    notebook.fit()
    for theme in ("light", "dark"):
        notebook.theme(theme)
        notebook.page.locator(".jp-Notebook").screenshot(path=folder / f"notebook-{theme}.png")
        for number, explorer in enumerate(notebook.explorers.all(), start=1):
            explorer.screenshot(path=folder / f"explorer{number}-{theme}.png")
    for section in notebook.explorers.first.locator("section:visible").all():
        words = (section.get_attribute("class") or "").split()
        name = next(word.removeprefix("dynx-") for word in words if word.startswith("dynx-") and word != "dynx-pane")
        if name not in pictured:
            pictured.add(name)
            section.screenshot(path=pictures / "panes" / f"{name}.png")


@pytest.mark.parametrize(
    "tutorial",
    [pytest.param(path, marks=() if path.name[:2] in IN_EACH_RUN else pytest.mark.soak, id=path.name[:2]) for path in TUTORIALS],
)
def test_a_tutorial_runs_to_its_end(lab: Lab, tutorial: Path, pictured: set[str]) -> None:
    """Every cell runs, none fails, nothing is asked of another host, every explorer is there and steps.

    On a red ground stands nothing but the engine's own line on a graph break: what a library writes there looks like a failure.
    Every second one runs with no `dot` on PATH: a missing program must not stop anything.
    """
    with lab.opened(tutorial, kernel=NO_DOT if TUTORIALS.index(tutorial) % 2 else "python3") as notebook:
        notebook.run_all()
        on_red = notebook.page.locator("[data-mime-type='application/vnd.jupyter.stderr']").all_inner_texts()
        assert [text for text in on_red if not text.startswith("graph break DX")] == []
        expect(notebook.explorers.first).to_be_visible()
        for explorer in notebook.explorers.all():
            moves(explorer)
        if PICTURES:
            keep_pictures(notebook, PICTURES, pictured)


STORIES = [
    """import torch, dynexplore
from torch import nn
%load_ext dynexplore
dynexplore.config.log_level = "ERROR"
layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
encoder = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)""",
    """%%dynamo
def toy(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b
toy(torch.ones(3), torch.ones(3))
toy(torch.ones(3), -torch.ones(3))""",
    """%%dynamo
def chatty(x):
    for number in range(5):
        x = x * (number + 1)
        print("round", number)
    return x.relu()
chatty(torch.ones(2, 4))""",
    """%%dynamo
def train_step(x, y):
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()
for epoch in range(2):
    train_step(torch.ones(4, 8), torch.ones(4, 1))""",
    "%%dynamo\nwith torch.no_grad():\n    encoder(torch.ones(2, 5, 16))",
]
"""Cells that show a branch, a loop that prints, a loop that trains, and a model of twelve layers."""

LOST = """async (root, steps = 150) => {
  const screen = document.querySelector('.jp-NotebookPanel').getBoundingClientRect();
  const inside = (e, b) => {
    const r = e.getBoundingClientRect();
    return r.height > 0 && r.top >= b.top - 1 && r.bottom <= b.bottom + 1;
  };
  const parts = ['.dynx-head', '.dynx-stepper', '.dynx-source .dynx-body',
    '.dynx-boxes .dynx-body', '.dynx-growing .dynx-body', '.dynx-strip'];
  const lost = [];
  for (let step = 0; step < steps; step += 1) {
    const home = root.getBoundingClientRect();
    const at = root.querySelector('.dynx-status').textContent;
    if (home.height > 620 || !inside(root, screen)) lost.push(`${at}: not on one screen`);
    for (const part of parts) if (!inside(root.querySelector(part), home)) lost.push(`${at}: ${part}`);
    const line = root.querySelector('.dynx-source .dynx-line.dynx-now .dynx-number');
    if (line && !inside(line, root.querySelector('.dynx-source .dynx-body').getBoundingClientRect())) lost.push(`${at}: its line`);
    root.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
    if (step % 50 === 0) await new Promise((done) => requestAnimationFrame(done));
  }
  return lost;
}"""
"""What is not in view at one of so many steps from where the explorer opened."""


def test_one_screen_beside_the_sidebar(lab: Lab) -> None:
    """At 1440 x 900 with JupyterLab's files beside it, head, line at hand, stack, graph and strip are in view at every step."""
    with lab.opened(STORIES, size=(1440, 900), sidebar=True) as notebook:
        notebook.run_all()
        notebook.command("filebrowser:activate")  # on a busy machine JupyterLab may have restored its layout without the sidebar
        expect(notebook.page.locator(".jp-FileBrowser").first).to_be_visible()
        expect(notebook.explorers).to_have_count(4)
        for explorer in notebook.explorers.all():
            explorer.evaluate("e => e.scrollIntoView({ block: 'end' })")
            notebook.settle()
            assert explorer.evaluate(LOST) == []


def test_the_kernel_sends_what_draws_diagrams(lab: Lab) -> None:
    """The diagram is drawn when it comes into view; the next explorer of the page has no need to ask for graphviz again."""
    with lab.opened([TOY, "explanation", "dynexplore.explain(lambda x: x * 2 + 1, torch.ones(2))"]) as notebook:
        notebook.run_all()
        first, second = notebook.explorers.all()
        for explorer, boxes in ((first, 8), (second, 4)):
            pane(explorer, "diagram").scroll_into_view_if_needed()
            explorer.locator(".dynx-diagram .dynx-body").press("x")  # every node, which graphviz draws
            expect(explorer.locator(".dynx-figure .node")).to_have_count(boxes)
        first.locator(".dynx-figure .node", has_text="operator.lt").click()
        assert status(first).endswith("COMPARE_OP <")


def what_if(explorer: Locator, shape: str, name: str = "a") -> Locator:
    """Another shape for an input, in the what-if pane; where the answer will stand."""
    tab(explorer, "what-if")
    explorer.get_by_label(f"shape of {name}").fill(shape)
    return pane(explorer, "what-if", " .dynx-verdict")


def test_shown_twice_reloaded_restarted(lab: Lab) -> None:
    """Two views of one widget step on their own; after a reload they ask the kernel; without their kernel they step on."""
    show = "from dynexplore.widgets.explorer import Explorer\nshown = Explorer(explanation.recording)\nshown"
    with lab.opened([TOY, show, "shown", "explanation"]) as notebook:
        notebook.run_all()
        expect(notebook.explorers).to_have_count(3)
        first, second, asking = notebook.explorers.all()
        start = status(second)
        first.get_by_role("button", name="Last step").click()
        assert status(first) != status(second) == start
        moves(second)
        expect(what_if(asking, "5")).to_contain_text("Would recompile")

        notebook.command("docmanager:save")
        notebook.open()
        expect(notebook.explorers).to_have_count(3)
        moves(first)
        moves(second)
        expect(what_if(asking, "5")).to_contain_text("Would recompile")

        notebook.restart_kernel()
        for explorer in (first, second, asking):
            moves(explorer)
        expect(what_if(asking, "6")).to_contain_text("The kernel does not respond", timeout=30_000)


def test_a_saved_notebook_is_opened_again(lab: Lab) -> None:
    """Without the kernel that made it, JupyterLab shows headline, picture and source in place of the explorer, and no error; with
    it, the explorer alone.
    """
    with lab.opened([TOY, "explanation"]) as notebook:
        notebook.run_all()
        static = notebook.page.locator(".dynx-saved")
        expect(notebook.explorers).to_have_count(1)
        expect(static).to_be_hidden()
        notebook.command("docmanager:save")
        for session in json.loads(lab.ask("GET", "sessions")):
            lab.ask("DELETE", f"sessions/{session['id']}")
        notebook.open()
        expect(static).to_be_visible()
        expect(static).to_contain_text("toy: 2 graphs, 1 graph break, 0 recompiles.")
        assert static.get_by_role("img").get_attribute("aria-label").startswith("graph 1 (5 operators), graph break, graph 2")
        error = notebook.page.get_by_text("Error displaying widget: model not found")
        expect(error).to_have_count(1)
        expect(error).to_be_hidden()
        notebook.errors.clear()  # the widgets of JupyterLab tell the console as well that there is no model


HANDS = [
    """import torch, dynexplore
from dynexplore.widgets import pictures, size_slider, toggles
explanation = dynexplore.explain(lambda x: x * x).calls()""",
    "size_slider.SizeSlider(explanation, lambda size: (torch.ones(size),), size=4)",
    """toggles.Toggles(lambda doubled: pictures.bars({"bytes": 2 if doubled else 1}, "KiB"), doubled=False)""",
]


def test_a_slider_and_a_switch_are_moved_by_hand(lab: Lab) -> None:
    """Each key on the slider is a call, and says what it came to; a switch draws the picture anew, and shows that it is on."""
    with lab.opened(HANDS) as notebook:
        notebook.run_all()
        slider = notebook.page.locator(".jp-OutputArea-output").get_by_role("slider")
        said = notebook.page.locator(".jp-OutputArea-output p", has_text="size ")
        for key, words in (("ArrowRight", "size 5: recompile"), ("ArrowRight", "size 6: hit"), ("ArrowLeft", "size 5: hit")):
            slider.press(key)
            expect(said).to_have_text(words)
        switch = notebook.page.get_by_role("button", name="doubled")
        for words in ("2 KiB", "1 KiB"):
            switch.click()
            expect(notebook.page.locator("svg.bars")).to_contain_text(words)


BEFORE = "import torch\n%load_ext dynexplore\na = torch.ones(3)"
CELL = """%%dynamo
def f(x, n=3):
    y = x.sin() * n
    print('hi')
    return y + x
r = f(a)
f(torch.ones(4), n=2)"""


def test_a_cell_can_be_asked(lab: Lab) -> None:
    """What if, the editable re-run and the live run in the explorer of a %%dynamo cell, of the cell and of its functions."""
    with lab.opened([BEFORE, CELL, "assert torch.equal(a, torch.ones(3))"]) as notebook:
        notebook.run_all()
        explorer = notebook.explorers.first
        asking, said = pane(explorer, "what-if"), pane(explorer, "what-if", " .dynx-verdict")
        tab(explorer, "frames")
        explorer.get_by_role("button", name="frame 1: ").click()  # it opens at the break, in f
        tab(explorer, "what-if")
        expect(asking).to_contain_text("About the cell: the names that it reads")
        what_if(explorer, "5")
        expect(said).to_contain_text("Would recompile: version 1 requires a is")

        tab(explorer, "frames")
        explorer.get_by_role("button", name="frame 2: f").click()
        tab(explorer, "what-if")
        expect(asking).to_contain_text("About f, as it was called for frame 2.")
        expect(said).to_have_text("Change an input to see what the engine would do.")
        explorer.get_by_label("value of n").fill("7")
        expect(said).to_contain_text("Would hit version")

        tab(explorer, "frames")
        explorer.get_by_role("button", name="frame 1: ").click()
        live = pane(explorer, "live")
        live.get_by_role("button", name="Run the call again").click()
        expect(live).to_contain_text("This runs the cell")
        live.get_by_role("button", name="To the end of the call").click()
        expect(live.locator("[role=status]")).to_contain_text("Finished with the result tensor(")


def typed(notebook: NotebookPage, old: str, new: str) -> None:
    """Find a line of the editor that ends with a text, delete that, and type another one."""
    line = notebook.explorers.first.locator(".cm-line", has_text=old).first
    line.click()
    notebook.page.keyboard.press("End")
    for _ in old:
        notebook.page.keyboard.press("Backspace")
    notebook.page.keyboard.type(new)


def test_a_cell_is_edited_in_its_explorer(lab: Lab) -> None:
    """Ctrl+Enter runs the edited cell, not the notebook's; then typing does so; keys stay there; a running cell comes first."""
    wait = "import time\nfor _ in range(40):\n    time.sleep(0.1)\nb = 2"
    with lab.opened([BEFORE, CELL, "assert torch.equal(a, torch.ones(3)) and r.shape == (3,)", wait, "b"]) as notebook:
        notebook.run_all()
        explorer = notebook.explorers.first
        headline, said = explorer.locator(".dynx-headline"), explorer.locator(".dynx-edit-said")
        explorer.get_by_role("button", name="Edit the source").click()
        expect(explorer.locator(".cm-content")).to_contain_text("def f(x, n=3):")
        typed(notebook, "print('hi')", "pass")
        notebook.page.keyboard.press("Control+Enter")
        expect(explorer.locator(".dynx-change")).to_contain_text("0 breaks")
        expect(said).to_contain_text("Edits re-run automatically.")
        cells_before = notebook.cells()
        typed(notebook, "return y + x", "return y + x.cos()")
        expect(pane(explorer, "graph", " tbody").first).to_contain_text("cos")
        tab(explorer, "source")
        explorer.locator(".cm-content").press("d")
        notebook.page.keyboard.press("d")
        notebook.page.keyboard.press("Shift+Enter")
        expect(said).to_contain_text("The last run that worked is shown.")
        assert notebook.cells() == cells_before

        notebook.page.evaluate("() => { jupyterapp.shell.currentWidget.content.activeCellIndex = 3; }")
        notebook.page.evaluate("() => { jupyterapp.commands.execute('notebook:run-cell'); }")
        for _ in range(4):
            explorer.locator(".cm-content").press("Backspace")
        explorer.get_by_role("button", name="Run the edited source").click()
        expect(said).to_have_text("A cell is running. The edited source runs after it.")
        expect(said).to_contain_text("Ran on copies of the inputs.")
        notebook.settle()
        explorer.get_by_role("button", name="Undo: show the run before the edit").click()
        expect(said).to_have_text("The previous run is shown.")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(lab: Lab, theme: str) -> None:
    """The explorer of a cell inside JupyterLab, in its themes: as shown, with a node chosen and all forms open, on tour."""
    with lab.opened([BEFORE, CELL]) as notebook:
        notebook.run_all()
        notebook.theme(theme)
        explorer = notebook.explorers.first
        assert found_by_axe(notebook.page, inside=ROOT) == []
        tab(explorer, "frames")
        explorer.get_by_role("button", name="frame 2: f").click()
        pane(explorer, "graph", " tbody tr").filter(has_text="sin").first.click()
        what_if(explorer, "5, 5", name="x")
        expect(pane(explorer, "what-if", " .dynx-detail")).to_contain_text("nothing was run")
        tab(explorer, "source")
        explorer.get_by_role("button", name="Edit the source").click()
        explorer.get_by_role("button", name="Run the edited source").click()
        expect(explorer.locator(".dynx-edit-said")).to_contain_text("Ran on copies of the inputs.")
        live = pane(explorer, "live")
        live.get_by_role("button", name="Run the call again").click()
        live.get_by_role("button", name="Run to the next graph break").click()
        expect(live.locator("[role=status]")).to_contain_text("graph break")
        pane(explorer, "diagram").scroll_into_view_if_needed()
        expect(explorer.locator(".dynx-figure .dynx-node").first).to_be_visible()
        explorer.get_by_role("searchbox", name="Search all panes").fill("load")
        notebook.page.keyboard.press("Enter")
        assert found_by_axe(notebook.page, inside=ROOT) == []
        explorer.get_by_role("button", name="What am I looking at?").click()
        notebook.page.keyboard.press("ArrowRight")
        assert found_by_axe(notebook.page, inside=ROOT) == []
        notebook.page.keyboard.press("Escape")
        notebook.fit()
        if PICTURES:
            (PICTURES / "cell").mkdir(parents=True, exist_ok=True)
            explorer.screenshot(path=PICTURES / "cell" / f"explorer-{theme}.png")
        assert found_by_axe(notebook.page, inside=set_apart(notebook.page, ROOT)) == []


ROOT = ".jp-OutputArea-output .dynexplore"


@pytest.mark.soak
def test_axe_would_find_something_in_jupyterlab(lab: Lab) -> None:
    """A button without a name and text that cannot be read are found inside the explorer; nowhere else is looked."""
    with lab.opened([BEFORE, CELL]) as notebook:
        notebook.run_all()
        notebook.theme("light")
        notebook.page.evaluate("document.querySelector('.jp-Toolbar').append(document.createElement('button'))")
        assert found_by_axe(notebook.page, inside=ROOT) == []
        explorer = notebook.explorers.first
        explorer.evaluate("e => e.append(document.createElement('button'))")
        explorer.evaluate("e => e.style.setProperty('--dynx-soft', '#eeeeee')")
        assert {line.split(":")[0] for line in found_by_axe(notebook.page, inside=ROOT)} == {"button-name"}
        notebook.fit()
        found = found_by_axe(notebook.page, inside=set_apart(notebook.page, ROOT))
        assert {line.split(":")[0] for line in found} == {"button-name", "color-contrast"}


def test_keys_do_not_reach_the_notebook(lab: Lab) -> None:
    """With the focus in the explorer `j` does not go to the next cell and `d d` deletes none; Shift+Enter runs the cell."""
    no_dot = "import shutil\nassert shutil.which('dot') is None"
    with lab.opened([TOY, "explanation", no_dot, "ran = 1"], kernel=NO_DOT) as notebook:
        notebook.run_all()
        notebook.page.evaluate("() => { jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
        for focused in (
            notebook.explorers.get_by_role("button", name="Step forward"),
            notebook.explorers.get_by_role("slider"),
            notebook.explorers.locator(".dynx-source .dynx-body").first,
            notebook.explorers.get_by_role("searchbox"),
        ):
            focused.focus()
            before = notebook.cells()
            for key in ("j", "d", "d", "k", "a", "Escape", "x", "ArrowDown", "ArrowRight"):
                notebook.page.keyboard.press(key)
            notebook.settle()
            assert notebook.cells() == before
        notebook.explorers.get_by_role("button", name="Step forward").focus()
        notebook.page.keyboard.press("Shift+Enter")
        notebook.settle()
        assert notebook.cells() == (4, 2)


def test_what_is_missing_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Chromium or JupyterLab these tests fail, and say what to install."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.fail.Exception, match="^no Chromium found, .*apt-get install chromium$"):
        chromium()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(pytest.fail.Exception, match="^JupyterLab is not installed, .*pip install -e"):
        jupyterlab_is_there()


def test_the_benchmark_says_which_cell_failed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """`bench explorer --jupyterlab` ends with one sentence where a cell raises, or shows something that is no explorer."""
    monkeypatch.syspath_prepend(str(TOP / "benchmarks"))
    bench = importlib.import_module("explorer")
    monkeypatch.setattr(bench, "PATIENCE", 200)
    with lab.opened(["x = 1", "x", "1 / 0"]) as notebook:
        assert bench.run_cell(notebook, 0) > 0
        with pytest.raises(SystemExit, match=r"^Cell 2 of the measured notebook showed no explorer, but: .*1"):
            bench.run_cell(notebook, 1)
        with pytest.raises(SystemExit, match=r"^Cell 3 of the measured notebook failed: ZeroDivisionError: division by zero$"):
            bench.run_cell(notebook, 2)
