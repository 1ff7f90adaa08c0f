"""What NumPy objects hold: the elements of arrays, and the states of random number generators, saved and restored in place.

The idea: a call may write into an array of the program as it writes into a tensor, and draw from NumPy's generators as from
torch's. Both are saved before the first run of a call. Arrays that cannot be written to are left out, and so are arrays in files
(`numpy.memmap`). NumPy may be absent: a program that has not imported it has no such objects.

In: any object. Out: functions that restore its current state; an array as a tensor, so that it can be compared like one. PyTorch's
counterpart: none; torch/_dynamo/utils.py saves the state of torch's generators only (`preserve_rng_state`).
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dynexplore.engine.raw_attributes import is_a

_WITHOUT_BYTES = "OT"
"""Kinds of dtypes whose elements are references: objects, and texts of any length."""


def _numpy() -> Any:
    return sys.modules.get("numpy")


def is_array(value: Any) -> bool:
    """Whether an object is a NumPy array; arrays of subclasses, too."""
    numpy = _numpy()
    return hasattr(numpy, "ndarray") and is_a(value, numpy.ndarray)


def is_generator(value: Any) -> bool:
    """Whether an object is one of NumPy's random number generators."""
    module: Any = sys.modules.get("numpy.random")
    return hasattr(module, "Generator") and is_a(value, module.Generator, module.RandomState, module.BitGenerator)


def can_be_written(array: Any) -> bool:
    """Whether a call can change the elements of an array in memory."""
    numpy = _numpy()
    owner = array
    while is_a(owner, numpy.ndarray):
        if is_a(owner, numpy.memmap):
            return False
        owner = numpy.ndarray.base.__get__(owner)
    return bool(numpy.ndarray.flags.__get__(array).writeable) and not is_a(owner, mmap.mmap)


def items_of(array: Any) -> Iterator[tuple[int, Any]]:
    """The objects in an array of objects, with their flat positions."""
    numpy = _numpy()
    if numpy.ndarray.dtype.__get__(array).kind == "O":
        yield from enumerate(numpy.ndarray.flat.__get__(array))


def refill_array(array: Any) -> Callable[[], None]:
    """A function that restores the current elements of an array, if they have changed."""
    numpy = _numpy()
    write, dtype = numpy.ndarray.__setitem__, numpy.ndarray.dtype.__get__(array)
    if dtype.kind in _WITHOUT_BYTES or dtype.hasobject:
        content = numpy.ndarray.copy(array)
        return lambda: write(array, ..., content) if array.shape == content.shape else None
    shape, saved = numpy.ndarray.shape.__get__(array), numpy.ndarray.tobytes(array)

    def restore() -> None:
        if numpy.ndarray.shape.__get__(array) == shape and numpy.ndarray.tobytes(array) != saved:
            write(array, ..., numpy.frombuffer(saved, dtype).reshape(shape))

    return restore


def generator_restore(generator: Any) -> Callable[[], None]:
    """A function that restores the current state of a generator."""
    bits = generator if is_a(generator, sys.modules["numpy.random"].BitGenerator) else _bits_of(generator)
    state = bits.state
    return lambda: setattr(bits, "state", state)


def _bits_of(generator: Any) -> Any:
    return getattr(generator, "bit_generator", None) or generator._bit_generator


def global_restore() -> Callable[[], None]:
    """A function that restores the state of NumPy's global generator, if the program has imported NumPy."""
    module: Any = sys.modules.get("numpy.random")
    if not hasattr(module, "get_state"):
        return lambda: None
    state = module.get_state()
    return lambda: module.set_state(state)


def as_tensor(array: Any) -> torch.Tensor | None:
    """A copy of an array as a tensor; None for elements that no tensor has.

    >>> import numpy
    >>> as_tensor(numpy.arange(3)), as_tensor(numpy.array(["a"]))
    (tensor([0, 1, 2]), None)
    """
    plain = _numpy().ndarray.copy(array)
    try:
        return torch.from_numpy(_numpy().asarray(plain))
    except TypeError:
        return None
