"""What-if, guards, cache timeline, graph breaks and live run in a real Chromium, asked of a real session.

The page is the HTML file with a connection put in; what it asks goes to the widget's own answerers, without a Jupyter between.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Page, expect, sync_playwright

import dynexplore
from browser.pages import Heard, pane, tab, table_rows
from browser.system_browser import FLAGS, chromium
from dynexplore.widgets import document, html
from dynexplore.widgets.explorer import Explorer

CONNECTED = (
    "new Live({ handlers: [], on(_, f) { this.handlers.push(f); }, off() {},"
    " send(m) { globalThis.kernel(m).then((a) => "
    " this.handlers.forEach((f) => f(a, (a.buffers ?? []).map((text) => new TextEncoder().encode(text))))); } })"
)


def program(x: torch.Tensor, n: int = 3, mode: str = "sin") -> torch.Tensor:
    y = x.sin() * n
    if mode == "relu":
        y = y.relu()
    dynexplore.graph_break()
    return y + x


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium, which can reach no host."""
    expect.set_options(timeout=20_000)  # the answers are a kernel's, on a machine that may be busy
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield started
        started.close()


class Kernel:
    """The widget on Python's side; `is_gone`: it says that it cannot answer."""

    def __init__(self, explanation: Any) -> None:
        self.explorer = Explorer(explanation)
        self.told: list[dict[str, Any]] = []
        self.is_gone = False
        self.asked: list[str] = []
        self.explorer.send = self._send  # type: ignore[method-assign]

    def _send(self, content: dict[str, Any], buffers: Any = None) -> None:
        self.told.append({**content, "buffers": [buffer.decode() for buffer in buffers or ()]})

    def __call__(self, message: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(message["about"])
        if self.is_gone:
            return {"answer": message["ask"], "error": "The kernel is gone."}
        self.explorer._on_question(self.explorer, message, [])
        answer: dict[str, Any] = json.loads(json.dumps(self.told.pop()))
        return answer


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """Opens an explanation, with its kernel or without; nothing may go wrong in the page."""
    heard = Heard()
    kernels: list[Kernel] = []

    def open_(explanation: Any, *, connected: bool = True, is_gone: bool = False) -> tuple[Page, Kernel]:
        kernels.append(Kernel(explanation))
        kernels[-1].is_gone = is_gone
        text = html.page(explanation.recording)
        if connected:
            unconnected = ", null, true);\n// in a frame"
            assert text.count(unconnected) == 1
            text = text.replace(document.POLICY, document.POLICY_WITH_GRAPHVIZ)  # a notebook may load more
            text = text.replace(unconnected, f", {CONNECTED}, true);\n// in a frame")
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        heard.listen(page)
        page.expose_function("kernel", kernels[-1])
        page.goto(path.as_uri())
        page.wait_for_function("'dynexplore' in globalThis")  # the data is unpacked
        page.evaluate("dynexplore.tabs.openAgain('story')")
        return page, kernels[-1]

    yield open_
    for context in browser.contexts:
        context.close()
    for kernel in kernels:
        kernel.explorer.end()
    assert heard.errors == []


def cells(page: Page, selector: str) -> list[str]:
    """The rows of a table, each in one line; its tab is opened."""
    tab(page, selector.removeprefix(".dynx-").partition(" ")[0])
    return [" ".join(text.split()) for text in page.locator(selector).all_inner_texts()]


def test_what_if_an_input_were_another_one(opened: Any) -> None:
    """Controls for each input; the answer names the outcome, every failing guard and what would differ; the guards follow."""
    explanation = dynexplore.explain(program, torch.ones(4))
    page, _ = opened(explanation)
    said = pane(page, "what-if", " [role=status]")
    tab(page, "what-if")
    page.get_by_label("shape of x").fill("2, 3")
    page.get_by_label("value of n").fill("4")
    expect(said).to_contain_text("Would recompile: version 1 requires x is float32[4] cpu, found float32[2, 3] cpu")
    expect(pane(page, "what-if", " .dynx-detail")).to_contain_text("nothing was run")  # the new capture was tried, too
    # the answer to the first change is there before the second one's
    expect(pane(page, "what-if", " .dynx-fails li").last).to_contain_text("found 4")
    expect(pane(page, "guards", " tbody tr").nth(2)).to_contain_text("not reached")
    tab(page, "what-if")
    expect(page.locator(".dynx-what-if tbody tr", has_text="float32[2, 3]").first).to_be_visible()
    assert cells(page, ".dynx-what-if .dynx-fails li")[-1] == "version 1: n == 3, found 4 (not reached)"
    assert "~ x = input: float32[4] x = input: float32[2, 3]" in cells(page, ".dynx-what-if tbody tr")
    tab(page, "guards")
    rows = cells(page, ".dynx-guards tbody tr")
    assert rows[0].startswith("0 pass global state") and rows[1].startswith(
        "1 fail local x dtype and shape float32[4] cpu float32[2, 3]"
    )
    asked = page.locator(".dynx-guards tbody tr").nth(1).get_attribute("title") or ""
    assert "used by LOAD_FAST x (offset" in asked and rows[3].startswith("3 not reached local n value 3 4")
    tab(page, "what-if")
    page.get_by_label("dtype of x").select_option("int64")
    page.get_by_label("requires_grad").check()
    expect(said).to_have_text("a tensor of torch.int64 cannot require grad: only floating point and complex ones can")
    page.get_by_label("value of n").fill("launch()")
    expect(said).to_contain_text("n takes a Python value such as 3")
    page.get_by_role("button", name="Reset").click()
    page.get_by_label("value of mode").fill("'sin' ")
    expect(said).to_contain_text("Would hit version")
    assert explanation.session.call_count == 1 and len(explanation.session.entries) == 2


def test_a_miss_in_the_timeline(opened: Any) -> None:
    """Calls against entries; a miss can be chosen and shows guard, graphs and guard sets side by side."""
    explanation = dynexplore.explain(program).calls(torch.ones(4), torch.ones(4), torch.ones(5), (torch.ones(6), 4))
    page, _ = opened(explanation, connected=False)
    page.evaluate("dynexplore.show(dynexplore.walk[0], 0)")
    tab(page, "timeline")
    rows = cells(page, ".dynx-timeline .dynx-calls tbody tr")
    assert rows[0].startswith("1 + · · ● First compile first call")
    assert rows[1].startswith("2 ✓ · · ✓ Cache hit all guards of version 1 hold")
    assert rows[2].startswith("3 ✕ + · ↻ Recompile x changed from 4 elements to 5")
    expect(page.locator(".dynx-timeline .dynx-verdict-line")).to_contain_text("program: 4 calls, 1 cache hit, 2 recompiles")
    shown = pane(page, "miss")
    expect(shown.locator("h3")).to_have_text("Call 3 of program")  # the first miss is chosen
    assert cells(page, ".dynx-miss tbody tr") == ["1 x is float32[4] cpu float32[5] cpu no other fails"]
    assert "~ x = input: float32[4] x = input: float32[s" in " | ".join(cells(page, ".dynx-timeline .dynx-differs tbody tr"))
    page.keyboard.press("m")
    expect(shown.locator("h3")).to_have_text("Call 4 of program")
    assert [row[0] for row in cells(page, ".dynx-miss tbody tr")] == ["2", "1"]
    page.keyboard.press("ArrowUp")
    expect(shown.locator("h3")).to_have_text("Call 3 of program")
    page.get_by_role("button", name="Only misses").click()
    assert [row[0] for row in cells(page, ".dynx-timeline .dynx-called:not([hidden])")] == ["3", "4"]
    page.evaluate("dynexplore.show(dynexplore.walk[0], 0)")
    tab(page, "guards")
    select = page.get_by_label("verdicts on")
    select.select_option(label="call 3: program (recompile)")
    assert cells(page, ".dynx-guards .dynx-said-fail")[0].startswith("1 fail local x dtype and shape")


def test_a_break_is_inspected(opened: Any) -> None:
    """Reason, place, stack and values at the break, and what the resume function receives."""
    page, _ = opened(dynexplore.explain(program, torch.ones(4)))
    shown = pane(page, "breaks")
    expect(shown.locator("dl")).to_contain_text("how to fix")
    expect(shown.locator(".dynx-place").first).to_contain_text("dynexplore.graph_break()\n    ^^^")
    assert "y TensorVariable mul: float32[4] cpu" in cells(page, ".dynx-breaks tbody tr")
    received = cells(page, ".dynx-breaks table[aria-label^='Arguments of'] tbody tr")
    assert "y float32[4] cpu" in received and "n None" in received
    assert any(row.endswith("unchanged") for row in cells(page, ".dynx-breaks table[aria-label*='beside'] tbody tr"))

def edited(page: Page, old: str, new: str) -> None:
    """Choose a text in the editor, and type another one over it."""
    tab(page, "source")
    page.locator(".cm-content").wait_for()
    page.evaluate(
        "([old]) => { const view = globalThis.dynexplore.editing.editor.view;"
        " const from = view.state.doc.toString().indexOf(old); view.focus();"
        " view.dispatch({ selection: { anchor: from, head: from + old.length } }); }",
        [old],
    )
    page.keyboard.insert_text(new)


def test_the_source_is_edited_run_and_undone(opened: Any) -> None:
    """Ctrl+Enter explains the edited source, and every pane follows; typing does so by itself then; undo goes back."""
    page, kernel = opened(dynexplore.explain(program, torch.ones(4)))
    headline, said = page.locator(".dynx-headline"), page.locator(".dynx-edit-said")
    page.get_by_role("button", name="Edit the source").click()
    source = page.locator(".cm-content")
    expect(source).to_contain_text("dynexplore.graph_break()")
    expect(page.locator(".cm-line.dynx-broken")).to_have_text("    dynexplore.graph_break()")
    first = program.__code__.co_firstlineno
    expect(page.locator(".cm-lineNumbers .cm-gutterElement", has_text=str(first)).first).to_be_visible()

    edited(page, "dynexplore.graph_break()", "pass")
    expect(said).to_contain_text("Edits re-run automatically once a run has been fast")
    assert "rerun" not in kernel.asked
    expect(headline).to_contain_text("1 graph break")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".dynx-change")).to_have_text("2 → 1 graphs, 1 → 0 breaks")
    expect(headline).to_contain_text("program is one graph of 3 operators")
    expect(said).to_contain_text("Edits re-run automatically.")
    assert page.evaluate("document.activeElement.className").startswith("cm-content")
    assert "sin" in " ".join(cells(page, ".dynx-graph tbody tr"))

    edited(page, "x.sin()", "x.cos().tan()")
    expect(headline).to_contain_text("program is one graph of 4 operators")
    tab(page, "graph")
    expect(page.locator(".dynx-graph tbody")).to_contain_text("cos")

    edited(page, "return y + x", "return (y + x")
    expect(said).to_contain_text(f"a syntax error (line {first + 5})")
    expect(said).to_contain_text("The last run that worked is shown.")
    expect(headline).to_contain_text("program is one graph of 4 operators")
    edited(page, "return (y + x", "return y + z")
    expect(said).to_contain_text(f"It raises NameError (line {first + 5})")
    edited(page, "y + z", "y + x + 1")
    expect(headline).to_contain_text("program is one graph of 5 operators")

    tab(page, "what-if")
    page.get_by_label("value of n").fill("7")
    expect(pane(page, "what-if", " [role=status]")).to_contain_text("Would recompile")
    page.get_by_role("button", name="Undo: show the run before the edit").click()
    expect(headline).to_contain_text("program is one graph of 4 operators")
    tab(page, "source")
    expect(source).to_contain_text("return y + x")
    tab(page, "source")
    for _ in range(2):
        page.get_by_role("button", name="Back to the previous run").click()
    expect(headline).to_contain_text("1 graph break")
    expect(page.locator(".dynx-change")).to_have_count(0)
    expect(source).to_contain_text("dynexplore.graph_break()")
    tab(page, "source")
    source.press("j")
    expect(source).to_contain_text("j")
    page.get_by_role("button", name="Close the editor").click()
    expect(page.locator(".dynx-source .dynx-line.dynx-broken")).to_be_visible()


def writes(x: torch.Tensor) -> torch.Tensor:
    with open("/dev/null", "w") as file:
        file.write("x")
    return x + 1


def test_typing_runs_nothing_that_has_effects(opened: Any) -> None:
    """Where a run wrote a file, typing runs nothing, and the reason stands there; Run does; what a run printed is told."""
    page, kernel = opened(dynexplore.explain(writes, torch.ones(4)))
    page.evaluate("dynexplore.show(dynexplore.walk[0], 0)")
    said = page.locator(".dynx-edit-said")
    page.get_by_role("button", name="Edit the source").click()
    edited(page, "x + 1", "x + 2")
    page.get_by_role("button", name="Run the edited source").click()
    expect(said).to_contain_text("Edits do not re-run automatically: the last run writes /dev/null.")
    edited(page, "x + 2", "x.sin() + 2")
    expect(said).to_contain_text("Press Ctrl+Enter to run. Edits do not re-run automatically")
    runs = len(kernel.asked)
    page.wait_for_timeout(600)
    assert len(kernel.asked) == runs
    edited(page, 'file.write("x")', 'print("a word")')
    edited(page, 'open("/dev/null", "w")', 'open("/dev/null")')
    page.keyboard.press("Control+Enter")
    expect(said).to_contain_text("It printed: a word Edits re-run automatically.")


def test_a_live_run_is_stepped(opened: Any) -> None:
    """Start, steps, to the break, to the end; each says where the real run stands."""
    page, _ = opened(dynexplore.explain(program, torch.ones(4)))
    shown = pane(page, "live")
    said = shown.locator("[role=status]")
    expect(shown.get_by_role("button", name="Run ten steps")).to_be_disabled()
    shown.get_by_role("button", name="Run the call again").click()
    expect(said).to_have_text("Paused before its first step.")
    shown.get_by_role("button", name="Run one step").click()
    expect(said).to_contain_text("Paused at step 1, frame 1 program")
    shown.get_by_role("button", name="Run to the next graph break").click()
    expect(said).to_contain_text("graph break")
    expect(shown.locator(".dynx-place")).to_contain_text("dynexplore.graph_break()")
    assert {"local": "y", "value": "mul: float32[4] cpu"} in table_rows(page, ".dynx-live table[aria-label^=Locals]")
    assert any("graph_break" in row["stack"] for row in table_rows(page, ".dynx-live table[aria-label^=Stack]"))
    shown.get_by_role("button", name="Run to the end of the call").click()
    expect(said).to_contain_text("Finished with the result tensor(")
    seen = table_rows(page, ".dynx-live table[aria-label^=Real]")
    assert all([*row] == ["frame", "of", "name", "real value", "range", "first elements"] for row in seen)
    assert any(row["real value"].startswith("float32[4]") and row["range"].startswith("min ") for row in seen)
    shown.get_by_role("button", name="Run the call again").click()
    shown.get_by_role("button", name="Run one step").click()
    shown.get_by_role("button", name="Abort the call").click()
    expect(said).to_contain_text("Stopped")


def test_without_a_kernel_they_say_why(opened: Any) -> None:
    """In a file one line says why, and no pane is empty; when the kernel cannot answer each says so, and can be asked again."""
    explanation = dynexplore.explain(program, torch.ones(4))
    page, _ = opened(explanation, connected=False)
    expect(pane(page, "what-if", " .dynx-body")).to_contain_text("this is a saved file")
    expect(pane(page, "what-if", " .dynx-body")).to_contain_text("live runs")
    assert page.locator(".dynx-pane.dynx-live").count() == 0
    expect(pane(page, "what-if", " .dynx-body")).to_contain_text("editing")
    assert page.get_by_role("button", name="Edit the source").count() == 0
    page, kernel = opened(explanation, is_gone=True)
    expect(pane(page, "what-if", " .dynx-form")).to_contain_text("The kernel is gone.")
    tab(page, "live")
    page.get_by_role("button", name="Run the call again").click()
    expect(pane(page, "live", " [role=status]")).to_have_text("The kernel is gone.")
    kernel.is_gone = False
    tab(page, "what-if")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_label("shape of x")).to_have_value("4")
