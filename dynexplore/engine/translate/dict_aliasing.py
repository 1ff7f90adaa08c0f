"""Dict aliasing: one dict reachable in two ways, as `m.x` and as the global `x` of that module, as `obj.v` and in `vars(obj)`.

The idea: a module, the globals of its functions, an object's attributes and a mapping proxy (`types.MappingProxyType`) each have a
tracker. The trackers agree as long as nothing is mutated. After a mutation through one of them, its alias would still return the
old value: the graph breaks before the mutation, and Python performs it. If the dicts do not alias in this call, and one was
mutated, guards check that they do not alias.

In:  the trackers of live objects and of namespaces of one attempt.
Out: `first_change_through_alias(...)`: the tracker that was mutated, or None; `guard_on_dict_aliasing(...)`.

PyTorch's counterpart: none; torch.compile usually returns the old value.
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
"""A live value that has a dict, and its tracker."""


def first_change_through_alias(journal: Journal, namespaces: Iterable[NamespaceVariable]) -> VariableTracker | None:
    """The tracker that was mutated first, of those that share their dict with another tracker."""
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
    """The mutated trackers of one dict, if another tracker of it may return an old value."""
    if len(group) < 2:
        return []
    names = [_names_used(tracker) for tracker in group]
    if None not in names and len(set().union(*names)) == sum(map(len, names)):  # type: ignore[arg-type]
        return []  # a module and its globals, used for different names
    return [tracker for tracker in group if journal.is_changed(tracker)]


def _names_used(tracker: VariableTracker) -> set[str] | None:
    """The names that were read or assigned through a namespace or module; None if it could be any name."""
    return tracker.names_used() if isinstance(tracker, NamespaceVariable | PythonModuleVariable) else None


def may_share_dict(journal: Journal, group: list[VariableTracker]) -> bool:
    """Whether one of these objects of one class was mutated that may share the `__dict__` of another; modules never share one."""
    if not isinstance(group[0], UserObjectVariable) or not any(map(journal.is_changed, group)):
        return False
    cls = group[0].python_type()
    return bool(cls.__dictoffset__) and not issubclass(cls, nn.Module)


# -- two dicts in this call that may alias in a later one ---------------------------------------------------------------


def guard_on_dict_aliasing(ctx: Interpreter, namespaces: Iterable[NamespaceVariable]) -> None:
    """Guard, for each dict or mapping proxy, that it is not the `__dict__` of another object, if one of the two was mutated.

    Pairs with the same condition share one guard, which reads each value once.
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
    """A dict view with the facts that are compared with each other view."""

    def __init__(self, ctx: Interpreter, value: Any, tracker: VariableTracker) -> None:
        self.value, self.source = value, tracker.source
        self.is_namespace = isinstance(tracker, NamespaceVariable)
        self.is_changed = ctx.journal.is_changed(tracker)
        self.is_known = self.source is None or self.is_namespace or ctx.guards.fix_object(self.source)
        self.dict_ids = frozenset(map(id, dicts_behind(value))) if self.is_known else frozenset()


def _guard_not_owner_dict(ctx: Interpreter, view: _DictOwner, others: list[_DictOwner]) -> list[Source]:
    """Guard that a dict is none of the known, materialized `__dict__`s; return the sources of the objects that remain."""
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
