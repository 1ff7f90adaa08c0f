"""Python's random numbers: `random.random()` and its kin, drawn for real in each call.

The idea: a number that is drawn is not known while tracing, and must not be drawn then. The modified code draws it before it calls
the graph, in the program's order, and the graph gets it as an input; so it is another one in each call, and the generator is left
as eager leaves it. Numbers computed from it are computed sources like those of unspecialized.py. What would decide something by it
(`if random.random() < 0.5`) breaks the graph, and goes on with the number in a resume function.

In: calls of the functions of the module `random` that give a number. Out: changing values on which no guard can be.
torch/_dynamo/variables/user_defined.py (call_random) does the same job.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import DrawnSource
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import run_now
from dynexplore.engine.variables.scalars.unspecialized import DrawnVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


def _draws(function: Callable[..., Any]) -> None:
    """Declare that a function draws a number."""

    def draw(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        constants = [arg for arg in (*args, *kwargs.values()) if arg.is_constant() and not isinstance(arg, DrawnVariable)]
        if kwargs or len(constants) < len(args):
            ctx.break_graph("DX219", function=f"random.{function.__name__}")
        values = [arg.as_constant() for arg in args]
        state = random.getstate()
        try:
            number = run_now(ctx, function, *values)
        finally:
            random.setstate(state)
        if type(number) not in (int, float):
            ctx.break_graph("DX219", function=f"random.{function.__name__}")
        name = f"___drawn_{len(ctx.effects.draws)}"
        ctx.effects.draws.append((name, function, tuple(values)))
        return DrawnVariable(ctx, number, DrawnSource(name, f"random.{function.__name__}()"))

    rule(function)(draw)


for _function in (
    random.random, random.uniform, random.randint, random.randrange, random.gauss, random.normalvariate, random.triangular,
    random.betavariate, random.expovariate, random.gammavariate, random.lognormvariate, random.getrandbits,
):
    _draws(_function)
