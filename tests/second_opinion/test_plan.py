"""Which nodes may run a second time."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
import torch.fx

from dynexplore.second_opinion.plan import Ref, refs, why_not_replayed, with_refs, with_values

pytestmark = pytest.mark.plain("asks of operators given by name whether they may run twice")


class Doubles(torch.autograd.Function):
    """Code of the program."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@torch.library.custom_op("dynexplore_test::shout", mutates_args=())
def shout(x: torch.Tensor) -> torch.Tensor:
    """A custom operator may print."""
    return x.clone()


def own(x: torch.Tensor) -> torch.Tensor:
    return x


@pytest.mark.parametrize(
    ("op", "target", "reason"),
    [
        ("call_function", torch.sin, ""),
        ("call_function", operator.add, ""),
        ("call_function", getattr, ""),
        ("call_function", torch.nn.functional.dropout, ""),
        ("call_function", torch._C._nn.linear, ""),
        ("call_function", torch.ops.aten.add.Tensor, ""),
        ("call_method", "sum", ""),
        ("call_method", "no_such_method", "Tensor.no_such_method is not torch's own"),
        ("call_function", torch.ops.dynexplore_test.shout.default, "custom operator"),
        ("call_function", Doubles.apply, "Doubles is user code"),
        ("call_function", own, "own is user code"),
        ("call_function", print, "print may have side effects"),
    ],
)
def test_what_may_run_twice(op: str, target: Any, reason: str) -> None:
    """Torch's own operators; neither code of the program nor custom operators."""
    graph = torch.fx.Graph()
    node = graph.create_node(op, target, (graph.placeholder("x"),))
    why = why_not_replayed(node, torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph()))
    assert (reason in why) if reason else why == ""


def test_the_body_of_a_higher_order_operator_is_looked_into() -> None:
    """A body that calls code of the program is as good as calling it."""
    inner = torch.fx.Graph()
    inner.output(inner.call_function(own, (inner.placeholder("x"),)))
    root = torch.nn.Module()
    root.body = torch.fx.GraphModule(torch.nn.Module(), inner)
    outer = torch.fx.Graph()
    node = outer.get_attr("body")
    assert why_not_replayed(node, torch.fx.GraphModule(root, outer)) == "own is user code"


def test_references() -> None:
    """Nodes become names wherever they stand, and names values."""
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    nest = with_refs(((x, [y, 1]), {"k": slice(x, None)}))
    assert [ref.name for ref in refs(nest)] == ["x", "y", "x"]
    assert with_values(nest, {"x": 5, "y": 6}) == ((5, [6, 1]), {"k": slice(5, None, None)})
    with pytest.raises(KeyError):
        with_values(Ref("z"), {})
