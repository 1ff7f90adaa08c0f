"""What-if, against what really happens: a prediction is the outcome of the call that is then really made."""

from __future__ import annotations

import random
from typing import Any

import numpy
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dynexplore
from dynexplore.views import cache_timeline

# few values each, so that calls come again and hit
DTYPES = (torch.float32, torch.float32, torch.float32, torch.float64, torch.int64, torch.complex64)
sizes = st.sampled_from([2, 3, 4, 4, 5, 1, 0])
tensors = st.builds(
    lambda shape, dtype, grad, turned: _tensor(tuple(shape), dtype, grad, turned),
    st.one_of(st.tuples(sizes, sizes), st.tuples(sizes, sizes), st.lists(sizes, max_size=3)),
    st.sampled_from(DTYPES),
    st.sampled_from([False, False, True]),
    st.sampled_from([False, False, True]),
)
numbers = st.one_of(st.integers(-3, 5), st.sampled_from([0.0, -0.0, 0.5, 2.5, float("nan")]), st.booleans())
calls = st.tuples(
    tensors,
    st.one_of(st.just(2), st.just(3), numbers),
    st.sampled_from(["sin", "sin", "relu", "none of them"]),
    st.one_of(st.none(), st.none(), st.lists(st.one_of(tensors, numbers), max_size=2)),
    st.one_of(st.just(2), st.just(3), st.just("text"), tensors),
)


def _tensor(shape: tuple[int, ...], dtype: torch.dtype, grad: bool, turned: bool) -> torch.Tensor:
    made = torch.ones(shape, dtype=dtype)
    if turned and len(shape) == 2:
        made = made.t()
    return made.requires_grad_(grad and (dtype.is_floating_point or dtype.is_complex))


def program(x: torch.Tensor, n: Any = 2, mode: str = "sin", more: list[Any] | None = None, late: Any = 2) -> Any:
    y = x * n
    if mode == "relu":
        y = torch.where(y.abs() > 1, y, y + 1)
    elif mode == "sin":
        y = y.sin()
    if x.shape and x.shape[0] > 3:
        y = y + 1
    for item in more or ():
        y = y + (item.sum() if isinstance(item, torch.Tensor) else item)
    dynexplore.graph_break()
    y = y + (late.sum() if isinstance(late, torch.Tensor) else len(late) if isinstance(late, str) else late)
    dynexplore.graph_break()
    return y + n


def _everything(session: Any) -> list[Any]:
    """What asking must not change: entries, their hits, counters, random numbers, what was recorded."""
    entries = [(id(entry), entry.hits, entry.valid) for entry in session.entries]
    caches = [(id(cache.code), len(cache.entries), cache.skip) for cache in session._store.native.caches()]
    numpy_state = numpy.random.get_state()
    states = torch.get_rng_state().tolist(), random.getstate(), [str(part) for part in numpy_state]
    return [entries, caches, dynexplore.counters.snapshot(), states, len(session.recording)]


def _outcome(recording: Any) -> tuple[str, int]:
    """What the latest call began with."""
    frame = cache_timeline.calls(recording)[-1].frames[0]
    return frame.outcome, frame.entry if frame.outcome == "hit" else -1


@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
@given(st.lists(calls, min_size=8, max_size=8), st.sampled_from([None, None, True, False]))
def test_a_prediction_is_what_then_happens(inputs: list[Any], dynamic: bool | None) -> None:
    """Eight calls into one cache (96 generated inputs): outcome, entry, graph and guards are foretold; asking changes nothing."""
    with dynexplore.config.patch(cache_size_limit=4, log_level="ERROR"):  # that the limit is reached is one of the outcomes
        _foretell_and_call(inputs, dynamic)


def test_what_follows_a_break_is_foretold_where_it_can_be() -> None:
    """Calls that hit, and whose resume functions do not: what is told of them is what happens, and it is told of most."""
    x = torch.ones(2, 3)
    later = [2, 2, "text", torch.ones(3), torch.ones(3), torch.ones(4), "text", 3, torch.ones(3).double(), 2, "word", 4, None]
    with dynexplore.config.patch(cache_size_limit=4, log_level="ERROR"):
        told = _foretell_and_call([(x, 2, "sin", None, late) for late in later], False)
    assert [fate for call in told for fate in call] == ["recompile"] * 3 + ["limit reached"] * 5


def _foretell_and_call(inputs: list[Any], dynamic: bool | None) -> list[list[str]]:
    """What was told of resume functions, for each call that hits; it is held against the real call."""
    told = []
    explanation = dynexplore.explain(program, _tensor((2, 3), torch.float32, False, False), dynamic=dynamic)
    session = explanation.session
    for given_call in inputs:
        before = _everything(session)
        foretold = session.predict(*given_call)
        assert _everything(session) == before
        try:
            explanation.call(*given_call)
        except Exception:  # what the program itself raises: the frame was looked at before it ran
            pass
        assert (foretold.outcome, foretold.entry) == _outcome(explanation.recording), foretold
        _same_capture(foretold, explanation.recording)
        if foretold.outcome == "hit":
            told.append(_what_follows(foretold, explanation.recording))
    return told


def _what_follows(foretold: Any, recording: Any) -> list[str]:
    """What is sure of resume functions is what came of their frames, where the call got there; the words say what is not."""
    frames = {frame.function.rpartition(".")[2]: frame.outcome for frame in cache_timeline.calls(recording)[-1].frames[1:]}
    sure = [one for one in foretold.then if one.fate != "not known"]
    for one in sure:
        assert frames.get(one.function, one.fate) == one.fate, (foretold, frames)
    assert sure or "the rest is unknown" in str(foretold)
    return [one.fate for one in sure if one.function in frames]


def _same_capture(foretold: Any, recording: Any) -> None:
    frame = cache_timeline.calls(recording)[-1].frames[0].frame
    if foretold.outcome != "recompile":
        return
    graphs = [[(n.op, n.name, n.target, n.args, n.dtype, n.shape) for n in graph.nodes] for graph in foretold.graphs]
    real = [graph for graph in recording.graphs if graph.frame == frame]
    assert graphs == [[(n.op, n.name, n.target, n.args, n.dtype, n.shape) for n in graph.nodes] for graph in real]
    guards = [(guard.source, guard.kind, guard.expected) for guard in recording.guards if guard.frame == frame]
    assert [(guard.source, guard.kind, guard.expected) for guard in foretold.guards] == guards
    assert [(b.kind, b.offset) for b in foretold.breaks] == [(b.kind, b.offset) for b in recording.breaks if b.frame == frame]
