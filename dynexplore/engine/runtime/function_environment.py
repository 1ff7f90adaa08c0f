"""Snapshot and restore of a function's environment: closures, globals, and everything that it reaches from them.

The idea: a function that counts its calls in a global, appends to a list of its object or mutates a tensor of its closure returns
another result each time, and its runs cannot be compared. What the function can reach is saved before the first run
(reachable_state.py, which says what is not found), and restored in place before each later one. A binding or container that is
unchanged is not written to: something may be iterating over it.

In: a function, and objects that it can reach otherwise. Out: `Surroundings`. PyTorch's counterpart: none; its tools compare modules
only.
"""

from __future__ import annotations

import array
import collections
import functools
import operator
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from dynexplore.engine.raw_attributes import class_name, closure_values, has_plain_dict, instance_dict, is_a
from dynexplore.engine.runtime import numpy_state, optimized
from dynexplore.engine.runtime.object_attributes import attributes_of, class_attributes, slots_of
from dynexplore.engine.runtime.reachable_state import CONTAINERS, Name, Reachable, length, names_in, path_text
from dynexplore.engine.runtime.state_restores import (
    EMPTY,
    class_restore,
    environment_restore,
    function_restore,
    rebind,
    restore_name,
    state_restore,
)


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
            self._restores.append(functools.partial(restore_name, namespace, name, namespace[name]))
        for holder in self.reachable.holders:
            self._restores += attribute_restores(holder)
        self._restores += [refilled for value in self.reachable.containers if (refilled := refill(value)) is not None]
        self._tensors = named_apart([(name, tensor) for name, tensor in self.reachable.tensors if _can_be_restored(tensor)])
        self._restores += [_refill_tensor(tensor) for _, tensor in self._tensors]
        self._restores += [class_restore(cls) for cls in self.reachable.classes]
        self._arrays = [(path_text(name), array) for name, array in self.reachable.arrays]
        self._restores += [numpy_state.refill_array(array) for _, array in self._arrays]
        self._restores += [restore for state in self.reachable.states if (restore := state_restore(state)) is not None]
        self._restores += [numpy_state.global_restore(), environment_restore()]

    def restore(self) -> None:
        """Restore all bindings and values."""
        for restore in self._restores:
            restore()

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors in the snapshot, by name."""
        yield from self._tensors

    def arrays(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Copies of the NumPy arrays in the snapshot as tensors, by name, as far as tensors have such elements."""
        tensors = ((name, numpy_state.as_tensor(array)) for name, array in self._arrays)
        yield from named_apart([(name, tensor) for name, tensor in tensors if tensor is not None])

    def counts(self) -> dict[str, int]:
        """The current integers in globals, closures, objects and classes, and the lengths of containers, by name. Not what may
        differ in a second run of a program: floats may be times, large integers identities, and texts paths.
        """
        values: list[tuple[Name, Any]] = []
        for function in self.reachable.functions:
            names = (name for name in names_in(function.__code__) if name in function.__globals__)
            values += [*((name, function.__globals__[name]) for name in names), *closure_values(function)]
        for path, holder in self.reachable.named:
            if is_a(holder, *CONTAINERS):
                values.append((f"len({path_text(path)})", length(holder)))
            values += [((path, ".", name), value) for name, value in attributes_of(holder)]
        for cls in self.reachable.classes:
            values += [((class_name(cls), ".", name), value) for name, value in class_attributes(cls).items()]
        return {path_text(name): value for name, value in values if _is_count(value)}

    def _note_bindings(self, function: Any) -> None:
        self._restores.append(function_restore(function))
        namespace = function.__globals__
        for name in names_in(function.__code__):
            if name in namespace:
                self._restores.append(functools.partial(restore_name, namespace, name, namespace[name]))
        for cell in function.__closure__ or ():
            try:
                self._restores.append(functools.partial(setattr, cell, "cell_contents", cell.cell_contents))
            except ValueError:  # unbound
                continue


def _is_count(value: Any) -> bool:
    return type(value) in (int, bool) and abs(value) < 1 << 31


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


def _slot_value(slot: Any, holder: Any) -> Any:
    try:
        return slot.__get__(holder)
    except AttributeError:
        return EMPTY


def _restore_slots(holder: Any, saved: list[tuple[Any, Any]]) -> None:
    for slot, value in saved:
        if _slot_value(slot, holder) is value:
            continue
        if value is EMPTY:
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
    if is_a(value, bytearray, array.array):
        return _refill_bytes(value)
    if is_a(value, collections.deque):
        return _refill_deque(value)
    return None


def _refill_bytes(value: Any) -> Callable[[], None]:
    base: Any = bytearray if is_a(value, bytearray) else array.array
    content = base.__getitem__(value, slice(None))
    return lambda: None if base.__eq__(value, content) is True else base.__setitem__(value, slice(None), content)


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
