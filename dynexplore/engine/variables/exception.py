"""Exceptions that the traced program makes, raises and catches.

The idea: an exception made in this frame is a type and arguments. Raising one unwinds symbolic frames (context.py's UserRaised); a
handler of the traced program may catch it, and then nothing real was ever raised. One that leaves the root frame is raised by
Python itself: the graph breaks before the raising instruction, which then runs for real.

torch/_dynamo/variables/builtin.py and user_defined.py hold the same.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.base import VariableTracker
from dynexplore.engine.variables.class_ import ClassVariable, makes
from dynexplore.engine.variables.class_lookup import raw_lookup
from dynexplore.engine.variables.constant import ConstantVariable
from dynexplore.engine.variables.sequence import TupleVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.context import TraceContext
    from dynexplore.engine.variables.reconstruction import Reconstruction


class ExceptionVariable(VariableTracker):
    """An exception made in this frame."""

    kind = "exception"
    mutable = True

    def __init__(self, exception_type: type[BaseException], args: Sequence[VariableTracker]) -> None:
        self.exception_type = exception_type
        self.args = list(args)
        self.cause: VariableTracker | None = None

    def python_type(self) -> type[Any]:
        return self.exception_type

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return True

    def hash_key(self, ctx: TraceContext) -> object:
        return self

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "args":
            return TupleVariable(self.args)
        if name == "value" and self.exception_type is StopIteration:
            return self.args[0].read(ctx) if self.args else ConstantVariable(None)
        if name == "__class__":
            return ctx.build(self.exception_type, None)
        if name in ("__cause__", "__context__"):
            return self.cause or ConstantVariable(None)
        return super().get_attribute(ctx, name)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(self.exception_type, *self.args)

    def text(self) -> str:
        return f"{self.exception_type.__name__}({', '.join(arg.text() for arg in self.args)})"


@makes(BaseException)
def _make_exception(
    ctx: TraceContext, cls: ClassVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    own = raw_lookup(cls.value, "__init__"), raw_lookup(cls.value, "__new__")
    if kwargs or any(isinstance(method, types.FunctionType | staticmethod) for method in own):
        ctx.break_graph("DX209", type=cls.value.__qualname__)
    return ExceptionVariable(cls.value, args)


def exception_from_python(ctx: TraceContext, exception_type: type[BaseException], args: Sequence[object]) -> VariableTracker:
    """The tracker of an exception that a rule raises."""
    return ExceptionVariable(exception_type, [ctx.build(arg, None) for arg in args])


def instantiate(ctx: TraceContext, value: VariableTracker) -> VariableTracker:
    """What `raise value` raises: an instance; a class is called."""
    if issubclass(value.python_type(), BaseException):
        return value
    if not isinstance(value, ClassVariable) or not issubclass(value.value, BaseException):
        ctx.break_graph("DX310", exception=value.text())
    return ctx.call_function(value, [], {})


def set_cause(ctx: TraceContext, exception: VariableTracker, cause: VariableTracker) -> None:
    """`raise ... from cause`."""
    if not isinstance(exception, ExceptionVariable):
        ctx.break_graph("DX310", exception=exception.text())
    exception.cause = cause


def matches(ctx: TraceContext, exception: VariableTracker, wanted: VariableTracker) -> bool:
    """Whether `except wanted` catches the exception."""
    if isinstance(wanted, TupleVariable):
        return any(matches(ctx, exception, item.read(ctx)) for item in wanted.items)
    if not isinstance(wanted, ClassVariable) or not issubclass(wanted.value, BaseException):
        ctx.break_graph("DX310", exception=wanted.text())
    return issubclass(exception.python_type(), wanted.value)
