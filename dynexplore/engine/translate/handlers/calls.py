"""Calls: with positional, keyword and unpacked arguments.

The idea: every form of call is reduced to one: the callable's tracker is called with positional and keyword trackers.

In: CALL, CALL_KW, CALL_FUNCTION_EX. Out: the result's tracker on the stack. PyTorch's counterpart: `CALL` and `CALL_FUNCTION_EX` in
torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import FACTS, Step
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.symbolic_frame import NULL, SymbolicFrame
from dynexplore.engine.variables.containers.list_items import tuple_items
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.type_lookup import defines
from dynexplore.engine.variables.type_errors import type_of

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@handles("CALL")
def call(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """f(a, b, name=c)."""
    count, names = step.arg
    _call(frame, ctx, count, names)


@handles("CALL_KW")
def call_kw(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """f(a, name=c), as compiled by 3.13: the names are on the stack."""
    names = tuple(name.as_constant() for name in frame.pop().unpack(ctx))
    _call(frame, ctx, step.arg, names)


def _call(frame: SymbolicFrame, ctx: Interpreter, count: int, names: tuple[str, ...]) -> None:
    args = frame.popn(count)
    function, first = _callee(frame)
    positional = args[:count - len(names)]
    kwargs = dict(zip(names, args[count - len(names):], strict=True))
    if not function.binds_arguments():
        positional = [value.read(ctx) for value in positional]
        kwargs = {name: value.read(ctx) for name, value in kwargs.items()}
    frame.only_calls, frame.calls_through = function, ()
    frame.push(function.call(ctx, [*first, *positional], kwargs).read(ctx))
    frame.only_calls = None


def _callee(frame: SymbolicFrame) -> tuple[VariableTracker, list[VariableTracker]]:
    """The callable and, for an unbound method, its receiver; the order of the pair depends on the Python version."""
    upper, lower = frame.pop(), frame.pop()
    if FACTS.null_below:
        return (upper, []) if lower is NULL else (lower, [upper])
    return (lower, []) if upper is NULL else (lower, [upper])


@handles("CALL_FUNCTION_EX")
def call_function_ex(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """f(*args, **kwargs)."""
    keywords = frame.pop() if step.arg else None
    keywords = None if keywords is NULL else keywords
    args = frame.pop()
    function, first = _callee(frame)
    spread = type_of(args)
    if spread is not None and not defines(spread, "__iter__") and not defines(spread, "__getitem__"):
        ctx.break_graph("DX218", argument=args.text())  # the real call names the callee in its TypeError
    kwargs: dict[str, VariableTracker] = {}
    if keywords is not None:
        for key in keywords.unpack(ctx):
            name = key.as_constant() if key.is_constant() else None
            if not isinstance(name, str):
                ctx.break_graph("DX218", argument=key.text())
            kwargs[name] = keywords.get_item(ctx, key).read(ctx)
    positional = [item.read(ctx) for item in tuple_items(ctx, args)]
    frame.only_calls, frame.calls_through = function, ()
    frame.push(function.call(ctx, [*first, *positional], kwargs).read(ctx))
    frame.only_calls = None
