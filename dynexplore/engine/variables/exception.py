"""Exceptions that the traced program makes, raises and catches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.base import VariableTracker
from dynexplore.engine.variables.constant import ConstantVariable

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

    def truth(self, ctx: TraceContext) -> bool:
        return True

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(self.exception_type, *self.args)

    def text(self) -> str:
        return f"{self.exception_type.__name__}({', '.join(arg.text() for arg in self.args)})"


def exception_from_python(ctx: TraceContext, exception_type: type[BaseException], args: Sequence[object]) -> VariableTracker:
    """The tracker of an exception that a rule raises."""
    return ExceptionVariable(exception_type, [ctx.build(arg, None) for arg in args])


def instantiate(ctx: TraceContext, value: VariableTracker) -> VariableTracker:
    """What `raise value` raises: an instance; a class is called."""
    if issubclass(value.python_type(), BaseException):
        return value
    return ctx.call_function(value, [], {})


def set_cause(ctx: TraceContext, exception: VariableTracker, cause: VariableTracker) -> None:
    """`raise ... from cause`."""
    if isinstance(exception, ExceptionVariable):
        exception.cause = cause


def matches(ctx: TraceContext, exception: VariableTracker, wanted: VariableTracker) -> bool:
    """Whether `except wanted` catches the exception."""
    live = wanted.as_constant() if wanted.is_constant() else wanted.live_value()
    return issubclass(exception.python_type(), live)


assert ConstantVariable
