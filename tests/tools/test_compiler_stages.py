"""What is noted while AOTAutograd and Inductor work, and that nothing else changes."""

from __future__ import annotations

import shutil

import pytest
import torch
from recorded import recorded

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.errors import ConfigError
from dynexplore.tools.compiler_stages import watched, without_paths

pytestmark = pytest.mark.filterwarnings(r"ignore:.torch\.jit\..* is deprecated:DeprecationWarning")  # torch's own, on import
COMPILER = shutil.which("g++") or shutil.which("clang++")


def cosines(x: torch.Tensor) -> torch.Tensor:
    return torch.cos(torch.cos(x))


def parts_of(backend: str, *parts: str) -> list[tuple[str, str]]:
    with dynexplore.config.patch(artifacts=parts):
        recording = recorded(cosines, (torch.ones(3, requires_grad=True),), backend=backend)
    assert len(recording.graphs) == 1
    return [(made.stage, made.part) for made in recording.of(ev.ArtifactEmitted)]


def test_nothing_is_noted_unless_asked_for() -> None:
    """No option, no events; and no watched backend at all."""
    assert parts_of("aot_eager") == []
    assert watched("aot_eager", None, 1, "g") is None


def test_each_part_can_be_asked_for_alone() -> None:
    """The joint graph without its halves, and the other way round; the backward half comes when backward runs."""
    assert parts_of("aot_eager", "joint") == [("joint", "joint")]
    assert parts_of("aot_eager", "graph") == [("forward", "graph")]


def test_a_backend_that_is_not_known_is_left_alone() -> None:
    """Only inductor and aot_eager have stages to show."""
    assert parts_of("eager", "graph", "joint") == []


@pytest.mark.plain("refused before anything is captured")
def test_an_unknown_part_is_one_sentence() -> None:
    """It names those there are."""
    with pytest.raises(ConfigError, match="there is no artifact 'colour'; there are: joint, graph, ir"):
        dynexplore.config.patch(artifacts=("colour",))


def test_values_and_gradients_are_as_without_watching() -> None:
    """The watched aot_eager gives what the plain one gives."""
    results = []
    for parts in ((), ("joint", "graph")):
        dynexplore.reset()
        x = torch.linspace(0, 1, 5, requires_grad=True)
        with dynexplore.config.patch(artifacts=parts):
            explanation = dynexplore.explain(cosines, x, backend="aot_eager")
        assert explanation.graph_count == 1
        y = explanation.value
        y.sum().backward()
        results.append((y.detach(), x.grad))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)


@pytest.mark.skipif(not COMPILER, reason="Inductor wants a C++ compiler")
def test_inductor_is_watched_from_the_joint_graph_to_the_code() -> None:
    """Every part in order; Inductor's own hooks are as they were afterwards."""
    options = pytest.importorskip("torch._inductor.config")
    lowering = pytest.importorskip("torch._inductor.graph").GraphLowering
    names = [part for part in ("graph", "ir", "fused ir", "diagram", "kernels", "code", "times")]
    assert parts_of("inductor", "joint", *names) == [("joint", "joint"), *(("forward", part) for part in names)]
    assert options._pre_fusion_custom_pass is None and options.joint_custom_pre_pass is None
    assert lowering.save_output_code is None


@pytest.mark.plain("works on text")
def test_paths_are_taken_off() -> None:
    """File names stay, folders go, divisions stay."""
    assert without_paths("# File: /a/b-c/model.py:12 in f") == "# File: model.py:12 in f"
    assert without_paths('#include "/tmp/torchinductor_me/ab/cde.h"') == '#include "cde.h"'
    assert without_paths("x = a/b/c; y = 1/2") == "x = a/b/c; y = 1/2"
    assert without_paths("# File: /tmp/ipykernel_12/345.py:1 in f") == "# File: <cell>:1 in f"
