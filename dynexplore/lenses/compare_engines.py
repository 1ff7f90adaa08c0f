"""compare_engines: one call under torch.compile and under this engine, compared step by step.

The idea: `compare` shows what each capture method produces; here the two methods that read bytecode are recorded while they
work. Each makes the same call, from the same state, in this process. torch.compile's existing cache entries for the program are
preserved, because the function is compiled separately.

In: a function, bound method or module, and arguments. Out: `TwoCaptures`: the first divergence, and both recordings. PyTorch's
counterpart: none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynexplore.engine.runtime import optimized
from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.recording.engines import DYNEXPLORE, TORCH
from dynexplore.session import torch_compiled
from dynexplore.session.explain import explain
from dynexplore.two_engines.two_captures import TwoCaptures


def compare_engines(fn: Callable[..., Any], /, *args: Any, dynamic: bool | None = None, **kwargs: Any) -> TwoCaptures:
    """Capture `fn(*args, **kwargs)` with torch.compile and with this engine, and find the first step, node or guard that differs.

    The call runs twice, each time with the same arguments, modules and random state, so its output appears twice. An exception
    raised by the call propagates to the caller. dynamic: as in `optimize`, for both.

    >>> import torch
    >>> captures = compare_engines(lambda x: x.abs() + 1, torch.ones(2))
    >>> captures.has_same_graphs, [len(recording.graphs) for recording in captures.recordings.values()]
    (True, [1, 1])
    """
    target = torch_compiled.original_of(fn)
    if not callable(target):
        raise TypeError(f"compare_engines takes a function, a bound method or an nn.Module, not {type(fn).__name__}")
    start = CallSnapshot(target, args, kwargs)
    try:
        their_args, their_kwargs = start.fresh()
        torch_explanation = explain(fn, engine=TORCH, dynamic=dynamic)(*their_args, **their_kwargs)
        our_args, our_kwargs = start.fresh()
        engine_explanation = explain(target, engine=DYNEXPLORE, dynamic=dynamic)(*our_args, **our_kwargs)
    finally:
        start.fresh()
    return TwoCaptures(
        torch_explanation.recording, engine_explanation.recording, torch_explanation.unseen, optimized.name_of(target)
    )
