"""`isinstance(t, nn.Parameter)` and `isinstance(t, nn.Buffer)` for tensors that carry a flag.

The idea: `nn.Buffer(t)` is a plain tensor with the attribute `_is_buffer`, and a parameter of a tensor subclass may be a tensor
with `_is_param`; `isinstance` and `Module.__setattr__` check these flags (`__instancecheck__` of the two metaclasses in
torch/nn/parameter.py). A flag is an ordinary attribute, so its presence or absence is guarded.

In: a tensor's tracker, and nn.Parameter or nn.Buffer. Out: whether the tensor is an instance. PyTorch's counterpart:
`call_isinstance` in torch/_dynamo/variables/builtin.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.context import ObservedException

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_INSTANCE_FLAGS: dict[type[Any], str] = {nn.Parameter: "_is_param", nn.Buffer: "_is_buffer"}


def instancecheck(ctx: TraceContext, tensor: VariableTracker, cls: type[Any]) -> bool:
    """Whether the tensor has the flag that makes it an instance of `cls`, which is nn.Parameter or nn.Buffer."""
    try:
        truth = tensor.get_attribute(ctx, _INSTANCE_FLAGS[cls]).truth(ctx)
    except ObservedException as raised:
        if not issubclass(raised.exception.python_type(), AttributeError):
            raise
        return False
    return truth if isinstance(truth, bool) else ctx.break_graph("DX411", attribute=_INSTANCE_FLAGS[cls])
