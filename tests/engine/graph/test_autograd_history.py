"""What autograd notes of fake tensors, read from its nodes."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode

from dynexplore.engine.graph.autograd_history import history, leaves

pytestmark = pytest.mark.plain("autograd notes it, and no engine is asked")


def test_each_node_is_met_once() -> None:
    """A value that is used twice has one history; what is no tensor, and what has no gradient, has none."""
    with FakeTensorMode():
        x = torch.ones(2, requires_grad=True)
        shared = x.sin()
        names = sorted(node.name() for node in history([shared + shared, shared * 2, x.detach(), 3, None]))
    assert names == ["AddBackward0", "MulBackward0", "SinBackward0", "torch::autograd::AccumulateGrad"]


def test_leaves_are_where_gradients_end() -> None:
    """The same leaf under two tensors is one; a part of a graph reaches fewer."""
    with FakeTensorMode():
        x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        whole, part = x * w, x.sin()
        assert leaves([part]) < leaves([whole, part]) == leaves([whole])
        assert len(leaves([whole])) == 2
