"""inductor_artifacts: one call, and everything that the compiler made of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dynexplore
from dynexplore.engine.errors import ConfigError
from dynexplore.tools.inductor_artifacts import InductorArtifacts, inductor_artifacts
from dynexplore.views.explorer_data import explorer_data

pytestmark = pytest.mark.filterwarnings(r"ignore:.torch\.jit\..* is deprecated:DeprecationWarning")  # torch's own, on import
COMPILER = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(not COMPILER, reason="Inductor wants a C++ compiler")


def cosines(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.cos(torch.cos(x)), x + 1


@pytest.fixture(scope="module")
def made() -> InductorArtifacts:
    return inductor_artifacts(cosines, torch.linspace(0, 1, 1000, requires_grad=True))


@needs_compiler
def test_two_cosines_are_one_read_and_one_write(made: InductorArtifacts) -> None:
    """What stands between them is never in memory; `x + 1`, which reads the same, is in the same kernel."""
    (kernel,) = made.kernels()
    assert len(re.findall(r"\.cos\(\)|std::cos\(", kernel.text)) >= 2  # of vectors, or of numbers where the compiler has no vectors
    assert kernel.reads == ("in_ptr0",) and kernel.writes == ("out_ptr0", "out_ptr1")


@needs_compiler
def test_fusion_is_seen_in_the_ir(made: InductorArtifacts) -> None:
    """Before it there are two loop bodies, after it one node of the scheduler holds both."""
    assert made.find("ir").count(": SchedulerNode(") == 2
    assert "FusedSchedulerNode" in made.find("fused ir") and "FusedSchedulerNode" not in made.find("ir")
    assert 'op0_op1 [label="op0_op1: cos, cos_1' in made.find("diagram")


@needs_compiler
def test_the_backward_half_is_there(made: InductorArtifacts) -> None:
    """Graph, IR and code of backward, though the call itself ran none; nothing was accumulated."""
    assert made.find("graph", "backward").count("aten.sin") == 2
    assert "aten.sin" in made.find("joint") and "aten.cos" in made.find("joint")
    assert made.kernels("backward") and "sin" in made.find("kernels", "backward")
    phases = [line.split("  ")[-1] for line in made.find("times").splitlines()]
    assert phases == ["trace, differentiate, partition", "lower to IR", "fuse", "write code", "compile and load"]
    assert made.notice == ""


@needs_compiler
def test_no_path_of_the_machine_is_in_it(made: InductorArtifacts) -> None:
    """Texts name files, not folders."""
    assert str(Path(__file__).parent) not in str(made) and "/tmp/" not in str(made)
    assert "test_inductor_artifacts.py" in made.find("graph")


@needs_compiler
def test_the_explorer_has_each_text(made: InductorArtifacts) -> None:
    """The data for the browser lists every artefact with the part that switches it."""
    (frame,) = explorer_data(made.explanation.recording)["frames"]
    listed = frame["graphs"][0]["artifacts"]
    assert [(one["part"], one["text"]) for one in listed] == [(one.part, one.text) for one in made.all]
    assert [one["title"] for one in listed][:4] == ["joint graph", "forward graph", "forward ir", "forward fused ir"]


def test_the_graphs_of_aot_eager() -> None:
    """Joint, forward and backward graph of a module, whose parameters get no gradient by being looked at."""
    layer = nn.Linear(4, 4)
    found = inductor_artifacts(layer, torch.ones(2, 4), backend="aot_eager")
    assert [(one.stage, one.part) for one in found.all] == [("joint", "joint"), ("forward", "graph"), ("backward", "graph")]
    assert layer.weight.grad is None
    assert "== backward graph of __compiled_fn_" in str(found)


def test_without_gradients_there_is_a_forward_graph_only() -> None:
    """Nothing to differentiate."""
    found = inductor_artifacts(cosines, torch.ones(3), backend="aot_eager")
    assert [(one.stage, one.part) for one in found.all] == [("forward", "graph")]


def test_each_graph_of_a_broken_function() -> None:
    """Graphs are counted in the order in which they were compiled."""

    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        dynexplore.graph_break()
        return torch.exp(y)

    found = inductor_artifacts(f, torch.ones(3), backend="aot_eager")
    assert len(found.graphs) == 2
    assert "aten.sin" in found.find("graph", graph=0) and "aten.exp" in found.find("graph", graph=1)


def test_bad_input_is_one_sentence() -> None:
    """Backend, part and stage that there are not."""
    with pytest.raises(ValueError, match="artifacts are available only for the backends inductor and aot_eager, not for 'eager'"):
        inductor_artifacts(cosines, torch.ones(3), backend="eager")
    with pytest.raises(ConfigError, match="there is no artifact 'colour'"):
        inductor_artifacts(cosines, torch.ones(3), backend="aot_eager", parts=("colour",))
    found = inductor_artifacts(cosines, torch.ones(3), backend="aot_eager")
    with pytest.raises(ValueError, match="there is no graph of backward of graph 0; there are: forward graph of graph 0"):
        found.find("graph", "backward")


PROGRAM = """
import torch, dynexplore
made = dynexplore.inductor_artifacts(lambda x: torch.cos(x) + 1, torch.ones(9))
print(made.notice)
print([part.part for part in made.all])
"""

TOOLS = """
import torch, dynexplore
def f(x):
    return torch.cos(x) + 1
x = torch.ones(9, requires_grad=True)
found = dynexplore.explain(f, x, backend="inductor")
assert found.notice in str(found).splitlines() and torch.equal(found.value, f(x)) and found.graph_count == 1
assert dynexplore.coverage(f, x, backend="inductor").notice == found.notice
said = dynexplore.diagnose(f, x)
assert said.failing is None and [stage.verdict for stage in said.stages] == ["ok", "ok", "ok", "absent"], said
said_in_lines = str(said).replace("\\n    ", " ")
assert found.notice in said_in_lines and "Every stage that could be tested matches plain Python." in said_in_lines
assert "was not tested" in said._repr_html_()
optimized = lambda f, x: dynexplore.optimize("inductor")(f)(x)
for tool in (dynexplore.minify, lambda *args: dynexplore.minify(*args, after="aot"), optimized):
    try:
        tool(f, x)
    except dynexplore.exc.MissingCompiler as error:
        assert str(error) == found.notice
    else:
        raise AssertionError(tool)
print(found.notice)
"""


def without_a_compiler(program: str, folder: Path) -> list[str]:
    """What a program prints where no compiler is found."""
    hidden: dict[str, Any] = {"CXX": str(folder / "g++"), "PATH": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **hidden}, capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    return done.stdout.splitlines()


def test_without_a_compiler_every_tool_says_so(tmp_path: Path) -> None:
    """A capture is shown and its graphs run as they are; a diagnosis leaves the backend out; the rest is one sentence."""
    (notice,) = without_a_compiler(TOOLS, tmp_path)
    assert notice.startswith("Inductor needs a C++ compiler")


def test_without_a_compiler_there_is_one_sentence(tmp_path: Path) -> None:
    """What needs none is shown, and what to install is said."""
    notice, parts = without_a_compiler(PROGRAM, tmp_path)
    assert notice.startswith("Inductor needs a C++ compiler") and "CXX" in notice
    assert "'graph', 'ir', 'fused ir'" in parts
