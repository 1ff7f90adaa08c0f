"""What aot_eager makes of a graph calls the operators' functions in C, and does what torch's own does."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import dynexplore
from dynexplore.engine.runtime.direct_calls import run_directly, with_compilers


def traced(*inputs: torch.Tensor) -> torch.fx.GraphModule:
    graph: torch.fx.GraphModule = make_fx(lambda x, y: (x @ y).sum(0).relu() + torch.zeros(2, device=x.device))(*inputs)
    return graph


@pytest.mark.plain("it looks at the function alone")
def test_a_graph_is_run_with_direct_calls() -> None:
    """The same values, no name of `torch.ops` is looked up, and the list of inputs is emptied as torch's compilers want it."""
    inputs = [torch.randn(3, 2), torch.randn(2, 2)]
    graph = traced(*inputs)
    expected = graph(*inputs)
    run = run_directly(graph, inputs)
    given = list(inputs)
    assert torch.equal(run(given), expected)
    assert given == []
    assert run._boxed_call  # type: ignore[attr-defined]
    cells = dict(zip(run.__code__.co_freevars, run.__closure__ or (), strict=True))
    code = cells["forward"].cell_contents.__func__.__code__
    assert "ops" not in code.co_names
    assert "aten_mm_default__direct" in code.co_names


@pytest.mark.plain("it looks at the function alone")
def test_a_failing_operator_is_shown_with_its_line() -> None:
    """The traceback has the line of the graph's code."""
    run = run_directly(traced(torch.randn(3, 2), torch.randn(2, 2)), [])
    with pytest.raises(RuntimeError) as raised:
        run([torch.randn(3, 2), torch.randn(3, 2)])
    lines = [frame.line for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert any("= aten_mm_default__direct(" in (line or "") for line in lines)


def test_aot_eager_is_given_it() -> None:
    """Forward and backward of a compiled function run so; values and gradients are eager's."""
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm((x @ y).tanh(), (4,)).square().sum()

    def gradients(function: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        x, y = torch.arange(12.0).reshape(3, 4).requires_grad_(), torch.eye(4).requires_grad_()
        value = function(x, y)
        value.backward()
        assert x.grad is not None
        assert y.grad is not None
        return [value.detach(), x.grad, y.grad]

    expected = gradients(f)
    optimized = dynexplore.optimize("aot_eager")(f)
    for _ in range(2):
        torch.testing.assert_close(gradients(optimized), expected)
    assert dynexplore.counters["stats"]["graphs"] == 1


def test_a_backend_of_the_program_keeps_its_arguments() -> None:
    """One that happens to bear the same name is called with the graph and the inputs alone."""
    def aot_eager(graph: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        calls.append(len(example_inputs))
        return graph.forward

    calls: list[int] = []
    assert with_compilers(aot_eager, {}) == {}
    assert dynexplore.optimize(aot_eager)(lambda x: x + 1)(torch.zeros(2)).tolist() == [1.0, 1.0]
    assert calls == [1]
