"""Optimizers of torch.optim: their update functions run with `capturable=True`.

The idea: an update function has two code paths. One reads the step count with `item()` and branches on it, which is data-dependent;
the other, written for CUDA graphs, keeps it as a tensor (`capturable=True`). Traced code takes the second one if parameters and
step counts are on one device, so that an update is one graph. The optimizer's own setting does not change.

In: calls of `torch.optim.adam.adam` and similar functions. Out: the same calls with `capturable=True`. PyTorch's counterpart:
`_set_capturable` in torch/_dynamo/variables/optimizer.py.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.rules import Handler, rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def _update_functions() -> Iterator[tuple[types.FunctionType, tuple[str, ...]]]:
    """The update functions of torch.optim that have a `capturable` option, with the names of their parameters."""
    for name, module in list(sys.modules.items()):
        function = vars(module).get(name.rpartition(".")[2].lstrip("_")) if name.startswith("torch.optim.") else None
        if isinstance(function, types.FunctionType):
            names = tuple(inspect.signature(function).parameters)
            if "capturable" in names and "state_steps" in names:
                yield function, names


def _force_capturable(function: types.FunctionType, names: tuple[str, ...]) -> Handler:
    def handler(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        if _on_one_device(ctx, arguments.get("params"), arguments.get("state_steps")) and names.index("capturable") >= len(args):
            kwargs = {**kwargs, "capturable": ConstantVariable(True)}
        return ctx.calls.inline(ctx.build(function, None), args, kwargs)

    return handler


def _on_one_device(ctx: TraceContext, *lists: VariableTracker | None) -> bool:
    devices = set()
    for tensors in lists:
        for tensor in tensors.unpack(ctx) if tensors is not None else []:
            devices.add(tensor.fake.device if isinstance(tensor, TensorVariable) else None)
    return len(devices) == 1 and None not in devices


def _declare() -> None:
    for function, names in _update_functions():
        rule(function)(_force_capturable(function, names))


_declare()
