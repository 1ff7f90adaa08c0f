"""tools/operator_profile.py: the operators of a call, with graph and frame."""

from __future__ import annotations

import sys

import pytest
import torch

from dynexplore.engine.runtime.profiler_ranges import GRAPH, GUARDS
from dynexplore.tools.operator_profile import ProfilerRunning, profiled

pytestmark = pytest.mark.plain("profiles calls that are not captured")


def test_operators_of_operators_are_not_counted_again() -> None:
    """Linear calls addmm and transposes: it counts once."""
    layer, x = torch.nn.Linear(3, 3), torch.ones(1, 3)
    assert [run.name for run in profiled(lambda: layer(x))] == ["aten::linear"]


def test_ranges_say_graph_and_frame() -> None:
    """Inside a graph's range the operator bears its name; a guard check begins a frame."""
    x = torch.ones(2)

    def call() -> None:
        with torch.profiler.record_function(f"{GUARDS}7 of f"):
            pass
        with torch.profiler.record_function(f"{GRAPH}__compiled_fn_0"):
            x.sin()
        x.cos()

    assert [(run.name, run.graph, run.frame) for run in profiled(call)] == [
        ("aten::sin", "__compiled_fn_0", 7),
        ("aten::cos", "", 7),
    ]


def test_the_backward_is_left_out() -> None:
    """What the autograd engine runs belongs to no line of the program."""
    x = torch.ones(2, requires_grad=True)
    assert [run.name for run in profiled(lambda: x.sin().sum().backward())][:2] == ["aten::sin", "aten::sum"]


def test_nothing_is_written_to_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    """Kineto's lines ("USDT: ... profiler_start") are not there; what the call itself writes is."""
    profiled(lambda: print("mine", file=sys.stderr))
    assert capfd.readouterr().err == "mine\n"


def test_a_program_that_is_being_profiled_is_refused_in_a_sentence() -> None:
    """Torch has one profiler for each thread; the one that runs keeps what it saw."""
    x = torch.ones(2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as outer:
        x.cos()
        with pytest.raises(ProfilerRunning, match="already running: call this outside its block"):
            profiled(x.sin)
    names = {event.name for event in outer.events()}
    assert "aten::cos" in names and "aten::sin" not in names
