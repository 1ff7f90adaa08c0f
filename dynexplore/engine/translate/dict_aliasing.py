"""Dict aliasing: one dictionary that a frame reaches in two ways, as `m.x` and as the global `x` of that module, as `obj.v` and in
`vars(obj)`.

The idea: a module, the globals of its functions, an object's attributes and a mapping proxy (`types.MappingProxyType`) each have a
tracker. The trackers agree as long as nothing is written. Where one was changed, its alias would still return the old value: the
graph breaks before the change, and Python makes it. Where the dicts do not alias in this call, and one was changed, guards check
that they do not.

In:  the trackers of live objects and of namespaces of one attempt.
Out: `first_change_through_alias(...)`: the tracker that was changed, or None; `guard_on_dict_aliasing(...)`.

PyTorch has no counterpart: torch.compile gives the old value, as a rule.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from torch import nn

from dynexplore.engine.provenance.attribute_dicts import dicts_behind
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.side_effects import Journal
from dynexplore.engine.variables.objects.namespace import NamespaceVariable
from dynexplore.engine.variables.objects.python_module import PythonModuleVariable
from dynexplore.engine.variables.objects.user_object import UserObjectVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

DictView = tuple[Any, VariableTracker]
"""A live value that has a dictionary, and the tracker that stands for it."""


def first_change_through_alias(journal: Journal, namespaces: Iterable[NamespaceVariable]) -> VariableTracker | None:
    """The tracker that was changed first of those whose dictionary has another tracker, too."""
    views: dict[int, list[VariableTracker]] = {}
    for value, tracker in _dict_views(journal, namespaces):
        for dictionary in dicts_behind(value):
            views.setdefault(id(dictionary), []).append(tracker)
    changed = [tracker for group in views.values() for tracker in _changed_through_alias(group, journal)]
    return min(changed, key=lambda tracker: journal.changed[tracker], default=None)


def _dict_views(journal: Journal, namespaces: Iterable[NamespaceVariable]) -> Iterator[DictView]:
    for namespace in namespaces:
        yield namespace.values, namespace
    for value, tracker in journal.existing():
        if _is_dictionary(value) or type(value).__dictoffset__:
            yield value, tracker


def _is_dictionary(value: Any) -> bool:
    return type(value) is dict or type(value) is types.MappingProxyType


def _changed_through_alias(group: list[VariableTracker], journal: Journal) -> list[VariableTracker]:
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


def may_share_dict(journal: Journal, group: list[VariableTracker]) -> bool:
    """Whether one of these objects of one class was changed that may have the `__dict__` of another; nobody gives a module one."""
    if not isinstance(group[0], UserObjectVariable) or not any(map(journal.is_changed, group)):
        return False
    cls = group[0].python_type()
    return bool(cls.__dictoffset__) and not issubclass(cls, nn.Module)


# -- apart in this call, one dictionary in a later one ---------------------------------------------------------------


def guard_on_dict_aliasing(ctx: Interpreter, namespaces: Iterable[NamespaceVariable]) -> None:
    """Of each dict or window, and what may keep its attributes in it, where one of the two was changed.

    Those of which the same is to be said share one guard, which looks at each value once.
    """
    views = [_DictOwner(ctx, *view) for view in _dict_views(ctx.journal, namespaces)]
    owners = [view for view in views if view.is_namespace or not _is_dictionary(view.value)]
    together: dict[tuple[int, ...], tuple[list[Source], list[Source]]] = {}
    for view in views:
        if view.source is None or not _is_dictionary(view.value) or view.is_namespace:
            continue
        others = owners
        if type(view.value) is types.MappingProxyType:
            others = [other for other in views if type(other.value) is not types.MappingProxyType]
        if not view.is_changed:
            others = [other for other in others if other.is_changed]
        unknown = _guard_not_owner_dict(ctx, view, others)
        together.setdefault(tuple(map(id, unknown)), (unknown, []))[1].append(view.source)
    for unknown, (first, *more) in together.values():
        if unknown:
            ctx.guard(first, "NO_DICT_ALIAS", [*more, *unknown])


class _DictOwner:
    """A dict view with the facts that the comparison with each other view needs."""

    def __init__(self, ctx: Interpreter, value: Any, tracker: VariableTracker) -> None:
        self.value, self.source = value, tracker.source
        self.is_namespace = isinstance(tracker, NamespaceVariable)
        self.is_changed = ctx.journal.is_changed(tracker)
        self.is_known = self.source is None or self.is_namespace or ctx.guards.fix_object(self.source)
        self.dict_ids = frozenset(map(id, dicts_behind(value))) if self.is_known else frozenset()


def _guard_not_owner_dict(ctx: Interpreter, view: _DictOwner, others: list[_DictOwner]) -> list[Source]:
    """What a known object keeps its attributes in is known, too, once it is made; the sources of those that are not known."""
    owner_dicts: set[int] = set()
    unknown = []
    for other in others:
        if other.dict_ids and type(view.value) is dict:
            owner_dicts |= other.dict_ids
        elif other.source is not None and not (other.is_known and view.is_known):
            unknown.append(other.source)
    if owner_dicts and not view.is_known:
        assert view.source is not None
        ctx.guard(view.source, "NOT_INSTANCE_DICT", frozenset(owner_dicts))
    return unknown
