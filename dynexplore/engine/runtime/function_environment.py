"""Snapshot and restore of a function's environment: its closure, its globals, and their values.

The idea: a function that counts its calls in a global, appends to a list of its module or mutates a tensor of its closure returns
another result each time, and its runs cannot be compared. The names in its code are known, so their values are saved before the
first run, and restored before each later one.

In: a function. Out: `Surroundings`. PyTorch's counterpart: none; its tools compare modules only.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

from dynexplore.engine.raw_attributes import closure_values, is_a
from dynexplore.engine.runtime import optimized


class Surroundings:
    """A snapshot of the closure and the globals of a function.

    >>> seen = []
    >>> around = Surroundings(lambda: seen.append(1))
    >>> seen.append(2)
    >>> around.restore()
    >>> seen
    []
    """

    def __init__(self, fn: Any) -> None:
        self._bindings: list[Callable[[], object]] = []
        self._contents: list[Callable[[], None]] = []
        self._tensors: list[tuple[str, torch.Tensor]] = []
        function = _function_of(fn)
        if function is not None:
            self._note_bindings(function)
        for name, value in named_by(fn):
            self._note_content(name, value)

    def restore(self) -> None:
        """Restore all bindings and values."""
        for restore in (*self._bindings, *self._contents):
            restore()

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors in the snapshot, by name."""
        yield from self._tensors

    def _note_bindings(self, function: Any) -> None:
        namespace = function.__globals__
        for name in _names(function.__code__):
            if name in namespace:
                self._bindings.append(functools.partial(operator.setitem, namespace, name, namespace[name]))
        for cell in function.__closure__ or ():
            try:
                self._bindings.append(functools.partial(setattr, cell, "cell_contents", cell.cell_contents))
            except ValueError:  # unbound
                continue

    def _note_content(self, name: str, value: Any) -> None:
        if is_a(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
            self._tensors.append((name, value))
        restore = refill(value)
        if restore is not None:
            self._contents.append(restore)


def refill(value: Any) -> Callable[[], None] | None:
    """A function that restores the current content of a list, dict, set or tensor; None for anything else."""
    if is_a(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        return _refill_tensor(value)
    if type(value) is list:
        items = list(value)
        return lambda: value.__setitem__(slice(None), items)
    return rebind(value) if type(value) in (dict, set) else None


def rebind(container: Any) -> Callable[[], None]:
    """A function that restores the keys and objects of a dict or set if they have changed."""
    saved = container.copy()

    def restore() -> None:
        if isinstance(container, dict):
            is_same = len(container) == len(saved)
            is_same = is_same and all(name in container and container[name] is value for name, value in saved.items())
        else:
            is_same = container == saved
        if not is_same:
            container.clear()
            container.update(saved)

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
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
