"""Rules written as ordinary Python functions: `def _pop(ctx, self, index=None, /)` instead of unpacking argument lists by hand.

The idea: rules.py passes a rule `args` and `kwargs`, but most builtins and methods have a signature. These decorators take it from
the rule's own Python signature and bind each call to it. If a call does not bind, the program gets the TypeError of the C function
(argument_errors.py); if the C function accepts the call, because the rule supports fewer arguments, the graph breaks.

    @builtin(len)
    def _len(ctx, value, /): ...

    @builtin_method(list, "pop")
    def _pop(ctx, self, index=None, /): ...

In: a function and the callables that it handles. Out: entries in the tables of rules.py. PyTorch's counterpart: the arity checks
(`raise_args_mismatch`) at the head of each `call_*` method in torch/_dynamo/variables/.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from dynexplore.engine.variables.argument_errors import argument_error_of_c
from dynexplore.engine.variables.rules import MethodHandler, method, rule
from dynexplore.engine.variables.type_errors import NoSampleValue, sample_value

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
    from dynexplore.engine.variables.contract.context import TraceContext

Row = TypeVar("Row", bound="Callable[..., VariableTracker]")


def builtin(*targets: Any) -> Callable[[Row], Row]:
    """Declare that the decorated function, called as `f(ctx, *args, **kwargs)`, handles calls of these callables."""

    def declare(row: Row) -> Row:
        fits = _fits(row, skip=1)

        @functools.wraps(row)
        def handler(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
            if not fits(args, kwargs):
                name = getattr(targets[0], "__name__", str(targets[0]))
                refuse_arguments(ctx, targets[0], name, args, kwargs)
            return row(ctx, *args, **kwargs)

        rule(*targets)(handler)
        return row

    return declare


def builtin_method(python_type: type[Any], *names: str) -> Callable[[Row], Row]:
    """Declare that the decorated function, called as `f(ctx, self, *args, **kwargs)`, handles methods of a type."""

    def declare(row: Row) -> Row:
        for name in names:
            method(python_type, name)(_method_handler(row, name))
        return row

    return declare


def _method_handler(row: Callable[..., VariableTracker], name: str) -> MethodHandler:
    fits = _fits(row, skip=2)

    @functools.wraps(row)
    def handler(ctx: TraceContext, receiver: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        if not fits(args, kwargs):
            refuse_method_arguments(ctx, receiver, name, args, kwargs)
        return row(ctx, receiver, *args, **kwargs)

    return handler


def refuse_arguments(
    ctx: TraceContext, target: Any, name: str, args: Args, kwargs: Kwargs
) -> NoReturn:
    """Raise the C function's TypeError for these arguments in the program, if there is one; else break the graph."""
    error = argument_error_of_c(target, len(args), tuple(kwargs))
    if error is not None:
        ctx.raise_exception(TypeError, *error.args)
    ctx.break_graph("DX218", callee=name)


def refuse_method_arguments(ctx: TraceContext, receiver: VariableTracker, name: str, args: Args, kwargs: Kwargs) -> NoReturn:
    """The same for a method of a builtin type, called on a sample value of the type of the receiver."""
    label = f"{receiver.type_name()}.{name}"
    if receiver.kind == "builtin":  # a class method: `dict.fromkeys`
        refuse_arguments(ctx, receiver.live_value(), label, args, kwargs)
    try:
        value = sample_value(receiver)
    except NoSampleValue:
        ctx.break_graph("DX218", callee=label)
    refuse_arguments(ctx, getattr(value, name, None), label, args, kwargs)


def _fits(row: Callable[..., Any], skip: int) -> Callable[[Sequence[Any], Mapping[str, Any]], bool]:
    """Whether arguments bind to a rule's own signature, without its first parameters (ctx, self).

    The number of positional parameters is read from the code object; the full signature is computed only for keyword arguments.
    """
    declared: Any = inspect.unwrap(row)  # a rule that records a mutation first is wrapped, and the wrapper accepts any arguments
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
