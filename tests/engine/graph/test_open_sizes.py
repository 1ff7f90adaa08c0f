"""engine/graph/open_sizes.py: what operators are told of sizes that only data told, and whether it holds."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynexplore.engine.graph.builder import GraphBuilder
from dynexplore.engine.graph.open_sizes import BackendQuestions, serves_this_call, try_guesses
from dynexplore.engine.graph.shapes import dynamic_context, make_shape_env
from dynexplore.engine.provenance.sources import LocalSource

pytestmark = pytest.mark.plain("works on a graph that is made by hand, without a frame")


def _with_rows(count: int, method: str) -> GraphBuilder:
    """A graph of one method of a tensor of so many rows, a number that only data told."""
    builder = GraphBuilder(lambda: make_shape_env(opens_sizes=True))
    builder.need_shape_env()
    source = LocalSource("x", 0)
    source.size_of_data = True
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
        try_guesses(builder)
        assert serves_this_call(builder) and not _guards(builder)


def test_a_size_for_which_the_guess_is_wrong_is_excluded() -> None:
    """`squeeze` takes the first dimension away where it is 1, and nowhere else."""
    builder = _with_rows(5, "squeeze")
    try_guesses(builder)
    assert serves_this_call(builder) and len(_guards(builder)) == 1 and ", 1)" in _guards(builder)[0]
    builder = _with_rows(1, "squeeze")
    try_guesses(builder)
    assert not serves_this_call(builder)


def test_what_a_backend_asks_is_noted() -> None:
    """A question makes a guard; from then on it is known that this backend asks."""
    builder, questions = _with_rows(5, "cos"), BackendQuestions()
    env: Any = builder.shape_env
    questions.note(env, len(env.guards))
    assert questions.asks_nothing and not questions.asks
    (size,) = env.open_sizes
    env.evaluate_expr(size > 3)
    questions.note(env, 0)
    assert questions.asks
