"""Rows written as plain Python functions: `def _pop(ctx, self, index=None, /)`, no argument lists taken apart by
hand.

The idea: rules.py hands a row `args` and `kwargs`. Most builtins and methods have a signature; these decorators
read it off the row's own Python signature and check the call against it. A call that does not fit is left to
Python, which raises.

    @builtin(len)
    def _len(ctx, value, /): ...

    @builtin_method(list, "pop")
    def _pop(ctx, self, index=None, /): ...

In: a function and the callables it answers for. Out: rows of rules.py.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dynexplore.engine.variables.rules import method, rule

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.base import VariableTracker
    from dynexplore.engine.variables.contract.context import TraceContext

Row = TypeVar("Row", bound="Callable[..., VariableTracker]")


def builtin(*targets: Any) -> Callable[[Row], Row]:
    """Declare that the decorated function, called as `f(ctx, *args, **kwargs)`, answers calls of these callables."""

    def declare(row: Row) -> Row:
        fits = _fits(row, skip=1)

        @functools.wraps(row)
        def answer(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
            if not fits(args, kwargs):
                ctx.break_graph("DX218", callee=getattr(targets[0], "__name__", str(targets[0])))
            return row(ctx, *args, **kwargs)

        rule(*targets)(answer)
        return row

    return declare


def builtin_method(python_type: type[Any], *names: str) -> Callable[[Row], Row]:
    """Declare that the decorated function, called as `f(ctx, self, *args, **kwargs)`, answers for methods of a type."""

    def declare(row: Row) -> Row:
        fits = _fits(row, skip=2)

        @functools.wraps(row)
        def answer(
            ctx: TraceContext, receiver: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
        ) -> VariableTracker:
            if not fits(args, kwargs):
                ctx.break_graph("DX218", callee=f"{python_type.__name__}.{names[0]}")
            return row(ctx, receiver, *args, **kwargs)

        method(python_type, *names)(answer)
        return row

    return declare


def _fits(row: Callable[..., Any], skip: int) -> Callable[[Sequence[Any], Mapping[str, Any]], bool]:
    """Whether arguments fit a row's own signature, its first parameters (ctx, self) left out.

    How many positional ones fit is in the row's code; its signature is only worked out when arguments are named.
    """
    declared: Any = inspect.unwrap(row)  # a row that tells the journal first is wrapped, and its wrapper takes anything
    code = declared.__code__
    most: float = math.inf if code.co_flags & inspect.CO_VARARGS else code.co_argcount - skip
    least: int = code.co_argcount - skip - len(declared.__defaults__ or ())

    def fits(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        if not kwargs:
            return least <= len(args) <= most
        try:
            _signature(row).bind(*[None] * skip, *args, **kwargs)
        except TypeError:
            return False
        return True

    return fits


_signature = functools.cache(inspect.signature)
