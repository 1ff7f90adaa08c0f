"""Symbols for what only the data of the graph can tell: `u0`, of `x.item()` or of the length of `nonzero(x)`.

The idea: under `config.capture_scalar_outputs` and `config.capture_dynamic_output_shape_ops` (sizes also under
`config.dynamic_shapes = True`) the graph goes on past such a number or size. ShapeEnv has no value for its symbol, so no decision
can be made with it while tracing.

In: ShapeEnv, results of operators. Out: whether such symbols are wanted, where new ones stand, what is known of them.
torch/fx/experimental/symbolic_shapes.py calls them unbacked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from dynexplore.engine.config import config


def has_data_dependent_symbols() -> bool:
    """Whether the configuration wants numbers and sizes in the graph that only its data can tell."""
    return config.capture_scalar_outputs or takes_shapes_of_data()


def takes_shapes_of_data() -> bool:
    """Whether operators whose result has a shape that only the data can tell (`nonzero`) are taken into the graph."""
    return config.capture_dynamic_output_shape_ops or config.dynamic_shapes is True


def new_symbols(env: Any, value: Any) -> Any:
    """Where the symbols that an operator has just made stand in its result: what a node keeps as `unbacked_bindings`."""
    from torch.fx.experimental.symbolic_shapes import compute_unbacked_bindings

    return compute_unbacked_bindings(env, value) if env.pending_fresh_unbacked_symbols else None


def known_bool(value: Any) -> bool | None:
    """bool(value) of a symbolic number; None where only the data of the graph can tell."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    try:
        return bool(value)  # ShapeEnv notes the guard
    except GuardOnDataDependentSymNode:
        return None


@contextlib.contextmanager
def asked_by_operators(env: Any) -> Iterator[None]:
    """Inside, whatever is asked of a size that only data told is asked by an operator (open_sizes.py)."""
    if env is None or not env.opens_sizes:
        yield
        return
    before, env.is_operator_asking = env.is_operator_asking, True
    try:
        yield
    finally:
        env.is_operator_asking = before
