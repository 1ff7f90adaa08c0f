"""One dictionary that a frame reaches in two ways: as `m.x` and as the global `x` of that module, as `obj.v` and in `vars(obj)`.

The idea: a module, the globals of its functions, an object's attributes and a window onto a dict (`types.MappingProxyType`) have
trackers of their own, which know nothing of each other. As long as nothing is written, they agree. Where one of them was changed,
another would still tell the old value: the frame stops before the change, which Python makes for real, and goes on from there.
Where they are apart in this call, and one was changed, guards say that they must be apart.

In:  the trackers of live objects and of namespaces of one attempt.
Out: `first_change_behind_another(...)`: the tracker that was changed, or None; `guard_that_they_are_apart(...)`.

PyTorch has no counterpart: torch.compile gives the old value, as a rule.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from torch import nn

from dynexplore.engine.provenance.dictionaries import dictionaries_behind
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.side_effects import Journal
from dynexplore.engine.variables.objects.namespace import NamespaceVariable
from dynexplore.engine.variables.objects.python_module import PythonModuleVariable
from dynexplore.engine.variables.objects.user_object import UserObjectVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

Face = tuple[Any, VariableTracker]
"""A live value that has a dictionary, and the tracker that stands for it."""


def first_change_behind_another(journal: Journal, namespaces: Iterable[NamespaceVariable]) -> VariableTracker | None:
    """The tracker that was changed first of those whose dictionary another tracker stands for, too."""
    faces: dict[int, list[VariableTracker]] = {}
    for value, tracker in _faces(journal, namespaces):
        for dictionary in dictionaries_behind(value):
            faces.setdefault(id(dictionary), []).append(tracker)
    changed = [tracker for group in faces.values() for tracker in _behind_another(group, journal)]
    return min(changed, key=lambda tracker: journal.changed[tracker], default=None)


def _faces(journal: Journal, namespaces: Iterable[NamespaceVariable]) -> Iterator[Face]:
    for namespace in namespaces:
        yield namespace.values, namespace
    for value, tracker in journal.existing():
        if _is_dictionary(value) or type(value).__dictoffset__:
            yield value, tracker


def _is_dictionary(value: Any) -> bool:
    return type(value) is dict or type(value) is types.MappingProxyType


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


def may_share_attributes(journal: Journal, group: list[VariableTracker]) -> bool:
    """Whether one of these objects of one class was changed that may have the `__dict__` of another; nobody gives a module one."""
    if not isinstance(group[0], UserObjectVariable) or not any(map(journal.is_changed, group)):
        return False
    cls = group[0].python_type()
    return bool(cls.__dictoffset__) and not issubclass(cls, nn.Module)


# -- apart in this call, one dictionary in a later one ---------------------------------------------------------------


def guard_that_they_are_apart(ctx: Interpreter, namespaces: Iterable[NamespaceVariable]) -> None:
    """Of each dict or window, and what may keep its attributes in it, where one of the two was changed."""
    faces = list(_faces(ctx.journal, namespaces))
    owners = [face for face in faces if not _is_dictionary(face[0]) or isinstance(face[1], NamespaceVariable)]
    for value, tracker in faces:
        if tracker.source is None or not _is_dictionary(value) or isinstance(tracker, NamespaceVariable):
            continue
        others = owners
        if type(value) is types.MappingProxyType:
            others = [face for face in faces if type(face[0]) is not types.MappingProxyType]
        if not ctx.journal.is_changed(tracker):
            others = [face for face in others if ctx.journal.is_changed(face[1])]
        _guard_apart(ctx, value, tracker, others)


def _guard_apart(ctx: Interpreter, value: Any, tracker: VariableTracker, others: list[Face]) -> None:
    """What a known object keeps its attributes in is known, too, once it is made."""
    assert tracker.source is not None
    is_known = ctx.guards.fix_object(tracker.source)
    known: set[int] = set()
    unknown = []
    for other, owner in others:
        dictionaries = dictionaries_behind(other)
        is_fixed = owner.source is None or isinstance(owner, NamespaceVariable) or ctx.guards.fix_object(owner.source)
        if is_fixed and dictionaries and type(value) is dict:
            known.update(map(id, dictionaries))
        elif owner.source is not None and not (is_fixed and is_known):
            unknown.append(owner.source)
    if known and not is_known:
        ctx.guard(tracker.source, "NO_DICTIONARY_OF_THESE", frozenset(known))
    if unknown:
        ctx.guard(tracker.source, "DICTIONARIES_APART", unknown)
