"""watching/cuda_graph_log.py: a watch reads what torch logs about CUDA graphs, and what is printed stays the same."""

from __future__ import annotations

import logging

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.views import program_report
from dynexplore.watching import private_torch

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]

TREES, UTILS = (logging.getLogger(f"torch._inductor.{name}.__cudagraphs") for name in ("cudagraph_trees", "cudagraph_utils"))
SKIPPED = """skipping cudagraphs due to mutated inputs (1 instances). Found from :
   File "train.py", line 3, in step
    x.add_(1)
"""


def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> torch.fx.GraphModule:
    """A backend that logs as Inductor does on a GPU: while it compiles, and when its graph runs."""
    compilation = torch._guards.CompileContext.current_compile_id()
    UTILS.warning(SKIPPED)
    forward = graph.forward

    def run(*inputs: torch.Tensor) -> object:
        TREES.debug("[%s] Recording function=%s, cuda_graph_id=0, inputs: ", compilation, "partition_0")
        return forward(*inputs)

    return run  # type: ignore[return-value]


def test_outcomes_belong_to_their_frames(caplog: pytest.LogCaptureFixture) -> None:
    """What is logged while a frame compiles belongs to it; what is logged when it runs does by its compile id."""
    compiled = torch.compile(lambda x: x * 2, backend=backend)
    with caplog.at_level(logging.WARNING), dynexplore.watch() as seen:
        compiled(torch.ones(2))
    logged = seen.recording.of(ev.CudaGraphLogged)
    assert [(one.outcome, one.frame) for one in logged] == [("skipped", 1), ("recorded", 1)]
    assert logged[0].place is not None and logged[0].place.line == 3
    report = program_report.report(seen.recording)
    assert "CUDA graphs: 1 recorded, 1 skipped." in report
    assert "  Skipped: mutated inputs (1 instances), at train.py:3 in step: x.add_(1)" in report


def test_what_is_printed_stays_the_same(caplog: pytest.LogCaptureFixture) -> None:
    """A message that would not have been logged reaches no handler, a warning does, and afterwards each logger is as before."""
    loggers = [logging.getLogger(name) for name in private_torch.CUDA_GRAPH_LOGS]
    before = [(log.level, list(log.filters)) for log in loggers]
    compiled = torch.compile(lambda x: x * 2, backend=backend)
    with caplog.at_level(logging.WARNING), dynexplore.watch() as seen:
        compiled(torch.ones(2))
    assert len(seen.recording.of(ev.CudaGraphLogged)) == 2
    assert [record.getMessage() for record in caplog.records if "cudagraph" in record.name] == [SKIPPED]
    assert [(log.level, list(log.filters)) for log in loggers] == before
