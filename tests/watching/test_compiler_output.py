"""What AOTAutograd and Inductor make under a watched torch.compile."""

from __future__ import annotations

import logging
import re

import pytest
import torch
from watching.programs import Net

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.views.explorer_data import explorer_data
from dynexplore.watching import private_torch

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]


def trained(**options: bool) -> dynexplore.Recording:
    """A watched step of training."""
    compiled = torch.compile(Net(), backend="aot_eager")
    with dynexplore.watch(**options) as seen:
        compiled(torch.ones(2, 4)).sum().backward()
    assert not seen.notices
    return seen.recording


def test_joint_forward_and_backward_graph_belong_to_the_captured_one() -> None:
    """Each stage is told under the name of the graph it was made of, with the times, and shown beside it."""
    recording = trained(artifacts=True)
    made = recording.of(ev.ArtifactEmitted)
    assert [(one.stage, one.part) for one in made if one.part != "cache"] == [
        ("joint", "joint"), ("forward", "graph"), ("backward", "graph"), ("compile", "times"),
    ]  # fmt: skip
    assert {one.graph for one in made} == {recording.graphs[0].name}
    assert any("torch.ops.aten" in one.text for one in made)
    assert any(phase.phase == "backend" for phase in recording.of(ev.PhaseTimed))
    assert explorer_data(recording)["frames"][0]["graphs"][0]["artifacts"]


def test_the_rest_of_a_recording_is_the_same_with_artefacts() -> None:
    """Frames, graphs, guards and breaks do not depend on it; without it nothing is told of the compiler."""
    without = trained()
    torch._dynamo.reset()
    with_them = trained(artifacts=True)
    assert not without.of(ev.ArtifactEmitted)
    for question in ("frames", "graphs", "guards", "breaks"):
        assert len(getattr(without, question)) == len(getattr(with_them, question))
    texts = ([re.sub(r"\d{2,}|(?<=___)\d+", "", guard.expression) for guard in one.guards] for one in (without, with_them))
    assert next(texts) == next(texts)


def test_a_watch_leaves_no_trace_in_torchs_log() -> None:
    """Afterwards torch's log has the handlers that it had, and tells its strings to the next who listens."""
    log = logging.getLogger(private_torch.TRACE_LOG)
    trained()  # the handler that torch begins with takes itself away
    handlers, strings = list(log.handlers), dict(private_torch.interned())
    torch._dynamo.reset()
    trained(artifacts=True)
    assert log.handlers == handlers
    assert private_torch.interned() == strings


def test_the_artefacts_of_a_failing_backend_belong_to_its_frame() -> None:
    """What was made before a backend failed is told of the frame, though there is no graph."""

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> None:
        from torch._logging import trace_structured

        trace_structured("aot_joint_graph", payload_fn=lambda: "def forward(self): pass")
        raise RuntimeError("refused")

    with dynexplore.watch(artifacts=True) as seen, pytest.raises(Exception, match="refused"):
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    joint = [made for made in seen.recording.of(ev.ArtifactEmitted) if made.part == "joint"]
    assert [(made.frame, made.graph) for made in joint] == [(1, "")]
