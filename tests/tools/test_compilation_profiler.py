"""tools/compilation_profiler.py: what breaks and what recompiles, with the guard to blame."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore

SCALE = 1.0


def noisy(x: Any, k: int) -> Any:
    y = x * k * SCALE
    print("woo")
    return y.relu()


def test_an_int_that_changes_and_a_global_that_changes(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder, capsys: Any
) -> None:
    """Each guard that failed is named with what it expected and found; the break with place and cure; no warning."""
    prof = dynexplore.CompilationProfiler()
    compiled = dynexplore.optimize(prof)(noisy)
    for k in (1, 2, 3):
        compiled(torch.ones(2), k)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert torch.equal(compiled(torch.ones(2), 1), torch.full((2,), 2.0))
    report = prof.report()
    assert report.startswith("2 frames were compiled to 2 graphs with 3 operators")
    in_one_line = " ".join(report.split())  # where the path of this file is long, the line of the break is wrapped
    assert "in noisy DX206: printing or logging" in in_one_line and "fix: Move the print outside" in report
    assert "local 'k' EQUALS: expected 1, found 2" in report and "found 3" in report
    assert "global 'SCALE' EQUALS: expected 1.0, found 2.0" in report
    assert not recwarn.list and str(prof) == report


def test_a_hook_that_breaks_the_graph(capsys: Any) -> None:
    """The break stands in the hook's own line."""
    model = torch.nn.Linear(2, 2)
    model.register_forward_hook(lambda module, args, output: print("hook"))
    prof = dynexplore.CompilationProfiler()
    dynexplore.optimize(prof)(model)(torch.ones(1, 2))
    assert "test_compilation_profiler.py" in prof.report() and "DX206" in prof.report()


def test_nothing_to_tell() -> None:
    """A program in one graph."""
    prof = dynexplore.CompilationProfiler()
    dynexplore.optimize(prof)(lambda x: x + 1)(torch.ones(2))
    assert prof.report().startswith("1 frame was compiled to 1 graph with 1 operator")
    assert "Graph breaks: none" in prof.report() and "Suppressed recompiles: none" in prof.report()


def test_causes_come_first() -> None:
    """A cause with many places is told once, with the first few of them and how many more there are; attributes hold all."""
    prof = dynexplore.CompilationProfiler()
    functions = []
    for number in range(6):
        namespace = {"torch": torch, "dynexplore": dynexplore}
        exec(f"def f{number}(x):\n    x = x + {number}\n    dynexplore.graph_break('here')\n    return x * 2\n", namespace)
        functions.append(dynexplore.optimize(prof)(namespace[f"f{number}"]))
    for dtype in (torch.float32, torch.float64):
        for function in functions:
            function(torch.ones(2, dtype=dtype))
    report = prof.report()
    lines = report.splitlines()
    assert len(report.breaks) == 6 and len([line for line in lines if "DX208" in line]) == 1
    at = lines.index(next(line for line in lines if "DX208" in line))
    assert lines[at].startswith("  6 x DX208: ") and "        and 3 more places" in lines[at + 1 : at + 8]
    again = [line for line in lines if "TENSOR_MATCH" in line]
    assert len(again) == 1 and again[0].startswith("  6 x local 'x' TENSOR_MATCH: expected float32[2] cpu, found float64[2] cpu")
    assert "  6 x recompile limit (1) reached" in lines
    assert len(lines) <= 25
