"""Additional calls of the same function, which show whether a captured program is right for other inputs, too.

The idea: that a capture reproduces eager's answer on its own example arguments proves little, because a trace bakes in the path
that the program took. So the arguments are also tried negated, with other sizes and with other Python numbers, as far as eager
accepts them, and those for which eager runs other operators, or the same ones with other constants, are marked.

In: the arguments of a call. Out: `variants(args, kwargs)`: (name, args, kwargs); `path_of(run)`: the operators that eager runs,
each with its constants. PyTorch's counterpart: `check_inputs` in torch/jit/_trace.py, which the user has to provide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

AS_GIVEN, NEGATED, OTHER_SIZES, OTHER_NUMBERS, SECOND = "as given", "negated", "other sizes", "other numbers", "second"

Variant = tuple[str, tuple[Any, ...], dict[str, Any]]


def variants(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Variant]:
    """The calls to try: only those that differ from the given one."""
    leaves = tree_leaves((args, kwargs))
    call = (args, kwargs)
    if any(_is_signed(leaf) for leaf in leaves):
        yield NEGATED, *tree_map(_negated, call)
    if (size := _common_size(leaves)) is not None:
        yield OTHER_SIZES, *tree_map(lambda leaf: _with_more(leaf, size), call)
    if any(type(leaf) in (int, float, bool) for leaf in leaves):
        yield OTHER_NUMBERS, *tree_map(_other_number, call)


def _is_signed(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex()) and leaf.layout == torch.strided


def _negated(leaf: Any) -> Any:
    return _like(leaf, -leaf.detach()) if _is_signed(leaf) else leaf


def _common_size(leaves: list[Any]) -> int | None:
    """The size of the first dimension that most tensors share: usually the batch size."""
    sizes = Counter(leaf.shape[0] for leaf in leaves if _can_grow(leaf))
    return sizes.most_common(1)[0][0] if sizes else None


def _can_grow(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and leaf.dim() > 0 and leaf.shape[0] > 0


def _with_more(leaf: Any, size: int) -> Any:
    """The tensor enlarged by one in every dimension of the common size; a square stays a square."""
    if not (_can_grow(leaf) and leaf.shape[0] == size):
        return leaf
    grown = leaf.detach()
    for dimension in range(leaf.dim()):
        if leaf.shape[dimension] == size:
            grown = torch.cat([grown, grown.narrow(dimension, 0, 1)], dimension)
    return _like(leaf, grown)


def _other_number(leaf: Any) -> Any:
    return not leaf if type(leaf) is bool else leaf + 1 if type(leaf) in (int, float) else leaf


def _like(leaf: torch.Tensor, changed: torch.Tensor) -> torch.Tensor:
    return changed.contiguous().requires_grad_(leaf.requires_grad)


_NO_CONSTANTS = (torch.Tensor, torch.ScriptObject, torch.Generator)
"""Arguments whose text says nothing of what an operator does: the last two are printed with their address."""


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records each operator with its constants, but without sizes and dtypes of tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.path: list[tuple[str, str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        constants = [leaf for leaf in tree_leaves((args, kwargs)) if not isinstance(leaf, _NO_CONSTANTS)]
        self.path.append((str(func), str(constants)))
        return func(*args, **(kwargs or {}))


def path_of(run: Callable[[], Any]) -> list[tuple[str, str]]:
    """The operators that a call runs, in order, each with its constants."""
    watching = _Watching()
    with watching:
        run()
    return watching.path
