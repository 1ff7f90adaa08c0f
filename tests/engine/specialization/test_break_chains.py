"""specialization/break_chains.py: how many chains of calls end one graph at one place of a helper."""

from __future__ import annotations

from typing import Any

import torch

import dynexplore
from dynexplore.engine.config import config

X = torch.ones(3)


def breaks_once(x):
    x = x * 2
    dynexplore.graph_break()
    return x + 1


def test_a_helper_of_many_callers_is_compiled_for_four_of_them() -> None:
    """Further ones break where they call, and share the frame of the helper."""
    names: dict[str, Any] = {"breaks_once": breaks_once}
    for number in range(7):
        exec(f"def f{number}(x):\n    x = x - {number}\n    y = breaks_once(x)\n    return y * x", names)

    dynexplore.reset()
    graphs: list[torch.fx.GraphModule] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    functions = [dynexplore.optimize(backend)(names[f"f{number}"]) for number in range(7)]
    counts = []
    for number, function in enumerate(functions):
        with config.patch(nested_graph_breaks=True):
            assert torch.equal(function(X), names[f"f{number}"](X))
        counts.append(len(graphs))
    assert counts == [2, 4, 6, 8, 12, 14, 16]
