"""What autograd notes of fake tensors, read from its nodes."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode

from dynexplore.engine.aliasing import autograd_graph
from dynexplore.engine.aliasing.autograd_graph import grad_nodes, have_same_grad_leaves

pytestmark = pytest.mark.plain("autograd notes it, and no engine is asked")


def test_each_node_is_met_once() -> None:
    """A value that is used twice has one history; what is no tensor, and what has no gradient, has none."""
    with FakeTensorMode():
        x = torch.ones(2, requires_grad=True)
        shared = x.sin()
        names = sorted(node.name() for node in grad_nodes([shared + shared, shared * 2, x.detach(), 3, None]))
    assert names == ["AddBackward0", "MulBackward0", "SinBackward0", "torch::autograd::AccumulateGrad"]


def test_leaves_are_where_gradients_end() -> None:
    """The same leaf under two tensors is one; a part of a graph reaches fewer, and a leaf itself none."""
    with FakeTensorMode():
        x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        shared = x.sin()
        assert have_same_grad_leaves([])
        assert have_same_grad_leaves([shared, shared * x, x.exp().detach() + shared])
        assert have_same_grad_leaves([x * w, shared + w, w.sin() * shared])
        assert not have_same_grad_leaves([x * w, shared])
        assert not have_same_grad_leaves([x.sin(), w.sin()])
        assert not have_same_grad_leaves([x.sin(), x])


def test_leaves_of_many_outputs_take_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node says once what stands behind it, however many outputs there are, and however long the history is."""
    with FakeTensorMode():
        x = torch.ones(2, requires_grad=True)
        outputs = [x.sin()]
        for _ in range(2000):  # more than the recursion limit
            outputs.append(outputs[-1].sin())
        asked = []
        walked = autograd_graph._leaves_behind
        monkeypatch.setattr(autograd_graph, "_leaves_behind", lambda *args: (walked(*args), asked.append(len(args[1])))[0])
        assert have_same_grad_leaves(reversed(outputs))
    assert asked == [2003] * 2001  # the first output finds all 2001 sines, and the leaf (beside None)
