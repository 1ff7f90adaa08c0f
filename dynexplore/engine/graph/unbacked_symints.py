"""Unbacked symints: symbols such as `u0` for numbers and sizes that depend on data, of `x.item()` or of the length of `nonzero(x)`.

Under `config.capture_scalar_outputs` and `config.capture_dynamic_output_shape_ops` (for sizes also under
`config.dynamic_shapes = True`) the graph continues after such a number or size. ShapeEnv has no hint for its symbol, so no decision
can be made with it while tracing.

In: ShapeEnv, results of operators. Out: whether unbacked symbols are enabled, where an operator's result contains new ones, and the
truth of one that ShapeEnv can decide. torch/fx/experimental/symbolic_shapes.py does the same job.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from dynexplore.engine.config import config


def captures_unbacked_symbols() -> bool:
    """Whether the configuration captures numbers or sizes that depend on data."""
    return config.capture_scalar_outputs or captures_dynamic_output_shapes()


def captures_dynamic_output_shapes() -> bool:
    """Whether operators whose output shape depends on data (`nonzero`) are captured."""
    return config.capture_dynamic_output_shape_ops or config.dynamic_shapes is True


def unbacked_bindings(env: Any, value: Any) -> Any:
    """Where an operator's result contains new unbacked symbols: `unbacked_bindings` of the node."""
    from torch.fx.experimental.symbolic_shapes import compute_unbacked_bindings

    return compute_unbacked_bindings(env, value) if env.pending_fresh_unbacked_symbols else None


def evaluate_bool(value: Any) -> bool | None:
    """bool(value) of a symbolic number; None where it depends on the data of the graph."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    try:
        return bool(value)  # ShapeEnv adds the guard
    except GuardOnDataDependentSymNode:
        return None


@contextlib.contextmanager
def running_operator(env: Any) -> Iterator[None]:
    """Inside, what is asked of a size that depends on data is asked by an operator (size_oblivious.py)."""
    if env is None or not env.is_size_oblivious:
        yield
        return
    before, env.runs_operator = env.runs_operator, True
    try:
        yield
    finally:
        env.runs_operator = before
