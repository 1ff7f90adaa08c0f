"""`__torch_function__` dispatch, probed by making the call: which function, under which name, reaches the innermost
TorchFunctionMode.

The idea: every overridable torch function calls the innermost TorchFunctionMode first. Which functions those are, and which name
they pass (`x + 1` passes `Tensor.add`, `x.shape` passes `Tensor.shape.__get__`), is not listed anywhere: it is in the C++ code of
each. So the call is made on fake tensors, with a mode on top that records the arguments and ends the call by raising.

In: a call on fake values, made inside `listening()`. Out: `TorchFunctionDispatched`, or no exception if it does not dispatch.
PyTorch's counterpart: torch/csrc/utils/python_arg_parser.cpp (handle_torch_function_no_python_arg_parser) dispatches; Dynamo has a
table of names (torch/_dynamo/variables/torch_function.py).
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
    """A call dispatches to the innermost mode; its `__torch_function__` gets these arguments. Not an `Exception`, so that nobody
    catches it.

    kwargs: None if torch passes three arguments only.
    """

    def __init__(self, function: Any, classes: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> None:
        super().__init__(function)
        self.function, self.types, self.kwargs = function, classes, kwargs
        self.arguments = args  # exceptions have an attribute `args`
        self.passed: list[Any] = []  # the fake arguments of the original call

    def is_about(self, op: str, target: Any) -> bool:
        """Whether the call itself dispatches, and not a function that torch calls in its Python implementation."""
        dispatched, own = self.function, getattr(target, "__name__", target)
        name = getattr(dispatched, "__name__", "")
        if isinstance(dispatched, _OPERATORS):
            return isinstance(target, _OPERATORS)
        if op == "get_attr_of":
            return bool(name == "__get__")
        if isinstance(target, types.FunctionType):
            return dispatched is target
        if getattr(target, "__module__", "") == "_operator" or own.startswith("__"):
            return True  # a C slot dispatches under a method's name: `x + 1` as `add`
        return bool(name == own)


_OPERATORS = (torch._ops.OperatorBase, torch._ops.OpOverloadPacket)


class _Listener(TorchFunctionMode):
    """Records the first dispatch. Calls that fake tensors make to run an operator are not the program's.

    The nesting depth alone does not distinguish them: with dynamic sizes, an operator may be decomposed, with the fake mode
    entered again.
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
    """Call it as the program does: torch.Tensor's attribute of this name (fake tensors are of a subclass), without empty kwargs."""
    if op == "get_attr_of":
        getter = inspect.getattr_static(torch.Tensor, target, None)
        return getter.__get__(args[0]) if hasattr(getter, "__get__") else None
    function = target if op == "call_function" else getattr(torch.Tensor, target)
    return function(*args, **kwargs) if kwargs else function(*args)


def listening(fake_mode: EffectTrackingFakeMode) -> TorchFunctionMode:
    """A context in which the first call that dispatches raises `TorchFunctionDispatched`; enter the fake mode before it."""
    return _Listener(fake_mode)
