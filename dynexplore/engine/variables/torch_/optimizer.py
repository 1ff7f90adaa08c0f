"""Optimizers of torch: compiled, their update functions take the way that needs no number from a tensor.

The idea: torch's optimizers have two ways through an update. One reads the step count out as a Python number and branches on it;
the other, for CUDA graphs, stays with tensors: `capturable=True`. In a graph only the second can be one piece, so traced code
takes it, wherever parameters and step counts live on one device. The optimizer's own setting is left as it is.

In: calls of `torch.optim.adam.adam` and its like. Out: what they do, with `capturable=True`.
torch/_dynamo/variables/optimizer.py (_set_capturable) does the same job.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.rules import Answer, rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.torch_.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def _updates() -> Iterator[tuple[types.FunctionType, tuple[str, ...]]]:
    """The update functions of torch.optim that know the two ways, with the names of their parameters."""
    for name, module in list(sys.modules.items()):
        function = vars(module).get(name.rpartition(".")[2].lstrip("_")) if name.startswith("torch.optim.") else None
        if isinstance(function, types.FunctionType):
            names = tuple(inspect.signature(function).parameters)
            if "capturable" in names and "state_steps" in names:
                yield function, names


def _row(function: types.FunctionType, names: tuple[str, ...]) -> Answer:
    def answer(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if _on_one_device(ctx, given.get("params"), given.get("state_steps")) and names.index("capturable") >= len(args):
            kwargs = {**kwargs, "capturable": ConstantVariable(True)}
        return ctx.inline(ctx.build(function, None), args, kwargs)

    return answer


def _on_one_device(ctx: TraceContext, *lists: VariableTracker | None) -> bool:
    devices = set()
    for given in lists:
        for tensor in given.unpack(ctx) if given is not None else []:
            devices.add(tensor.fake.device if isinstance(tensor, TensorVariable) else None)
    return len(devices) == 1 and None not in devices


def _declare() -> None:
    for function, names in _updates():
        rule(function)(_row(function, names))


_declare()
