"""Facts that one walk in C compares by identity: about the dictionary of an object, lookups through a class, a function.

The idea: each fact is one pointer comparison in C (`native.GuardWalk`). Here a fact is recorded in Python, converted to the form
that the walk takes, and described in words for reports. module_guards.py decides which facts are recorded.

In: live objects. Out: `ObjectFacts`, `ClassFacts`, `function_spec`. PyTorch's counterpart: the leaf guards below the GuardManager
tree's `__dict__` accessors in torch/_dynamo/guards.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import field
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import class_mro, class_qualname, instance_dict, is_a, literal_text
from dynexplore.engine.records import record

Check = tuple[Any, str, Any]
LookupCheck = tuple[str, Any, str, Any]
ClassSpec = tuple[type[Any], int, bool, tuple[LookupCheck, ...]]
FunctionSpec = tuple[Any, Any, tuple[Check, ...] | None, tuple[Check, ...] | None]


@record(frozen=False, eq=False)
class ObjectFacts:
    """The facts about one held object; `label` is the displayed path."""

    value: Any
    label: str
    source: Source
    same: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, None] = field(default_factory=dict)
    empty: dict[str, None] = field(default_factory=dict)
    items: dict[str, dict[Any, Any]] = field(default_factory=dict)
    complete: dict[str, None] = field(default_factory=dict)  # the dictionaries of `items` whose complete, ordered keys are guarded

    def checks(self) -> tuple[Check, ...]:
        """The facts in the form that `GuardWalk` takes."""
        own = instance_dict(self.value) if self.items else {}
        return (
            *((key, *by_identity(expected)) for key, expected in self.same.items()),
            *((key, "absent", None) for key in self.absent),
            *((key, "empty", None) for key in self.empty),
            *((key, *self._item_checks(key, own[key])) for key in self.items),
        )

    def _item_checks(self, key: str, mapping: dict[Any, Any]) -> tuple[str, tuple[Check, ...]]:
        expected_items = self.items[key]
        if key in self.complete:
            return "items", _all_items(mapping, expected_items)
        return "some", _some_items(mapping, expected_items)

    def __str__(self) -> str:
        """The facts as text for the views: `training is True; _parameters: weight, bias; no forward of its own`."""
        words = [f"{key} is {short_text(expected)}" for key, expected in self.same.items()]
        words += [f"{key}: {', '.join(_names(expected_items))}" for key, expected_items in self.items.items()]
        words += [f"empty: {', '.join(self.empty)}"] * bool(self.empty)
        words += [f"absent: {', '.join(self.absent)}"] * bool(self.absent)
        return "; ".join(words) or "this object"


def by_identity(expected: Any) -> tuple[str, Any]:
    """The kind and payload that compare with `expected` by identity, with a weak reference if possible."""
    try:
        weakref.ref(expected)
    except TypeError:
        return "is", expected
    return "is_weak", expected


def _some_items(mapping: dict[Any, Any], expected_items: dict[Any, Any]) -> tuple[Check, ...]:
    return tuple((key, *_item_check(mapping[key])) for key in expected_items)


def _all_items(mapping: dict[Any, Any], expected_items: dict[Any, Any]) -> tuple[Check, ...]:
    return tuple((key, *_item_check(value)) if key in expected_items else (key, "any", None) for key, value in mapping.items())


def _item_check(expected: Any) -> tuple[str, Any]:
    """The check of a dictionary item; not weak for tensors: `torch.utils.swap_tensors` refuses tensors with weak references."""
    return ("is", expected) if isinstance(expected, torch.Tensor) else by_identity(expected)


def _names(expected_items: dict[Any, Any]) -> list[str]:
    return [str(key) for key in expected_items] or ["its keys"]


def short_text(value: Any) -> str:
    """A value in at most 60 characters; a class or function is its name."""
    if is_a(value, type, FunctionType, BuiltinFunctionType):
        return str(class_qualname(value) if is_a(value, type) else value.__qualname__)
    text = literal_text(value) if type(value) in (int, bool, float, str, tuple, type(None)) else f"a {type(value).__qualname__}"
    return text if len(text) <= 60 else text[:57] + "..."


ABSENT = object()  # the result of a lookup that found nothing


@record(frozen=False)
class Lookup:
    """Where a lookup of `name` ended: at this very object (`expected`), at any value in the class `owner`, or nowhere.

    `asked`: whether the program itself looked the name up, so that it is displayed.
    """

    name: str
    after: type[Any] | None
    expected: Any
    owner: type[Any] | None
    is_explicit: bool

    def check(self) -> LookupCheck:
        """The fact in the form that `GuardWalk` takes."""
        if self.expected is ABSENT:
            return self.name, self.after, "absent", None
        if self.expected is None and self.owner is not None:
            return self.name, self.after, "found_in", self.owner
        return (self.name, self.after, *by_identity(self.expected[0]))


@record(frozen=False, eq=False)
class ClassFacts:
    """The facts about lookups through one class; `tag` is its version when the first of them was recorded."""

    cls: type[Any]
    tag: int
    lookups: dict[tuple[str, type[Any] | None], Lookup] = field(default_factory=dict)
    bases: bool = False

    def spec(self, written: Iterable[type[Any]]) -> ClassSpec:
        """The facts in the form that `GuardWalk` takes; a class that the frame itself mutates has no stable tag."""
        checks = tuple(lookup.check() for lookup in self.lookups.values())
        if self.bases:
            checks += (("__mro__", None, "mro", tuple(map(weakref.ref, class_mro(self.cls)))),)
        by_name = any(cls is base for cls in written for base in class_mro(self.cls))
        return self.cls, self.tag, by_name, checks

    def is_shown(self) -> bool:
        """Whether it is displayed: the program looked up something that it defined itself."""
        return any(lookup.is_explicit for lookup in self.lookups.values())

    def shown_paths(self) -> dict[str, str]:
        """The displayed path of each name."""
        owners = {lookup.name: self.cls if lookup.owner is None else lookup.owner for lookup in self.lookups.values()}
        return {name: f"{class_qualname(owner)}.{name}" for name, owner in owners.items()}

    def __str__(self) -> str:
        """The facts as text: `scale is 3; `K` has no attribute `cache``."""
        explicit = [lookup for lookup in self.lookups.values() if lookup.is_explicit]
        words = [f"{lookup.name} is {short_text(lookup.expected[0])}" for lookup in explicit
                 if lookup.expected is not ABSENT and lookup.expected is not None]
        words += [f"{lookup.name} is found in {class_qualname(lookup.owner)}" for lookup in explicit
                  if lookup.expected is None and lookup.owner is not None]
        missing = ", ".join(f"`{lookup.name}`" for lookup in explicit if lookup.expected is ABSENT)
        words += [f"`{class_qualname(self.cls).rpartition('<locals>.')[2]}` has no attribute {missing}"] * bool(missing)
        return "; ".join(words) or "the bases that it had"


def function_spec(function: Any) -> FunctionSpec:
    """The code and defaults of a function in the form that `GuardWalk` takes."""
    defaults = tuple((str(index), *by_identity(value)) for index, value in enumerate(function.__defaults__ or ()))
    keywords = tuple((name, *by_identity(value)) for name, value in (function.__kwdefaults__ or {}).items())
    return function, function.__code__, defaults, keywords
