"""One dictionary that a frame reaches in two ways: as `m.x` and as the global `x` of that module, as `obj.v` and in `vars(obj)`.

The idea: a module, the globals of its functions, an object's attributes and a window onto a dict (`types.MappingProxyType`) have
trackers of their own, which know nothing of each other. As long as nothing is written, they agree. Where one of them was changed,
another would still tell the old value: the frame stops before the change, which Python makes for real, and goes on from there.

In:  the trackers of live objects and of namespaces of one attempt.
Out: `first_change_behind_another(...)`: the tracker that was changed, or None.

Which dictionary holds an object's attributes is asked without making one: an object has none until somebody looks (3.11 and later).
PyTorch has no counterpart: torch.compile gives the old value, as a rule.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn

from dynexplore.engine.raw_attributes import class_dict, instance_dict, is_a
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.side_effects import Journal
from dynexplore.engine.variables.objects.namespace import NamespaceVariable
from dynexplore.engine.variables.objects.python_module import PythonModuleVariable
from dynexplore.engine.variables.torch_.nn_module import REGISTRIES


def first_change_behind_another(journal: Journal, namespaces: Iterable[NamespaceVariable]) -> VariableTracker | None:
    """The tracker that was changed first of those whose dictionary another tracker stands for, too."""
    faces: dict[int, list[VariableTracker]] = {}
    for namespace in namespaces:
        faces.setdefault(id(namespace.values), []).append(namespace)
    objects = []
    for value, tracker in journal.existing():
        known = _known_dictionary(value)
        if known is not None:
            faces.setdefault(id(known), []).append(tracker)
        elif type(value).__dictoffset__:
            objects.append((value, tracker))
    for value, tracker in objects:
        for known in _dictionaries_among(value, faces):
            faces[known].append(tracker)
    changed = [tracker for group in faces.values() for tracker in _behind_another(group, journal)]
    return min(changed, key=lambda tracker: journal.changed[tracker], default=None)


def _known_dictionary(value: Any) -> Any:
    """The dictionary that a value is, or is a window onto."""
    if type(value) is dict:
        return value
    if is_a(value, types.ModuleType):
        return instance_dict(value)
    if is_a(value, type):
        value = class_dict(value)
    return gc.get_referents(value)[0] if type(value) is types.MappingProxyType else None


def _dictionaries_among(value: Any, faces: dict[int, list[VariableTracker]]) -> Iterator[int]:
    """Which of these dictionaries hold the object's attributes, or what a module registers."""
    if is_a(value, nn.Module):
        own = instance_dict(value)
        yield from {id(own), *(id(own.get(name)) for name in REGISTRIES)} & faces.keys()
    elif any(id(referent) in faces for referent in gc.get_referents(value)) and id(instance_dict(value)) in faces:
        yield id(instance_dict(value))


def _behind_another(group: list[VariableTracker], journal: Journal) -> list[VariableTracker]:
    """Those of one dictionary's trackers that were changed, where another one may tell what was before."""
    if len(group) < 2:
        return []
    names = [_names_used(tracker) for tracker in group]
    if None not in names and len(set().union(*names)) == sum(map(len, names)):  # type: ignore[arg-type]
        return []  # a module and its globals, each asked for other names
    return [tracker for tracker in group if journal.is_changed(tracker)]


def _names_used(tracker: VariableTracker) -> set[str] | None:
    """The names that were read or assigned through a namespace or module; None where any may have been."""
    return tracker.names_used() if isinstance(tracker, NamespaceVariable | PythonModuleVariable) else None
