"""What guards on tensors, modes and symbolic sizes expect: values that torch's own primitives compare.

The idea: most guards compare a value with a constant (guards.py). Three kinds are checked all at once instead: TENSOR_MATCH by
one `TensorGuards` call, GLOBAL_STATE by torch's `GlobalStateGuard`, and SHAPE_ENV by the expressions of ShapeEnv. What they expect
is an object that can be compared, and that describes in words what it expected and what it found.

In: the tensors and modes of a call, expressions over sizes. Out: `TensorMatch`, `GlobalState`, `ShapeRelation`, the expected values
of these guards. PyTorch's counterpart: `TENSOR_MATCH`, `GRAD_MODE` and `SHAPE_ENV` of `GuardBuilder` in torch/_dynamo/guards.py.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._C._dynamo.guards import GlobalStateGuard, TensorGuards
from torch.utils._device import DeviceContext

from dynexplore.engine.provenance.sources import Scope, Source

function_modes = torch._C._len_torch_function_stack
_function_mode_at: Any = torch._C._get_function_stack_at
_CASTING_DEVICES = ("cpu", "cuda")


def default_devices() -> tuple[torch.device, ...]:
    """The current default devices, set with `torch.set_default_device` or a `with torch.device(...)` block, innermost last."""
    indices = range(function_modes())
    return tuple(mode.device for index in indices if type(mode := _function_mode_at(index)) is DeviceContext)


class GlobalState:
    """The process-wide modes (grad mode, autocast, ...) at frame entry; the traced code may change them later.

    Torch's guard compares the autocast dtype only while autocast is enabled. But a program that enables autocast, or reads the
    dtype, also depends on it while autocast is disabled.
    """

    def __init__(self) -> None:
        self.modes = GlobalStateGuard()
        self.function_modes = function_modes()
        self.devices = default_devices()
        self.cast_types: dict[str, torch.dtype] = {}
        self._all_cast_types = {device: torch.get_autocast_dtype(device) for device in _CASTING_DEVICES}

    def guard_on_cast_type(self, device: str) -> None:
        """Guard on the autocast dtype of this device type, which the program has read."""
        if device in self._all_cast_types:
            self.cast_types[device] = self._all_cast_types[device]

    def cast_type_now(self) -> tuple[str, str] | None:
        """The first guarded autocast dtype that has changed, as text: the expected and the actual one; None if none has."""
        for device, expected in self.cast_types.items():
            actual = torch.get_autocast_dtype(device)
            if actual is not expected:
                return f"autocast on {device} to {expected}", f"to {actual}"
        return None

    def __str__(self) -> str:
        return "modes"


class TensorMatch:
    """A tensor to match: its properties, with None for each dynamic size or stride.

    It stores the tensor's properties and not the tensor: a cache entry must not keep the first call's inputs alive.
    """

    __slots__ = ("_alone", "_class", "_example", "_words", "because", "sizes", "source", "strides")

    def __init__(
        self,
        source: Source,
        example: torch.Tensor,
        sizes: tuple[int | None, ...],
        strides: tuple[int | None, ...],
        because: int,
    ) -> None:
        self.source, self.sizes, self.strides, self.because = source, sizes, strides, because
        self._example: weakref.ref[torch.Tensor] | None = weakref.ref(example)
        self._words = describe_tensor(example, sizes)
        self._class = type(example)
        self._alone: Any = None

    @property
    def example(self) -> torch.Tensor:
        """The tensor itself, available while the frame is translated."""
        assert self._example is not None, "the frame of a guard was translated"
        tensor = self._example()
        assert tensor is not None, "the tensor of a guard is gone"
        return tensor

    def remember(self) -> None:
        """Create the guard that explains a mismatch, while the tensor is alive."""
        self._alone = tensor_guards([self])

    def release(self) -> None:
        """Drop the tensor after translation: `torch.utils.swap_tensors` refuses tensors that are still referenced."""
        self._example = None

    def mismatch(self, value: Any) -> str | None:
        """Explain why a value does not match; None if it does. torch's explanation lacks the class that was expected."""
        if type(value) is not self._class:
            return f"class mismatch. expected {self._class.__name__}, actual {type(value).__name__}"
        result = self._alone.check_verbose(value, tensor_check_names=[self.source.text()])
        return None if result is True else str(result)

    def __str__(self) -> str:
        return self._words


class ShapeRelation:
    """A relation between symbolic sizes, as printed by ShapeEnv: `2*L0.size()[0] == L1.size()[0]`.

    `names` maps the variables of that text to their sources.
    """

    __slots__ = ("_atoms", "_code", "_names", "_namespace", "source", "text")

    def __init__(self, expression: str, names: Mapping[str, Source], namespace: dict[str, Any]) -> None:
        used = [name for name in dict.fromkeys(re.findall(r"\b[A-Za-z_]\w*", expression)) if name in names]
        self._names = {name: names[name] for name in used}
        self._namespace = namespace
        self._code = compile(expression, "<dynexplore guards>", "eval")
        self._atoms = list(dict.fromkeys(re.findall(rf"\b(?:{'|'.join(used) or 'x^'})\b(?:\.\w+\(\)(?:\[\d+\])?)?", expression)))
        self.source = next(iter(self._names.values()), None)
        self.text = self._readable(expression)

    def _readable(self, expression: str) -> str:
        return re.sub(r"\b[A-Za-z_]\w*", lambda m: self._names[m[0]].text() if m[0] in self._names else m[0], expression)

    def _values(self, scope: Scope) -> dict[str, Any]:
        return {name: source.fetch(scope) for name, source in self._names.items()}

    def holds(self, scope: Scope) -> bool:
        """Whether the relation is true for this call."""
        with torch._C.DisableTorchFunctionSubclass():
            return bool(eval(self._code, self._namespace, self._values(scope)))

    def actual(self, scope: Scope) -> str:
        """The actual sizes in this call: `x.size()[0] is 3`."""
        values = self._values(scope)
        with torch._C.DisableTorchFunctionSubclass():
            return ", ".join(f"{self._readable(atom)} is {eval(atom, self._namespace, values)}" for atom in self._atoms)

    def __str__(self) -> str:
        return self.text


def describe_tensor(value: torch.Tensor, sizes: Sequence[int | None]) -> str:
    """A tensor as shown to users: `float32[10, ?] cpu requires_grad`, with "?" for a dynamic size."""
    dims = ", ".join("?" if size is None else str(size) for size in sizes)
    with torch._C.DisableTorchFunctionSubclass():  # do not run `__torch_function__` of the user's subclass for display
        grad = " requires_grad" if value.requires_grad else ""
        return f"{str(value.dtype).removeprefix('torch.')}[{dims}] {value.device}{grad}"


def tensor_guards(matches: Sequence[TensorMatch]) -> Any:
    """torch's guard on several tensors, which also checks that no two are the same object."""
    return TensorGuards(
        *[match.example for match in matches],
        dynamic_dims_sizes=[list(match.sizes) for match in matches],  # type: ignore[misc]
        dynamic_dims_strides=[list(match.strides) for match in matches],  # type: ignore[misc]
    )
