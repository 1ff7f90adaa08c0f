"""Unbacked symints: symbols such as `u0` for data-dependent numbers and sizes, of `x.item()` or the length of `nonzero(x)`.

The idea: with `config.capture_scalar_outputs` and `config.capture_dynamic_output_shape_ops` (for sizes also with
`config.dynamic_shapes = True`) the graph continues after such a number or size. ShapeEnv has no hint for its symbol, so no
decision can depend on it while tracing.

In: ShapeEnv, results of operators. Out: whether unbacked symbols are enabled, where an operator's result contains new ones, and
the truth of a condition that ShapeEnv can decide. PyTorch's counterpart: torch/fx/experimental/symbolic_shapes.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from dynexplore.engine.config import config


def captures_unbacked_symbols() -> bool:
    """Whether the configuration captures data-dependent numbers or sizes."""
    return config.capture_scalar_outputs or captures_dynamic_output_shapes()


def captures_dynamic_output_shapes() -> bool:
    """Whether operators with a data-dependent output shape (`nonzero`) are captured."""
    return config.capture_dynamic_output_shape_ops or config.dynamic_shapes is True


def unbacked_bindings(env: Any, value: Any) -> Any:
    """Where an operator's result contains new unbacked symbols: `unbacked_bindings` of the node."""
    from torch.fx.experimental.symbolic_shapes import compute_unbacked_bindings

    return compute_unbacked_bindings(env, value) if env.pending_fresh_unbacked_symbols else None


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
