"""The magics in a real kernel: frames of its machinery stay out, Ctrl-C leaves it usable, and cells let go what they showed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from source_tree import PACKAGE, ROOT

SECONDS = 120
COUNT = (
    "from ipywidgets.widgets.widget import _instances\nimport gc; gc.collect()\n"
    "print(sum(type(w).__name__ == 'Explorer' for w in _instances.values()))"
)


class Kernel:
    """A kernel in a process of its own; `run` gives what a cell printed, and keeps what it showed and raised."""

    def __init__(self, client: BlockingKernelClient, manager: KernelManager) -> None:
        self.client, self.manager = client, manager
        self.shown: list[dict[str, Any]] = []
        self.error: list[str] = []

    def run(self, code: str, *, interrupt_at: str = "\x00", **metadata: Any) -> str:
        """What a cell prints on stdout, then what on stderr: a kernel may send a part of one between two parts of the other.

        When the cell has printed `interrupt_at` itself, it gets Ctrl-C.
        """
        printed = {"stdout": "", "stderr": ""}
        self.shown, self.error = [], []
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        while True:
            said = self.client.get_iopub_msg(timeout=SECONDS)
            if said["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            kind, body = said["msg_type"], said["content"]
            if kind == "status" and body["execution_state"] == "idle":
                return printed["stdout"] + printed["stderr"]
            if kind == "stream":
                printed[body["name"]] += body["text"]
                if body["name"] == "stdout" and interrupt_at in body["text"]:
                    self.manager.interrupt_kernel()
            elif kind in ("display_data", "execute_result"):
                self.shown.append(body["data"])
            elif kind == "error":
                self.error = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in body["traceback"]]


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """A kernel with the extension loaded and a function `f` that prints."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(ROOT))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=SECONDS)
        made = Kernel(client, manager)
        made.run("%load_ext dynexplore\nimport torch, dynexplore, time\nx = torch.ones(3)")
        made.run("def f(t):\n    y = t + 1\n    print('in f', y.shape)\n    return y * 2")
        assert made.error == []
        yield made
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("call", ["f(x)", "display(f(x))", "import logging, sys; logging.warning(f(x)); sys.stderr.write('x')"])
def test_the_kernels_own_frames_are_no_frames_of_the_program(kernel: Kernel, call: str) -> None:
    """What a kernel runs to carry output to the page is not recorded, whatever way the output goes."""
    assert "in f torch.Size([3])\n" in kernel.run(f"%%dynamo -o rec\n{call}\nprint('end')")
    names = kernel.run("print(sorted({e.code.qualname.split('_at_')[0] for e in rec.frames}))")
    assert names == "['<cell>', '__resume', 'f']\n"


def test_explain_shows_the_explorer(kernel: Kernel) -> None:
    """The result of a cell is the widget with its fallbacks beside it."""
    kernel.run("dynexplore.explain(f, x)")
    (shown,) = kernel.shown
    assert set(shown) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    assert re.fullmatch(r"Explorer\(f: \d+ steps, 2 graphs, \d+ guards\)", shown["text/plain"])


def test_ctrl_c_in_a_cell(kernel: Kernel) -> None:
    """The cell ends with KeyboardInterrupt at its own line, shows what was captured until then, and the next one runs."""
    cell = "%%dynamo -o rec\ny = x.sin()\nfor i in range(600):\n    print('go', i, flush=True)\n    time.sleep(0.1)"
    said = kernel.run(cell, interrupt_at="go 3")  # by then the loop runs, and nothing is translated any more
    assert "The cell was interrupted; what was captured until then is shown.\n" in said
    assert kernel.error[-1].startswith("KeyboardInterrupt")
    assert "time.sleep(0.1)" in "".join(kernel.error), said + "".join(kernel.error)
    assert str(PACKAGE) not in "".join(kernel.error)
    assert len(kernel.shown) == 1
    assert kernel.run("print(rec.graphs[0].nodes[1].name)") == "sin\n"
    assert "in f" in kernel.run("%dynamo --view none f(x)")


def test_running_a_cell_again_frees_what_it_showed(kernel: Kernel) -> None:
    """JupyterLab says which cell it runs, and which were deleted: their widgets are let go."""
    before = int(kernel.run(COUNT))
    for text in ("%dynamo f(x)", "dynexplore.explain(f, x)", "%dynamo f(x + 1)"):
        kernel.run(text, cellId="first")
        kernel.run(text, cellId="second")
        assert int(kernel.run(COUNT)) == before + 2
    assert int(kernel.run(COUNT, deletedCells=["first", "second"])) == before


def test_autoreload(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A module that %autoreload has loaded anew is captured as it is now, with its new source."""
    folder = tmp_path_factory.mktemp("modules")
    module = folder / "reloaded_module.py"
    module.write_text("def g(t):\n    return t.sin()\n")
    kernel.run(f"%load_ext autoreload\n%autoreload 2\nimport sys; sys.path.insert(0, {str(folder)!r})\nimport reloaded_module")
    kernel.run("%dynamo -o rec reloaded_module.g(x)")
    assert kernel.run("print(rec.graphs[0].nodes[1].name)") == "sin\n"
    module.write_text("def g(t):\n    # a new line\n    return t.cos() + 1\n")
    kernel.run("%dynamo -o rec reloaded_module.g(x)")
    assert kernel.run("print([node.name for node in rec.graphs[0].nodes][1:3])") == "['cos', 'add']\n"
    assert "a new line" in kernel.run("print(*[code.source for code in rec.codes.values()])")
    kernel.run("%autoreload 0")
