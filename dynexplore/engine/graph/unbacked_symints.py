"""Unbacked symints: symbols such as `u0` for data-dependent numbers and sizes, of `x.item()` or the length of `nonzero(x)`.

The idea: with `config.capture_scalar_outputs` and `config.capture_dynamic_output_shape_ops` (for sizes also with
`config.dynamic_shapes = True`) the graph continues after such a number or size. With `nopython` both are on, as a graph break would
be an error. ShapeEnv has no hint for such a symbol, so no decision can depend on it while tracing.

In: ShapeEnv, results of operators. Out: whether unbacked symbols are enabled, where an operator's result contains new ones, and
the truth of a condition that ShapeEnv can decide. PyTorch's counterpart: torch/fx/experimental/symbolic_shapes.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from dynexplore.engine.config import config


class _Translation(threading.local):
    must_be_whole = False


_translation = _Translation()


@contextlib.contextmanager
def capturing_for(*, nopython: bool) -> Iterator[None]:
    """While active, the frame that this thread translates must be one graph, or need not."""
    before, _translation.must_be_whole = _translation.must_be_whole, nopython
    try:
        yield
    finally:
        _translation.must_be_whole = before


def captures_unbacked_symbols() -> bool:
    """Whether data-dependent numbers or sizes are captured."""
    return captures_scalar_outputs() or captures_dynamic_output_shapes()


def captures_scalar_outputs() -> bool:
    """Whether data-dependent numbers (`x.item()`) are captured."""
    return config.capture_scalar_outputs or _translation.must_be_whole


def captures_dynamic_output_shapes() -> bool:
    """Whether operators with a data-dependent output shape (`nonzero`) are captured."""
    return config.capture_dynamic_output_shape_ops or config.dynamic_shapes is True or _translation.must_be_whole


class UnboundSymbol(Exception):
    """An operator made an unbacked symbol that its result does not contain, so no node can be read for its value.

    `torch.arange(0, t, 2)` reads the number in a tensor itself, and its result has a size that is computed from it.
    """


def unbacked_bindings(env: Any, value: Any) -> Any:
    """Where an operator's result contains new unbacked symbols: `unbacked_bindings` of the node. Raises UnboundSymbol."""
    if not env.pending_fresh_unbacked_symbols:
        return None
    from torch.fx.experimental.symbolic_shapes import PendingUnbackedSymbolNotFound, compute_unbacked_bindings

    try:
        return compute_unbacked_bindings(env, value)
    except PendingUnbackedSymbolNotFound as error:
        raise UnboundSymbol from error


def evaluate_bool(value: Any) -> bool | None:
    """bool(value) of a symbolic number; None if it depends on the graph's data."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    try:
        return bool(value)  # ShapeEnv adds the guard
    except GuardOnDataDependentSymNode:
        return None


@contextlib.contextmanager
def running_operator(env: Any) -> Iterator[None]:
    """While active, decisions about a data-dependent size are attributed to an operator (size_oblivious.py)."""
    if env is None or not env.is_size_oblivious:
        yield
        return
    before, env.runs_operator = env.runs_operator, True
    try:
        yield
    finally:
        env.runs_operator = before
