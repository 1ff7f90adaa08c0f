"""Whom torch asks before it carries out a call: `GraphBuilder.torch_function_call`."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

from dynexplore.engine.graph.builder import GraphBuilder
from dynexplore.engine.graph.torch_function_probe import TorchFunctionDispatched
from dynexplore.engine.provenance.sources import LocalSource
from dynexplore.engine.specialization.shape_env import make_shape_env

CALLS = [
    ("call_function", operator.add, (1,), torch.Tensor.add),
    ("call_function", torch.add, (1,), torch.add),
    ("call_function", torch.nn.functional.relu, (), torch.nn.functional.relu),
    ("call_method", "sum", (), torch.Tensor.sum),
    ("get_attr_of", "shape", (), torch.Tensor.shape.__get__),
    ("get_attr_of", "device", (), torch.Tensor.device.__get__),  # a fake tensor has one of its own
]


def _asked(op: str, target: Any, args: tuple[Any, ...]) -> TorchFunctionDispatched | None:
    builder = GraphBuilder(make_shape_env)
    x, source = torch.ones(2), LocalSource("x", 0)
    node = builder.placeholder("x", source, x, builder.fake_tensor(x, source))
    return builder.torch_function_call(op, target, [node, *args], {})


@pytest.mark.plain("the builder alone")
@pytest.mark.parametrize(("op", "target", "args", "function"), CALLS)
def test_a_call_asks_under_its_own_name(op: str, target: Any, args: tuple[Any, ...], function: Any) -> None:
    """What a TorchFunctionMode would be asked about is what eager asks it about."""
    asked = _asked(op, target, args)
    assert asked is not None
    assert asked.function == function
    assert asked.arguments[0] is asked.passed[0]


@pytest.mark.plain("the builder alone")
@pytest.mark.parametrize(("op", "target"), [("get_attr_of", "sum"), ("get_attr_of", "no_such_name"), ("call_function", id)])
def test_what_asks_nobody_has_no_question(op: str, target: Any) -> None:
    """A method as a value, an attribute that is missing and a call that is none of torch's ask no mode."""
    assert _asked(op, target, ()) is None
