"""Everything that a call can reach and change: a walk from a function through attributes, containers, closures and globals.

The idea: a call changes what its code can name: variables of closures, globals, and whatever hangs on these: the model in an
attribute of a trainer, a list in a slot, a counter of a helper function. The walk visits each object once. It reads no property and
runs no code of the user: only instance dictionaries, slots and items. It does not enter what programs share with the interpreter:
modules, classes, and objects of the standard library, torch's compiler and the tools that run the program.

In: roots, each with its name. Out: `Reachable`: functions, namespaces of modules, holders (objects with attributes), containers,
`nn.Module`s, optimizers, generators and tensors. PyTorch's counterpart: none; `same_two_models` in torch/_dynamo/debug_utils.py
copies modules only.
"""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import random
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from dynexplore.engine.raw_attributes import closure_values, is_a, is_heap_type
from dynexplore.engine.runtime import optimized

Named = tuple[str, Any]

CONTAINERS = (list, dict, set, collections.deque, bytearray)
"""What can change its items, with subclasses."""

_MOST = 20_000
"""The walk ends after as many objects."""

_NOT_ENTERED = frozenset(sys.stdlib_module_names) | {
    "torch", "numpy", "dynexplore", "pytest", "_pytest", "pluggy", "IPython", "ipykernel", "traitlets", "zmq",
}  # fmt: skip
_ENTERED = ("torch.optim", "torch.amp", "torch.cuda.amp", "torch.nn")
"""Of torch: schedulers, scalers, and objects in modules."""

_REGISTRIES = ("_parameters", "_buffers", "_modules")


class Reachable:
    """What was found, in the order of the walk, which is the same in each run."""

    def __init__(self, roots: Iterable[Named], entry: Any = None) -> None:
        self.functions: list[types.FunctionType] = []
        self.namespaces: list[tuple[dict[str, Any], str]] = []  # a module's dictionary, and a name in it
        self.holders: list[Any] = []
        self.containers: list[Any] = []
        self.modules: list[torch.nn.Module] = []
        self.tensors: list[tuple[str, torch.Tensor]] = []
        self.states: list[Any] = []  # optimizers and generators
        self._entry = entry
        self._names: set[str] = set()
        self._classes: dict[type, str] = {}
        self._seen: dict[int, Any] = {}  # with the object, so that no other one gets its id
        self._walk(list(roots))

    def _walk(self, pending: list[Named]) -> None:
        pending.reverse()
        while pending:
            while pending and len(self._seen) < _MOST:
                name, value = pending.pop()
                if id(value) not in self._seen:
                    self._seen[id(value)] = value
                    pending += reversed(list(self._visit(name, value)))
            pending = list(self._methods()) if len(self._seen) < _MOST else []

    def _visit(self, name: str, value: Any) -> Iterator[Named]:
        """Note an object; yields what hangs on it."""
        if is_a(value, torch.Tensor):
            self.tensors.append((name, value))
        elif is_a(value, torch.nn.Module):
            yield from self._module(name, value)
        elif is_a(value, torch.optim.Optimizer, torch.Generator, random.Random):
            self.states.append(value)
            for group in getattr(value, "param_groups", ()):
                yield from ((f"{name}[{at}]", parameter) for at, parameter in enumerate(group["params"]))
        elif is_a(value, types.FunctionType):
            yield from self._function(name, value)
        elif is_a(value, types.MethodType):
            yield from (("self", value.__self__), (name, value.__func__))
        elif is_a(value, functools.partial):
            yield from ((name, part) for part in (value.func, *value.args, *value.keywords.values()))
        elif is_a(value, *CONTAINERS, tuple, frozenset):
            yield from self._items(name, value)
        elif _is_entered(value):
            yield from self._holder(name, value)

    def _module(self, name: str, module: torch.nn.Module) -> Iterator[Named]:
        """A module with all of its children."""
        self.modules.append(module)
        for path, child in module.named_modules(prefix=name):
            self._seen[id(child)] = child
            self._classes[type(child)] = path
            own = vars(child)
            for registry in ("_parameters", "_buffers"):
                self._seen.update((id(tensor), tensor) for tensor in own.get(registry, {}).values())
            yield from ((f"{path}.{key}", value) for key, value in own.items() if key not in _REGISTRIES)

    def _items(self, name: str, container: Any) -> Iterator[Named]:
        if is_a(container, *CONTAINERS):
            self.containers.append(container)
        if is_a(container, dict):
            yield from ((f"{name}[{key!r}]" if is_a(key, str, int) else name, value) for key, value in dict.items(container))
        elif not is_a(container, bytearray):
            iterate = next(cls for cls in type(container).__mro__ if cls in (*CONTAINERS, tuple, frozenset)).__iter__
            yield from ((f"{name}[{at}]", value) for at, value in enumerate(iterate(container)))
        if is_a(container, *CONTAINERS) and is_heap_type(type(container)):
            yield from self._holder(name, container)

    def _holder(self, name: str, value: Any) -> Iterator[Named]:
        self.holders.append(value)
        self._classes[type(value)] = name
        yield from ((f"{name}.{key}", attribute) for key, attribute in attributes_of(value))

    def _function(self, name: str, function: types.FunctionType) -> Iterator[Named]:
        original = optimized.original_of(function)
        if original is not function:
            yield name, original
            return
        if function is not self._entry and _is_shared(function.__module__):
            return
        self.functions.append(function)
        names = list(names_in(function.__code__))
        self._names.update(names)
        yield from closure_values(function)
        yield from ((name, default) for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()))
        for own in names:
            if own in function.__globals__:
                value = function.__globals__[own]
                yield own, value
                if is_a(value, types.ModuleType) and not _is_shared(vars(value).get("__name__")):
                    yield from self._namespace(own, vars(value), names)

    def _namespace(self, name: str, namespace: dict[str, Any], names: Iterable[str]) -> Iterator[Named]:
        """The names of a module of the program that a function may read."""
        for own in names:
            if own in namespace:
                self.namespaces.append((namespace, own))
                yield f"{name}.{own}", namespace[own]

    def _methods(self) -> Iterator[Named]:
        """The methods that code names, of objects that were found, and have not been visited."""
        for cls, name in list(self._classes.items()):
            for base in cls.__mro__:
                own = vars(base) if not _is_shared(base.__module__) else {}
                for key in self._names.intersection(own) | {"forward", "__call__"}.intersection(own):
                    value = own[key]
                    function = value.fget if is_a(value, property) else getattr(value, "__func__", value)
                    if is_a(function, types.FunctionType) and id(function) not in self._seen:
                        yield name, function


def attributes_of(value: Any) -> Iterator[Named]:
    """The attributes of an object: those in its dictionary, and in its slots.

    >>> list(attributes_of(types.SimpleNamespace(a=1)))
    [('a', 1)]
    """
    yield from dict.items(getattr(value, "__dict__", {}) if _has_dictionary(type(value)) else {})
    for name, slot in slots_of(type(value)):
        try:
            yield name, slot.__get__(value)
        except AttributeError:
            continue


def slots_of(cls: type) -> Iterator[tuple[str, Any]]:
    """The descriptors of the slots of a class that a class statement made.

    >>> class Pair:
    ...     __slots__ = ("a", "b")
    >>> [name for name, _ in slots_of(Pair)]
    ['a', 'b']
    """
    for base in cls.__mro__:
        if is_heap_type(base):
            yield from ((name, slot) for name, slot in vars(base).items() if is_a(slot, types.MemberDescriptorType))


def _has_dictionary(cls: type) -> bool:
    """Whether `__dict__` of instances is their dictionary, and no property of the user."""
    descriptor = next((vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base)), None)
    return is_a(descriptor, types.GetSetDescriptorType) or cls is types.SimpleNamespace


def _is_entered(value: Any) -> bool:
    cls = type(value)
    if cls is types.SimpleNamespace:
        return True
    if not is_heap_type(cls) or is_a(value, type, types.ModuleType, enum.Enum, BaseException):
        return False
    return not _is_shared(cls.__module__) or any(str(cls.__module__).startswith(name) for name in _ENTERED)


def _is_shared(module: object) -> bool:
    return str(module).partition(".")[0] in _NOT_ENTERED


def names_in(code: types.CodeType) -> Iterator[str]:
    """The names of globals and attributes in code, and in the code of functions that it makes."""
    yield from code.co_names
    yield from itertools.chain.from_iterable(names_in(constant) for constant in code.co_consts if is_a(constant, types.CodeType))
