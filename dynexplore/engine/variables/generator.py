"""Generators whose body is traced: a symbolic frame that stops at each `yield`.

The idea: calling a generator function makes one of these; asking for the next item lets the translator interpret the
body to its next `yield`. So generator expressions in `sum(...)` or `all(...)`, and generator functions used in a
loop, leave no trace in the graph.

A generator that outlives the traced code cannot be rebuilt half-way: if its body has not started, its remaining items are
made a list iterator only when that changes nothing; else the graph breaks (DX318).

torch/_dynamo/variables/functions.py (LocalGeneratorObjectVariable) does the same job.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.base import VariableTracker
from dynexplore.engine.variables.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.context import TraceContext


class GeneratorVariable(VariableTracker):
    """A generator made in this frame; `frame` is its symbolic frame (typed loosely: it lives in a higher layer)."""

    kind = "generator"
    mutable = True

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.started = False

    def python_type(self) -> type[Any]:
        return types.GeneratorType

    def truth(self, ctx: TraceContext) -> bool:
        return True

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return self

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        return ctx.resume_generator(self, ConstantVariable(None))

    def return_value(self) -> VariableTracker:
        """What the body returned; only when it is exhausted."""
        assert self.frame.returned is not None
        found: VariableTracker = self.frame.returned
        return found

    def call_method(
        self, ctx: TraceContext, name: str, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        if name in ("__next__", "send"):
            item = ctx.resume_generator(self, args[0] if args else ConstantVariable(None))
            if item is None:
                ctx.raise_exception(StopIteration)
            return item
        if name == "__iter__":
            return self
        ctx.break_graph("DX210", operation=name)

    def text(self) -> str:
        return f"generator {self.frame.parsed.code.co_qualname}"
