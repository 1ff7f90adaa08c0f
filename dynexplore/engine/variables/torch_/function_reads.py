"""What the forward and backward of a `torch.autograd.Function` read from outside: a compiler runs them once, and never again.

The idea: `F.apply` is one node of the graph. Run as it stands, it runs the program's own code in each call. A backend that
traces the graph runs that code once, with the values that globals, cells and attributes have then. So what the code reads
from outside must be fixed: modules and functions of libraries, classes of torch, functions of the program that hold to the
same. A number that forward reads is guarded. One that backward reads is not: backward runs later, and the number may be
another one by then.

In:  the functions of a class. Out: the name of the first thing that is not fixed, or None.
PyTorch's Dynamo traces both functions, and guards what they read at the time of the call.
"""

from __future__ import annotations

import builtins
import types
from typing import TYPE_CHECKING, Any, cast

import torch

from dynexplore.engine.bytecode import read
from dynexplore.engine.raw_attributes import is_a
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.class_facts import is_fixed_module, peek
from dynexplore.engine.variables.objects.namespace import NamespaceVariable
from dynexplore.engine.variables.scalars.constant import is_constant_value, is_plain_value

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_MISSING = object()


def outside_read(ctx: TraceContext, function: Any, tracker: VariableTracker | None) -> str | None:
    """What a function reads that may change, by name; None where all is fixed.

    `tracker`: the function as it is called now, so that numbers among its globals can be guarded; None if it is called later.
    """
    return _Reader(ctx, tracker).of_function(function)


class _Reader:
    """One look at a function and at those of the program that it calls."""

    def __init__(self, ctx: TraceContext, tracker: VariableTracker | None) -> None:
        self.ctx, self.tracker = ctx, tracker
        self.seen: set[int] = set()

    def of_function(self, function: Any) -> str | None:
        """What a function of the program reads, in its own code and in that of the functions it defines."""
        if id(function) in self.seen:
            return None
        self.seen.add(id(function))
        if not isinstance(function, types.FunctionType):
            return getattr(function, "__qualname__", None) or type(function).__qualname__
        if is_fixed_module(function.__module__):
            return None
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        if not all(map(is_plain_value, defaults)):
            return f"a default of {function.__qualname__}"
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                not_fixed = self._of_value(name, cell.cell_contents, None, is_guarded=False)
            except ValueError:  # an empty cell
                not_fixed = name
            if not_fixed is not None:
                return not_fixed
        return self._of_code(function.__code__, function)

    def _of_code(self, code: types.CodeType, function: types.FunctionType) -> str | None:
        steps = read(code).steps
        for place, step in enumerate(steps):
            not_fixed: str | None = None
            if step.op in ("LOAD_GLOBAL", "LOAD_NAME"):
                after = steps[place + 1]
                attribute = str(after.arg) if after.op in ("LOAD_ATTR", "LOAD_METHOD") else None
                value = function.__globals__.get(step.arg, getattr(builtins, step.arg, _MISSING))
                not_fixed = self._of_value(step.arg, value, attribute, is_guarded=self._guards_global(step.arg, value, function))
            elif isinstance(step.arg, types.CodeType):
                not_fixed = self._of_code(step.arg, function)
            if not_fixed is not None:
                return not_fixed
        return None

    def _of_value(self, name: str, value: Any, attribute: str | None, *, is_guarded: bool) -> str | None:
        """The name, where the value, or the attribute of it that is read, may be another one later."""
        if is_a(value, types.ModuleType):
            return None if is_fixed_module(value.__name__) else name
        if is_a(value, type):
            return self._of_class(name, value, attribute)
        if is_a(value, types.FunctionType):
            return self.of_function(value)
        if is_a(value, types.BuiltinFunctionType) or is_guarded or is_a(value, torch.dtype):
            return None
        return name

    def _of_class(self, name: str, cls: type[Any], attribute: str | None) -> str | None:
        if is_fixed_module(cls.__module__):
            return None
        if attribute is None or not issubclass(cls, torch.autograd.Function):
            return name
        if attribute == "apply":
            functions = [getattr(cls, part) for part in ("forward", "backward", "setup_context")]
            return next((not_fixed for not_fixed in map(self.of_function, functions) if not_fixed is not None), None)
        raw = peek(cls, attribute)
        return self.of_function(raw.__func__) if isinstance(raw, staticmethod) else f"{name}.{attribute}"

    def _guards_global(self, name: str, value: Any, function: types.FunctionType) -> bool:
        """Guard a constant among the globals of the function that is called now; whether that could be done."""
        tracker = self.tracker
        if tracker is None or not is_constant_value(value) or name not in function.__globals__:
            return False
        if getattr(tracker, "live_value", lambda: None)() is not function:
            return False
        namespace: NamespaceVariable = cast("Any", self.ctx).namespace_of(tracker)
        source = namespace.source_of(name)
        if source is not None:  # by value, however it varies: it becomes no input of the graph
            self.ctx.guard(source, "EQUALS", value)
        return True
