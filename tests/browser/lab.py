"""A real JupyterLab in a headless Chromium, for the tests of this folder: start it, open a notebook, run it, look.

Which idea lives here: what people use is JupyterLab and a browser, so that is what is tested, in a world of its own. The
server has its own configuration, data, settings and workspaces, works on copies of notebooks, and is started once for a
test file. The browser reaches nothing but 127.0.0.1, and every request for another host is noted: the list must stay
empty. Off-screen cells stay in the page (`windowingMode: none`), nothing saves by itself, no news is fetched.

In:  notebooks as files or as lists of cells.
Out: `running_lab()`, the server with its browser; `NotebookPage`, one notebook open in it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, sync_playwright

from browser.system_browser import FLAGS, chromium

TOP = Path(__file__).resolve().parents[2]
NOTEBOOKS = TOP / "notebooks"

SETTINGS: dict[str, dict[str, Any]] = {
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none", "scrollPastEnd": False, "kernelShutdown": True},
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
}

JUPYTERLAB = (sys.executable, "-m", "jupyterlab")

NO_DOT = "python-without-dot"
"""A kernel whose PATH leads nowhere: there is no `dot`, nor any other program."""

_LOCAL = re.compile(r"(https?|wss?)://127\.0\.0\.1[:/]|(data|blob|about|file|devtools|chrome):")

_STORIES = """() => {
  for (const root of document.querySelectorAll('.jp-OutputArea-output .dynexplore')) {
    if (root.dataset.isTold) continue;
    root.dataset.isTold = 'true';
    root.querySelectorAll('.dynx-tablist [role=tab]')[1]?.click();
    root.querySelector('.dynx-unit[data-unit=instruction]')?.click();
  }
}"""
"""Every new explorer shows its story."""

_KERNEL_IDLE = """() => {
  const shown = globalThis.jupyterapp?.shell.currentWidget;
  return shown?.sessionContext?.session?.kernel?.status === 'idle';
}"""

# Resolves when nothing of the notebook has changed for `quiet` milliseconds, or after `limit`.
_STILL = """([quiet, limit]) => new Promise((resolve) => {
  const done = () => { observer.disconnect(); clearTimeout(timer); clearTimeout(end); resolve(); };
  const observer = new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(done, quiet); });
  observer.observe(document.querySelector('.jp-Notebook'),
    { subtree: true, childList: true, attributes: true, characterData: true });
  let timer = setTimeout(done, quiet);
  const end = setTimeout(done, limit);
})"""

# Every error output, and what the cells themselves say of having been run.
_REPORT = """() => {
  const cells = globalThis.jupyterapp.shell.currentWidget.content.widgets.filter((cell) => cell.model.type === 'code');
  const errors = [];
  for (const cell of cells) {
    const outputs = cell.model.outputs;
    for (let i = 0; i < outputs.length; i++) {
      if (outputs.get(i).type === 'error') { const o = outputs.get(i).toJSON(); errors.push(`${o.ename}: ${o.evalue}`); }
    }
  }
  const empty = cells.filter((cell) => cell.model.sharedModel.source.trim() && !cell.model.executionCount);
  return { errors, notRun: empty.map((cell) => cell.model.sharedModel.source) };
}"""


def jupyterlab_is_there() -> None:
    """The test fails with one sentence where JupyterLab is missing."""
    if importlib.util.find_spec("jupyterlab") is None:
        pytest.fail("JupyterLab is not installed, in which the tutorials are tested: pip install -e '.[lab]'", pytrace=False)


class Lab:
    """One JupyterLab server with one browser."""

    def __init__(
        self, folder: Path, server: subprocess.Popen[bytes], address: str, token: str, browser: Browser, prefix: str
    ) -> None:
        self.folder, self.server, self.address, self.token, self.browser = folder, server, address, token, browser
        self.prefix = prefix
        """What the address of a notebook begins with."""

    @contextlib.contextmanager
    def opened(
        self,
        notebook: Path | Sequence[str],
        *,
        kernel: str = "python3",
        size: tuple[int, int] = (1400, 1000),
        sidebar: bool = False,
    ) -> Iterator[NotebookPage]:
        """Open a copy of a notebook, or a notebook of these cells, alone or beside JupyterLab's files; at the end its kernel is
        shut down.

        Nothing may have gone wrong in the page, and nothing may have been asked of another host.
        """
        name = self._put(notebook, kernel)
        context = self.browser.new_context(viewport={"width": size[0], "height": size[1]}, reduced_motion="reduce")
        context.set_default_timeout(30_000)
        outside: list[str] = []

        def block(route: Route) -> None:
            outside.append(route.request.url)
            route.abort()

        context.route(lambda url: not _LOCAL.match(url), block)
        page = NotebookPage(self, context.new_page(), name, "lab/tree" if sidebar else self.prefix)
        try:
            page.open()
            yield page
        finally:
            context.close()
            self._end_kernels()
        assert outside == [], f"requests to other hosts: {outside}"
        assert page.errors == [], f"errors of the page: {page.errors}"

    def _put(self, notebook: Path | Sequence[str], kernel: str) -> str:
        if isinstance(notebook, Path):
            content = json.loads(notebook.read_text(encoding="utf-8"))
            name = notebook.name
        else:
            cells = [{"cell_type": "code", "id": f"c{i}", "source": text} | _NOT_RUN for i, text in enumerate(notebook)]
            content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
            name = "made.ipynb"
        content["metadata"]["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
        (self.folder / "root" / name).write_text(json.dumps(content), encoding="utf-8")
        return name

    def _end_kernels(self) -> None:
        for session in json.loads(self.ask("GET", "sessions")):
            self.ask("DELETE", f"sessions/{session['id']}")

    def ask(self, method: str, path: str) -> bytes:
        """Call the server's REST interface."""
        request = urllib.request.Request(f"{self.address}/api/{path}", method=method)
        request.add_header("Authorization", f"token {self.token}")
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request, timeout=20) as answer:
            return bytes(answer.read())


_NOT_RUN = {"metadata": {}, "outputs": [], "execution_count": None}


class NotebookPage:
    """One notebook, open in JupyterLab; `page` is Playwright's page, `errors` what went wrong in it."""

    def __init__(self, lab: Lab, page: Page, name: str, prefix: str) -> None:
        self.lab, self.page, self.name, self.prefix = lab, page, name, prefix
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: self.errors.append(said.text) if _is_ours(said.type, said.text) else None)

    def open(self) -> None:
        """Load the page (again), and wait for the notebook and its kernel."""
        self.page.goto(f"{self.lab.address}/{self.prefix}/{self.name}?token={self.lab.token}", wait_until="domcontentloaded")
        self.page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=60_000)
        self.page.wait_for_function(_KERNEL_IDLE, timeout=60_000)

    def run_all(self, seconds: float = 300) -> None:
        """Run every cell; none may fail, and each must have been run."""
        self.page.set_default_timeout(seconds * 1000)
        self.command("notebook:run-all-cells")
        self.settle()
        report = self.page.evaluate(_REPORT)
        assert report["errors"] == [], f"cells failed: {report['errors']}"
        assert report["notRun"] == [], f"cells were not run: {report['notRun']}"
        self.page.set_default_timeout(30_000)

    def command(self, name: str, **arguments: object) -> None:
        """Carry out one of JupyterLab's commands, and wait for its end."""
        self.page.evaluate("([name, args]) => jupyterapp.commands.execute(name, args).then(() => null)", [name, arguments])

    def settle(self) -> None:
        """Wait until the kernel rests and the notebook has stood still for 150 ms. Explorers that opened with the overview show the
        story then, and step by instruction."""
        self.page.wait_for_function(_KERNEL_IDLE)
        self.page.evaluate(_STILL, [150, 20_000])
        self.page.evaluate(_STORIES)
        self.page.evaluate(_STILL, [150, 20_000])

    def restart_kernel(self) -> None:
        """Restart the kernel, without the question that the menu asks first."""
        self.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
        self.settle()

    def theme(self, name: str) -> None:
        """Switch to "light" or "dark"."""
        self.command("apputils:change-theme", theme=f"JupyterLab {name.title()}")
        self.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{str(name == 'light').lower()}'")
        self.settle()

    @property
    def explorers(self) -> Locator:
        """The explorers in the outputs, in the order of the cells."""
        return self.page.locator(".jp-OutputArea-output .dynexplore")

    def cells(self) -> tuple[int, int]:
        """How many cells there are, and which is active."""
        found = self.page.evaluate(
            "() => { const n = jupyterapp.shell.currentWidget.content; return [n.widgets.length, n.activeCellIndex]; }"
        )
        return found[0], found[1]

    def fit(self) -> None:
        """Make the window as high as the notebook, up to 16,000 pixels, so that a picture shows all of it."""
        height = self.page.evaluate(
            "() => Math.max(...[...document.querySelectorAll('.jp-Notebook, .jp-Notebook *')].map(e => e.scrollHeight))"
        )
        self.page.set_viewport_size({"width": self.page.viewport_size["width"], "height": min(height + 120, 16_000)})
        self.settle()


def _is_ours(kind: str, text: str) -> bool:
    """Whether a message of the console is an error that counts: JupyterLab itself asks for files that may not exist."""
    return kind == "error" and "404 (Not Found)" not in text


@contextlib.contextmanager
def running_lab(folder: Path, program: Sequence[str | Path] = JUPYTERLAB, prefix: str = "doc/tree") -> Iterator[Lab]:
    """JupyterLab (or another program that takes its options, with other addresses) on a free port, and a browser; both end with the
    block."""
    chromium()  # without one nothing is started
    jupyterlab_is_there()
    address, token = f"http://127.0.0.1:{free_port()}", secrets.token_hex(12)
    log = folder / "server.log"
    with log.open("wb") as out, _server(folder, program, address, token, out) as server:
        with sync_playwright() as playwright:
            environment = {name: text for name, text in os.environ.items() if not name.lower().endswith("_proxy")}
            browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS, env=environment)
            lab = Lab(folder, server, address, token, browser, prefix)
            _wait_for(lab, log)
            yield lab
            browser.close()


@contextlib.contextmanager
def _server(folder: Path, program: Sequence[str | Path], address: str, token: str, out: Any) -> Iterator[subprocess.Popen[bytes]]:
    _private_folders(folder)
    options = {
        "ServerApp.root_dir": folder / "root",
        "ServerApp.open_browser": False,
        "ServerApp.port_retries": 0,
        "ServerApp.terminals_enabled": False,
        "LabApp.extension_manager": "readonly",
        "LabApp.news_url": "",
    }
    words = [f"--{name}={value}" for name, value in options.items()]
    command = [*program, "--no-browser", "--allow-root", "--expose-app-in-browser"]
    command += ["--ip=127.0.0.1", f"--port={address.rpartition(':')[2]}", *words]
    server = subprocess.Popen(command, env=_environment(folder, token), stdout=out, stderr=out, cwd=folder, start_new_session=True)
    try:
        yield server
    finally:
        server.terminate()  # it shuts its kernels down, then itself
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(5)


def _environment(folder: Path, token: str) -> dict[str, str]:
    own = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    environment = os.environ | {name: str(folder / part) for name, part in own.items()}
    environment["JUPYTER_PATH"] = str(Path(sys.prefix, "share", "jupyter"))  # the widgets, for a server of another environment
    path = os.pathsep.join(filter(None, [str(TOP), environment.get("PYTHONPATH", "")]))
    return environment | {"JUPYTER_TOKEN": token, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def _private_folders(folder: Path) -> None:
    (folder / "root").mkdir()
    for plugin, settings in SETTINGS.items():
        path = folder / "settings" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings), encoding="utf-8")
    kernel = folder / "data" / "kernels" / NO_DOT
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": NO_DOT, "language": "python", "env": {"PATH": str(folder / "nowhere")}}
    (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")


def _wait_for(lab: Lab, log: Path, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            lab.ask("GET", "status")
            return
        except OSError:
            if lab.server.poll() is not None:
                pytest.fail(f"JupyterLab ended at its start; it said:\n{_tail(log)}", pytrace=False)
            if time.monotonic() > end:
                pytest.fail(f"JupyterLab did not answer within {seconds:.0f} s; it said:\n{_tail(log)}", pytrace=False)
            time.sleep(0.1)


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]


def free_port() -> int:
    """A port that nobody listens to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
