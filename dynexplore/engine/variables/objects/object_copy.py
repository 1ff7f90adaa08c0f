"""Copies of user-defined objects by `copy.copy` and `copy.deepcopy`.

The idea: Python copies an object by the pickle protocol: `cls.__new__(cls)` without `__init__`, then the state (`__getstate__`, or
the instance attributes) through `__setstate__` or into the copy's `__dict__`, then the items of a list or dict that the class
extends. The same steps run on trackers. A class that overrides the protocol (`__reduce__`, `__getnewargs__`) breaks the graph.

In: the tracker of an object, and a function that copies its parts. Out: the copy's tracker. PyTorch's counterpart: none. Mirrors
CPython's Lib/copy.py (_reconstruct) and Objects/typeobject.c (object___reduce_ex__).
"""

from __future__ import annotations

import copyreg
import types
from collections.abc import Callable
from typing import TYPE_CHECKING

from dynexplore.engine.raw_attributes import class_dict, class_mro
from dynexplore.engine.variables.callables.function import BoundCMethodVariable
from dynexplore.engine.variables.containers.builtin_subclass import new_subclass_instance
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.objects.descriptors import class_tracker
from dynexplore.engine.variables.objects.instance_dict import InstanceDictVariable, guarded_attribute_names
from dynexplore.engine.variables.objects.object_rules import attribute_or_none
from dynexplore.engine.variables.objects.type_lookup import is_created_in_c, layout_of, raw_lookup
from dynexplore.engine.variables.objects.user_object import UserObjectVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

CopyPart = Callable[[VariableTracker], VariableTracker]
_LAYOUTS = (object, list, dict)
_ABSENT_BY_DEFAULT = ("__deepcopy__", "__setstate__")


def copy_object(
    ctx: TraceContext,
    value: UserObjectVariable,
    copy_part: CopyPart,
    on_created: Callable[[VariableTracker], None] = lambda copy: None,
) -> VariableTracker:
    """The copy of an object; `on_created` receives it before its parts are copied (they may refer to it)."""
    _refuse_own_protocol(ctx, value)
    for name in ("__reduce_ex__", "__reduce__"):
        guard_on_default(ctx, value, name)
    cls = class_tracker(ctx, value.cls)
    assert isinstance(cls, ClassVariable)
    plain = layout_of(value.cls) is object or not is_created_in_c(ctx, value.cls)
    copy = cls.new(ctx, [], {}) if plain else new_subclass_instance(ctx, cls, [])
    if not isinstance(copy, UserObjectVariable):
        ctx.break_graph("DX205", function="copy", arguments=value.type_name())
    on_created(copy)
    _copy_state(ctx, value, copy, copy_part)
    _copy_content(ctx, value, copy, copy_part)
    return copy


def _refuse_own_protocol(ctx: TraceContext, value: UserObjectVariable) -> None:
    cls = value.cls
    own = [name for name in ("__reduce_ex__", "__reduce__") if raw_lookup(ctx, cls, name) is not vars(object)[name]]
    own += [name for name in ("__getnewargs__", "__getnewargs_ex__") if raw_lookup(ctx, cls, name) is not None]
    registries = hasattr(value, "registered")  # a module: it has more state than its attributes
    hooked = any(raw_lookup(ctx, type(cls), name) is not vars(type).get(name) for name in ("__getattribute__", "__getattr__"))
    hooked |= layout_of(cls) is not object and _has_custom_attribute_access(ctx, cls)
    if own or hooked or registries or cls in copyreg.dispatch_table or _slots(cls) or layout_of(cls) not in _LAYOUTS:
        ctx.break_graph("DX205", function="copy", arguments=value.type_name())


def guard_on_default(ctx: TraceContext, value: UserObjectVariable, name: str) -> None:
    """Look up a copy-protocol attribute through a class's custom attribute access,
    as copy.py does; only object's default is traced.
    """
    if not _has_custom_attribute_access(ctx, value.cls):
        return
    attribute = attribute_or_none(ctx, value, name)
    if not (attribute is None if name in _ABSENT_BY_DEFAULT else attribute is not None and _is_default(value, name, attribute)):
        ctx.break_graph("DX205", function="copy", arguments=value.type_name())


def _has_custom_attribute_access(ctx: TraceContext, cls: type[object]) -> bool:
    """Whether attribute access of the class runs user code."""
    in_c = isinstance(raw_lookup(ctx, cls, "__getattribute__"), types.WrapperDescriptorType)
    return not in_c or raw_lookup(ctx, cls, "__getattr__") is not None


def _is_default(value: UserObjectVariable, name: str, attribute: VariableTracker) -> bool:
    if name == "__dict__":
        return isinstance(attribute, InstanceDictVariable) and attribute.owner is value
    return isinstance(attribute, BoundCMethodVariable) and attribute.raw is vars(object)[name] and attribute.receiver is value


def _slots(cls: type[object]) -> bool:
    return any("__slots__" in class_dict(base) and class_dict(base)["__slots__"] not in ((), [], "") for base in class_mro(cls))


def _copy_state(ctx: TraceContext, value: UserObjectVariable, copy: UserObjectVariable, copy_part: CopyPart) -> None:
    takes_state = raw_lookup(ctx, value.cls, "__setstate__") is not None
    if raw_lookup(ctx, value.cls, "__getstate__") is vars(object)["__getstate__"] and not takes_state:
        guard_on_default(ctx, value, "__getstate__")
        parts = [(name, copy_part(value.lazy_attribute(ctx, name))) for name in guarded_attribute_names(ctx, value)]
        for name in ("__setstate__", "__dict__") if parts else ():
            guard_on_default(ctx, copy, name)
        for name, part in parts:
            copy.store_own(ctx, name, part)
        return
    state = value.call_method(ctx, "__getstate__", [], {})
    if state.is_constant() and state.as_constant() is None:
        return
    state = copy_part(state)
    if _has_custom_attribute_access(ctx, copy.cls):
        attribute_or_none(ctx, copy, "__setstate__")  # `hasattr`
    if takes_state:
        copy.call_method(ctx, "__setstate__", [state], {})
    else:
        copy.get_attribute(ctx, "__dict__").call_method(ctx, "update", [state], {})


def _copy_content(ctx: TraceContext, value: UserObjectVariable, copy: UserObjectVariable, copy_part: CopyPart) -> None:
    """The items of an object whose class extends list or dict."""
    layout = layout_of(value.cls)
    if layout is list:
        for item in value.unpack(ctx):
            copy.call_method(ctx, "append", [copy_part(item)], {})
    elif layout is dict:
        for pair in value.call_method(ctx, "items", [], {}).unpack(ctx):
            key, item = pair.unpack(ctx)
            copy.set_item(ctx, copy_part(key), copy_part(item))
