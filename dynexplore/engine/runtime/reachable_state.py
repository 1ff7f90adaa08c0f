"""Everything that a call can reach and change: a walk from a function through attributes, containers, closures and globals.

The idea: a call changes what its code can name: variables of closures, globals, and whatever hangs on these: the model in an
attribute of a trainer, a list in a slot, a counter of a helper function. The walk visits each object once, the nearest first. It
reads no property and runs no code of the user: only dictionaries of instances and classes, slots and items. It does not enter what
programs share with the interpreter: modules, and classes and objects of the standard library, torch's compiler and the tools that
run the program. What it does not find, nobody restores: what is beyond the limit, if there are very many objects. Iterators are
found, but nobody can set them back.

In: roots, each with its name. Out: `Reachable`: functions, namespaces of modules, classes, holders (objects with attributes),
containers, arrays, `nn.Module`s, optimizers, generators of random numbers, tensors and iterators, and whether these are all.
PyTorch's counterpart: none; `same_two_models` in torch/_dynamo/debug_utils.py copies modules only.
"""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import io
import itertools
import random
import sys
import threading
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from dynexplore.engine.native import made_dictionary
from dynexplore.engine.raw_attributes import (
    class_dict,
    class_module,
    class_mro,
    class_name,
    closure_values,
    has_plain_dict,
    instance_dict,
    is_a,
    is_c_type,
    is_heap_type,
)
from dynexplore.engine.runtime import numpy_state, optimized
from dynexplore.engine.runtime.object_attributes import attributes_of, class_attributes, local_attributes

Name = str | tuple[Any, str, Any]
"""The path of an object: text, or another path with what follows it, which becomes text only where it is asked for."""

Named = tuple[Name, Any]

CONTAINERS = (list, dict, set, collections.deque, bytearray, array.array)
"""What can change its items, with subclasses."""

_OF_BYTES = (bytearray, array.array)
"""Those of them whose items are no objects."""

CACHE: type = type(functools.lru_cache(len))
"""A function with a cache."""

_STATES = (torch.optim.Optimizer, torch.Generator, random.Random, CACHE, contextvars.ContextVar)
"""What holds a state that is restored as a whole."""

_LAYOUTS = frozenset(map(id, (*CONTAINERS, tuple, frozenset)))

_MOST = 20_000
"""The walk ends after as many objects, without numbers and strings, and without what is in modules."""

_MOST_ITEMS = 10_000_000
"""The walk looks at as many items of containers."""

_PLAIN = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))
"""The types of objects that hold no others and never change, by identity."""

_NOT_ENTERED = frozenset(sys.stdlib_module_names) | {
    "torch", "numpy", "dynexplore", "pytest", "_pytest", "pluggy", "IPython", "ipykernel", "traitlets", "zmq",
}  # fmt: skip
_ENTERED = ("torch.optim", "torch.amp", "torch.cuda.amp", "torch.nn")
"""Of torch: schedulers, scalers, and objects in modules."""

_HOLDERS_OF_THE_LIBRARY = ("argparse", "collections", "configparser", "types")
"""Modules of the standard library whose classes hold a program's own objects."""

_REGISTRIES = ("_parameters", "_buffers", "_modules")

_OF_CLASSES = (types.FunctionType, staticmethod, classmethod, property, types.MemberDescriptorType, types.GetSetDescriptorType)
"""Attributes of classes that hold no state: methods are visited if code names them."""


class Reachable:
    """What was found, in the order of the walk, which is the same in each run."""

    def __init__(self, roots: Iterable[Named], entry: Any = None) -> None:
        self.functions: list[types.FunctionType] = []
        self.namespaces: list[tuple[dict[str, Any], str]] = []  # a module's dictionary, and a name in it
        self.holders: list[Any] = []
        self.containers: list[Any] = []
        self.named: list[tuple[Name, Any]] = []  # containers, objects with attributes and modules, with their paths
        self.modules: list[torch.nn.Module] = []
        self.states: list[Any] = []  # optimizers, generators, caches and context variables
        self.classes: list[type] = []
        self.arrays: list[tuple[Name, Any]] = []
        self.iterators: list[Name] = []
        self.is_complete = True
        self._tensors: list[tuple[Name, torch.Tensor]] = []
        self._entry = entry
        self._names: set[str] = set()
        self._classes: dict[int, type] = {}  # by identity: a metaclass may have its own `__hash__`
        self._bases: set[int] = set()
        self._named_classes: set[int] = set()  # classes that code may call
        self._seen: dict[int, Any] = {}  # with the object, so that no other one gets its id
        self._in_modules: set[int] = set()  # modules and tensors of a module that was found
        self._items_left = _MOST_ITEMS
        self._walk(roots)
        self.modules = [module for module in self.modules if id(module) not in self._in_modules]
        self.tensors = [(path_text(name), tensor) for name, tensor in self._tensors if id(tensor) not in self._in_modules]

    def _walk(self, roots: Iterable[Named]) -> None:
        pending: collections.deque[Named] = collections.deque()
        self._queue(pending, roots)
        while pending:
            while pending:
                name, value = pending.popleft()
                self._queue(pending, self._visit(name, value))
            self._queue(pending, self._methods())

    def _queue(self, pending: collections.deque[Named], named: Iterable[Named]) -> None:
        for name, value in named:
            if id(type(value)) in _PLAIN or id(value) in self._seen or id(value) in self._in_modules:
                continue
            if len(self._seen) >= _MOST:
                self.is_complete = False
                return
            self._seen[id(value)] = value
            pending.append((name, value))

    def _visit(self, name: Name, value: Any) -> Iterator[Named]:
        """Note an object; yields what hangs on it."""
        if is_a(value, torch.Tensor):
            self._tensors.append((name, value))
        elif is_a(value, torch.nn.Module):
            if id(value) not in self._in_modules:
                yield from self._module(name, value)
        elif is_a(value, *_STATES) or type(value) is threading.local or numpy_state.is_generator(value):
            self.states.append(value)
            yield from self._of_state(name, value)
            if is_a(value, torch.optim.Optimizer):
                parameters = (parameter for group in getattr(value, "param_groups", ()) for parameter in group["params"])
                yield from (((name, "[", at), parameter) for at, parameter in enumerate(parameters))
        elif is_a(value, types.FunctionType):
            yield from self._function(name, value)
        elif is_a(value, types.MethodType):
            yield from (("self", value.__self__), (name, value.__func__))
        elif is_a(value, functools.partial):
            yield from ((name, part) for part in (value.func, *value.args, *value.keywords.values()))
        elif is_a(value, *CONTAINERS, tuple, frozenset):
            yield from self._items(name, value)
        elif is_a(value, type):
            self._named_classes.add(id(value))
            yield from self._class(value)
        elif numpy_state.is_array(value):
            yield from self._array(name, value)
        elif _is_entered(value):
            yield from self._holder(name, value)
        elif _is_iterator(value):
            self.iterators.append(name)

    def _of_state(self, name: Name, value: Any) -> Iterator[Named]:
        if is_a(value, CACHE):
            yield from ((name, function) for function in instance_dict(value).values())
        elif is_a(value, threading.local):
            yield from (((name, ".", key), attribute) for key, attribute in local_attributes(value).items())

    def _module(self, name: Name, module: torch.nn.Module) -> Iterator[Named]:
        """A module with all of its children."""
        self.modules.append(module)
        for path, child in module.named_modules(prefix=path_text(name)):
            if child is not module:
                self._in_modules.add(id(child))
            yield from self._class(type(child))
            self.named.append((path, child))
            own = instance_dict(child) if has_plain_dict(type(child)) else {}
            for registry in ("_parameters", "_buffers"):
                tensors: Any = own.get(registry)
                if is_a(tensors, dict):  # a module of TorchScript has something else
                    self._in_modules.update(id(tensor) for tensor in dict.values(tensors) if tensor is not None)
            yield from (((path, ".", key), value) for key, value in own.items() if key not in _REGISTRIES)

    def _items(self, name: Name, container: Any) -> Iterator[Named]:
        if is_a(container, *CONTAINERS):
            self.containers.append(container)
            self.named.append((name, container))
        if not is_a(container, *_OF_BYTES):
            base = _layout(container)
            self.is_complete &= base.__len__(container) <= self._items_left
            items = dict.items(container) if base is dict else enumerate(base.__iter__(container))
            for key, value in itertools.islice(items, self._items_left):
                if id(type(value)) not in _PLAIN:
                    yield (name, "[", key), value
            self._items_left = max(self._items_left - base.__len__(container), 0)
        if is_a(container, *CONTAINERS) and is_heap_type(type(container)):
            yield from self._holder(name, container)

    def _holder(self, name: Name, value: Any) -> Iterator[Named]:
        self.holders.append(value)
        self.named.append((name, value))
        yield from self._class(type(value))
        yield from (((name, ".", key), attribute) for key, attribute in attributes_of(value))

    def _class(self, cls: type) -> Iterator[Named]:
        """What hangs on a class, on its bases and on its metaclass."""
        if id(cls) in self._classes:
            return
        self._classes[id(cls)] = cls
        for base in class_mro(cls):
            if is_c_type(base) or _is_shared(class_module(base)) or id(base) in self._bases:
                continue
            self._bases.add(id(base))
            self.classes.append(base)
            named = class_attributes(base).items()
            yield from (((class_name(base), ".", key), value) for key, value in named if not is_a(value, *_OF_CLASSES))
        yield from self._class(type(cls))

    def _array(self, name: Name, value: Any) -> Iterator[Named]:
        if numpy_state.can_be_written(value):
            self.arrays.append((name, value))
        yield from (((name, "[", at), item) for at, item in numpy_state.items_of(value))

    def _function(self, name: Name, function: types.FunctionType) -> Iterator[Named]:
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
        yield from (((name, ".", key), value) for key, value in (made_dictionary(function) or {}).items())
        yield from ((name, default) for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()))
        for own in names:
            if own in function.__globals__:
                value = function.__globals__[own]
                yield own, value
                if is_a(value, types.ModuleType) and has_plain_dict(type(value)):
                    namespace = instance_dict(value)
                    if not _is_shared(namespace.get("__name__")):
                        yield from self._namespace(own, namespace, names)

    def _namespace(self, name: str, namespace: dict[str, Any], names: Iterable[str]) -> Iterator[Named]:
        """The names of a module of the program that a function may read."""
        for own in names:
            if own in namespace:
                self.namespaces.append((namespace, own))
                yield f"{name}.{own}", namespace[own]

    def _methods(self) -> Iterator[Named]:
        """The methods that code names, of objects that were found, and have not been visited."""
        for cls in list(self._classes.values()):
            without_names = {"forward", "__call__", *(("__init__",) if id(cls) in self._named_classes else ())}
            for base in class_mro(cls):
                own = class_dict(base) if not _is_shared(class_module(base)) else {}
                for key in self._names.intersection(own) | without_names.intersection(own):
                    value = own[key]
                    function = value.fget if is_a(value, property) else value
                    function = value.__func__ if is_a(value, staticmethod, classmethod) else function
                    if is_a(function, types.FunctionType):
                        yield key, function


def path_text(name: Name) -> str:
    """A path as text.

    >>> path_text((("model", ".", "layers"), "[", 0)), path_text((("table", "[", "a"), "[", (1, 2)))
    ('model.layers[0]', "table['a']")
    """
    parts: list[str] = []
    while type(name) is tuple:
        name, sign, key = name
        if sign == ".":
            parts.append(f".{key}")
        elif type(key) is int or type(key) is str:  # the text of any other key may be made by the user
            parts.append(f"[{key!r}]")
    return "".join([str(name), *reversed(parts)])


def _layout(container: Any) -> Any:
    """The built-in type of a container."""
    return next(cls for cls in class_mro(type(container)) if id(cls) in _LAYOUTS)


def length(container: Any) -> int:
    """The number of items, whatever a subclass says."""
    return int(_layout(container).__len__(container))


def _is_iterator(value: Any) -> bool:
    """Whether an object of a C type moves on when it is asked for an item, except files."""
    cls = type(value)
    return is_c_type(cls) and not is_a(value, io.IOBase) and any("__next__" in class_dict(base) for base in class_mro(cls))


def _is_entered(value: Any) -> bool:
    cls = type(value)
    if cls is types.SimpleNamespace:
        return True
    if not is_heap_type(cls) or is_a(value, type, types.ModuleType, BaseException):
        return False
    module = class_module(cls)
    return not _is_shared(module) or module in _HOLDERS_OF_THE_LIBRARY or module.startswith(_ENTERED)


def _is_shared(module: object) -> bool:
    return type(module) is str and module.partition(".")[0] in _NOT_ENTERED


def names_in(code: types.CodeType) -> Iterator[str]:
    """The names of globals and attributes in code, and in the code of functions that it makes."""
    yield from code.co_names
    yield from itertools.chain.from_iterable(names_in(constant) for constant in code.co_consts if is_a(constant, types.CodeType))
