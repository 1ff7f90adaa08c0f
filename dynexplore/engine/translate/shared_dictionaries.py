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
from dynexplore.engine.provenance.sources import Source
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
    """Of each dict or window, and what may keep its attributes in it, where one of the two was changed.

    Those of which the same is to be said share one guard, which looks at each value once.
    """
    faces = [_Owner(ctx, *face) for face in _faces(ctx.journal, namespaces)]
    owners = [face for face in faces if face.is_namespace or not _is_dictionary(face.value)]
    together: dict[tuple[int, ...], tuple[list[Source], list[Source]]] = {}
    for face in faces:
        if face.source is None or not _is_dictionary(face.value) or face.is_namespace:
            continue
        others = owners
        if type(face.value) is types.MappingProxyType:
            others = [other for other in faces if type(other.value) is not types.MappingProxyType]
        if not face.is_changed:
            others = [other for other in others if other.is_changed]
        unknown = _guard_apart_from_known(ctx, face, others)
        together.setdefault(tuple(map(id, unknown)), (unknown, []))[1].append(face.source)
    for unknown, (first, *more) in together.values():
        if unknown:
            ctx.guard(first, "DICTIONARIES_APART", [*more, *unknown])


class _Owner:
    """What is asked of a face for each of the others."""

    def __init__(self, ctx: Interpreter, value: Any, tracker: VariableTracker) -> None:
        self.value, self.source = value, tracker.source
        self.is_namespace = isinstance(tracker, NamespaceVariable)
        self.is_changed = ctx.journal.is_changed(tracker)
        self.is_known = self.source is None or self.is_namespace or ctx.guards.fix_object(self.source)
        self.behind = frozenset(map(id, dictionaries_behind(value))) if self.is_known else frozenset()


def _guard_apart_from_known(ctx: Interpreter, face: _Owner, others: list[_Owner]) -> list[Source]:
    """What a known object keeps its attributes in is known, too, once it is made; the sources of those that are not known."""
    known: set[int] = set()
    unknown = []
    for other in others:
        if other.behind and type(face.value) is dict:
            known |= other.behind
        elif other.source is not None and not (other.is_known and face.is_known):
            unknown.append(other.source)
    if known and not face.is_known:
        assert face.source is not None
        ctx.guard(face.source, "NO_DICTIONARY_OF_THESE", frozenset(known))
    return unknown
