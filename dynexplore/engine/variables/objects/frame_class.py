"""A class created by a class statement of the frame, represented by one made while tracing (translate/class_statement.py).

The idea: the trace-time class is a real class, made once per attempt, so lookups in it work as in any class. It never leaves the
frame, because each call creates another class.

In: the trace-time class, and the trackers of class attributes that are no constants. Out: everything a class tracker supports.
PyTorch's counterpart: `UserDefinedClassVariable` without a source in torch/_dynamo/variables/user_defined.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from dynexplore.engine.variables.contract.base import NotProxyable, VariableTracker
from dynexplore.engine.variables.objects.class_ import ClassVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


class FrameClassVariable(ClassVariable):
    """A class that exists only while its frame is traced."""

    def __init__(self, value: type[Any], stored: dict[str, VariableTracker | None]) -> None:
        super().__init__(value, None)
        self.stored = stored

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        annotations = self.stored.get(name) if name == "__annotations__" else None
        return annotations.read(ctx) if annotations is not None else super().get_attribute(ctx, name)

    def _note_change(self, ctx: TraceContext, name: str) -> None:
        ctx.module_guards.writes_to(self.value)
        ctx.journal.note(self, f"{self.value.__qualname__}.{name}")

    def as_proxy(self) -> NoReturn:
        raise NotProxyable(self)
