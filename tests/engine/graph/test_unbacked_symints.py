"""engine/graph/unbacked_symints.py: symbols that no value stands behind."""

from __future__ import annotations

import pytest
import torch

from dynexplore.engine.config import config
from dynexplore.engine.graph.unbacked_symints import (
    captures_dynamic_output_shapes,
    captures_scalar_outputs,
    captures_unbacked_symbols,
    capturing_for,
    evaluate_bool,
    unbacked_bindings,
)
from dynexplore.engine.specialization.shape_env import make_shape_env

pytestmark = pytest.mark.plain("works on operators and modes by itself, without a frame")


def test_only_when_asked_for() -> None:
    """Either option brings them in."""
    assert not captures_unbacked_symbols()
    for option in ("capture_scalar_outputs", "capture_dynamic_output_shape_ops"):
        with config.patch({option: True}):
            assert captures_unbacked_symbols()


def test_for_a_whole_graph() -> None:
    """Both are on while a frame is translated that must be one graph, and not for another one that begins meanwhile."""
    with capturing_for(nopython=True):
        assert captures_scalar_outputs() and captures_dynamic_output_shapes()
        with capturing_for(nopython=False):
            assert not captures_unbacked_symbols()
        assert captures_unbacked_symbols()
    assert not captures_unbacked_symbols()


def test_what_is_known_of_a_new_symbol() -> None:
    """Nothing, until something is promised; where it stands in a result is told once."""
    with config.patch(capture_scalar_outputs=True):
        env = make_shape_env()
    symbol = env.create_unbacked_symint()
    assert unbacked_bindings(env, symbol) and not unbacked_bindings(env, symbol)
    assert evaluate_bool(symbol > 3) is None
    torch._check(symbol > 3)
    assert evaluate_bool(symbol > 3) is True and evaluate_bool(symbol > 2) is True
