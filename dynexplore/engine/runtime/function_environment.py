"""Snapshot and restore of a function's environment: closures, globals, and everything that it reaches from them.

The idea: a function that counts its calls in a global, appends to a list of its object or mutates a tensor of its closure returns
another result each time, and its runs cannot be compared. What the function can reach is saved before the first run
(reachable_state.py, which says what is not found), and restored in place before each later one. A binding or container that is
unchanged is not written to: something may be iterating over it.

In: a function, and objects that it can reach otherwise. Out: `Surroundings`. PyTorch's counterpart: none; its tools compare modules
only.
"""

from __future__ import annotations

import collections
import functools
import operator
import random
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from dynexplore.engine.raw_attributes import closure_values, has_plain_dict, instance_dict, is_a, keys_of, values_of
from dynexplore.engine.runtime import optimized
from dynexplore.engine.runtime.reachable_state import Reachable, names_in, slots_of


class Surroundings:
    """A snapshot of what a function can reach, except the tensors of modules and the state of optimizers, which are in `reachable`.

    >>> seen = []
    >>> around = Surroundings(lambda: seen.append(1))
    >>> seen.append(2)
    >>> around.restore()
    >>> seen
    []
    """

    def __init__(self, fn: Any, *others: Any) -> None:
        function = _function_of(fn)
        roots = [("self", getattr(optimized.original_of(fn), "__self__", None)), ("", fn if function is None else function)]
        self.reachable = Reachable([*roots, *(("", other) for other in others)], function)
        self._restores: list[Callable[[], object]] = []
        for own in self.reachable.functions:
            self._note_bindings(own)
        for namespace, name in self.reachable.namespaces:
            self._restores.append(functools.partial(_restore_name, namespace, name, namespace[name]))
        for holder in self.reachable.holders:
            self._restores += attribute_restores(holder)
        self._restores += [refilled for value in self.reachable.containers if (refilled := refill(value)) is not None]
        self._tensors = named_apart([(name, tensor) for name, tensor in self.reachable.tensors if _can_be_restored(tensor)])
        self._restores += [_refill_tensor(tensor) for _, tensor in self._tensors]
        generators = [state for state in self.reachable.states if is_a(state, random.Random)]
        self._restores += [functools.partial(generator.setstate, generator.getstate()) for generator in generators]

    def restore(self) -> None:
        """Restore all bindings and values."""
        for restore in self._restores:
            restore()

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors in the snapshot, by name."""
        yield from self._tensors

    def _note_bindings(self, function: Any) -> None:
        namespace = function.__globals__
        for name in names_in(function.__code__):
            if name in namespace:
                self._restores.append(functools.partial(_restore_name, namespace, name, namespace[name]))
        for cell in function.__closure__ or ():
            try:
                self._restores.append(functools.partial(setattr, cell, "cell_contents", cell.cell_contents))
            except ValueError:  # unbound
                continue


def _restore_name(namespace: dict[str, Any], name: str, value: Any) -> None:
    if namespace.get(name, _EMPTY) is not value:
        namespace[name] = value


def named_apart(tensors: list[tuple[str, torch.Tensor]]) -> list[tuple[str, torch.Tensor]]:
    """Tensors whose names differ: a name that an earlier tensor has gets a number.

    >>> [name for name, _ in named_apart([("x", torch.ones(1)), ("x", torch.ones(1))])]
    ['x', 'x (1)']
    """
    names: dict[str, torch.Tensor] = {}
    for at, (name, tensor) in enumerate(tensors):
        names[name if name not in names else f"{name} ({at})"] = tensor
    return list(names.items())


def _can_be_restored(tensor: torch.Tensor) -> bool:
    """Whether a tensor has elements in memory that can be copied back."""
    return not is_lazy(tensor) and tensor.layout is torch.strided and tensor.device.type != "meta" and not tensor.is_quantized


def attribute_restores(holder: Any) -> Iterator[Callable[[], None]]:
    """Functions that restore the attributes of an object, in its dictionary and in its slots."""
    attributes = instance_dict(holder) if has_plain_dict(type(holder)) else None
    if type(attributes) is dict:
        yield rebind(attributes)
    slots = list(slots_of(type(holder)))
    if slots:
        yield functools.partial(_restore_slots, holder, [(slot, _slot_value(slot, holder)) for _, slot in slots])


_EMPTY = object()


def _slot_value(slot: Any, holder: Any) -> Any:
    try:
        return slot.__get__(holder)
    except AttributeError:
        return _EMPTY


def _restore_slots(holder: Any, saved: list[tuple[Any, Any]]) -> None:
    for slot, value in saved:
        if _slot_value(slot, holder) is value:
            continue
        if value is _EMPTY:
            slot.__delete__(holder)
        else:
            slot.__set__(holder, value)


def refill(value: Any) -> Callable[[], None] | None:
    """A function that restores the current content of a list, dict, set, deque, bytearray or tensor; None for anything else."""
    if is_a(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        return _refill_tensor(value)
    if is_a(value, dict, set):
        return rebind(value)
    if is_a(value, list):
        items = list.copy(value)
        return lambda: None if _are_same(value, items) else list.__setitem__(value, slice(None), items)
    if is_a(value, bytearray):
        content = bytearray.copy(value)
        return lambda: None if bytearray.__eq__(value, content) else bytearray.__setitem__(value, slice(None), content)
    if is_a(value, collections.deque):
        return _refill_deque(value)
    return None


def _are_same(container: Any, items: list[Any]) -> bool:
    """Whether a list or deque has these very objects."""
    base: Any = list if is_a(container, list) else collections.deque
    return base.__len__(container) == len(items) and all(map(operator.is_, base.__iter__(container), items))


def _refill_deque(container: collections.deque[Any]) -> Callable[[], None]:
    items = list(collections.deque.__iter__(container))

    def restore() -> None:
        if not _are_same(container, items):
            collections.deque.clear(container)
            collections.deque.extend(container, items)

    return restore


def rebind(container: Any) -> Callable[[], None]:
    """A function that restores the keys and objects of a dict or set if they have changed, and the order of keys. Copies have the
    hashes of the original, so that no `__hash__` of the user runs; an OrderedDict asks its keys for theirs.
    """
    if is_a(container, set):
        elements = set(container)  # as `set.copy`, but a plain set
        return lambda: _rebind_set(container, elements)
    content, (keys, values) = dict.copy(container), _keys_and_values(container)

    def restore() -> None:
        now = _keys_and_values(container)
        if len(now[0]) == len(keys) and all(map(operator.is_, now[0], keys)) and all(map(operator.is_, now[1], values)):
            return
        if is_a(container, collections.OrderedDict):
            collections.OrderedDict.clear(container)
            for key, value in zip(keys, values, strict=True):
                collections.OrderedDict.__setitem__(container, key, value)
        else:
            dict.clear(container)
            dict.update(container, content)

    return restore


def _keys_and_values(container: Any) -> tuple[list[Any], list[Any]]:
    """The keys and values in the order of the container."""
    if is_a(container, collections.OrderedDict):
        return keys_of(container), values_of(container)
    return list(dict.keys(container)), list(dict.values(container))


def _rebind_set(container: Any, elements: set[Any]) -> None:
    if set(map(id, set.__iter__(container))) != set(map(id, elements)):
        set.clear(container)
        set.update(container, elements)


def _refill_tensor(tensor: torch.Tensor) -> Callable[[], None]:
    content = tensor.detach().clone()
    gradient = tensor.grad.detach().clone() if tensor.is_leaf and tensor.grad is not None else None

    def restore() -> None:
        if tensor.shape != content.shape or not torch.equal(tensor.detach(), content):
            tensor.detach().copy_(content)
        if tensor.is_leaf:
            tensor.grad = gradient.clone() if gradient is not None else None

    return restore


def copy_of_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A leaf with the same data, strides, gradient and requires_grad."""
    copied = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):
        copied = tensor.detach().clone()  # an expanded tensor: its elements share memory
    else:
        copied.copy_(tensor.detach())
    copied.requires_grad_(tensor.requires_grad)
    if tensor.is_leaf and tensor.grad is not None:
        copied.grad = tensor.grad.detach().clone()
    return copied


# -- names in code ----------------------------------------------------------------------------------------------------


def _function_of(fn: Any) -> Any:
    """The Python function behind a function, method or optimized function; None if there is none."""
    target = optimized.original_of(fn)
    function = getattr(target, "__func__", target)
    return function if isinstance(getattr(function, "__code__", None), CodeType) else None


def named_by(fn: Any) -> Iterator[tuple[str, Any]]:
    """The values in a function's closure, and of the globals that its code names."""
    function = _function_of(fn)
    if function is None:
        return
    yield from closure_values(function)
    for name in names_in(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]
