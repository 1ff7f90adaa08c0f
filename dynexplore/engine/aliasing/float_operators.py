"""Operators between a SymFloat and a tensor that tensorify_python_scalars does not handle: they get a 0-dim tensor instead.

The idea: torch's pass tensorify_python_scalars handles `x + a`, `x * a`, and little more. But `a - x` with a 0-dim tensor in place
of the float a runs the same kernel as with the float, which torch wraps into such a tensor itself. They differ only in type
promotion: a float never widens a tensor of floats, and turns an integer tensor into one of the default dtype. So the tensor is
cast to the dtype as which the float would have counted.

`x ** a` is not included: torch has faster kernels for the exponents 0.5, 2 and 3 that round differently.

In: the nodes of a graph whose floats are read from tensors (`tensor.item()`, float_inputs.py). Out: the same graph, in which these
operators take the tensors. PyTorch's counterpart: torch/fx/passes/_tensorify_python_scalars.py, for the other operators.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

#: operators, and the function that does the same when both operands are tensors
_ON_TENSORS: dict[Any, Callable[..., Any]] = {
    operator.floordiv: torch.floor_divide, operator.mod: torch.remainder, torch.where: torch.where,
    operator.gt: torch.gt, operator.lt: torch.lt, operator.ge: torch.ge, operator.le: torch.le, operator.eq: torch.eq,
    operator.ne: torch.ne, torch.gt: torch.gt, torch.lt: torch.lt, torch.ge: torch.ge, torch.le: torch.le, torch.eq: torch.eq,
    torch.ne: torch.ne,
}  # fmt: skip
#: the same for operators that are included only with the float on the left
_FLOAT_ON_THE_LEFT: dict[Any, Callable[..., Any]] = {
    **_ON_TENSORS, operator.sub: torch.sub, torch.sub: torch.sub, operator.pow: torch.pow, torch.pow: torch.pow,
}  # fmt: skip
#: kernels compute these in 32 bits, where the float arrives unrounded
_ROUND_TWICE = frozenset({torch.float16, torch.bfloat16})
#: float arithmetic that 64-bit 0-dim tensors compute identically
_MAKES_A_FLOAT = frozenset({operator.add, operator.sub, operator.mul, operator.truediv})


def is_float(argument: object) -> bool:
    """Whether an argument of a node is a float that the graph computes."""
    return isinstance(argument, torch.fx.Node) and isinstance(argument.meta.get("example_value"), torch.SymFloat)


def _tensor_of(argument: object) -> torch.Tensor | None:
    """The fake value of a tensor argument; None for a 16-bit 0-dim one, which rounds differently."""
    value = argument.meta.get("example_value") if isinstance(argument, torch.fx.Node) else None
    return value if isinstance(value, torch.Tensor) and (value.dim() > 0 or value.dtype not in _ROUND_TWICE) else None


def same_with_a_tensor(node: torch.fx.Node) -> Callable[..., Any] | None:
    """The function to call in place of this node, with a tensor for its float; None if it is not included."""
    if node.op != "call_function" or node.kwargs or len(node.args) != (3 if node.target is torch.where else 2):
        return None
    lhs, rhs = node.args[-2:]
    if is_float(lhs) and _tensor_of(rhs) is not None and _is_plain_arithmetic(lhs):
        return _FLOAT_ON_THE_LEFT.get(node.target)
    if is_float(rhs) and _tensor_of(lhs) is not None and _is_plain_arithmetic(rhs):
        return _ON_TENSORS.get(node.target)
    return None


def _is_plain_arithmetic(number: Any) -> bool:
    """Whether a float is an input, or computed from inputs and numbers by plain arithmetic."""
    if not is_float(number) or number.op == "placeholder" or (number.op == "call_method" and number.target == "item"):
        return True
    return number.target in _MAKES_A_FLOAT and not number.kwargs and all(_is_plain_arithmetic(argument) for argument in number.args)


def replace_floats_by_tensors(graph: torch.fx.Graph) -> None:
    """Replace the float operands of all such operators of the graph by tensors."""
    conversions: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in list(graph.nodes):
        target = same_with_a_tensor(node)
        if target is not None:
            _replace_operands(graph, node, target, conversions)


def _replace_operands(
    graph: torch.fx.Graph, node: torch.fx.Node, target: Callable[..., Any], conversions: dict[torch.fx.Node, torch.fx.Node]
) -> None:
    other = next(value for value in map(_tensor_of, node.args[-2:]) if value is not None)
    arguments = [
        _cast_as_float_operand(graph, node, _as_tensor(graph, argument, conversions), other) if is_float(argument) else argument
        for argument in node.args
    ]
    node.target, node.args = target, tuple(arguments)


def _as_tensor(graph: torch.fx.Graph, number: Any, conversions: dict[torch.fx.Node, torch.fx.Node]) -> Any:
    """The 64-bit 0-dim tensor of a float of the graph; other values are unchanged."""
    if not is_float(number):
        return number
    if number.op == "call_method":
        return number.args[0]
    if number not in conversions:
        arguments = tuple(_as_tensor(graph, argument, conversions) for argument in number.args)
        with graph.inserting_after(number):
            conversions[number] = graph.call_function(number.target, arguments)
    return conversions[number]


def _cast_as_float_operand(graph: torch.fx.Graph, before: torch.fx.Node, tensor: Any, other: torch.Tensor) -> Any:
    """Cast `tensor` to a dtype that affects type promotion no more than the float would."""
    counts = other.dtype.is_floating_point or other.dtype.is_complex
    if counts and other.dim() > 0:
        return tensor  # a 0-dim tensor does not affect promotion among tensors with dimensions
    with graph.inserting_before(before):
        return graph.call_method("to", (tensor, other.dtype.to_real() if counts else torch.get_default_dtype()))
