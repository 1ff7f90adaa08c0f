"""Argument checks of ATen operators that their meta kernels lack.

The idea: an operator with an invalid argument raises in eager. If its meta kernel does not raise, the operator is captured. The
kernel still raises when the graph runs, but if the program does not use the result, a compiler drops the operator as dead code, and
the error with it. So such arguments are checked here, before the meta kernel. For a symbolic number, the check becomes a guard.

`random_` with a lower bound is refused: its ATen operator is `random_.from`, and the Python code of an FX graph cannot contain that
name.

In: the arguments of an operator. Out: an exception of the operator's own type, or nothing. PyTorch's counterpart: `meta_select` in
torch/_subclasses/fake_impls.py of torch 2.13 (not of 2.11); none for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import guard_or_false


def _check_selected_index(self: Any, dim: Any, index: Any) -> None:
    """A symbolic index is in range; constants are checked by every torch."""
    if isinstance(index, torch.SymInt) and self.dim():
        size = self.size(dim)
        if guard_or_false(index >= size) or guard_or_false(index < -size):
            raise IndexError(f"select(): index {index} out of range for tensor of size {list(self.size())} at dimension {dim}")


def _check_dim(self: Any, dim: Any = -1, *_: Any, **__: Any) -> None:
    """The dimension exists; a tensor without dimensions counts as one with one. For `sort` it is the last unless given."""
    dims = max(self.dim(), 1)
    if not -dims <= dim < dims:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], but got {dim})")


def _check_range(self: Any, begin: Any = 0.0, end: Any = 1.0, **__: Any) -> None:
    """A range is not reversed."""
    if begin > end:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={begin} > to={end}")


def _refuse_keyword(*_: Any, **__: Any) -> None:
    """An operator whose name is a Python keyword."""
    raise NotImplementedError("an FX graph cannot call an operator named `from`, which is a Python keyword")


_aten = torch.ops.aten
CHECKS: Mapping[Any, Callable[..., None]] = {
    _aten.select.int: _check_selected_index,
    _aten._softmax.default: _check_dim,
    _aten._log_softmax.default: _check_dim,
    _aten.sort.default: _check_dim,
    _aten.sort.stable: _check_dim,
    _aten.uniform_.default: _check_range,
    _aten.uniform.default: _check_range,
    getattr(_aten.random_, "from"): _refuse_keyword,
    getattr(_aten.random, "from"): _refuse_keyword,
}
