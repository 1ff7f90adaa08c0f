"""Jupyter Notebook 7 and marimo in a real browser: the live explorer is there, steps by key, and nothing is complained of.

Which idea lives here: no other test needs these two, so each is installed when its test runs, into an environment that lies over
that of the tests and sees all of its packages. JupyterLab has test_jupyterlab.py. `pytest -m soak tests/browser/test_front_ends.py`
runs it, as .ci/run does. With `DYNEXPLORE_SCREENSHOTS=FOLDER`, it saves a screenshot of each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Locator, Page, expect

from browser.lab import TOP, free_port, running_lab

pytestmark = pytest.mark.soak

PICTURES = os.environ.get("DYNEXPLORE_SCREENSHOTS")

PROGRAM = """
import torch, dynexplore
dynexplore.config.log_level = "ERROR"
def toy(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b
explanation = dynexplore.explain(toy, torch.ones(3), torch.ones(3))
explanation
"""


def python_with(package: str, folder: Path) -> Path:
    """The interpreter of an environment with this package, which sees all that this one has."""
    venv.create(folder, with_pip=False)
    program = folder / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", program, "--quiet", "--disable-pip-version-check"]
    install = [*pip, "install", "--no-compile", "-c", TOP / "constraints.txt", package]
    installed = subprocess.run(install, capture_output=True, text=True, timeout=300)
    assert installed.returncode == 0, installed.stderr
    return program


def steps_by_key(explorer: Locator) -> None:
    """Each arrow key is one step, and the keys of the views change the view; the front end gets none of them."""
    said = explorer.locator(".dynx-status")
    expect(said).to_contain_text("graph break: if on a tensor value")
    before = said.inner_text()
    button = explorer.get_by_role("button", name="Step back")
    button.press("ArrowLeft")
    expect(said).not_to_have_text(before)
    earlier = said.inner_text()
    button.press("ArrowRight")
    expect(said).not_to_have_text(earlier)
    button.press("3")
    expect(explorer.locator(".dynx-panel:visible svg").first).to_be_visible()


def picture(page: Page, name: str) -> None:
    """A screenshot, where they are wanted."""
    if PICTURES:
        page.screenshot(path=Path(PICTURES, f"{name}.png"))


def test_notebook_7(tmp_path: Path) -> None:
    """A cell whose result is an explanation shows the explorer. Keys that step do not move the notebook's active cell."""
    folder = tmp_path / "environment"
    python = python_with("notebook", folder)
    lab = Path("share", "jupyter", "lab")
    for part in ("schemas", "themes"):  # Notebook looks for those of JupyterLab in its own environment only, and follows no link
        shutil.copytree(Path(sys.prefix) / lab / part, folder / lab / part, dirs_exist_ok=True)
    with running_lab(tmp_path, [python, "-m", "notebook"], "notebooks") as server:
        with server.opened([PROGRAM, "1 + 1"], size=(1440, 900)) as notebook:
            notebook.errors.clear()  # Notebook complains of a setting of JupyterLab's before anything of ours is there
            notebook.run_all()
            picture(notebook.page, "notebook-7")
            notebook.explorers.first.get_by_role("button", name="Step back").focus()
            before = notebook.cells()
            steps_by_key(notebook.explorers.first)
            picture(notebook.page, "notebook-7-graph")
            assert notebook.cells() == before


@pytest.fixture(scope="module")
def marimo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with marimo."""
    return python_with("marimo", tmp_path_factory.mktemp("marimo") / "environment")


@pytest.fixture(params=["run", "edit"])
def app(marimo: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A marimo notebook of one cell, served as an app or to be edited: which of the two, and its address."""
    code = PROGRAM.strip().replace("\n", "\n    ")
    (tmp_path / "app.py").write_text(f"import marimo\napp = marimo.App()\n@app.cell\ndef _():\n    {code}\n    return\n")
    port = free_port()
    here = ["--headless", "--no-token", "--host=127.0.0.1", f"--port={port}"]
    command = [marimo, "-m", "marimo", "-q", request.param, "app.py", *here]
    own = {"HOME": str(tmp_path), "PYTHONPATH": str(TOP)}
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=os.environ | own, stdout=log, stderr=log, cwd=tmp_path)
        yield request.param, f"http://127.0.0.1:{port}"
        server.terminate()
        server.wait(20)


def visit(page: Page, address: str) -> None:
    """Go there, as soon as the server listens."""
    end = time.monotonic() + 90
    while True:
        try:
            page.goto(address)
            break
        except Error:
            assert time.monotonic() < end
            time.sleep(0.1)


def test_marimo(app: tuple[str, str], browser: Browser) -> None:
    """An explanation as the last expression of a cell is the explorer, without `mo.ui.anywidget`. An app runs its cells when it is
    opened; `marimo edit`, by marimo's default, when they are run. Keys that step do not change the code of the edited cell.
    """
    command, address = app
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    visit(page, address)
    code = page.locator(".cm-content")
    if command == "edit":
        expect(code.first).to_contain_text("explanation", timeout=90_000)
        page.keyboard.press("Control+Shift+r")  # run all cells
    explorer = page.locator(".dynexplore")
    explorer.locator(".dynx-status").wait_for(timeout=90_000)
    before = code.all_inner_texts()
    picture(page, f"marimo-{command}")
    steps_by_key(explorer)
    picture(page, f"marimo-{command}-graph")
    assert code.all_inner_texts() == before
    assert errors == []
    page.close()
