"""Python's random numbers: `random.random()` and similar functions, drawn for real in each call.

The idea: a random number must not be drawn at trace time. The modified code draws it before it calls the graph, in the program's
order, and the graph takes it as an input; so each call gets a new one, and the generator ends in the same state as in eager.
Numbers computed from it are computed sources like those of unspecialized.py. Control flow that depends on it (`if random.random() <
0.5`) breaks the graph, and a resume function continues with the number.

In: calls of functions of the module `random` that return a number. Out: unspecialized values that cannot be guarded. PyTorch's
counterpart: `call_random_fn` in torch/_dynamo/variables/user_defined.py, `random_calls` in output_graph.py.
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


_GENERATOR: random.Random = random.random.__self__  # type: ignore[attr-defined]
_METHODS = dict(vars(random.Random))


def _is_patched() -> bool:
    """Whether the program replaced a method of the generator, as mocks do: drawing at trace time would call it."""
    methods = vars(random.Random)
    replaced = methods.keys() != _METHODS.keys() or any(methods[name] is not _METHODS[name] for name in _METHODS)
    return replaced or not vars(_GENERATOR).keys() <= {"gauss_next"}


def _draws(function: Callable[..., Any]) -> None:
    """Declare that a function draws a random number."""

    def draw(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        constants = [arg for arg in (*args, *kwargs.values()) if arg.is_constant() and not isinstance(arg, DrawnVariable)]
        if kwargs or len(constants) < len(args) or _is_patched():
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
