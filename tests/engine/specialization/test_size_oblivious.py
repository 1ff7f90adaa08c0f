"""engine/specialization/size_oblivious.py: what operators are told of sizes that only data told, and whether it holds."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynexplore.engine.graph.builder import GraphBuilder
from dynexplore.engine.provenance.sources import LocalSource
from dynexplore.engine.specialization.shape_env import dynamic_context, make_shape_env
from dynexplore.engine.specialization.size_oblivious import BackendSizeGuards, guards_admit_current_hints, validate_size_oblivious

pytestmark = pytest.mark.plain("works on a graph that is made by hand, without a frame")


def _with_rows(count: int, method: str) -> GraphBuilder:
    """A graph of one method of a tensor of so many rows, a number that only data told."""
    builder = GraphBuilder(lambda: make_shape_env(depends_on_data=lambda source: True, is_size_oblivious=True))
    builder.ensure_shape_env()
    source = LocalSource("x", 0)
    rows = torch.ones(count, 4)
    node = builder.placeholder("x", source, rows, builder.fake_tensor(rows, source, dynamic_context(rows, [0])))
    builder.add("call_method", method, (node,), {}, builder.run_fake("call_method", method, (node,), {}))
    return builder


def _guards(builder: GraphBuilder) -> list[str]:
    env: Any = builder.shape_env
    return [str(guard.expr) for guard in env.guards]


def test_a_guess_that_holds_leaves_no_guard() -> None:
    """Each row's cosine is that, however many there are: none, too."""
    for count in (0, 1, 5):
        builder = _with_rows(count, "cos")
        validate_size_oblivious(builder)
        assert guards_admit_current_hints(builder) and not _guards(builder)


def test_a_size_for_which_the_guess_is_wrong_is_excluded() -> None:
    """`squeeze` takes the first dimension away where it is 1, and nowhere else."""
    builder = _with_rows(5, "squeeze")
    validate_size_oblivious(builder)
    assert guards_admit_current_hints(builder) and len(_guards(builder)) == 1 and ", 1)" in _guards(builder)[0]
    builder = _with_rows(1, "squeeze")
    validate_size_oblivious(builder)
    assert not guards_admit_current_hints(builder)


def test_what_a_backend_asks_is_noted() -> None:
    """A question makes a guard; from then on it is known that this backend asks."""
    builder, guards = _with_rows(5, "cos"), BackendSizeGuards()
    env: Any = builder.shape_env
    guards.note(env, len(env.guards))
    assert guards.leaves_sizes and not guards.guards_sizes
    (size,) = env.oblivious_sizes
    env.evaluate_expr(size > 3)
    guards.note(env, 0)
    assert guards.guards_sizes
