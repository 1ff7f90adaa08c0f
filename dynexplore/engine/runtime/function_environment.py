"""Snapshot and restore of a function's environment: closures, globals, and everything that it reaches from them.

The idea: a function that counts its calls in a global, appends to a list of its object or mutates a tensor of its closure returns
another result each time, and its runs cannot be compared. What the function can reach is saved before the first run
(reachable_state.py), and restored in place before each later one. What is unchanged is not written to.

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

from dynexplore.engine.raw_attributes import closure_values, is_a
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
            self._restores.append(functools.partial(operator.setitem, namespace, name, namespace[name]))
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
                self._restores.append(functools.partial(operator.setitem, namespace, name, namespace[name]))
        for cell in function.__closure__ or ():
            try:
                self._restores.append(functools.partial(setattr, cell, "cell_contents", cell.cell_contents))
            except ValueError:  # unbound
                continue


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
    return tensor.layout is torch.strided and tensor.device.type != "meta" and not tensor.is_quantized


def attribute_restores(holder: Any) -> Iterator[Callable[[], None]]:
    """Functions that restore the attributes of an object, in its dictionary and in its slots."""
    attributes = getattr(holder, "__dict__", None)
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
    if is_a(value, list, bytearray):
        base = list if is_a(value, list) else bytearray
        items = base(base.__iter__(value))
        return lambda: base.__setitem__(value, slice(None), items)
    if is_a(value, collections.deque):
        elements = list(collections.deque.__iter__(value))
        return lambda: (collections.deque.clear(value), collections.deque.extend(value, elements), None)[-1]
    return None


def rebind(container: Any) -> Callable[[], None]:
    """A function that restores the keys and objects of a dict or set if they have changed, and the order of keys."""
    if is_a(container, set):
        elements = set(set.__iter__(container))
        return lambda: _rebind_set(container, elements)
    base = collections.OrderedDict if is_a(container, collections.OrderedDict) else dict
    items = list(dict.items(container))

    def restore() -> None:
        now = list(dict.items(container))
        if len(now) == len(items) and all(a is c and b is d for (a, b), (c, d) in zip(now, items, strict=True)):
            return
        base.clear(container)
        for key, value in items:
            base.__setitem__(container, key, value)

    return restore


def _rebind_set(container: Any, elements: set[Any]) -> None:
    if set(set.__iter__(container)) != elements:
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
