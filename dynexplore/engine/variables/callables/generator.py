"""Generators whose body is traced: a symbolic frame that is suspended at each `yield`.

The idea: a call of a generator function creates one of these; for the next item the translator interprets the body up to its next
`yield`. So generator expressions in `sum(...)` or `all(...)`, and generator functions in a loop, leave no trace in the graph.

A generator that outlives the traced code cannot be reconstructed once it has started: the frame stops before the generator is
created (DX318), and Python creates and runs it.

In: a generator function's frame. Out: the items that it yields. PyTorch's counterpart: `LocalGeneratorObjectVariable` in
torch/_dynamo/variables/functions.py.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.objects.builtin_value import NONE, BuiltinValueVariable
from dynexplore.engine.variables.objects.exception import exception_from_python, instantiate
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable
from dynexplore.engine.variables.signatures import builtin_method

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


_METHODS = frozenset({"__next__", "__iter__", "send", "throw", "close"})


class GeneratorVariable(BuiltinValueVariable):
    """A generator created in this frame; `frame` is its symbolic frame (typed loosely, because it is in a higher layer)."""

    kind = "generator"
    mutable = True
    value_type = types.GeneratorType

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.started = False
        self.holder: Any = None  # the symbolic frame that created it

    def forget(self) -> None:
        """The attempt is over: drop the reference to the creating frame, which may refer to the generator."""
        self.holder = None
        self.frame.forget()

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return self

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        return ctx.calls.resume_generator(self, ConstantVariable(None))

    def next_or_raise(
        self, ctx: TraceContext, sent: VariableTracker = NONE, thrown: VariableTracker | None = None
    ) -> VariableTracker:
        """The next item of the body; StopIteration when it has ended, the first time with its return value."""
        was_over = self.frame.returned is not None
        item = ctx.calls.resume_generator(self, sent, thrown)
        if item is not None:
            return item
        returned = self.return_value()
        says_nothing = was_over or (returned.is_constant() and returned.as_constant() is None)
        ctx.raise_exception(StopIteration, *([] if says_nothing else [returned]))

    def return_value(self) -> VariableTracker:
        """The return value of the body, once it is exhausted."""
        assert self.frame.returned is not None
        returned: VariableTracker = self.frame.returned
        return returned

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name in _METHODS:
            return ConstantMethodVariable(self, name)
        ctx.break_graph("DX210", operation=name)

    def reconstruct(self, build: Reconstruction) -> None:
        raise NotImplementedError("it is suspended in the middle of its body")

    def text(self) -> str:
        return f"generator {self.frame.parsed.code.co_qualname}"


@builtin_method(types.GeneratorType, "send")
def _send(ctx: TraceContext, self: GeneratorVariable, value: VariableTracker, /) -> VariableTracker:
    _inlined(ctx, self, "send")
    if not self.started and self.frame.returned is None and not (value.is_constant() and value.as_constant() is None):
        ctx.raise_exception(TypeError, "can't send non-None value to a just-started generator")
    return self.next_or_raise(ctx, value)


@builtin_method(types.GeneratorType, "throw")
def _throw(
    ctx: TraceContext, self: GeneratorVariable, kind: VariableTracker, value: VariableTracker = NONE,
    traceback: VariableTracker = NONE, /,
) -> VariableTracker:
    """`throw(exception)`, or the older form `throw(type, value, traceback)`."""
    _inlined(ctx, self, "throw")
    exception = kind if value.is_constant() and value.as_constant() is None else value
    return self.next_or_raise(ctx, thrown=instantiate(ctx, exception))


@builtin_method(types.GeneratorType, "close")
def _close(ctx: TraceContext, self: GeneratorVariable, /) -> VariableTracker:
    """Raise GeneratorExit at the point where the body is suspended."""
    _inlined(ctx, self, "close")
    try:
        item = ctx.calls.resume_generator(self, NONE, thrown=exception_from_python(ctx, GeneratorExit, ()))
    except ObservedException as raised:
        if not issubclass(raised.exception.python_type(), (GeneratorExit, StopIteration)):
            raise
        return NONE
    if item is not None:
        ctx.raise_exception(RuntimeError, "generator ignored GeneratorExit")
    returned = self.return_value()
    if not (returned.is_constant() and returned.as_constant() is None):
        ctx.break_graph("DX210", operation="close() of a generator that returns a value")
    return NONE


def _inlined(ctx: TraceContext, generator: VariableTracker, method: str) -> None:
    """Break the graph at a generator that existed before the frame, which only Python can run."""
    if not isinstance(generator, GeneratorVariable):
        ctx.break_graph("DX213", method=f"generator.{method}")
