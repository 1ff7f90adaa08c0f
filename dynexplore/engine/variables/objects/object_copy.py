"""Copies of the program's own objects, as `copy.copy` and `copy.deepcopy` make them.

The idea: Python copies an object by the protocol of pickling: `cls.__new__(cls)` without `__init__`, then the state
(`__getstate__`, or the object's own attributes), given to `__setstate__` or put into the new object's attributes, then what a list
or dict below holds. The same steps are taken on trackers. An object that says by a method of its own how it is taken apart
(`__reduce__`, `__getnewargs__`) breaks the graph.

In: the tracker of an object, and how its parts are copied. Out: a new object's tracker. Mirrors CPython's Lib/copy.py
(_reconstruct) and Objects/typeobject.c (object___reduce_ex__).
"""

from __future__ import annotations

import copyreg
import types
from collections.abc import Callable
from typing import TYPE_CHECKING

from dynexplore.engine.variables.containers.builtin_subclass import new_extended
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.objects.class_facts import layout_of, raw_lookup
from dynexplore.engine.variables.objects.class_lookup import class_tracker
from dynexplore.engine.variables.objects.instance_dict import InstanceDictVariable
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.scalars.concrete_values import known_truth

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

CopyPart = Callable[[VariableTracker], VariableTracker]
_LAYOUTS = (object, list, dict)


def copy_object(
    ctx: TraceContext,
    value: UserObjectVariable,
    copy_part: CopyPart,
    made_first: Callable[[VariableTracker], None] = lambda made: None,
) -> VariableTracker:
    """The copy of an object; `made_first` is told of it before its parts are copied (they may refer to it)."""
    _refuse_own_protocol(ctx, value)
    cls = class_tracker(ctx, value.cls)
    assert isinstance(cls, ClassVariable)
    plain = layout_of(value.cls) is object or isinstance(raw_lookup(ctx, value.cls, "__new__"), staticmethod | types.FunctionType)
    made = cls.new(ctx, [], {}) if plain else new_extended(ctx, cls, [])
    if not isinstance(made, UserObjectVariable):
        ctx.break_graph("DX205", function="copy", arguments=value.type_name())
    made_first(made)
    _copy_state(ctx, value, made, copy_part)
    _copy_content(ctx, value, made, copy_part)
    return made


def _refuse_own_protocol(ctx: TraceContext, value: UserObjectVariable) -> None:
    cls = value.cls
    own = [name for name in ("__reduce_ex__", "__reduce__") if raw_lookup(ctx, cls, name) is not vars(object)[name]]
    own += [name for name in ("__getnewargs__", "__getnewargs_ex__") if raw_lookup(ctx, cls, name) is not None]
    registries = hasattr(value, "registered")  # a module: what it holds is more than its attributes
    if own or registries or cls in copyreg.dispatch_table or _slots(cls) or layout_of(cls) not in _LAYOUTS:
        ctx.break_graph("DX205", function="copy", arguments=value.type_name())


def _slots(cls: type[object]) -> bool:
    return any("__slots__" in vars(base) and vars(base)["__slots__"] not in ((), [], "") for base in cls.__mro__)


def _copy_state(ctx: TraceContext, value: UserObjectVariable, made: UserObjectVariable, copy_part: CopyPart) -> None:
    takes_state = raw_lookup(ctx, value.cls, "__setstate__") is not None
    if raw_lookup(ctx, value.cls, "__getstate__") is vars(object)["__getstate__"] and not takes_state:
        for name in InstanceDictVariable(value).names(ctx):
            made.store_own(ctx, name, copy_part(value.lazy_attribute(ctx, name)))
        return
    state = value.call_method(ctx, "__getstate__", [], {})
    if not known_truth(ctx, state):
        return
    state = copy_part(state)
    if takes_state:
        made.call_method(ctx, "__setstate__", [state], {})
    else:
        made.get_attribute(ctx, "__dict__").call_method(ctx, "update", [state], {})


def _copy_content(ctx: TraceContext, value: UserObjectVariable, made: UserObjectVariable, copy_part: CopyPart) -> None:
    """What an object of a class that extends list or dict holds."""
    layout = layout_of(value.cls)
    if layout is list:
        for item in value.unpack(ctx):
            made.call_method(ctx, "append", [copy_part(item)], {})
    elif layout is dict:
        for pair in value.call_method(ctx, "items", [], {}).unpack(ctx):
            key, item = pair.unpack(ctx)
            made.set_item(ctx, copy_part(key), copy_part(item))
