"""The first frame of a call, before the call is made: which code object runs, and what its argument slots will hold.

The idea: whether a cache entry matches a call depends on the frame that the call starts, which is determined by the callable and
the arguments alone. A function starts its own frame; a bound method passes the receiver first; a module, or a callable without
Python code, is called through an entry function (optimized.py). So guards can be checked, and a translation attempted, for a call
that never happens.

In: a callable, the code of its entry function if it has one, arguments. Out: a `DryRunFrame`, with the interface of
`native.FrameState` that convert.py uses.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynexplore.engine.bytecode import argument_slots
from dynexplore.engine.native import UNBOUND, CodeCache
from dynexplore.engine.provenance.sources import Scope
from dynexplore.engine.runtime import optimized


@dataclass(frozen=True, slots=True)
class DryRunFrame:
    """A frame that is never run; its attributes are those of `native.FrameState`."""

    function: types.FunctionType
    values: tuple[Any, ...]
    cache: CodeCache

    @property
    def code(self) -> types.CodeType:
        """The code object of the frame."""
        return self.function.__code__

    @property
    def resumed_from(self) -> types.CodeType | None:
        """None: the frame is not a resume function, because a call begins with it."""
        return None

    @property
    def globals(self) -> dict[str, Any]:
        """Its globals dict."""
        return self.function.__globals__

    @property
    def builtins(self) -> dict[str, Any]:
        """Its builtins dict."""
        namespace = self.globals.get("__builtins__", builtins)
        return namespace if isinstance(namespace, dict) else vars(namespace)

    @property
    def closure(self) -> tuple[types.CellType, ...] | None:
        """Its closure cells."""
        return self.function.__closure__

    @property
    def scope(self) -> Scope:
        """The scope that guards are checked against."""
        slots = zip(argument_slots(self.code), self.values, strict=True)
        return Scope({name: value for name, value in slots if value is not UNBOUND}, self.closure, self.globals)


Start = tuple[types.FunctionType, tuple[Any, ...], dict[str, Any]]


def entry_code(target: Callable[..., Any]) -> types.CodeType | None:
    """The code object of the entry function of a callable that needs one; None if the callable starts its own Python frame."""
    if isinstance(target, torch.nn.Module) or optimized.needs_entry(target):
        code: types.CodeType = optimized.entry_of(target).__code__
        return code
    return None


def start(target: Any, entry: types.CodeType | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Start | None:
    """The function whose frame a call begins with, and its arguments; None if there is none."""
    if entry is not None:
        return optimized.entry_with(entry, target), tuple(args), dict(kwargs)
    while not isinstance(target, types.FunctionType):
        if isinstance(target, types.MethodType):
            target, args = target.__func__, (target.__self__, *args)
        elif isinstance(target, functools.partial):
            target, args, kwargs = target.func, (*target.args, *args), {**target.keywords, **kwargs}
        else:
            call = inspect.getattr_static(type(target), "__call__", None)
            if not isinstance(call, types.FunctionType):
                return None
            target, args = call, (target, *args)
    return target, tuple(args), dict(kwargs)


def slot_values(function: types.FunctionType, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values of the argument slots when the frame begins. Raises TypeError if the arguments do not match the signature."""
    code = function.__code__
    bare = types.FunctionType(code, {}, function.__name__, function.__defaults__, function.__closure__)
    bare.__kwdefaults__ = function.__kwdefaults__
    bound = inspect.signature(bare).bind(*args, **kwargs)
    bound.apply_defaults()
    return tuple(bound.arguments.get(name, UNBOUND) for name in argument_slots(code))
