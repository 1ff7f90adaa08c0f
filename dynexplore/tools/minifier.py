"""Minifier: the smallest graph that still fails, from a failing program to a `repro.py` of a few lines.

The idea: a compiler bug shows up in a graph of hundreds of operators, and one or two of them cause it. The call is captured, and
each graph is kept with its real inputs; the first whose compiled form raises or gives a different result is reduced (shrinking.py),
as long as it fails in the same way (graph_failure.py). `after="dynamo"` reduces the captured graph; `after="aot"` goes through
AOTAutograd first (behind_aot.py) and reduces a forward or backward graph of ATen operators, for bugs in later layers (Inductor).

In: a function and its arguments, a backend, and a failure criterion. Out: `Minified`.

PyTorch's counterpart: `dump_to_minify_after_dynamo` in torch/_dynamo/repro/after_dynamo.py, `dump_to_minify` in
torch/_dynamo/repro/after_aot.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynexplore.engine import native
from dynexplore.engine.config import config
from dynexplore.engine.errors import DynexploreError
from dynexplore.engine.runtime import optimized
from dynexplore.engine.runtime.api import make_store
from dynexplore.engine.runtime.backends import CompilerFn, resolve
from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.engine.runtime.stores import Options
from dynexplore.recording.engines import DYNEXPLORE
from dynexplore.session import torch_compiled
from dynexplore.tools.behind_aot import Keeping, Seen, graphs_behind_aot, inner_compiler
from dynexplore.tools.graph_failure import Compiler, Predicate, failure_of
from dynexplore.tools.shrinking import After, Minified, operators, shrink

__all__ = ["After", "Minified", "NothingFails", "minify", "operators"]


class NothingFails(DynexploreError):
    """Every graph of the call is right under this backend: there is nothing to minimize."""


def minify(
    fn: Callable[..., Any],
    /,
    *args: Any,
    backend: str | CompilerFn | None = None,
    after: After = "dynamo",
    fails: Predicate | None = None,
    tolerance: float | None = None,
    engine: str | None = None,
    dynamic: bool | None = None,
    calls: Sequence[Any] = (),
    **kwargs: Any,
) -> Minified:
    """Find the smallest graph that still fails under a backend, and write the program that reproduces it.

    Args: fn: a function, bound method or module, called once with copies of the other arguments. backend: the failing backend, by
    name or as a callable; by default the one that fn is compiled with, or "inductor". With after="aot", a callable receives
    graphs of ATen operators. after: the graph to reduce: "dynamo" for the captured graph, "aot" for the forward or backward graph
    that AOTAutograd creates from it. fails: `(graph, inputs) -> bool`, the failure criterion; None: compiling or running raises,
    or values or gradients differ from the uncompiled graph. tolerance: the allowed difference, relative to the largest element.
    engine: whose graphs are tried: "dynexplore" or "torch.compile"; None: torch.compile if fn is compiled by it, else this
    engine. dynamic: True: graphs with symbolic sizes, which the backend gets with the numbers of the call; False: none; None: the
    setting that fn was compiled with, else False. calls: further calls whose graphs are tried, each a tuple of arguments or the
    one argument.

    Raises NothingFails if no graph of the call fails; ValueError for another `after`.

    >>> def no_sine(graph, inputs):
    ...     assert "sin" not in graph.code
    ...     return graph.forward
    >>> small = minify(lambda x: (x + 1).sin() * 2, torch.ones(3), backend=no_sine)
    >>> operators(small.before), operators(small.graph)
    (3, 1)
    """
    if after not in ("dynamo", "aot"):
        raise ValueError(f"after must be 'dynamo' or 'aot', not {after!r}")
    chosen_engine, backend = torch_compiled.chosen_by_parts(engine, fn), torch_compiled.suspected(backend, fn)
    dynamic = bool(torch_compiled.dynamic_of(fn) if dynamic is None else dynamic)
    inputs_of_calls = [(args, kwargs), *((tuple(call) if isinstance(call, tuple | list) else (call,), {}) for call in calls)]
    with torch_compiled.uncompiled(fn):
        seen = _graphs_of_calls(fn, inputs_of_calls, chosen_engine, dynamic)
    compiler: Compiler = resolve(backend)
    if after == "aot":
        seen = [inner for graph, inputs in seen for inner in graphs_behind_aot(graph, inputs, backend)]
        compiler = inner_compiler(backend)
    for graph, inputs in seen:
        failure = failure_of(graph, inputs, compiler, fails, tolerance)
        if failure is not None:
            return shrink(graph, inputs, compiler, failure, backend=backend, after=after, fails=fails, tolerance=tolerance)
    whose = "" if chosen_engine == DYNEXPLORE else f"as {chosen_engine} captures it, "
    how = f"after={after!r}, dynamic={dynamic}"
    raise NothingFails(f"{whose}{_none_fails(len(seen), len(inputs_of_calls))} under {_named(backend)} ({how})")


def _graphs_of_calls(fn: Any, calls: Sequence[tuple[Sequence[Any], dict[str, Any]]], engine: str, dynamic: bool) -> Seen:
    """The graphs of these calls of one compiled function, each with the inputs of its first run."""
    inside = torch_compiled.original_of(fn)
    starts = [CallSnapshot(inside, *call) for call in calls]
    keeping = Keeping()
    if engine == DYNEXPLORE:
        called = optimized.wrap(inside, make_store(resolve(keeping), Options(dynamic=dynamic)).region)
    else:
        called = torch_compiled.compiled_anew(fn, keeping, dynamic=dynamic)
    outer = native.enter(None)  # of nested regions the outermost wins: leave all of them
    try:
        with config.patch(log_level="ERROR"):
            for start in starts:
                own_args, own_kwargs = start.fresh()
                called(*own_args, **own_kwargs)
    finally:
        native.leave(outer)
        starts[0].fresh()
    return keeping.seen


def _named(backend: str | CompilerFn) -> str:
    return repr(backend) if isinstance(backend, str) else resolve(backend).name


def _none_fails(count: int, calls: int) -> str:
    of = "this call" if calls == 1 else f"these {calls} calls"
    has = "has" if calls == 1 else "have"
    return {0: f"{of} {has} no graph that could fail", 1: f"the graph of {of} does not fail"}.get(
        count, f"none of the {count} graphs of {of} fails"
    )
