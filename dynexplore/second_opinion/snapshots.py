"""Running a graph without side effects: mutated inputs are copied, random state restored, modes unchanged.

The idea: the graph runs a second time beside the program's call. Nothing of the program may change: not its tensors (mutated
ones are copied, all tensors on the same storage together, so that views remain views), not the random number generators, not
the autograd graph (no gradients are recorded), and not the output (only the real call shows warnings).

In: the inputs of a graph before the real call. Out: `Snapshot`, whose `inputs()` the replay may mutate; `quiet()`, the context
it runs under. PyTorch's counterpart: `preserve_rng_state` in torch/_dynamo/utils.py, for random state alone.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import overrides

from dynexplore.engine import native
from dynexplore.engine.graph.modes import Modes

MOST_BYTES = 512 * 2**20
"""The most bytes that are copied."""

MOST_VALUES = 100_000
"""The most values that are recorded in all."""

_CASTING_DEVICES = ("cpu", "cuda")


class Snapshot:
    """The inputs of a graph and the random number generators, as they were before it ran."""

    def __init__(self, inputs: Sequence[Any], written: Sequence[int]) -> None:
        self._inputs = list(inputs)
        self.random = RandomState(inputs)
        self.bytes = 0
        copied = {_memory(inputs[place]) for place in written if isinstance(inputs[place], torch.Tensor)}
        storages: dict[int, torch.UntypedStorage] = {}
        with torch.no_grad():
            for place, value in enumerate(inputs):
                if isinstance(value, torch.Tensor):
                    self._inputs[place] = self._copy(value, storages) if _memory(value) in copied else value.detach()
        self.written = [place for place, value in enumerate(inputs) if isinstance(value, torch.Tensor) and _memory(value) in copied]

    def _copy(self, value: torch.Tensor, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
        memory = _memory(value)
        if memory not in storages:
            self.bytes += value.untyped_storage().nbytes()
            storage: Any = value.untyped_storage()
            storages[memory] = storage.clone()
        copied = torch.empty(0, dtype=value.dtype, device=value.device)
        return copied.set_(storages[memory], value.storage_offset(), value.size(), value.stride())

    def inputs(self) -> list[Any]:
        """The inputs: those that the graph mutates are copies."""
        return self._inputs


def _memory(value: torch.Tensor) -> int:
    return int(value.untyped_storage()._cdata)


def bytes_to_copy(inputs: Sequence[Any], written: Sequence[int]) -> int:
    """The number of bytes that a snapshot copies."""
    tensors = {_memory(value): value for place in written if isinstance(value := inputs[place], torch.Tensor)}
    return sum(value.untyped_storage().nbytes() for value in tensors.values())


class RandomState:
    """The state of the generators used by a graph with these inputs."""

    def __init__(self, inputs: Sequence[Any] = ()) -> None:
        devices = {value.device for value in inputs if isinstance(value, torch.Tensor) and value.is_cuda}
        self._cpu = torch.get_rng_state()
        self._cuda = {device: torch.cuda.get_rng_state(device) for device in devices}

    def restore(self) -> None:
        """Restore the state of the generators."""
        torch.set_rng_state(self._cpu)
        for device, state in self._cuda.items():
            torch.cuda.set_rng_state(state, device)

    def now(self) -> RandomState:
        """The current state of the same generators."""
        state = RandomState()
        state._cuda = {device: torch.cuda.get_rng_state(device) for device in self._cuda}
        return state

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RandomState):
            return NotImplemented
        return torch.equal(self._cpu, other._cpu) and all(
            torch.equal(self._cuda[device], other._cuda[device]) for device in self._cuda
        )

    __hash__ = None  # type: ignore[assignment]


def why_not_quiet() -> str:
    """Why a graph cannot run now without side effects; "" if it can."""
    if torch._C._len_torch_dispatch_stack():
        return "a TorchDispatchMode of the program would see it"
    stack: Any = overrides._get_current_function_mode_stack
    modes = [type(mode).__name__ for mode in stack() if type(mode).__name__ != "DeviceContext"]
    return f"a TorchFunctionMode of the program ({modes[0]}) would see it" if modes else ""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Disable hooks, gradients, warnings and the autocast cache; restore grad mode and autocast afterwards."""
    outer = native.enter(None)
    modes = Modes.now()
    shown, warnings.showwarning = warnings.showwarning, _show_nothing
    torch.set_autocast_cache_enabled(False)
    torch._C._set_grad_enabled(False)
    try:
        yield
    finally:
        modes.restore()
        warnings.showwarning = shown
        native.leave(outer)


def _show_nothing(*args: Any, **kwargs: Any) -> None:
    """Replaces `warnings.showwarning`: the real call shows the warning."""
