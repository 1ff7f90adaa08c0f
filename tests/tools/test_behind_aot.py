"""tools/behind_aot.py: the graphs of aten operators, and who compiles them."""

from __future__ import annotations

import pytest
import torch
import torch.fx

from dynexplore.tools.behind_aot import graphs_behind_aot, inner_compiler


@pytest.mark.plain("compiles a graph that is made by hand")
def test_forward_and_backward() -> None:
    """Both are kept, with the inputs of their run, which need no gradients there."""
    graph = torch.fx.symbolic_trace(lambda x: (torch.sin(x),))
    (forward, given), (backward, gradients) = graphs_behind_aot(graph, [torch.randn(3, requires_grad=True)], "aot_eager")
    assert "aten.sin" in forward.code and "aten.cos" in backward.code
    assert not any(one.requires_grad for one in (*given, *gradients))


@pytest.mark.plain("names of compilers")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch itself, as it imports Inductor
def test_who_compiles_them() -> None:
    """Inductor's inner part; a callable; and nothing that is only known by another name."""
    assert callable(inner_compiler("inductor"))
    with pytest.raises(ValueError, match="takes backend='inductor' or a callable for aten graphs, not 'aot_eager'"):
        inner_compiler("aot_eager")
