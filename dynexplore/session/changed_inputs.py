"""The inputs of a call with some of them changed: another shape, dtype, device or requires_grad, or another Python value.

The idea: a what-if query starts from the recorded inputs. Each changeable input has a path in Python syntax (`x`, `batch["mask"]`,
`xs[0]`). A changed tensor is a new one with all other properties preserved; its elements are uninitialized because nothing reads
them, so no random numbers are drawn and no data is copied. Containers along the path are copied, so the recorded inputs are not
mutated.

In: a callable, the arguments of a call, changes by path. Out: new arguments; the list of changeable inputs.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynexplore.engine.events import safe_repr
from dynexplore.engine.runtime.value_text import value_text

TENSOR_WORDS = ("shape", "dtype", "device", "requires_grad")
DEVICES = ("cpu", "cuda", "meta", "mps")
_DEEPEST = 3
_MOST = 60


@dataclass(frozen=True, slots=True)
class Input:
    """One input that can be changed: its path and current value. `kind` is "tensor", "value" or "object"."""

    path: str
    kind: str
    text: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    device: str = ""
    requires_grad: bool = False


def inputs_of(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Input]:
    """The inputs of a call that can be changed: tensors and plain values, including those nested in tuples, lists and dicts."""
    inputs: list[Input] = []
    for name, value in _Call(function, args, kwargs).arguments().items():
        inputs += _leaves(name, value, 0)
    return inputs[:_MOST]


def _leaves(path: str, value: Any, depth: int) -> Iterator[Input]:
    if isinstance(value, torch.Tensor):
        device = str(value.device)
        yield Input(
            path, "tensor", safe_repr(type(value)), tuple(value.shape), _dtype_name(value.dtype), device, value.requires_grad
        )
    elif type(value) in (tuple, list, dict) and value and depth < _DEEPEST and not _is_literal(value):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from _leaves(f"{path}[{key!r}]", part, depth + 1)
    else:
        yield Input(path, "value" if _is_literal(value) else "object", value_text(value))


def _is_literal(value: Any, depth: int = 0) -> bool:
    """Whether the value can be reconstructed from its repr, and the repr is short."""
    if type(value) in (tuple, list, set) and len(value) <= 8 and depth < _DEEPEST:
        return bool(value or type(value) is not set) and all(_is_literal(item, depth + 1) for item in value)
    if type(value) is dict and len(value) <= 8 and depth < _DEEPEST:
        return all(_is_literal(item, depth + 1) for pair in value.items() for item in pair)
    return type(value) in (int, float, bool, str, bytes, type(None), complex) and len(repr(value)) <= 200


def changed_call(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], changes: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the call after these changes: path -> new value, or for a tensor a dict with keys of `TENSOR_WORDS`.

    Raises TypeError or ValueError, in one sentence, for a change that is not possible.
    """
    call = _Call(function, args, kwargs)
    for path, change in changes.items():
        name, keys = _parsed(path)
        arguments = call.arguments()
        if name not in arguments:
            raise TypeError(f"there is no input {name!r}; the inputs are: {', '.join(arguments) or 'none'}")
        call.put(name, _replaced(path, arguments[name], keys, change))
    return tuple(call.args), call.kwargs


class _Call:
    """The arguments of a call. Positional arguments stay positional: the entry function of a module distinguishes them from
    keywords.
    """

    def __init__(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.signature = _signature(function)
        self.args, self.kwargs = list(args), dict(kwargs)
        kinds = {name: parameter.kind for name, parameter in self.signature.parameters.items()}
        self.kinds = kinds
        self.positional = [name for name, kind in kinds.items() if kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)]

    def arguments(self) -> dict[str, Any]:
        """Every parameter with its value, defaults included."""
        bound = self.signature.bind(*self.args, **self.kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def put(self, name: str, value: Any) -> None:
        """Replace the argument of a parameter, passing it by position or by keyword as before."""
        kind = self.kinds[name]
        if kind is kind.VAR_POSITIONAL:
            self.args[len(self.positional) :] = value
        elif kind is kind.VAR_KEYWORD:
            own = {key: each for key, each in self.kwargs.items() if key in self.kinds}
            self.kwargs = {**own, **value}
        elif name in self.positional[: len(self.args)]:
            self.args[self.positional.index(name)] = value
        elif kind is kind.POSITIONAL_ONLY:  # it has its default so far, as the parameters before it may
            arguments = self.arguments()
            self.args += [arguments[each] for each in self.positional[len(self.args) : self.positional.index(name)]] + [value]
        else:
            self.kwargs[name] = value


def _signature(function: Any) -> inspect.Signature:
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        return inspect.signature(called)
    except ValueError:  # a C function without a signature
        return inspect.signature(lambda *args, **kwargs: None)


def _parsed(path: str) -> tuple[str, list[Any]]:
    """Split a path: `xs[0]['a']` -> ("xs", [0, "a"])."""
    match = re.fullmatch(r"(\w+)((?:\[[^\]]+\])*)", path)
    if match is None:
        raise ValueError(f"an input is named as in Python, x or xs[0] or batch['mask'], not {path!r}")
    try:
        return match[1], [ast.literal_eval(key) for key in re.findall(r"\[([^\]]+)\]", match[2])]
    except (ValueError, SyntaxError):
        raise ValueError(f"an input is named as in Python, x or xs[0] or batch['mask'], not {path!r}") from None


def _replaced(path: str, value: Any, keys: list[Any], change: Any) -> Any:
    if not keys:
        is_tensor_change = isinstance(value, torch.Tensor) and isinstance(change, Mapping)
        return like(value, **_checked_words(path, change)) if is_tensor_change else change
    if not isinstance(value, tuple | list | dict):
        name = type(value).__qualname__
        raise TypeError(f"{path} cannot be changed: it is inside a {name}, and only the items of tuples, lists and dicts can be")
    key, *rest = keys
    try:
        inner = _replaced(path, value[key], rest, change)
    except (KeyError, IndexError, TypeError) as error:
        if isinstance(error, TypeError) and rest:
            raise
        raise ValueError(f"{path} does not exist: the {type(value).__qualname__} has no {key!r}") from None
    return _with_item(value, key, inner)


def _with_item(value: Any, key: Any, item: Any) -> Any:
    if isinstance(value, dict):
        return {**value, key: item}
    items = list(value)
    items[key] = item
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(items)
    return type(value)(items)


def _checked_words(path: str, change: Mapping[str, Any]) -> dict[str, Any]:
    unknown = [word for word in change if word not in TENSOR_WORDS]
    if unknown:
        raise TypeError(f"these properties of {path} can be changed: {', '.join(TENSOR_WORDS)}; not {unknown[0]!r}")
    return dict(change)


# -- tensors ---------------------------------------------------------------------------------------------------


def like(
    value: torch.Tensor,
    *,
    shape: Sequence[int] | None = None,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str | None = None,
    requires_grad: bool | None = None,
) -> torch.Tensor:
    """A new tensor like `value`, but with this shape, dtype, device or requires_grad; its elements are uninitialized.

    The order of strides follows `value` if both have the same number of dimensions. No random numbers are drawn.

    Raises TypeError or ValueError, in one sentence, for properties that no tensor can have.

    >>> x = like(torch.ones(2, 3).t(), shape=(5, 3), dtype="float64")
    >>> x.shape, x.dtype, x.stride()
    (torch.Size([5, 3]), torch.float64, (1, 5))
    """
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise TypeError(f"a {type(value).__qualname__} cannot be made with other properties, only a plain tensor can")
    sizes = tuple(value.shape) if shape is None else _checked_shape(shape)
    new_dtype = value.dtype if dtype is None else _checked_dtype(dtype)
    needs_grad = value.requires_grad if requires_grad is None else bool(requires_grad)
    if needs_grad and not (new_dtype.is_floating_point or new_dtype.is_complex):
        if requires_grad is not None:
            raise ValueError(f"a tensor of {new_dtype} cannot require grad: only floating point and complex ones can")
        needs_grad = False
    tensor = _empty(value, sizes, new_dtype, value.device if device is None else _checked_device(device))
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(tensor, requires_grad=needs_grad)
    return tensor.requires_grad_(needs_grad)


def _empty(value: torch.Tensor, sizes: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    try:
        if sizes == tuple(value.shape):
            return torch.empty_strided(sizes, value.stride(), dtype=dtype, device=device)
        if len(sizes) == value.dim():
            strides = value.stride()
            order = sorted(range(value.dim()), key=lambda dim: -strides[dim])
            return torch.empty_permuted(sizes, order, dtype=dtype, device=device)
        return torch.empty(sizes, dtype=dtype, device=device)
    except (RuntimeError, AssertionError, MemoryError) as error:
        reason = " ".join(str(error).split(". ")[0].split())
        raise ValueError(f"there can be no {dtype} tensor of shape {list(sizes)} on {device} here: {reason}") from None


def _checked_shape(shape: Any) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else (shape,)
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError(f"a shape is a tuple of sizes of at least 0, not {shape!r}")
    return sizes


def _checked_dtype(dtype: Any) -> torch.dtype:
    resolved = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if not isinstance(resolved, torch.dtype):
        raise ValueError(f"there is no dtype {dtype!r}; there are float32, int64, bool and others")
    return resolved


def _checked_device(device: Any) -> torch.device:
    try:
        return torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"there is no device {device!r}; devices are {', '.join(DEVICES)} and others") from None


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
