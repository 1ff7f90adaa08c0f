"""Operators with a Scalar argument that receive a tensor for it: `x.addcdiv_(a, b, value=-step)`.

The idea: eager PyTorch calls `item()` on the tensor. A graph cannot, so the operator is decomposed into operators that take the
tensor itself. Compiled optimizers pass tensors this way (torch/optim/adam.py, _get_value). The decomposition rounds as the operator
does, to the last bit on the CPU: `x.add(y, alpha=a)` is a fused multiply-add, and so is `x.addcmul(y, a)`; `x + y * a` is not.
Where no decomposition does (half precision, operands of several dtypes, gradients of addcdiv), or where eager refuses the tensor,
the operator itself is called, which breaks the graph.

In: calls of these methods. Out: operators in the graph. PyTorch's counterpart: method_addcdiv_ and method_add_ in
torch/_dynamo/variables/tensor.py, which use Inductor's `fma`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.rules import method
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

# method -> (keyword of the factor, how many other operands it has)
_SCALED = {"addcdiv": ("value", 2), "addcmul": ("value", 2), "add": ("alpha", 1), "sub": ("alpha", 1)}
_EXACT = frozenset({torch.float32, torch.float64, torch.complex64, torch.complex128})


def _declare_scaled(name: str, suffix: str, keyword: str, count: int) -> None:
    def row(
        ctx: TraceContext, tensor: TensorVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        factor = kwargs.get(keyword)
        if len(args) != count or len(kwargs) != 1 or not _is_decomposable([tensor, *args], factor):
            return ctx.operation("call_method", name + suffix, [tensor, *args], kwargs)
        assert isinstance(factor, TensorVariable)
        if count == 2:
            product = ctx.operation("call_function", torch.mul, [args[0], factor], {})
            return ctx.operation("call_method", name + suffix, [tensor, product, args[1]], {})
        if factor.fake.device != tensor.fake.device:  # addcmul takes no number of the CPU
            product = ctx.operation("call_function", torch.mul, [args[0], factor], {})
            return ctx.operation("call_method", name + suffix, [tensor, product], {})
        sign = {"value": ConstantVariable(-1)} if name == "sub" else {}
        return ctx.operation("call_method", "addcmul" + suffix, [tensor, args[0], factor], sign)

    method(torch.Tensor, name + suffix)(row)


def _is_decomposable(operands: Sequence[VariableTracker], factor: VariableTracker | None) -> bool:
    """Whether operators that take the factor as a tensor compute the same bits, and eager accepts the tensor as a Scalar."""
    if not isinstance(factor, TensorVariable) or not all(isinstance(operand, TensorVariable) for operand in operands):
        return False
    scalar, fakes = factor.fake, [operand.fake for operand in operands if isinstance(operand, TensorVariable)]
    if scalar.ndim or scalar.requires_grad or scalar.is_complex() or scalar.dtype is torch.bool:
        return False  # the argument parser refuses it, or the operator may
    if scalar.device != fakes[0].device and scalar.device.type != "cpu":
        return False
    if not fakes[1].ndim and torch.promote_types(fakes[1].dtype, scalar.dtype) is not fakes[1].dtype:
        return False  # between tensors without dimensions it would count for the type of the result
    if len(fakes) == 3 and any(fake.requires_grad for fake in fakes[1:]):
        return False
    return len({fake.dtype for fake in fakes}) == 1 and fakes[0].dtype in _EXACT and len({fake.device for fake in fakes}) == 1


for _name, (_keyword, _count) in _SCALED.items():
    _declare_scaled(_name, "", _keyword, _count)
    _declare_scaled(_name, "_", _keyword, _count)
