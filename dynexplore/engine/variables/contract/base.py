"""VariableTracker: the fixed set of operations that the interpreter performs on every value.

The idea: the symbolic stack and locals hold trackers instead of values. A tracker knows its Python type and, depending on the
value, its constant value, where it came from (`source`), or the FX node that computes it. **The fixed operations (truth,
length, iteration, attributes, items, calls) are methods of this class; the open sets of targets (builtins, torch functions,
operators, methods of a type) are rules in tables** elsewhere.

The default of each operation is a graph break that names the type and the operation, so a new kind of tracker starts with nothing
and adds what it supports.

A tracker with a `source` stands for an object that existed before the frame; one without stands for an object made in the frame.
`ctx.build` makes one tracker per live object, so the identity of objects in the program is the identity of trackers.

Queries for views and checks, which install no guard, are in inspection.py.

In: operations of the interpreter. Out: trackers, nodes, reconstruction bytecode. PyTorch's counterpart: `VariableTracker` in
torch/_dynamo/variables/base.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from dynexplore.engine.policy.external_effects import kind_of_break
from dynexplore.engine.raw_attributes import class_dict, class_mro, is_c_type, name_in_messages, tells_its_class
from dynexplore.engine.variables.contract.inspection import Inspection

if TYPE_CHECKING:
    from dynexplore.engine.provenance.sources import Source
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


class NotConstant(Exception):
    """`as_constant` was called on a tracker whose value is not known at trace time."""


class NotProxyable(Exception):
    """`as_proxy` was called on a tracker that cannot be an argument of an FX node; the message names its type."""


class TruthNotProxyable(NotProxyable):
    """The same for the truth value of a tensor, which no graph computes."""


class _StepInside(int):
    """The step of a call whose body is traced separately: equal to the call's step, but a distinct object, so values made inside
    it can be recognized by identity.
    """

    around: int


class Progress(threading.local):
    """The progress of this thread's attempt: the root frame's current step, before which a restarted attempt could stop."""

    step = 0

    @contextlib.contextmanager
    def of_an_attempt(self) -> Iterator[None]:
        """Run an attempt. A nested one (a backend may call compiled code) saves the outer attempt's step and restores it."""
        outer, self.step = self.step, 0
        try:
            yield
        finally:
            self.step = outer

    @contextlib.contextmanager
    def of_a_body(self) -> Iterator[Callable[[VariableTracker], bool]]:
        """Trace a body whose mutations must be known; yields a predicate: was this value made inside the body?"""
        outer = self.step
        self.step = inside = _StepInside(outer)
        inside.around = outer
        try:
            yield lambda value: value.source is None and _is_inside(value.created_at_step, inside)
        finally:
            self.step = outer


def _is_inside(step: int, body: int) -> bool:
    """Whether a step belongs to a body, or to one nested in it."""
    while step is not body and isinstance(step, _StepInside):
        step = step.around
    return step is body


progress = Progress()


class UnknownType(NotImplementedError):
    """`python_type` was called on a tracker whose Python type is not known."""

    def __init__(self, tracker: VariableTracker) -> None:
        super().__init__(f"{type(tracker).__name__} does not know its Python type")
        self.tracker = tracker


class VariableTracker(Inspection):
    """What is known about one value; see the head of this file."""

    created_at_step: int
    """The root frame's step when this tracker was created; a later attempt stops there if the value cannot be reconstructed."""

    kind: ClassVar[str] = "value"  # shown in the views
    mutable: ClassVar[bool] = False  # reconstructed once and shared if it appears twice in what a graph leaves behind

    source: Source | None = None
    storage_owner: VariableTracker | None = None  # for a storage: the user-defined instance
    is_its_own_dict: bool = False  # `self.__dict__ = self`: its items are its attributes, which are tracked apart

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        tracker = super().__new__(cls)
        tracker.created_at_step = progress.step
        return tracker

    # -- what it is

    def container(self) -> VariableTracker:
        """The tracker whose items are iterated or mutated: the storage, for an instance of a user-defined subclass."""
        return self

    def python_type(self) -> type[Any]:
        """`type(value)`. Raises UnknownType, at which the translator breaks the graph."""
        raise UnknownType(self)

    def type_name(self) -> str:
        """The type's name, for messages."""
        try:
            return self.python_type().__qualname__
        except NotImplementedError:
            return self.kind

    def as_constant(self) -> Any:
        """The Python value, if it is known at trace time. Raises NotConstant otherwise."""
        raise NotConstant(self)

    def is_constant(self) -> bool:
        """Whether `as_constant` succeeds."""
        try:
            self.as_constant()
        except NotConstant:
            return False
        return True

    def is_unguarded(self) -> bool:
        """Whether its value is one that no guard relies on yet; `as_constant` would add the guard."""
        return False

    def varying_key(self) -> tuple[object, Source] | None:
        """This call's value and the source of an index or key that differs from call to call; None: specialize on its value."""
        return None

    def read(self, ctx: TraceContext) -> VariableTracker:
        """The tracker itself; a lazy item becomes a real tracker (lazy.py)."""
        return self

    def binds_arguments(self) -> bool:
        """Whether a call only binds the arguments to parameters, so that they may be lazy."""
        return False

    def read_items(self, ctx: TraceContext) -> None:
        """Realize every lazy item, recursively: required before `as_proxy`."""

    def live_value(self) -> Any:
        """The live object of a value that existed before the frame. Raises NotConstant for one made in the frame."""
        raise NotConstant(self)

    # -- questions

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        """bool(value): True, False, or a tracker for a truth value that is only known at run time."""
        ctx.break_graph("DX302", question="truth value", type=self.type_name())

    def length(self, ctx: TraceContext) -> VariableTracker:
        """len(value)."""
        ctx.break_graph("DX302", question="len()", type=self.type_name())

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        """iter(value): an iterator tracker."""
        ctx.break_graph("DX307", question="iteration", type=self.type_name())

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        """next(value) of an iterator; None when it is exhausted."""
        ctx.break_graph("DX307", question="next()", type=self.type_name())

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        """next(value) of an iterator; raises StopIteration, with the iterator's return value, if it is exhausted."""
        item = self.next_item(ctx)
        if item is None:
            ctx.raise_exception(StopIteration)
        return item

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        """list(value): every item."""
        iterator = self.iterate(ctx)
        items = []
        while (item := iterator.next_item(ctx)) is not None:
            items.append(item)
        return items

    def length_hint(self, ctx: TraceContext) -> None:
        """What asking for a length hint, as list(value) does after iter(value), calls of the program: nothing, for a C type."""

    def same_object(self, other: VariableTracker) -> bool | None:
        """`value is other`; None if that is not known at trace time."""
        return self is other

    def method_of(self, ctx: TraceContext, cls: type[Any] | None, name: str) -> VariableTracker:
        """The method `name` of `cls`, a C type, bound to the value, even if the value's own class overrides it."""
        return self.get_attribute(ctx, name)

    def hash_key(self, ctx: TraceContext) -> object:
        """The value as a key of the engine's dicts: equal keys for equal values."""
        ctx.break_graph("DX320", question="hash()", type=self.type_name())

    def merged_as(self, ctx: TraceContext) -> VariableTracker | None:
        """The dict that `dict(value)` and `**value` read directly; None: they call `keys` and `__getitem__`. CPython reads
        directly every dict whose class does not override `__iter__` (dict_merge in dictobject.c).
        """
        return None

    def own_less_than(self, ctx: TraceContext, other: VariableTracker) -> VariableTracker | None:
        """The result of a user-defined `__lt__`; None if there is none or it returns NotImplemented."""
        return None

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        """`item in value`."""
        ctx.break_graph("DX302", question="`in`", type=self.type_name())

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        """`value.name`."""
        if name == "__class__":
            with contextlib.suppress(NotImplementedError):
                if tells_its_class(self.python_type()):
                    return type_tracker(ctx, self)
        ctx.break_graph(self.kind_or_external_effect("DX303"), name=name, type=self.type_name())

    def set_attribute(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        """`self.name = value`."""
        ctx.break_graph("DX303", name=name, type=self.type_name())

    def delete_attribute(self, ctx: TraceContext, name: str) -> None:
        """`del self.name`."""
        ctx.break_graph("DX319", name=name, type=self.type_name())

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        """`value[key]`."""
        ctx.break_graph("DX306", question="subscript", type=self.type_name())

    def set_item(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        """`self[key] = value`."""
        ctx.break_graph("DX306", question="item assignment", type=self.type_name())

    def delete_item(self, ctx: TraceContext, key: VariableTracker) -> None:
        """`del self[key]`."""
        ctx.break_graph("DX319", question="item deletion", type=self.type_name())

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`value(*args, **kwargs)`."""
        try:
            python_type = self.python_type()
        except NotImplementedError:
            ctx.break_graph(self.kind_or_external_effect("DX212"), callee=self.describe())
        if not any("__call__" in class_dict(base) for base in class_mro(python_type)):
            ctx.raise_exception(TypeError, f"{name_in_messages(python_type)!r} object is not callable")
        ctx.break_graph(self.kind_or_external_effect("DX212"), callee=self.describe())

    def kind_or_external_effect(self, kind: str) -> str:
        """The kind of graph break for an object of a library with external effects (I/O, logging); `kind` for any other object."""
        try:
            return kind_of_break(self.live_value(), kind)
        except NotConstant:
            return kind

    def call_method(self, ctx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`value.name(*args, **kwargs)`."""
        return self.get_attribute(ctx, name).call(ctx, args, kwargs)

    # -- into the graph, and out of the frame

    def as_proxy(self) -> Any:
        """The value as an argument of an FX node: a node, a constant, or a nested container of these. Raises NotProxyable."""
        raise NotProxyable(self.type_name())

    def reconstruct(self, build: Reconstruction) -> None:
        """Emit bytecode that pushes a value made in this frame (a value with a source is loaded from its source).

        Raises NotImplementedError, with the reason, if that is impossible: the frame then stops before the value is made.
        """
        raise NotImplementedError("no bytecode makes such a value")

    def write_back(self, build: Reconstruction) -> None:
        """Emit bytecode that applies the recorded mutations to the real object."""
        raise NotImplementedError(f"{type(self).__name__} has no side effects to write back")

    # -- for people

    def text(self) -> str:
        """The value as the views show it: a tensor's dtype, shape and device; a constant's repr."""
        return self.type_name()

    def describe(self) -> str:
        """A short phrase for messages: the source if there is one, else kind and type."""
        return self.source.text() if self.source is not None else f"{self.kind} {self.text()}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text()})"


Args: TypeAlias = Sequence[VariableTracker]
Kwargs: TypeAlias = Mapping[str, VariableTracker]
"""The arguments of a call: positional, keyword."""


def type_tracker(ctx: TraceContext, value: VariableTracker) -> VariableTracker:
    """`type(value)`: the tracker to which the class's own name leads, so that both read what is written to the class."""
    cls = value.python_type()
    if ctx.journal.tracker_of(cls) is not None or is_c_type(cls):
        return ctx.build(cls, None)
    source = ctx.module_guards.fixed_source_of(cls, cls.__qualname__)
    return ctx.build(cls, source)
