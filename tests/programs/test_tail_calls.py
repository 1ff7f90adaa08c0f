"""What a loop's resume functions call is captured like anything else."""

from __future__ import annotations

import torch

import dynexplore


def test_callee_of_a_resumed_loop_is_captured() -> None:
    """After a break in a loop, the functions that later iterations call are compiled too."""
    graphs = []

    def backend(module, inputs):
        graphs.append(len(module.graph.nodes))
        return module.forward

    def callee(x):
        dynexplore.graph_break()
        return x * 2 + 1

    def loop(x):
        for _ in range(3):
            dynexplore.graph_break()
            x = callee(x)
        return x

    x = torch.ones(3)
    assert torch.equal(dynexplore.optimize(backend)(loop)(x), loop(x))
    assert graphs
