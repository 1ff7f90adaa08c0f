"""The match iterator of a regular expression: `pattern.finditer(text)`.

The idea: pattern and text are constants, so all matches are known at trace time. The iterator is mutable, so each call creates its
own: outside the frame it is reconstructed and advanced to its position.

In: constants. Out: an iterator tracker. PyTorch's counterpart: none for the iterator; patterns are `ConstantLikeVariable`s
(torch/_dynamo/variables/misc.py).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.containers.existing_iterator import move
from dynexplore.engine.variables.containers.iterator import ItemsIteratorVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.rules import method
from dynexplore.engine.variables.scalars.constant import ConstantVariable, constant_of, run_now

if TYPE_CHECKING:

    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


_MATCH_ITERATOR: Any = type(re.compile("").finditer(""))


class MatchIteratorVariable(ItemsIteratorVariable):
    """The iterator that `finditer` returns."""

    def __init__(self, matches: list[VariableTracker], pattern: VariableTracker, arguments: list[VariableTracker]) -> None:
        super().__init__(matches, _MATCH_ITERATOR)
        self.pattern, self.arguments = pattern, arguments

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(_matches_after, ConstantVariable(self.index), self.pattern, *self.arguments)


def _matches_after(count: int, pattern: re.Pattern[Any], *arguments: Any) -> Iterator[re.Match[Any]]:
    """The matches after the first `count`."""
    matches = pattern.finditer(*arguments)
    move(matches, count, exhausted=False)
    return matches


@method(re.Pattern, "finditer")
def _finditer(ctx: TraceContext, self: ConstantVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    arguments = [constant_of(ctx, arg, "finditer") for arg in args]
    named = {name: constant_of(ctx, arg, "finditer") for name, arg in kwargs.items()}
    matches: list[VariableTracker] = [ConstantVariable(match) for match in run_now(ctx, self.value.finditer, *arguments, **named)]
    for name, default in (("string", None), ("pos", 0), ("endpos", sys.maxsize))[len(arguments) :]:
        arguments.append(named.get(name, default))
    return MatchIteratorVariable(matches, self, list(map(ConstantVariable, arguments)))
