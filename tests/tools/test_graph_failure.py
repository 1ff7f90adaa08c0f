"""tools/graph_failure.py: right, wrong, or raising; and never wrong for random numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.fx

from dynexplore.engine.graph.finished_graph import copy_of_graph
from dynexplore.engine.runtime.backends import resolve
from dynexplore.tools.graph_failure import Failure, failure_of


class Model(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return (torch.nn.functional.dropout(x.sin(), 0.5, True).mul_(2),)


GRAPH = torch.fx.symbolic_trace(Model())
INPUTS = [torch.randn(64, requires_grad=True)]


@pytest.mark.plain("runs graphs made by hand")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch itself, as it imports Inductor
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_dropout_is_not_wrong(backend: str) -> None:
    """The same elements are dropped, also by Inductor."""
    assert failure_of(GRAPH, INPUTS, resolve(backend)) is None


@pytest.mark.plain("runs graphs made by hand")
def test_a_wrong_value_behind_dropout() -> None:
    """Random numbers hide no fault."""
    failure = failure_of(GRAPH, INPUTS, lambda graph, inputs: lambda *given: [one + 1e-2 for one in graph(*given)])
    assert failure is not None and failure.kind == "differs" and "differs by" in failure.words


@pytest.mark.plain("runs graphs made by hand")
def test_what_raises() -> None:
    """While it compiles, or when it is called: the type tells failures apart."""

    def now(graph: Any, inputs: Any) -> Any:
        raise KeyError("now")

    def late(graph: Any, inputs: Any) -> Any:
        return lambda *given: 1 // 0

    found = [failure_of(GRAPH, INPUTS, compiler) for compiler in (now, late)]
    assert [(one.kind, one.error) for one in found if one] == [("raises", "KeyError"), ("raises", "ZeroDivisionError")]
    assert not found[0].is_like(found[1]) and not Failure("differs").is_like(None)  # type: ignore[union-attr]


@pytest.mark.plain("runs graphs made by hand")
def test_a_graph_that_makes_no_sense_is_no_failure() -> None:
    """What cannot run as it is says nothing about the compiler."""
    graph = torch.fx.symbolic_trace(lambda x: x.reshape(7))
    assert failure_of(graph, [torch.ones(3)], lambda graph, inputs: lambda *given: 1 // 0) is None


@pytest.mark.plain("runs graphs made by hand")
def test_copies_share_parameters() -> None:
    """And nothing else: a backend may change the graph that it is given."""
    graph = torch.fx.symbolic_trace(torch.nn.Linear(2, 2))
    copied = copy_of_graph(graph)
    assert copied.weight is graph.weight
    copied.graph.erase_node(next(iter(reversed(copied.graph.nodes))))
    assert len(list(graph.graph.nodes)) > len(list(copied.graph.nodes))
