"""`super()`: attribute lookup that starts after a class in the MRO.

The idea: `super(C, obj).name` searches the MRO of `type(obj)` after C, and binds the result to `obj`; the object's own `__dict__`
is skipped. If `obj` is itself a class (in a classmethod or `__new__`), its own MRO is searched. The zero-argument form uses the
class in the `__class__` cell and the first argument of the enclosing function.

In: calls of `super`. Out: attributes. PyTorch's counterpart: `SuperVariable` in torch/_dynamo/variables/misc.py. Mirrors CPython's
Objects/typeobject.c (super_getattro, super_init_without_args).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from dynexplore.engine.errors import EngineError
from dynexplore.engine.raw_attributes import is_subtype
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.objects.descriptors import bind, class_tracker
from dynexplore.engine.variables.objects.type_lookup import find, guard_on_absence
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.signatures import refuse_arguments

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


class SuperVariable(VariableTracker):
    """A `super` object."""

    kind = "super"

    def __init__(self, after: VariableTracker, receiver: VariableTracker) -> None:
        self.after = after
        self.receiver = receiver

    def python_type(self) -> type[Any]:
        return super

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return True

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "__class__":
            return class_tracker(ctx, super)
        start_class = self.after.live_value()
        start, instance = self._start(start_class)
        attribute = find(ctx, start, name, after=start_class)
        if attribute is None:
            guard_on_absence(ctx, start, name)
            return self._own_attribute(ctx, name, start)
        return bind(ctx, attribute, instance, start)

    def _own_attribute(self, ctx: TraceContext, name: str, start: type[Any]) -> VariableTracker:
        """An attribute of the super object itself, used if no class has the name."""
        if name in ("__thisclass__", "__self__"):
            return (self.after if name == "__thisclass__" else self.receiver).read(ctx)
        if name == "__self_class__":
            return class_tracker(ctx, start)
        if hasattr(super, name):
            ctx.break_graph("DX303", name=name, type="super")
        ctx.raise_exception(AttributeError, f"'super' object has no attribute {name!r}")

    def refuse_unrelated(self, ctx: TraceContext) -> None:
        """Raise the TypeError of `super()` itself, before any lookup, if the object is not an instance of the class."""
        start_class = self.after.live_value()
        start, instance = self._start(start_class)
        if not is_subtype(start, start_class):
            self._refuse(ctx, start_class, start, instance)

    def _refuse(self, ctx: TraceContext, after: type[Any], start: type[Any], instance: VariableTracker | None) -> NoReturn:
        """Raise the running Python's TypeError, provoked with an unrelated type of the
        same name, because the message contains the name.
        """
        unrelated = type(start.__name__, (), {})
        try:
            super(after, unrelated if instance is None else unrelated())
        except TypeError as error:
            ctx.raise_exception(TypeError, *error.args)
        raise EngineError(f"super({after.__qualname__}, {start.__qualname__}) was refused")

    def _start(self, after: type[Any]) -> tuple[type[Any], VariableTracker | None]:
        """The class whose MRO is searched, and the object to which functions are bound (supercheck in typeobject.c)."""
        if isinstance(self.receiver, ClassVariable) and is_subtype(self.receiver.value, after):
            return self.receiver.value, None
        return self.receiver.python_type(), self.receiver

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(super, self.after, self.receiver)

    def text(self) -> str:
        return f"super of {self.after.text()}"


@rule(super)
def _super(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """super() and super(cls, obj). With None or with one argument it is unbound, and has only its own attributes."""
    if kwargs or len(args) > 2:
        refuse_arguments(ctx, super, "super", args, kwargs)
    if len(args) == 1:
        ctx.break_graph("DX313", arguments=args[0].type_name())
    start_class, receiver = args or ctx.frames.super_arguments(ctx)
    if receiver.python_type() is type(None) or not isinstance(start_class, ClassVariable):
        ctx.break_graph("DX313", arguments=", ".join(arg.type_name() for arg in args))
    super_object = SuperVariable(start_class, receiver)
    super_object.refuse_unrelated(ctx)
    return super_object
