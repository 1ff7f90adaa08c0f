"""`Tensor.set_data` as an operator of the graph: what `tensor.data = data` means for autograd.

The idea: after the assignment the program computes with the new data, and gradients still go to the old tensor. To autograd that is
a function that takes both and gives the data. The assignment itself is done for real when the graph has run. What autograd saves of
the data has the version counter of the tensor: backward notices a later write to the tensor, as in eager.

In: the tensor, the new data. Out: the data, with the tensor's autograd history. PyTorch's counterpart: `_call_setattr` in
torch/_dynamo/variables/builtin.py, which creates a `set_` node instead.
"""

from __future__ import annotations

from typing import Any

import torch


class _TakeData(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            return data.view_as(data)  # while it is traced
        alias = tensor.detach()  # it shares the version counter
        alias.data = data
        return alias

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


def take_data(tensor: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """The data, in its own storage; its gradient flows to the tensor.

    >>> weight = torch.ones(2, requires_grad=True)
    >>> (take_data(weight, torch.tensor([3.0, 4.0])) ** 2).sum().backward()
    >>> weight.grad
    tensor([6., 8.])
    """
    with torch.enable_grad():  # the tensor may be used in another grad mode than the assignment's
        aliased: torch.Tensor = _TakeData.apply(tensor, data.data)  # type: ignore[no-untyped-call]  # it counts changes apart
    return aliased
