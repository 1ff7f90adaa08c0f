"""Tensors that count as parameters or buffers because they bear a mark.

The idea: `nn.Buffer(t)` is a plain tensor with the attribute `_is_buffer`, and a parameter of a tensor subclass may be a tensor
with `_is_param`; `isinstance` and `Module.__setattr__` go by that. The mark is an attribute like any other, which the next tensor
may lack: that it is there, or that it is not, is relied on.

In: a tensor's tracker, and nn.Parameter or nn.Buffer. Out: whether it counts as one.

torch/nn/parameter.py (`__instancecheck__` of the two metaclasses) is what is answered here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.context import UserRaised

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_MARKS: dict[type[Any], str] = {nn.Parameter: "_is_param", nn.Buffer: "_is_buffer"}


def bears_mark_of(ctx: TraceContext, tensor: VariableTracker, cls: type[Any]) -> bool:
    """Whether the tensor bears the mark that makes it an instance of `cls`, which is nn.Parameter or nn.Buffer."""
    try:
        answer = tensor.get_attribute(ctx, _MARKS[cls]).truth(ctx)
    except UserRaised as raised:
        if not issubclass(raised.exception.python_type(), AttributeError):
            raise
        return False
    return answer if isinstance(answer, bool) else ctx.break_graph("DX411", attribute=_MARKS[cls])
