"""Building and unpacking containers.

The idea: a container built in the frame is a tracker that holds the trackers of its items; no real container exists until one
escapes.

In: BUILD_LIST, LIST_APPEND, UNPACK_SEQUENCE and their neighbors. Out: trackers on the stack. PyTorch's counterpart: `BUILD_LIST`
and `UNPACK_SEQUENCE` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.bytecode import Step
from dynexplore.engine.raw_attributes import name_in_messages
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.containers.list_items import are_items_at_hand, first_items, list_items
from dynexplore.engine.variables.containers.mapping import DictVariable, pairs_of
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.containers.set_ import SetVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.error_messages import too_many_values
from dynexplore.engine.variables.objects.type_lookup import defines
from dynexplore.engine.variables.type_errors import type_of

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@handles("BUILD_TUPLE")
def build_tuple(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """(a, b, ...)."""
    frame.push(TupleVariable(frame.popn(step.arg)))


@handles("BUILD_LIST")
def build_list(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """[a, b, ...]."""
    frame.push(ListVariable(frame.popn(step.arg)))


@handles("BUILD_SET")
def build_set(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """{a, b, ...}."""
    new_set = SetVariable()
    for item in frame.popn(step.arg):
        new_set.call_method(ctx, "add", [item], {})
    frame.push(new_set)


@handles("BUILD_MAP")
def build_map(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """{key: value, ...}."""
    flat = frame.popn(2 * step.arg)
    mapping = DictVariable()
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        mapping.set_item(ctx, key, value)
    frame.push(mapping)


@handles("BUILD_CONST_KEY_MAP")
def build_const_key_map(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """{"a": x, ...} with constant keys."""
    keys = frame.pop().unpack(ctx)
    mapping = DictVariable()
    for key, value in zip(keys, frame.popn(step.arg), strict=True):
        mapping.set_item(ctx, key, value)
    frame.push(mapping)


@handles("LIST_APPEND")
def list_append(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """An item of a list comprehension."""
    item = frame.pop()
    frame.stack[-step.arg].call_method(ctx, "append", [item], {})


@handles("SET_ADD")
def set_add(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """An item of a set comprehension."""
    item = frame.pop()
    frame.stack[-step.arg].call_method(ctx, "add", [item], {})


@handles("MAP_ADD")
def map_add(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """An item of a dict comprehension."""
    value, key = frame.pop(), frame.pop()
    frame.stack[-step.arg].set_item(ctx, key, value)


@handles("LIST_EXTEND")
def list_extend(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """[*items]."""
    items = frame.pop()
    require_iterable(ctx, items, "Value after * must be an iterable, not {}")
    frame.stack[-step.arg].call_method(ctx, "extend", [items], {})


@handles("SET_UPDATE")
def set_update(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """{*items}."""
    items = frame.pop()
    frame.stack[-step.arg].call_method(ctx, "update", [items], {})


@handles("DICT_UPDATE")
def dict_update(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """{**mapping}."""
    mapping = frame.pop()
    python_type = type_of(mapping)
    if python_type is not None and not defines(python_type, "keys"):
        ctx.raise_exception(TypeError, f"{name_in_messages(python_type)!r} object is not a mapping")
    frame.stack[-step.arg].call_method(ctx, "update", [mapping], {})


@handles("DICT_MERGE")
def dict_merge(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """f(**mapping): a duplicate key is a TypeError, which the real call raises."""
    mapping = frame.pop()
    spread = type_of(mapping)
    if spread is not None and not defines(spread, "keys"):
        ctx.break_graph("DX218", argument=mapping.text())
    target = frame.stack[-step.arg]
    for key, value in pairs_of(ctx, mapping):
        present = target.contains(ctx, key)
        if present.truth(ctx):
            ctx.break_graph("DX218", argument=key.text())
        target.set_item(ctx, key, value)


@handles("LIST_TO_TUPLE")
def list_to_tuple(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """tuple(list)."""
    frame.push(TupleVariable(frame.pop().unpack(ctx)))


@handles("UNPACK_SEQUENCE")
def unpack_sequence(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """a, b = sequence."""
    sequence = frame.pop()
    items = _unpacked(ctx, sequence, step.arg + 1)
    if len(items) != step.arg:
        few = len(items) < step.arg
        ctx.raise_exception(
            ValueError,
            f"not enough values to unpack (expected {step.arg}, got {len(items)})" if few
            else too_many_values(step.arg, len(items), _counted(type_of(sequence))),
        )
    for item in reversed(items):
        frame.push(item)


def _counted(python_type: type[Any] | None) -> type[Any]:
    """The type itself if Python knows the number of items before it takes them, else an iterator type."""
    return python_type if python_type in (list, tuple, dict) else enumerate


@handles("UNPACK_EX")
def unpack_ex(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """a, *b, c = sequence."""
    before, after = step.arg
    items = _unpacked_with_rest(ctx, frame.pop(), before)
    if len(items) < before + after:
        ctx.raise_exception(
            ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})"
        )
    middle = ListVariable(items[before:len(items) - after])
    for item in reversed([*items[:before], middle, *items[len(items) - after:]]):
        frame.push(item)


def require_iterable(ctx: Interpreter, value: VariableTracker, message: str) -> None:
    """Raise the program's TypeError if it unpacks a value that is not iterable; the message names the type."""
    python_type = type_of(value)
    if python_type is not None and not defines(python_type, "__iter__") and not defines(python_type, "__getitem__"):
        ctx.raise_exception(TypeError, message.format(python_type.__name__))


def _unpacked(ctx: Interpreter, value: VariableTracker, most: int) -> list[VariableTracker]:
    """So many first items at most, unless the value has them all at hand: an iterator is taken no further."""
    require_iterable(ctx, value, "cannot unpack non-iterable {} object")
    items = value.unpack(ctx) if are_items_at_hand(value) else first_items(ctx, value.iterate(ctx), most)
    return [item.read(ctx) for item in items]


def _unpacked_with_rest(ctx: Interpreter, value: VariableTracker, before: int) -> list[VariableTracker]:
    """Every item: the first ones by themselves, then the rest as a list."""
    require_iterable(ctx, value, "cannot unpack non-iterable {} object")
    if are_items_at_hand(value):
        return [item.read(ctx) for item in value.unpack(ctx)]
    iterator = value.iterate(ctx)
    first = first_items(ctx, iterator, before)
    rest = list_items(ctx, iterator) if len(first) == before else []
    return [item.read(ctx) for item in (*first, *rest)]


@handles("GET_LEN")
def get_len(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """len() of the subject of a match."""
    frame.push(frame.stack[-1].length(ctx))
