"""A trace context without a translator: enough for trackers that need no graph.

In: live values and sources. Out: trackers, and what was asked for: `guards` as (text of the source, kind) pairs, the
journal, breaks as GraphBreak and exceptions of the program as ObservedException.
"""

from __future__ import annotations

from typing import Any, NoReturn

from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.provenance.module_guards import ModuleGuards
from dynexplore.engine.provenance.sources import LocalSource, Source
from dynexplore.engine.specialization.decide import Options, Specializer
from dynexplore.engine.specialization.profile import Profile
from dynexplore.engine.variables import all_rows
from dynexplore.engine.variables.containers.iterator import ItemsIteratorVariable
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import row_for
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.contract.frame_effects import FrameEffects
from dynexplore.engine.variables.contract.side_effects import Journal
from dynexplore.engine.variables.objects.exception import exception_from_python

assert all_rows.__doc__


class FakeContext:
    """Implements what containers, iterators and rules ask of TraceContext."""

    def __init__(self) -> None:
        self.journal = Journal(lambda tracker, what: self.changes.append(what))
        self.changes: list[str] = []
        self.guards: list[tuple[str, str]] = []
        self.effects = FrameEffects()
        self.values = self
        self.frames = self
        self.module_guards = ModuleGuards()
        self.specializer = Specializer(Profile(), Options())

    def build(self, value: object, source: Source | None) -> VariableTracker:
        known = self.journal.tracker_of(value)
        if known is not None and source is not None:
            return known
        tracker = row_for(value)(self, value, source)
        if source is not None:
            self.journal.remember(value, tracker)
        return tracker

    def lazy(self, value: object, source: Source | None) -> VariableTracker:
        return self.build(value, None) if source is None else LazyVariable(value, source)

    def guard(self, source: Source, kind: str, expected: Any) -> None:
        if (source.text(), kind) not in self.guards:
            self.guards.append((source.text(), kind))

    def iterator_over(self, items: list[VariableTracker]) -> VariableTracker:
        return ItemsIteratorVariable(items)

    def break_graph(self, kind: str, **facts: object) -> NoReturn:
        raise GraphBreak(kind, **facts)

    def raise_exception(self, exception_type: type[BaseException], *args: object) -> NoReturn:
        raise ObservedException(self, exception_from_python(self, exception_type, args))

    def forward_call(self, caller: VariableTracker, function: VariableTracker) -> None:
        """Nothing breaks here: no frame has to know what its call comes to."""

    # -- for tests

    def argument(self, value: object, name: str = "arg") -> VariableTracker:
        """The tracker of a value that existed before the frame."""
        return self.build(value, LocalSource(name, 0))

    def made(self, value: object) -> VariableTracker:
        """The tracker of a value of the frame's own making."""
        return self.build(value, None)

    def call(self, function: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        """Call a live builtin on trackers."""
        return self.build(function, None).call(self, args, kwargs)

    def method(self, receiver: VariableTracker, name: str, *args: object, **kwargs: object) -> Any:
        """Call a method with live arguments; the plain value of the result."""
        answer = receiver.call_method(
            self, name, [self.made(arg) for arg in args], {key: self.made(arg) for key, arg in kwargs.items()}
        )
        return plain(self, answer)


class Call(VariableTracker):
    """A function of the test, called with plain values."""

    def __init__(self, ctx: FakeContext, function: Any) -> None:
        self.ctx, self.function = ctx, function

    def call(self, ctx: Any, args: Any, kwargs: Any) -> VariableTracker:
        return self.ctx.made(self.function(*(plain(self.ctx, arg) for arg in args)))


def plain(ctx: FakeContext, value: VariableTracker) -> Any:
    """The plain value that a tracker of constants and containers stands for."""
    value = value.read(ctx)
    if value.is_constant():
        return value.as_constant()
    if hasattr(value, "entries"):
        return {plain(ctx, key): plain(ctx, item) for key, item in value.pairs(ctx)}
    kind = value.python_type()
    items = [plain(ctx, item) for item in value.unpack(ctx)]
    return kind(items) if kind in (list, tuple, set, frozenset) else items


def raised(error: ObservedException) -> str:
    """`ValueError: text` of an exception of the program."""
    exception: Any = error.exception
    text = ", ".join(str(arg.as_constant()) for arg in exception.args)
    return f"{exception.exception_type.__name__}: {text}" if text else exception.exception_type.__name__
