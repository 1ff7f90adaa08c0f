"""`__torch_function__` dispatch, probed by making the call: which function, by which name, goes to the innermost
TorchFunctionMode.

The idea: every function of torch that can be overridden asks the innermost TorchFunctionMode before it does anything. Which
functions those are, and under which name they ask (`x + 1` asks about `Tensor.add`, `x.shape` about `Tensor.shape.__get__`), is
written down nowhere in one place: it is in the C++ of each. So the call is made on fake tensors, with a mode on top that takes the
question down and ends the call by raising.

In: a call on fake values, carried out inside `listening()`. Out: `TorchFunctionDispatched`, or no exception where nobody is asked.
torch/csrc/utils/python_arg_parser.cpp (handle_torch_function_no_python_arg_parser) asks; PyTorch's Dynamo has a table of names
(torch/_dynamo/variables/torch_function.py).
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from dynexplore.engine.graph.fake_mode import EffectTrackingFakeMode


class TorchFunctionDispatched(BaseException):
    """A call asks the innermost mode; its `__torch_function__` gets these arguments. No `Exception`: nobody may catch it.

    kwargs: None where torch passes three arguments only.
    """

    def __init__(self, function: Any, classes: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> None:
        super().__init__(function)
        self.function, self.types, self.kwargs = function, classes, kwargs
        self.arguments = args  # `args` is a tuple that exceptions have
        self.passed: list[Any] = []  # the fake arguments of the call that was made

    def is_about(self, op: str, target: Any) -> bool:
        """Whether it is the call itself that asks, and not what torch calls on its way, in Python, to carry it out."""
        dispatched, own = self.function, getattr(target, "__name__", target)
        name = getattr(dispatched, "__name__", "")
        if isinstance(dispatched, _OPERATORS):
            return isinstance(target, _OPERATORS)
        if op == "get_attr_of":
            return bool(name == "__get__")
        if isinstance(target, types.FunctionType):
            return dispatched is target
        if getattr(target, "__module__", "") == "_operator" or own.startswith("__"):
            return True  # a slot of C asks under the name of a method: `x + 1` about `add`
        return bool(name == own)


_OPERATORS = (torch._ops.OperatorBase, torch._ops.OpOverloadPacket)


class _Listener(TorchFunctionMode):
    """Takes the first question down. What fake tensors call while they carry out an operator is no call of the program.

    The depth alone does not tell: where sizes vary, an operator may be carried out by others, with the fake mode entered anew.
    """

    def __init__(self, fake_mode: EffectTrackingFakeMode) -> None:
        self.fake_mode = fake_mode
        self.depth = torch._C._len_torch_dispatch_stack()

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if self.fake_mode.inside or torch._C._len_torch_dispatch_stack() != self.depth:
            return func(*args, **(kwargs or {}))
        raise TorchFunctionDispatched(func, types, args, kwargs)


def make_call(op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call it as the program does: what torch.Tensor has under this name (they are of a subclass), without empty keywords."""
    if op == "get_attr_of":
        getter = inspect.getattr_static(torch.Tensor, target, None)
        return getter.__get__(args[0]) if hasattr(getter, "__get__") else None
    function = target if op == "call_function" else getattr(torch.Tensor, target)
    return function(*args, **kwargs) if kwargs else function(*args)


def listening(fake_mode: EffectTrackingFakeMode) -> TorchFunctionMode:
    """A block in which the first call that dispatches to a mode raises `TorchFunctionDispatched`; enter the fake mode before it."""
    return _Listener(fake_mode)
