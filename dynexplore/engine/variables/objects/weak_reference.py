"""Weak references: `ref()` returns the referent, or None after it has been collected.

The idea: torch's recurrent layers keep weak references to their weights and check whether they are still the same. Calling a live
reference returns its current referent; the source is the call, so the guard calls it again.

An object created in the frame may be collected while the frame runs, which a weak reference to it would observe: the engine skips
such a frame, and Python runs it.

In: live references, `weakref.ref(obj)`. Out: their referents. PyTorch's counterpart: `WeakRefVariable` in
torch/_dynamo/variables/misc.py.
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


HELD_BY_THE_FRAME = "a weak reference to a local"  # the program could observe when the object is collected


def referent_of(reference: Any) -> Any:
    """The referent of a weak reference, or None."""
    return reference()


_WATCHERS = ("dynexplore", "torch", "builtins")  # modules whose callbacks are not the program's


def is_weakly_referenced(value: Any) -> bool:
    """Whether the program observes the collection of an object: a weak reference to it has a callback, as in weak containers.

    A proxy may have one, which nobody can read: its attributes are those of the referent.
    """
    references = weakref.getweakrefs(value)
    if any(type(reference) in weakref.ProxyTypes for reference in references):
        return True
    callbacks = [reference.__callback__ for reference in references]
    return any(callback is not None and is_of_the_program(callback) for callback in callbacks)


def is_of_the_program(callback: Any) -> bool:
    """Whether a callback or finalizer is not one of torch or the engine."""
    return str(getattr(callback, "__module__", None)).partition(".")[0] not in _WATCHERS


@rule(weakref.ref)
def _make(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """weakref.ref(obj); a reference with a callback breaks the graph."""
    _refuse_new_objects(ctx, args)
    if len(args) != 1 or kwargs:
        ctx.break_graph("DX205", function="weakref.ref", arguments="a callback")
    return WeakReferenceVariable(None, None, args[0])


@rule(weakref.proxy)
def _make_proxy(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`weakref.proxy`: breaks the graph, because every use of a proxy checks its referent."""
    _refuse_new_objects(ctx, args)
    ctx.break_graph("DX201", function="proxy")


@rule(weakref.ref.__new__)
def _make_derived(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """A subclass of weakref.ref, as WeakValueDictionary uses: breaks the graph."""
    _refuse_new_objects(ctx, args[1:])
    ctx.break_graph("DX201", function="ReferenceType.__new__")


def _refuse_new_objects(ctx: TraceContext, args: Args) -> None:
    """Break the graph at a weak reference to an object that the program created in this frame and may release while it runs.

    The object may also have been created before a graph break: then it is a local of the resume function.
    """
    if not args:
        return
    _refuse_owned_by_frame(ctx, args[0])
    if args[0].source is None:
        ctx.break_graph("DX321", type=args[0].type_name())


def _refuse_owned_by_frame(ctx: TraceContext, referent: VariableTracker) -> None:
    """Break the graph if the reference would end when the frame releases its local."""
    if ctx.frames.is_owned_by_root(referent):
        ctx.break_graph("DX321", type=referent.type_name(), how=HELD_BY_THE_FRAME)


@builds(weakref.ref)
def build_weak_reference(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A live reference: its type is guarded, and its referent when the program calls it."""
    if source is not None:
        ctx.guard(source, "TYPE_MATCH", weakref.ref)
    return WeakReferenceVariable(value, source)
