"""Operators with a Scalar argument that receive a tensor for it: `x.addcdiv_(a, b, value=-step)`.

The idea: eager PyTorch calls `item()` on the tensor. A graph cannot, so the operator is decomposed into operators that take the
tensor itself. Compiled optimizers pass tensors this way (torch/optim/adam.py, _get_value).

In: calls of these methods. Out: multiplications, divisions and additions in the graph.
PyTorch's counterpart: method_addcdiv_ and method_add_ in torch/_dynamo/variables/tensor.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.rules import method
from dynexplore.engine.variables.scalars.specialize import is_tensor
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

# method -> (keyword of the factor, how the other operands are combined, the method that takes the product)
_SCALED: dict[str, tuple[str, Any, str]] = {
    "addcdiv": ("value", torch.div, "add"),
    "addcmul": ("value", torch.mul, "add"),
    "add": ("alpha", None, "add"),
    "sub": ("alpha", None, "sub"),
}


def _declare_scaled(name: str, keyword: str, combine: Any, plain: str) -> None:
    def row(
        ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        factor = kwargs.get(keyword)
        if factor is None or not is_tensor(factor) or len(args) != (2 if combine else 1):
            return ctx.operation("call_method", name, [tensor, *args], kwargs)
        other = ctx.operation("call_function", combine, args, {}) if combine else args[0]
        product = ctx.operation("call_function", torch.mul, [other, factor], {})
        return ctx.operation("call_method", plain, [tensor, product], {})

    method(torch.Tensor, name)(row)


for _name, (_keyword, _combine, _plain) in _SCALED.items():
    _declare_scaled(_name, _keyword, _combine, _plain)
    _declare_scaled(f"{_name}_", _keyword, _combine, f"{_plain}_")
