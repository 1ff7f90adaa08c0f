"""engine/runtime/debugging/operator_profile.py: the operators of a call, with graph and frame."""

from __future__ import annotations

import torch

from dynexplore.engine.runtime.debugging.operator_profile import profiled
from dynexplore.engine.runtime.profiler_ranges import GRAPH, GUARDS


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
