"""A class that a class statement of the frame makes, for which a stand-in is made while translating (translate/class_statement.py).

In: the stand-in, and what the frame's body put into it that is no constant. Out: all that a class tracker answers; but it never
leaves the frame, because each call makes another class. PyTorch's counterpart: UserDefinedClassVariable without a source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from dynexplore.engine.variables.contract.base import NotProxyable, VariableTracker
from dynexplore.engine.variables.objects.class_ import ClassVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


class FrameClassVariable(ClassVariable):
    """A class that exists only while its frame is translated."""

    def __init__(self, value: type[Any], stored: dict[str, VariableTracker | None]) -> None:
        super().__init__(value, None)
        self.stored = stored

    def _note_change(self, ctx: TraceContext, name: str) -> None:
        ctx.module_guards.writes_to(self.value)
        ctx.journal.note(self, f"{self.value.__qualname__}.{name}")

    def as_proxy(self) -> NoReturn:
        raise NotProxyable(self)
