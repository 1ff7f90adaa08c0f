"""Objects whose end the program observes, and that leave a live container: Python runs the instruction that releases them.

The idea: `registry[key] = None` may release the last reference to an object that existed before the frame. If its class has a
`__del__`, or a weak reference to it has a callback or is called, its end has effects, and eager has them at once. Mutations are
replayed only at the end of the graph; what `__del__` does would come late, and be undone where the replay writes the same object.
So the mutated objects are compared with what they really hold, and the graph ends before the first mutation of one that lets such
an object go. Whether something else still refers to the object is not known: then the graph break is not necessary.

In: a finished attempt. Out: nothing, or ReconstructionError. PyTorch's counterpart: none; there the object ends after the graph.
"""

from __future__ import annotations

import gc
import logging
import types
import weakref
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.raw_attributes import class_dict, class_mro, is_a, keys_of, plain_attribute, values_of
from dynexplore.engine.translate.codegen import LastReferenceGoes
from dynexplore.engine.translate.handlers.observed_end import has_finalizer
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.inspection import Unknown
from dynexplore.engine.variables.objects.weak_reference import is_weakly_referenced
from dynexplore.engine.variables.scalars.constant import is_plain_value

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

_MOST_OBJECTS = 1000  # that are looked at behind one released object
_LIVE_ON = (type, types.ModuleType, types.FunctionType, types.CodeType, types.FrameType, logging.Logger, torch.Tensor)
"""Types of objects that hold nothing that only they hold. The manager of loggers keeps them all."""


def refuse_observed_releases(ctx: Interpreter) -> None:
    """End the graph before the first mutation of a live object that lets go of an object whose end the program observes."""
    changed = ctx.journal.changed
    if not changed:
        return
    live = {tracker: value for value, tracker in ctx.journal.existing()}
    for tracker, step in changed.items():
        for released in _released(tracker, live):
            if ends_observably(ctx, released):
                raise LastReferenceGoes(tracker.type_name(), step)


def _released(tracker: VariableTracker, live: dict[VariableTracker, object]) -> Iterator[object]:
    """The objects that a mutated object held before the frame, and does not hold now."""
    assigned = tracker.assigned()
    if assigned is not None:
        names, owner = tracker.live_names(), live.get(tracker)
        for name, value in assigned.items():
            referent = names[name] if name in names else _outside_of_dictionary(owner, name)
            if referent is not None and (value is None or _live_value(value, live) is not referent):
                yield referent
        return
    real = live.get(tracker.storage_owner or tracker)
    if real is None or is_a(real, *_LIVE_ON):
        return
    contents = tracker.contents() or tracker.remaining()
    if contents is not None and contents.live is not None and not isinstance(contents.live, dict):
        return  # it still holds all of that
    items = [] if contents is None else contents.items
    remaining_ids = {id(_live_value(part, live)) for item in items for part in (item if isinstance(item, tuple) else (item,))}
    if contents is not None and contents.live is not None:
        keys = filter(is_plain_value, (_key(part) for part, _ in items))
        before = [contents.live[key] for key in keys if key in contents.live]
    else:
        before = _items_of(real)
    yield from (value for value in before if id(value) not in remaining_ids)


def _key(part: VariableTracker) -> object:
    """The value of a key, without a guard."""
    try:
        return part.unguarded_value()
    except Unknown:
        return _UNKNOWN


_UNKNOWN = object()


def _items_of(real: object) -> list[Any]:
    if is_a(real, dict):
        return [*keys_of(real), *values_of(real)]
    kind: Any = next((kind for kind in (list, set, deque) if is_a(real, kind)), None)
    return list(kind.__iter__(real)) if kind is not None else gc.get_referents(real)


def _outside_of_dictionary(owner: object, name: str) -> object | None:
    """The value of an attribute that is not in an object's dictionary: of a class, in a slot, or the content of a cell."""
    if owner is None:
        return None
    if is_a(owner, type):
        return class_dict(owner).get(name)  # type: ignore[no-any-return]
    try:
        return plain_attribute(owner, name) if _is_stored_in_c(type(owner), name) else None
    except (AttributeError, ValueError):
        return None


def _is_stored_in_c(cls: type[Any], name: str) -> bool:
    stored = next((class_dict(base)[name] for base in class_mro(cls) if name in class_dict(base)), None)
    return type(stored) in (types.MemberDescriptorType, types.GetSetDescriptorType)


def _live_value(tracker: VariableTracker, live: dict[VariableTracker, object]) -> object:
    return tracker.value if isinstance(tracker, LazyVariable) else live.get(tracker, tracker)


def ends_observably(ctx: Interpreter, released: object) -> bool:
    """Whether the end of an object, or of one that only it may hold, has effects that the program observes."""
    seen, waiting = {id(released)}, [released]
    while waiting and len(seen) < _MOST_OBJECTS:
        value = waiting.pop()
        if is_a(value, *_LIVE_ON) and not is_a(value, torch.Tensor):
            continue
        if has_finalizer(type(value)) or is_weakly_referenced(value) or _is_suspended(value) or _is_dereferenced(ctx, value):
            return True
        if is_a(value, torch.Tensor):
            continue
        for referent in gc.get_referents(value):
            if id(referent) not in seen and gc.is_tracked(referent):
                seen.add(id(referent))
                waiting.append(referent)
    return False


def _is_suspended(value: Any) -> bool:
    return type(value) is types.GeneratorType and value.gi_frame is not None and value.gi_frame.f_lasti > 0


def _is_dereferenced(ctx: Interpreter, value: object) -> bool:
    """Whether the program has called a weak reference to the object in this attempt."""
    return any(ctx.journal.tracker_of(reference) is not None for reference in weakref.getweakrefs(value))
