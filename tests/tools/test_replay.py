"""tools/replay.py: a frame that failed in one process is shown, and fails again, in another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.bytecode.versions import PYTHON
from dynexplore.engine.errors import ReplayError
from dynexplore.engine.translate import dispatch
from dynexplore.tools.frame_file import read_frame, write_frame
from source_tree import ROOT

SCRIPT = """
import torch

import dynexplore
from dynexplore.engine.translate import dispatch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.twin = self.linear
        self.log = open("/dev/null")

    def forward(self, x):
        return self.linear(x).relu() + self.twin(x)


def planted(frame, step, ctx):
    if step.arg == "//":
        raise ZeroDivisionError("planted bug")
    original(frame, step, ctx)


SCALE, net = 3.0, Net()


def first(x, same, turned, cfg):
    if x is not same or net.linear is not net.twin or turned.stride() != (1, 4) or not x.requires_grad:
        return x
    return net(x) * SCALE // turned.sum() + cfg["k"]


def second(x):
    x = x + 1
    print("a break")
    return x // 2


def callee(x, scale):
    x = x + 1
    print("a break")
    return x.sin() * scale


def third(x):
    x = callee(x * 2, SCALE)
    return x // 2


x = torch.randn(2, 4, requires_grad=True)
with dispatch.override("BINARY_OP", planted) as original:
    dynexplore.optimize("eager")(first)(x, x, torch.randn(2, 4).t(), {"k": 1})
    dynexplore.optimize("eager")(second)(x)
    with dynexplore.config.patch(nested_graph_breaks=True):
        dynexplore.optimize("eager")(third)(x)
"""


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which a script leaves files, and what it says of them, run in a process of its own."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DYNEXPLORE_REPLAY_RECORD": "1", "DYNEXPLORE_REPLAY_DIR": str(folder)}
    done = subprocess.run([sys.executable, "script.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stderr


def frames(left: tuple[Path, str]) -> tuple[Path, Path, Path]:
    """The files of the frame that failed in `first`, in the resume function of `second`, and in that of `third`, which goes on in
    its callee.
    """
    folder, said = left
    assert "is saved: dynexplore.replay(" in said, said
    (one,), (two,), (three,) = (folder.glob(f"{name}*.frame") for name in ("first", "second", "third"))
    return one, two, three


def test_it_shows_and_runs_nothing(left: tuple[Path, str]) -> None:
    """Source, what the frame works on, how it failed; what could not be saved is named; tensors can be had."""
    frame = dynexplore.replay(frames(left)[0])
    text = str(frame)
    assert frame.qualname == "first" and frame.failure is not None and frame.outcome is None and frame.recording is None
    for words in (
        "When it was saved: capture failed: ZeroDivisionError: planted bug",
        "    return net(x) * SCALE // turned.sum()",
        "argument  turned: float32[4, 2] cpu, strides (1, 4)",
        "global    net: Net, a state_dict of 2 tensors",
        "net.log: cannot pickle",
        "Nothing was run.",
    ):
        assert words in text
    assert list(frame.state_dict("net")) == ["linear.weight", "linear.bias"] and frame.tensors()["x"].shape == (2, 4)
    assert "<table>" in frame._repr_html_() and not frame.reproduced
    with pytest.raises(ReplayError, match="contains no tensors of 'nothing'"):
        frame.state_dict("nothing")


@pytest.mark.parametrize("which", [0, 1, 2])
def test_the_same_failure_in_another_process(left: tuple[Path, str], which: int) -> None:
    """The frame, and a resume function; the planted handler comes along; the recording leads up to the failure."""
    frame = dynexplore.replay(frames(left)[which], trust=True)
    assert frame.reproduced and frame.outcome is not None and frame.recording is not None
    assert (frame.outcome.kind, frame.outcome.error, frame.outcome.message) == ("failed", "ZeroDivisionError", "planted bug")
    assert "the same failure, capture failed" in str(frame)
    assert frame.recording.steps and "Steps" in frame._repr_html_()


def test_another_handler_another_outcome(left: tuple[Path, str]) -> None:
    """Handlers that are swapped now win over those of the file: so one tries a cure."""

    def cured(frame: Any, step: Any, ctx: Any) -> None:
        standard(frame, step, ctx)

    with dispatch.override("BINARY_OP", cured) as standard:
        frame = dynexplore.replay(frames(left)[0], trust=True)
    assert not frame.reproduced and frame.outcome is not None and frame.outcome.kind == "ran"
    assert "a different outcome, it returned float32[2, 4] cpu" in str(frame)


HANDLER = """
def broken(frame, step, ctx):
    raise KeyError("from a module")
"""


def test_a_handler_by_module_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler of a module on the path is imported there."""
    (tmp_path / "my_handlers.py").write_text(HANDLER)
    monkeypatch.syspath_prepend(str(tmp_path))
    import my_handlers  # type: ignore[import-not-found]

    options = {"replay_record_enabled": True, "replay_record_folder": str(tmp_path), "log_level": "ERROR"}
    with dispatch.override("UNARY_OP", my_handlers.broken), dynexplore.config.patch(options):
        with pytest.raises(dynexplore.exc.EngineError) as raised:
            dynexplore.optimize("eager")(lambda x: -x)(torch.ones(2))
    (file,) = tmp_path.glob("*.frame")
    assert f"dynexplore.replay('{file}')" in str(raised.value.__cause__.__notes__)  # type: ignore[union-attr]
    assert dynexplore.replay(file, trust=True).reproduced


def test_a_backend_that_fails(tmp_path: Path) -> None:
    """The backend is part of the frame; another one can be asked for."""

    def picky(graph: Any, inputs: Any) -> Any:
        raise NotImplementedError("not this")

    options = {"replay_record_enabled": True, "replay_record_folder": str(tmp_path), "log_level": "ERROR"}
    with dynexplore.config.patch(options), pytest.raises(dynexplore.exc.BackendCompilerError):
        dynexplore.optimize(picky)(lambda x: x + 1)(torch.ones(2))
    (file,) = tmp_path.glob("*.frame")
    assert dynexplore.replay(file, trust=True).reproduced
    assert dynexplore.replay(file, trust=True, backend="eager").outcome.kind == "ran"  # type: ignore[union-attr]


@pytest.mark.plain("watches a process, whatever runs in it")
def test_one_that_dies_or_never_ends(tmp_path: Path) -> None:
    """The process of the caller lives on, and is told."""

    def dies(x: Any) -> Any:
        os._exit(7)

    def hangs(x: Any) -> Any:
        while True:
            pass

    dead = dynexplore.replay(dynexplore.record_frame(dies, torch.ones(1), path=tmp_path / "dies.frame"), trust=True)
    assert dead.outcome is not None and str(dead.outcome).startswith("the process died: exit status 7")
    late = dynexplore.replay(dynexplore.record_frame(hangs, torch.ones(1), path=tmp_path / "hangs.frame"), trust=True, timeout=8)
    assert late.outcome is not None and "did not end within 8 seconds" in late.outcome.message


def test_files_that_cannot_be_used(tmp_path: Path, left: tuple[Path, str]) -> None:
    """Damaged, of another Python, in need of a module that is not here: one sentence each."""
    saved, *_ = frames(left)
    content = saved.read_bytes()
    (tmp_path / "short.frame").write_bytes(content[: len(content) // 2])
    with pytest.raises(ReplayError, match=r"short.frame is damaged or cut off: its checksum does not match$"):
        dynexplore.replay(tmp_path / "short.frame")
    data, _ = read_frame(saved)
    write_frame(tmp_path / "other.frame", {**data, "python": "3.99.1"}, {})
    assert dynexplore.replay(tmp_path / "other.frame").qualname == "first"
    with pytest.raises(ReplayError, match=f"of Python 3.99.1, but this is Python {PYTHON}: run it with Python 3.99;"):
        dynexplore.replay(tmp_path / "other.frame", trust=True)
    write_frame(tmp_path / "less.frame", {"qualname": "f"}, {})
    with pytest.raises(ReplayError, match="is damaged: it does not describe a frame"):
        dynexplore.replay(tmp_path / "less.frame")
    rows = [{"kind": "import", "module": "no_such_module", "name": "f"}]
    write_frame(tmp_path / "far.frame", {**data, "rows": rows, "modules": {}, "closure": [0]}, {})
    with pytest.raises(ReplayError, match="cannot be imported here"):
        dynexplore.replay(tmp_path / "far.frame", trust=True)
