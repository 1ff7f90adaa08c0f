"""BuiltinValueVariable: the base class of trackers for values of builtin types (lists, dicts, sets, iterators).

The idea: the attributes of such a value are C methods, looked up by name in the table of rules (`@builtin_method(list, "append")`).
Its special methods call the tracker's own operations. For a missing attribute the program gets Python's AttributeError.

In: a receiver and a method's name. Out: the rule that handles it. PyTorch's counterpart: `call_method` of each class in
torch/_dynamo/variables/, and `MethodDescriptorVariable` in functions.py.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from dynexplore.engine.raw_attributes import class_dict, class_mro, name_in_messages
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker, type_tracker
from dynexplore.engine.variables.operators import COMPARE_DUNDER, DUNDER, binary, compare
from dynexplore.engine.variables.rules import METHODS, MethodHandler
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable, run_now
from dynexplore.engine.variables.scalars.specialize import specialize_bool
from dynexplore.engine.variables.signatures import builtin_method, refuse_method_arguments
from dynexplore.engine.variables.type_errors import NoSampleValue, does_not_answer, sample_value

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

NONE = ConstantVariable(None)

_ABSENT = object()
_DATA = types.GetSetDescriptorType | types.MemberDescriptorType  # attributes that are data, such as `gi_frame` of a generator


class BuiltinValueVariable(VariableTracker):
    """A value of a builtin type; see the head of this file."""

    value_type: ClassVar[type[Any]] = object

    def python_type(self) -> type[Any]:
        return self.value_type

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return True

    def hash_key(self, ctx: TraceContext) -> object:
        if self.python_type().__hash__ is None:
            ctx.raise_exception(TypeError, f"unhashable type: {name_in_messages(self.python_type())!r}")
        ctx.journal.observe_identity(self)
        return self

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        python_type = self.python_type()
        if name == "__class__":
            return type_tracker(ctx, self)
        if name == "__doc__":
            return ctx.build(python_type.__doc__, None)
        raw = next((class_dict(owner)[name] for owner in class_mro(python_type) if name in class_dict(owner)), _ABSENT)
        if raw is _ABSENT:  # attributes of `type`, such as `mro`, exist only on the class itself
            ctx.raise_exception(AttributeError, f"{name_in_messages(python_type)!r} object has no attribute {name!r}")
        if raw is None:  # `__hash__` of a list
            return NONE
        if isinstance(raw, _DATA):
            ctx.break_graph("DX303", name=name, type=self.type_name())
        return ConstantMethodVariable(self, name)

    def set_attribute(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        with contextlib.suppress(NoSampleValue):
            run_now(ctx, setattr, sample_value(self), name, None)
        super().set_attribute(ctx, name, value)

    def call_method(self, ctx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        handler = method_row(self.python_type(), name)
        if handler is not None:
            return handler(ctx, self, args, kwargs)
        special = SPECIAL_METHODS.get(name)
        self.get_attribute(ctx, name)  # raises AttributeError
        if special is None:
            ctx.break_graph("DX213", method=f"{self.type_name()}.{name}")
        if kwargs or len(args) != special.__code__.co_argcount - 2:
            refuse_method_arguments(ctx, self, name, args, kwargs)
        if name in MAY_REFUSE and does_not_answer(self, name, *args):
            return ConstantVariable(NotImplemented)
        tracker: VariableTracker = special(ctx, self, *args)
        return tracker


def mutating_method(python_type: type[Any], *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Like `builtin_method`, for a method that mutates its receiver: the mutation is recorded
    first; a rule without a result returns None.
    """

    def declare(row: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(row)
        def handler(ctx: TraceContext, self: Any, /, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
            ctx.journal.note(self, names[0])
            result = row(ctx, self, *args, **kwargs)
            return result if isinstance(result, VariableTracker) else NONE

        builtin_method(python_type, *names)(handler)
        return row

    return declare


def method_row(python_type: type[Any], name: str) -> MethodHandler | None:
    """The rule of a method, looked up along the type's bases."""
    for base in class_mro(python_type):
        row = METHODS.get((base, name))
        if row is not None:
            return row
    return None


def _special_setitem(ctx: TraceContext, self: VariableTracker, key: VariableTracker, value: VariableTracker) -> VariableTracker:
    self.set_item(ctx, key, value)
    return NONE


def _special_delitem(ctx: TraceContext, self: VariableTracker, key: VariableTracker) -> VariableTracker:
    self.delete_item(ctx, key)
    return NONE


def _special_next(ctx: TraceContext, self: VariableTracker) -> VariableTracker:
    return self.next_or_raise(ctx)


def _operator_method(symbol: str, swapped: bool = False) -> Callable[..., VariableTracker]:
    def call(ctx: TraceContext, self: VariableTracker, other: VariableTracker) -> VariableTracker:
        return binary(ctx, symbol, other, self) if swapped else binary(ctx, symbol, self, other)

    return call


def _comparison_method(symbol: str) -> Callable[..., VariableTracker]:
    def call(ctx: TraceContext, self: VariableTracker, other: VariableTracker) -> VariableTracker:
        content: VariableTracker = getattr(other, "storage", None) or other  # this C method ignores the operand's class
        return compare(ctx, symbol, self, content)

    return call


MAY_REFUSE = frozenset(
    {f"__{side}{name}__" for name in DUNDER.values() for side in ("", "r", "i")} | {names[0] for names in COMPARE_DUNDER.values()}
)
"""Special methods that return NotImplemented for an operand of an unknown type."""


SPECIAL_METHODS: dict[str, Any] = {
    "__len__": lambda ctx, self: self.length(ctx),
    "__bool__": lambda ctx, self: ConstantVariable(specialize_bool(ctx, self)),
    "__iter__": lambda ctx, self: self.iterate(ctx),
    "__next__": _special_next,
    "__contains__": lambda ctx, self, item: self.contains(ctx, item),
    "__getitem__": lambda ctx, self, key: self.get_item(ctx, key),
    "__setitem__": _special_setitem,
    "__delitem__": _special_delitem,
    **{f"__{name}__": _operator_method(symbol) for symbol, name in DUNDER.items()},
    **{f"__r{name}__": _operator_method(symbol, swapped=True) for symbol, name in DUNDER.items()},
    **{f"__i{name}__": _operator_method(symbol + "=") for symbol, name in DUNDER.items()},
    **{names[0]: _comparison_method(symbol) for symbol, names in COMPARE_DUNDER.items()},
}
