"""Weak references: `ref()` is the object behind it, or None once that is gone.

The idea: torch's recurrent layers keep weak references to their weights and ask whether they are still the same. Calling a live
reference gives the object it refers to now; its source is the call, so that the guard asks again.

An object that this frame made may go while the frame runs, and the reference hears of it: such a frame is left to Python.

In: live references, `weakref.ref(obj)`. Out: what they refer to.
torch/_dynamo/variables/misc.py (WeakRefVariable) does the same job.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import CallSource, Source
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.rules import rule

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


class WeakReferenceVariable(VariableTracker):
    """A `weakref.ref`: a live one, or one made in this frame for a known object."""

    kind = "weak reference"
    mutable = True

    def __init__(self, value: Any, source: Source | None, referent: VariableTracker | None = None) -> None:
        self.value = value
        self.source = source
        self.referent = referent

    def python_type(self) -> type[Any]:
        return weakref.ref

    def live_value(self) -> Any:
        return self.value if self.value is not None else super().live_value()

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return True

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        if args or kwargs:
            ctx.break_graph("DX218", callee="weakref.ref")
        if self.referent is None:
            self.referent = ctx.build(self.value(), self._behind())
            _refuse_owned_by_frame(ctx, self.referent)
        return self.referent

    def _behind(self) -> Source | None:
        source = self.source
        if source is None:
            return None
        referent: Source = source.child("referent", lambda: CallSource(source, referent_of, "object behind "))
        return referent

    def reconstruct(self, build: Reconstruction) -> None:
        if self.referent is None:
            build.push_object(self.value)
        else:
            build.call_object(weakref.ref, self.referent)

    def text(self) -> str:
        return "weak reference"


HELD_BY_THE_FRAME = "a weak reference to a local"  # how the program hears of the end of an object that it made


def referent_of(reference: Any) -> Any:
    """The object behind a weak reference, or None."""
    return reference()


_WATCHERS = ("dynexplore", "torch", "builtins")  # whose callbacks are none of the program's


def is_weakly_referenced(value: Any) -> bool:
    """Whether the program hears of the end of an object: a weak reference to it has a callback, as those of weak containers do."""
    callbacks = [reference.__callback__ for reference in weakref.getweakrefs(value)]
    return any(
        callback is not None and str(getattr(callback, "__module__", None)).partition(".")[0] not in _WATCHERS
        for callback in callbacks
    )


@rule(weakref.ref)
def _make(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """weakref.ref(obj); one with a callback is left to Python."""
    _refuse_new_objects(ctx, args)
    if len(args) != 1 or kwargs:
        ctx.break_graph("DX205", function="weakref.ref", arguments="a callback")
    return WeakReferenceVariable(None, None, args[0])


@rule(weakref.proxy)
def _make_proxy(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """A stand-in, whose every use asks what it stands for, is left to Python."""
    _refuse_new_objects(ctx, args)
    ctx.break_graph("DX201", function="proxy")


@rule(weakref.ref.__new__)
def _make_derived(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """One of a class derived from it, as a WeakValueDictionary has, is left to Python."""
    _refuse_new_objects(ctx, args[1:])
    ctx.break_graph("DX201", function="ReferenceType.__new__")


def _refuse_new_objects(ctx: TraceContext, args: Args) -> None:
    """An object that the program made in this frame, and refers to weakly, ends when the program lets it go.

    It may have been made before a break, too: then it is a local of the resume function.
    """
    if not args:
        return
    _refuse_owned_by_frame(ctx, args[0])
    if args[0].source is None:
        ctx.break_graph("DX321", type=args[0].type_name())


def _refuse_owned_by_frame(ctx: TraceContext, referent: VariableTracker) -> None:
    """The reference ends when the frame lets its local go."""
    if ctx.frames.is_owned_by_root(referent):
        ctx.break_graph("DX321", type=referent.type_name(), how=HELD_BY_THE_FRAME)


@builds(weakref.ref)
def build_weak_reference(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A live reference: its type is guarded, and what stands behind it when that is asked."""
    if source is not None:
        ctx.guard(source, "TYPE_MATCH", weakref.ref)
    return WeakReferenceVariable(value, source)
