"""tools/shrinking.py: a graph is cut down, and shown before and after."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.fx

from dynexplore.tools.graph_failure import failure_of
from dynexplore.tools.shrinking import operators, shrink


def no_tangent(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that cannot do one operator."""
    if "torch.tan" in graph.code:
        raise NotImplementedError("tan")
    return graph.forward


@pytest.mark.plain("cuts down graphs made by hand")
def test_the_one_that_is_to_blame() -> None:
    """And the other failure that a cut might bring up is not taken for it."""

    def fn(x: Any, y: Any) -> Any:
        return (torch.tan(x.sin() + y).cos() * 2).sum(), x + y

    graph, inputs = torch.fx.symbolic_trace(fn), [torch.ones(2), torch.ones(2)]
    failure = failure_of(graph, inputs, no_tangent)
    assert failure is not None
    small = shrink(graph, inputs, no_tangent, failure, backend=no_tangent)
    assert operators(small.graph) == 1 and "torch.tan" in small.graph.code and len(small.inputs) == 1
    assert str(small).startswith("7 operators became 1; it raises NotImplementedError: tan")
    assert operators(graph) == 7 and operators(small.before) == 7
    page = small._repr_html_()
    assert page.count("<img alt=") == 2 and "torch.tan" in page and "def repro_run" in page


@pytest.mark.plain("cuts down graphs made by hand")
def test_inputs_do_not_look_like_operators() -> None:
    """A backend that looks at names does not take an input for the operator that it was before."""

    def by_name(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        if any("tan" in str(node.target) for node in graph.graph.nodes):
            raise NotImplementedError("tan")
        return graph.forward

    graph, inputs = torch.fx.symbolic_trace(lambda x: torch.tan(x.sin()).cos()), [torch.ones(2)]
    small = shrink(graph, inputs, by_name, failure_of(graph, inputs, by_name), backend=by_name)  # type: ignore[arg-type]
    assert operators(small.graph) == 1 and "torch.tan" in small.graph.code
