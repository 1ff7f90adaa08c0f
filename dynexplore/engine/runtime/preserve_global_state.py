"""Preserve global state: a translation must not change random numbers and torch's global modes.

The idea: translation runs torch operators on fake tensors, and backends may do anything. The program must observe neither: the
next `torch.rand` returns the same numbers whether or not a frame was compiled in between.

The program's hooks for saved tensors (`torch.autograd.graph.saved_tensors_hooks`) must not be called for fake tensors, and no
backend may compile them in: the hooks of a later call may differ.

In: `with preserved():` around a translation, `with paused():` where one pauses, `with saved_tensor_hooks_hidden():` around
a backend. Out: the random number generators (torch's, each CUDA device's, Python's, numpy's) and global modes (grad mode, autocast,
default dtype, deterministic algorithms, dispatch modes, hooks), restored. PyTorch's counterpart: `preserve_global_state` in
torch/_dynamo/convert_frame.py.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.utils._python_dispatch as python_dispatch

Keeper = tuple[Callable[[], Any], Callable[[Any], object]]
_saved_tensors: Any = torch._C._autograd


def _flags(state: list[tuple[str, Any]]) -> None:
    for name, value in state:
        setattr(python_dispatch, name, value)


def _set_modes(modes: list[Any]) -> None:
    """Restore the mode stack: Ctrl-C during a mode's `__enter__` or `__exit__`, which are Python code, may leave a mode on it."""
    if python_dispatch._get_current_dispatch_mode_stack() == modes:
        return
    while torch._C._len_torch_dispatch_stack():
        python_dispatch._pop_mode()
    for mode in modes:
        python_dispatch._push_mode(mode)


_MODE_FLAGS = [name for name in vars(python_dispatch) if name.startswith("_is_in_") and name.endswith(("_mode", "_internals"))]

_GRAD: Keeper = (torch.is_grad_enabled, torch._C._set_grad_enabled)
_DTYPE: Keeper = (torch.get_default_dtype, torch.set_default_dtype)


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(state: tuple[bool, bool]) -> None:
    """Nothing if it is so: setting it sets an option of Inductor, which is a context variable that the program would see."""
    if state != _deterministic():
        torch.use_deterministic_algorithms(state[0], warn_only=state[1])


_DETERMINISTIC: Keeper = (_deterministic, _set_deterministic)


def _are_hooks_disabled() -> bool:
    """Whether autograd's hooks for saved tensors are disabled in this thread; torch returns it only when setting it."""
    asleep: bool = _saved_tensors._saved_tensors_hooks_set_tracing(False)
    _saved_tensors._saved_tensors_hooks_set_tracing(asleep)
    return asleep


_ALWAYS: tuple[Keeper, ...] = (
    (torch.get_rng_state, torch.set_rng_state),
    (random.getstate, random.setstate),
    _GRAD,
    _DTYPE,
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    _DETERMINISTIC,
    (python_dispatch._get_current_dispatch_mode_stack, _set_modes),
    (lambda: [(name, getattr(python_dispatch, name)) for name in _MODE_FLAGS], _flags),
    (torch._C._only_lift_cpu_tensors, torch._C._set_only_lift_cpu_tensors),
    (torch._C._meta_in_tls_dispatch_include, torch._C._set_meta_in_tls_dispatch_include),
    (_are_hooks_disabled, _saved_tensors._saved_tensors_hooks_set_tracing),
)
"""How to read and restore each piece of state."""


def _autocast(device: str) -> Keeper:
    def read() -> tuple[bool, torch.dtype]:
        return torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)

    def write(state: tuple[bool, torch.dtype]) -> None:
        torch.set_autocast_enabled(device, state[0])
        torch.set_autocast_dtype(device, state[1])

    return read, write


_AUTOCAST = (_autocast("cpu"), _autocast("cuda"))


_PLAIN: dict[str, Keeper] = {
    "grad": _GRAD,
    "default dtype": _DTYPE,
    "deterministic": _DETERMINISTIC,
    "autocast cpu": _AUTOCAST[0],
    "autocast cuda": _AUTOCAST[1],
}


def plain_modes() -> dict[str, Any]:
    """The modes that can be set in another process, by name."""
    return {name: read() for name, (read, _) in _PLAIN.items()}


def set_plain_modes(modes: Mapping[str, Any]) -> None:
    """Set the modes of this process to those that `plain_modes` returned."""
    for name, state in modes.items():
        _PLAIN[name][1](state)


def _state_accessors() -> Iterator[Keeper]:
    yield from _ALWAYS
    yield from _AUTOCAST
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        yield torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        yield numpy_random.get_state, numpy_random.set_state


Saved = tuple[Callable[[], Any], Callable[[Any], object], Any]


class _Open(threading.local):
    """The state saved by the `preserved` blocks of a thread, innermost last."""

    def __init__(self) -> None:
        self.saved: list[list[Saved]] = []


_open = _Open()


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """Restore every piece of state at the end of the block, however it ends; inside, autograd calls no hooks for saved tensors."""
    saved = _read(_state_accessors())
    _open.saved.append(saved)
    try:
        _saved_tensors._saved_tensors_hooks_set_tracing(True)
        yield
    finally:
        _open.saved.pop()
        _write(saved)


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Inside `preserved`: while active, the state is that outside `preserved`, and changes to it persist."""
    if not _open.saved:
        yield
        return
    outside = _open.saved[-1]
    states_inside = _read((read, write) for read, write, _ in outside)
    _write(outside)
    try:
        yield
    finally:
        outside[:] = _read((read, write) for read, write, _ in outside)
        _write(states_inside)


@contextlib.contextmanager
def saved_tensor_hooks_hidden() -> Iterator[None]:
    """While active, the program's hooks for saved tensors are hidden: AOTAutograd looks for those that it can compile."""
    hooks = []
    try:
        while (innermost := _saved_tensors._top_saved_tensors_default_hooks(True)) is not None:
            hooks.append(innermost)
            _saved_tensors._pop_saved_tensors_default_hooks()
        yield
    finally:
        for pack, unpack in reversed(hooks):
            _saved_tensors._push_saved_tensors_default_hooks(pack, unpack)


def _read(keepers: Iterable[Keeper]) -> list[Saved]:
    return [(read, write, read()) for read, write in keepers]


def _write(saved: list[Saved]) -> None:
    for _, write, state in saved:
        write(state)
