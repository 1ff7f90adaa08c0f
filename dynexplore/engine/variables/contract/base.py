"""VariableTracker: the fixed set of questions that the interpreter asks of every value.

The idea: the symbolic stack and locals hold trackers instead of values. A tracker knows its Python type, perhaps its value,
perhaps where it came from (`source`), perhaps the FX node that computes it. **A fixed set of questions is a method here; an
open set of targets (builtins, torch functions, operators, methods of a type) is a row of a table** elsewhere.

Each answer that is not known ends in a graph break that names the type and the question; so a new tracker starts with nothing
and adds what it can answer.

Who made it: a tracker with a `source` existed before the frame ran; one without was made in this frame. There is one tracker
per live object (`ctx.build` sees to it), so that identity in the program is identity of trackers.

Questions that watchers ask, and that rely on nothing, stand in inspection.py.

torch/_dynamo/variables/base.py does the same job.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from dynexplore.engine.policy.external_effects import kind_of_break
from dynexplore.engine.raw_attributes import name_in_messages, tells_its_class
from dynexplore.engine.variables.contract.inspection import Inspection

if TYPE_CHECKING:
    from dynexplore.engine.provenance.sources import Source
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


class NotConstant(Exception):
    """`as_constant` was asked of a tracker whose value is not known while tracing."""


class NotProxyable(Exception):
    """`as_proxy` was asked of a tracker that cannot be an argument of an FX node; names its type."""


class _StepInside(int):
    """A step at which a body is traced: the same number as that of the call, but a mark on what comes up inside."""

    around: int


class Progress(threading.local):
    """Where the attempt of this thread stands: the step of the root frame before which it could stop, were it to begin again."""

    step = 0

    @contextlib.contextmanager
    def of_an_attempt(self) -> Iterator[None]:
        """An attempt begins; one that it stands inside (a backend may call what is compiled) goes on where it was."""
        outer, self.step = self.step, 0
        try:
            yield
        finally:
            self.step = outer

    @contextlib.contextmanager
    def of_a_body(self) -> Iterator[Callable[[VariableTracker], bool]]:
        """A function is traced of which one must know what it changes; gives the question if a value was made inside."""
        outer = self.step
        self.step = inside = _StepInside(outer)
        inside.around = outer
        try:
            yield lambda value: value.source is None and _is_inside(value.created_at_step, inside)
        finally:
            self.step = outer


def _is_inside(step: int, body: int) -> bool:
    """Whether a step is that of a body, or of one inside it."""
    while step is not body and isinstance(step, _StepInside):
        step = step.around
    return step is body


progress = Progress()


class UnknownType(NotImplementedError):
    """A tracker was asked for its type, and does not know it."""

    def __init__(self, tracker: VariableTracker) -> None:
        super().__init__(f"{type(tracker).__name__} does not know its Python type")
        self.tracker = tracker


class VariableTracker(Inspection):
    """What is known of one value; see the head of this file."""

    created_at_step: int
    """The root frame's step at which it came up: a value that cannot be rebuilt is made for real there, by a later attempt."""

    kind: ClassVar[str] = "value"  # what people see in the views
    mutable: ClassVar[bool] = False  # must be built once and shared when it appears twice in what a graph leaves behind

    source: Source | None = None
    storage_owner: VariableTracker | None = None  # the object of a program's class whose content it is: there is no other object

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        tracker = super().__new__(cls)
        tracker.created_at_step = progress.step
        return tracker

    # -- what it is

    def container(self) -> VariableTracker:
        """What stands for the items where a container is walked or changed: of an object of the program, what it holds."""
        return self

    def python_type(self) -> type[Any]:
        """The type that `type(value)` gives. Raises UnknownType: the translator ends the graph there."""
        raise UnknownType(self)

    def type_name(self) -> str:
        """The type's name, for messages."""
        try:
            return self.python_type().__qualname__
        except NotImplementedError:
            return self.kind

    def as_constant(self) -> Any:
        """The Python value, if it is known while tracing. Raises NotConstant."""
        raise NotConstant(self)

    def is_constant(self) -> bool:
        """Whether `as_constant` has an answer."""
        try:
            self.as_constant()
        except NotConstant:
            return False
        return True

    def varying_key(self) -> tuple[object, Source] | None:
        """An index or key that is known to be another one in each call: this call's, and its source. None: it is taken as it is."""
        return None

    def read(self, ctx: TraceContext) -> VariableTracker:
        """The tracker itself; a container's item that was never looked at becomes a real tracker (lazy.py)."""
        return self

    def read_items(self, ctx: TraceContext) -> None:
        """Read all that a container holds, all the way down: asked before `as_proxy`."""

    def live_value(self) -> Any:
        """The real object behind an existing value. Raises NotConstant for one made in this frame."""
        raise NotConstant(self)

    # -- questions

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        """bool(value): True or False, or a tracker whose truth is only known when the graph runs."""
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
        """next(value) of an iterator; StopIteration when it is exhausted, with what the iterator says."""
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

    def same_object(self, other: VariableTracker) -> bool | None:
        """`value is other`; None when that cannot be known."""
        return self is other

    def method_of(self, ctx: TraceContext, cls: type[Any] | None, name: str) -> VariableTracker:
        """The method that `cls`, a C type, has under a name, bound to the value; what the value's own class has is no matter."""
        return self.get_attribute(ctx, name)

    def hash_key(self, ctx: TraceContext) -> object:
        """What stands for the value as a dict key: equal keys for equal values."""
        ctx.break_graph("DX320", question="hash()", type=self.type_name())

    def merged_as(self, ctx: TraceContext) -> VariableTracker | None:
        """The dict into which `dict(value)` and `**value` look; None: they ask `keys` and `__getitem__`. CPython looks into every
        dict whose class has no `__iter__` of its own (dict_merge in dictobject.c).
        """
        return None

    def own_less_than(self, ctx: TraceContext, other: VariableTracker) -> VariableTracker | None:
        """What the `__lt__` that the program wrote returns; None if there is none, or it leaves the answer to others."""
        return None

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        """`item in value`."""
        ctx.break_graph("DX302", question="`in`", type=self.type_name())

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        """`value.name`."""
        if name == "__class__":
            with contextlib.suppress(NotImplementedError):
                if tells_its_class(self.python_type()):
                    return ctx.build(self.python_type(), None)
        ctx.break_graph(self.outside("DX303"), name=name, type=self.type_name())

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
            ctx.break_graph(self.outside("DX212"), callee=self.describe())
        if not any("__call__" in vars(base) for base in python_type.__mro__):
            ctx.raise_exception(TypeError, f"{name_in_messages(python_type)!r} object is not callable")
        ctx.break_graph(self.outside("DX212"), callee=self.describe())

    def outside(self, kind: str) -> str:
        """The kind of graph break that fits an object of a library which acts on the world outside; `kind` for others."""
        try:
            return kind_of_break(self.live_value(), kind)
        except NotConstant:
            return kind

    def call_method(self, ctx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`value.name(*args, **kwargs)`."""
        return self.get_attribute(ctx, name).call(ctx, args, kwargs)

    # -- into the graph, and out of the frame

    def as_proxy(self) -> Any:
        """The value as an argument of an FX node: a node, a constant, or a nest of such. Raises NotProxyable."""
        raise NotProxyable(self.type_name())

    def reconstruct(self, build: Reconstruction) -> None:
        """Emit bytecode that pushes a value made in this frame (one with a source is loaded from there).

        Raises NotImplementedError, with the reason, where that cannot be: then the frame stops before the value is made.
        """
        raise NotImplementedError("no bytecode makes such a value")

    def write_back(self, build: Reconstruction) -> None:
        """Emit bytecode that makes the real object what the journal says it became."""
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
"""The arguments of a call: positional ones, and named ones."""
