"""Measure how fast the explorer is in a real Chromium: recording, HTML file, and user actions.

    python -m dynexplore bench explorer [--quick] [--models small 2000 10000 vit bert bert-12] [--jupyterlab] [--json OUT]

The models are a small function with a graph break, functions of 2,000 and 10,000 bytecode instructions, and a whole ViT and BERT
with 2 and with 12 layers.
`explain` is its CPU time over that of a plain capture. In the browser, times are in milliseconds: from a key press to the
painted page (medians), and from opening the file to the first painted step. The budgets are 50 for a step, 1,000 for the first
view, and 3 for `explain`; a file may have 500 KB at 2,000 instructions, and 1,400 KB with graphviz for a BERT of 12 layers (a
KB is 1,000 bytes). On a shared machine, `step CPU ms`, the page's own share of a step, is more reliable. Needs Chromium and
playwright.

`--jupyterlab` measures a real JupyterLab, 1440 x 900 with its sidebar (the one in tests/browser). `first view ms` is the time
from running the cell that shows a finished recording, the first one of its page, to the first painted step: the kernel computes
and sends the data (`of it kernel ms`; in CPU time `kernel CPU ms`), JupyterLab loads the widget, and the explorer is built
(`page CPU ms`: of the page's thread, until JupyterLab is still). On a shared machine these two in CPU time are more reliable;
`first view CPU ms` is their sum. For a large recording, this is the first view (views/first_view.py); the remaining steps follow
after the cell has ended, and are not counted. `again` is the same for the second explorer of the page. `step ms` is the time from
a key press to the painted page, from the step at which the explorer opened. Neither includes the capture. All are medians. The
kernel loads modules from cached bytecode, as in an installed package: a turn that does not count writes the cache, into a separate
folder.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import linecache
import math
import os
import shutil
import statistics
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from support.measuring import best, forget
from support.models import MODELS, Made, Model, tokens, transformer
from support.report import Row, main
from torch import nn

import dynexplore
from dynexplore.widgets import html

HERE = Path(__file__).resolve().parent
BUDGETED = ("step ms", "step CPU ms", "first view ms", "explain")

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]

# `painted()` resolves when the page is painted; FIRST_VIEW when its first step is: `performance.now()` counts from the navigation.
# `stepKey()` is the key that steps on; where a press moved nothing, at the end of the recording, it goes the other way from there.
PAINTED = """
globalThis.painted = () => new Promise((done) => requestAnimationFrame(() => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => done(performance.now());
  port2.postMessage(0);
}));
globalThis.stepKey = (() => {
  let [key, before] = ["ArrowRight", ""];
  return () => {
    const now = [...document.querySelectorAll(".dynx-status")].at(-1).textContent;
    if (now === before) key = key === "ArrowRight" ? "ArrowLeft" : "ArrowRight";
    before = now;
    return key;
  };
})();
null; // playwright calls a function that is the value
"""
FIRST_VIEW = PAINTED + """
globalThis.firstView = new Promise((done) => {
  const look = () => document.querySelector(".dynx-status")?.textContent ? painted().then(done) : requestAnimationFrame(look);
  look();
});
"""

# Does something again and again, and says how long each took until it was painted.
TIMES = """async ([act, times]) => {
  const found = [];
  const run = new Function("turn", `return (${act})(turn)`);
  for (let turn = 0; turn < times; turn += 1) {
    const began = performance.now();
    run(turn);
    found.push((await painted()) - began);
  }
  return found;
}"""

STORY = """() => { dynexplore.tabs.openAgain("story"); dynexplore.stepper.stepBy("instruction"); }"""
STEP = """() => dynexplore.root.dispatchEvent(new KeyboardEvent("keydown", { key: stepKey(), bubbles: true }))"""
JUMP = """(turn) => dynexplore.go(Math.floor(((turn * 0.618) % 1) * dynexplore.frame.states.length))"""
SEARCH = """(turn) => {
  dynexplore.search.field.value = ["a", "ad", "add", "x", ""][turn % 5];
  dynexplore.search.field.dispatchEvent(new Event("input"));
}"""
FRAME = """(turn) => { const all = document.querySelectorAll(".dynx-frames button"); all[(turn * 7) % all.length].click(); }"""


def _long(instructions: int) -> Callable[[], Made]:
    """A model whose forward is one function of about so many instructions."""

    def make() -> Made:
        # a line of RESUME and the return, and 14 instructions for each pair of lines
        pairs = (instructions - 4) // 14
        lines = [f"    y{at % 40} = x * {at % 7} + y{(at - 1) % 40}\n    x = x.relu() - 1" for at in range(pairs)]
        source = "\n".join(["def forward(self, x):", "    y39 = x", *lines, "    return x + y0", ""])
        name = f"<{instructions} instructions>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        space: dict[str, Any] = {}
        exec(compile(source, name, "exec"), space)
        return type("Long", (nn.Module,), {"forward": space["forward"]})(), (torch.ones(4),), {}

    return make


# In JupyterLab: runs a cell. Resolves to how long it took, where it `shows` an explorer until that had painted its first step; and
# to the reason where the cell failed, or no explorer was there long after it had ended.
RUNS = """async ([cell, shows, patience]) => {
  const { shell, commands } = jupyterapp;
  const notebook = shell.currentWidget.content;
  notebook.activeCellIndex = cell;
  notebook.deselectAll();
  const { node, model: { outputs } } = notebook.widgets[cell];
  const error = () => [...Array(outputs.length).keys()].map((at) => outputs.get(at).toJSON()).find((one) => one.ename);
  const isThere = () => node.querySelector(".dynx-status")?.textContent;
  const began = performance.now();
  let ended;
  commands.execute("notebook:run-cell").then(() => (ended = performance.now()));
  while (shows ? !isThere() : !ended) {
    if (ended && error()) break;
    const isOver = performance.now() - ended > patience;
    if (isOver) return [0, `showed no explorer, but: ${node.querySelector(".jp-OutputArea")?.innerText}`];
    await new Promise((done) => requestAnimationFrame(done));
  }
  const { ename, evalue } = error() ?? {};
  return ename ? [0, `failed: ${ename}: ${evalue}`] : [(await painted()) - began, ""];
}"""

PATIENCE = 20_000
"""So many milliseconds after a cell has ended its explorer is waited for."""

# Notes, for each key that reaches the page, how long after it was pressed the page was painted.
KEYS = """() => {
  globalThis.took = [];
  document.addEventListener("keydown", ({ timeStamp }) => painted().then((now) => took.push(now - timeStamp)), true);
}"""

PREPARES = """
    import sys, time
    sys.path.insert(0, {folder!r})
    import explorer, dynexplore, torch
    from IPython.display import display
    dynexplore.config.log_level = "ERROR"
    module, args, kwargs = next(model for model in explorer.AMONG if model.name == {model!r}).make()
    with torch.no_grad():
        module(*args, **kwargs)
        explanation = dynexplore.explain(module)(*args, **kwargs)
"""
SHOWS = """
    began, worked = time.perf_counter(), time.process_time()
    display(explanation)
    print((time.perf_counter() - began) * 1e3, (time.process_time() - worked) * 1e3)
"""

def _branching() -> Made:
    """A model whose forward is a small function with a graph break."""

    class Branching(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            x = a / (torch.abs(a) + 1)
            if b.sum() < 0:
                b = b * -1
            return x * b

    return Branching(), (torch.ones(3), -torch.ones(3)), {}


AMONG = [
    Model("small", "playwright", _branching),
    *(Model(str(count), "playwright", _long(count)) for count in (2000, 10000)),
    *(model for model in MODELS if model.name in ("vit", "bert")),
    Model("bert-12", "transformers", transformer("BertModel", "BertConfig", tokens)),
]


def measure(model: Model, options: argparse.Namespace) -> Row:
    """One recording: made, written to a file, and used."""
    if options.jupyterlab:
        return in_jupyterlab(model, options.repeats)
    module, args, kwargs = model.make()
    with torch.no_grad():
        module(*args, **kwargs)
        times = best(
            {
                "plain": functools.partial(_anew, lambda: dynexplore.optimize("eager")(module)(*args, **kwargs)),
                "explain": functools.partial(_anew, lambda: dynexplore.explain(module)(*args, **kwargs)),
            },
            options.repeats,
        )
        forget()
        recording = dynexplore.explain(module)(*args, **kwargs).recording
    page = html.page(recording)
    steps = sum(len(code.rows) for code in recording.codes.values())
    return {
        "instructions": steps,
        "steps": sum(type(event).__name__ == "InstructionStepped" for event in recording),
        "nodes": sum(len(graph.nodes) for graph in recording.graphs),
        "capture s": times["plain"],
        "explain": times["explain"] / times["plain"],
        "file KB": math.ceil(len(page.encode()) / 1000),
        "with graphviz KB": math.ceil(len(html.page(recording, graphviz=True).encode()) / 1000),
        **used(page, options.repeats),
    }


def _anew(call: Callable[[], Any]) -> None:
    forget()
    call()


def used(page: str, repeats: int) -> Row:
    """What a person waits for, in milliseconds."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder, "recording.html")
        path.write_text(page, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium") or "/usr/bin/chromium", args=FLAGS)
        first = []
        for _ in range(repeats):
            tab = browser.new_page(viewport={"width": 1400, "height": 1000})
            tab.add_init_script(FIRST_VIEW)
            tab.goto(path.as_uri())
            first.append(tab.evaluate("firstView"))
        tab.evaluate(STORY)
        acts = {"step ms": (STEP, 60), "jump ms": (JUMP, 20), "search ms": (SEARCH, 20), "frame ms": (FRAME, 20)}
        found = {name: statistics.median(tab.evaluate(TIMES, list(act))) for name, act in acts.items()}
        work = _work(tab, 60, lambda: tab.evaluate(TIMES, [STEP, 60]))
        browser.close()
    return {"first view ms": statistics.median(first), "step CPU ms": work, **found}


def in_jupyterlab(model: Model, repeats: int) -> Row:
    """What a person waits for in a notebook, in milliseconds; each repeat has a page and a kernel of its own."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from browser.lab import running_lab

    cells = [textwrap.dedent(text) for text in (PREPARES.format(folder=str(HERE), model=model.name), SHOWS, SHOWS)]
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder, "bytecode"))
        Path(folder, "lab").mkdir()
        with running_lab(Path(folder, "lab")) as lab:
            for turn in range(repeats + 1):
                with lab.opened(cells, size=(1440, 900), sidebar=True) as notebook:
                    for name, times in _one_turn(notebook).items() if turn else _shown_once(notebook):
                        found.setdefault(name, []).extend(times)
    return {name: statistics.median(times) for name, times in found.items()}


def _shown_once(notebook: Any) -> tuple[()]:
    """The turn that is not counted, which writes the bytecode."""
    run_cell(notebook, 0)
    run_cell(notebook, 1)
    return ()


def _one_turn(notebook: Any) -> dict[str, list[float]]:
    """What a person waits for in one notebook."""
    page = notebook.page
    run_cell(notebook, 0)
    found: dict[str, list[float]] = {}
    found["page CPU ms"] = [_work(page, 1, lambda: found.update({"first view ms": [run_cell(notebook, 1)]}))]
    found["again ms"] = [run_cell(notebook, 2)]
    said = page.locator("[data-mime-type='application/vnd.jupyter.stdout']").first.inner_text()
    for name, told in zip(("of it kernel ms", "kernel CPU ms"), said.split(), strict=True):
        found[name] = [float(told)]
    found["first view CPU ms"] = [found["kernel CPU ms"][0] + found["page CPU ms"][0]]
    return {**found, "step ms": _steps(notebook, 60), "step CPU ms": [_work(page, 60, lambda: _press(page, 60))]}


def run_cell(notebook: Any, cell: int) -> float:
    """Run a cell, and wait for its end: how long it took, for all but the first cell until its explorer was painted."""
    notebook.page.set_default_timeout(300_000)
    notebook.page.evaluate(PAINTED)
    took, reason = notebook.page.evaluate(RUNS, [cell, cell > 0, PATIENCE])
    if reason:
        raise SystemExit(f"Cell {cell + 1} of the measured notebook {' '.join(reason.split())[:160]}")
    notebook.settle()
    return float(took)


def _steps(notebook: Any, steps: int) -> list[float]:
    """The last explorer of a notebook steps on, from where it opened: from the key to the painted page."""
    notebook.explorers.last.evaluate("root => { root.scrollIntoView({ block: 'end' }); root.focus({ preventScroll: true }); }")
    notebook.settle()
    for key in "2i":  # the story, by instruction
        notebook.page.keyboard.press(key)
    notebook.page.evaluate(KEYS)
    _press(notebook.page, steps)
    notebook.page.wait_for_function(f"took.length === {steps}")
    took: list[float] = notebook.page.evaluate("took")
    return took


def _press(page: Any, steps: int) -> None:
    for _ in range(steps):
        page.keyboard.press(page.evaluate("stepKey()"))
        page.evaluate("painted()")


def _work(tab: Any, steps: int, act: Callable[[], Any]) -> float:
    """The CPU time of the page's thread for one step, in milliseconds: script, style, layout and paint."""
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")

    began = spent()
    act()
    return (spent() - began) * 1e3 / steps


def summary(rows: list[Row]) -> Row:
    """The worst of each that has a budget."""
    return {name: max(row[name] for row in rows) for name in BUDGETED if name in rows[0]}


def _ask(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jupyterlab", action="store_true", help="in a notebook of a real JupyterLab, not as a file")


if __name__ == "__main__":
    if importlib.util.find_spec("playwright") is None:
        sys.exit("the benchmark drives a browser with playwright, which is not installed: pip install -e '.[test]'")
    sys.exit(main("Explorer", measure, summary, {"cpu": AMONG}, _ask))
