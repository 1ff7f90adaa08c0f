"""tools/repro_on_failure.py: an unchanged script leaves a program that fails alone, the same way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from source_tree import ROOT

SCRIPT = """
import sys

import torch

import dynexplore

BAD = torch.erf
EPS = 1e-2


class Off(torch.fx.Interpreter):
    def call_function(self, target, args, kwargs):
        out = super().call_function(target, args, kwargs)
        return out + EPS if target is BAD else out


def has_bad(graph):
    return any(node.target is BAD for node in graph.graph.nodes)


def crashes(graph, inputs):
    if has_bad(graph):
        raise NotImplementedError("erf")
    return graph.forward


def wrong(graph, inputs):
    return lambda *given: Off(graph).run(*given)


def late(graph):
    def call(*given):
        if has_bad(graph):
            raise KeyError("erf, late")
        return graph(*given)

    return call


def fine(graph, inputs):
    return graph.forward


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.drop = torch.nn.Dropout(0.3)

    def forward(self, x):
        x = self.drop(self.linear(x).relu())
        print("a break: the fault comes in the second graph")
        return self.drop(torch.erf(x * 2).sin() + 1).sum()


torch.manual_seed(1)
net = dynexplore.optimize(globals()[sys.argv[1]])(Net())
net(torch.randn(3, 4)).backward()
print("the end", dynexplore.counters["stats"]["graphs"], "graphs")
"""


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("backend", "status", "same"),
    [("crashes", 1, "NotImplementedError: erf"), ("wrong", 1, "result 0 differs"), ("late", 0, "KeyError: 'erf, late'")],
)
def test_an_unchanged_script(tmp_path: Path, backend: str, status: int, same: str) -> None:
    """One line says where the program is; it has one operator and fails alone; the script ends as it must."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "elsewhere").mkdir()
    variables = {"PYTHONPATH": str(ROOT), "DYNEXPLORE_REPRO_AFTER": "dynamo", "DYNEXPLORE_REPRO_DIR": "left/here"}
    done = run(["script.py", backend], tmp_path, **variables)
    (line,) = [line for line in done.stderr.splitlines() if "a program that fails alone:" in line and line.startswith("wrote ")]
    assert "wrote left/here/repro.py" in line and "operators became 1; it" in line and done.returncode == status
    assert ("the end" in done.stdout) == (status == 0)
    repro = tmp_path / "left" / "here" / "repro.py"
    alone = run([str(repro)], tmp_path / "elsewhere", PYTHONPATH="")
    assert alone.returncode == 1 and same in alone.stderr, alone.stderr


def test_a_script_without_a_fault(tmp_path: Path) -> None:
    """Dropout, breaks and all: nothing is written, nothing is said, everything is captured."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run(["script.py", "fine"], tmp_path, PYTHONPATH=str(ROOT), DYNEXPLORE_REPRO_AFTER="dynamo", DYNEXPLORE_LOGS="error")
    assert "the end 2 graphs" in done.stdout
    assert done.returncode == 0 and not done.stderr and not list(tmp_path.glob("*.py.*")) and not (tmp_path / "repro.py").exists()


def crashes_on_sine(graph: Any, inputs: Any) -> Any:
    """A backend for captured graphs and for those of aten operators."""
    if any("sin" in str(node.target) for node in graph.graph.nodes):
        raise NotImplementedError("sin")
    return graph.forward


@pytest.mark.parametrize(("after", "name"), [("aot", "torch.ops.aten.sin"), ("dynamo", "torch.sin")])
def test_which_graph_is_cut(tmp_path: Path, after: str, name: str) -> None:
    """The captured graph, or one behind AOTAutograd."""
    options = {"repro_after": after, "repro_folder": str(tmp_path)}
    with dynexplore.config.patch(options), pytest.raises(dynexplore.exc.BackendCompilerError) as raised:
        dynexplore.optimize(crashes_on_sine)(lambda x: torch.sin(x + 1) * 2)(torch.ones(2))
    (path,) = tmp_path.iterdir()
    assert name in path.read_text() and any(str(path) in note for note in raised.value.__notes__)


def test_the_model_and_the_random_numbers_stay(tmp_path: Path) -> None:
    """Looking for failures changes nothing that the program sees; a level of 2 lets wrong values pass."""

    def off(graph: Any, inputs: Any) -> Any:
        return lambda *given: [one + 1 for one in graph(*given)]

    def same(graph: Any, inputs: Any) -> Any:
        return lambda *given: graph(*given)

    def fn(x: Any, y: Any) -> Any:
        y.add_(1)
        return x * torch.rand(3) + y

    for backend, level, more in ((same, 4, 0), (off, 2, 1)):
        x, y = torch.ones(3, requires_grad=True), torch.zeros(3)
        torch.manual_seed(0)
        expected = fn(x, torch.zeros(3)) + more
        torch.manual_seed(0)
        with dynexplore.config.patch(repro_after="dynamo", repro_folder=str(tmp_path), repro_level=level):
            assert torch.equal(dynexplore.optimize(backend)(fn)(x, y), expected)
        assert y.tolist() == [1, 1, 1]
    assert not list(tmp_path.iterdir())


@pytest.mark.plain("refused before anything is captured")
def test_an_option_that_is_none() -> None:
    """The right ones are named."""
    with pytest.raises(dynexplore.exc.ConfigError, match="'repro_after' takes one of '', 'dynamo', 'aot', not 'inductor'"):
        dynexplore.config.patch(repro_after="inductor")
    with pytest.raises(dynexplore.exc.ConfigError, match="'repro_level' takes one of 2, 4, not 3"):
        dynexplore.config.patch(repro_level=3)
