"""tools/compile_times.py: phases per function, as table and trace."""

from __future__ import annotations

import json
from pathlib import Path

import torch

import dynexplore


def work(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).relu()


def test_every_phase_of_a_function(tmp_path: Path) -> None:
    """Read, translate, guards, backend and assemble all took time; the trace holds them as Chrome wants them."""
    dynexplore.reset()
    dynexplore.optimize("eager")(work)(torch.ones(2))
    times = dynexplore.compile_times()
    ((function, phases),) = times.as_dict().items()
    assert function.startswith("work (")
    assert all(phases[name] > 0 for name in ("read", "translate", "guards", "backend", "assemble"))
    assert "translate" in str(times) and "work" in str(times) and "<table>" in times._repr_html_()
    trace = json.loads(times.write_trace(tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["name"] for event in trace} >= {"translate", "read"} and all(event["dur"] >= 0 for event in trace)
    dynexplore.reset()
    assert dynexplore.compile_times().as_dict() == {}
