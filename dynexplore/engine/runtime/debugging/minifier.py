"""The smallest graph that still fails: from a program that goes wrong to a `repro.py` of a few lines.

The idea: a compiler's bug shows in a graph of hundreds of operators, and one or two of them are to blame. The call is
captured, each graph kept with the real inputs that it got; the first whose compiled form raises or gives something else
is cut down, as long as it fails in the same way. `after="dynamo"` cuts the captured graph; `after="aot"` goes through
AOTAutograd first and cuts a forward or backward graph of aten operators, for what stands behind it (Inductor).

The cutting is torch's own FX minifier (torch/_functorch/fx_minifier.py): halves of the graph are left out or become
inputs, again and again.

In: a function and its arguments, a backend, and what counts as failing. Out: `Minified`, with graph, inputs, and the
text of a program that fails alone.

torch/_dynamo/debug_utils.py, torch/_dynamo/repro/after_dynamo.py and after_aot.py do the same job.
"""

from __future__ import annotations

import contextlib
import copy
import html
import importlib
import io
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.fx
from torch._functorch import fx_minifier

from dynexplore.engine import native
from dynexplore.engine.config import config
from dynexplore.engine.errors import DynexploreError
from dynexplore.engine.runtime import optimized
from dynexplore.engine.runtime.api import make_store
from dynexplore.engine.runtime.backends import CompilerFn, resolve
from dynexplore.engine.runtime.debugging.accuracy import first_difference
from dynexplore.engine.runtime.debugging.repro_file import ReproFile, can_stand_alone
from dynexplore.engine.runtime.debugging.starting_state import StartingState, copy_of_tensor
from dynexplore.engine.runtime.stores import Options

After = Literal["dynamo", "aot"]
Predicate = Callable[[torch.fx.GraphModule, Sequence[Any]], bool]
Compiler = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]


class NothingFails(DynexploreError):
    """Every graph of the call is right under this backend: there is nothing to make small."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How a graph fails: "raises" with the exception's type, or "differs"; `words` tell the first time it was seen."""

    kind: str
    error: str = ""
    words: str = ""

    def is_like(self, other: Failure | None) -> bool:
        """Whether it is the same failure, in another graph."""
        return other is not None and (self.kind, self.error) == (other.kind, other.error)


@dataclass(frozen=True, slots=True)
class Minified:
    """The outcome of `minify`. `print` it for both graphs; `write(path)` for a program that fails alone.

    `before` and `graph` are the failing graph as it was found and made small, `inputs` the tensors of the small one,
    `failure` how it fails, `repro` the text of the program.
    """

    before: torch.fx.GraphModule
    graph: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    failure: Failure
    repro: str

    def write(self, path: str | Path = "repro.py") -> Path:
        """Write the program. Returns its path."""
        written = Path(path)
        written.write_text(self.repro, encoding="utf-8")
        return written

    def __str__(self) -> str:
        return "\n".join(
            (
                f"{operators(self.before)} operators became {operators(self.graph)}; it {self.failure.words}",
                "",
                "before:",
                _code(self.before),
                "after:",
                _code(self.graph),
            )
        )

    def _repr_html_(self) -> str:
        title, _, _ = str(self).partition("\n")
        texts = [html.escape(_code(one)) for one in (self.before, self.graph)]
        cells = "".join(f"<td style='vertical-align:top'><pre>{text}</pre></td>" for text in texts)
        return f"<p>{html.escape(title)}</p><table><tr><th>before</th><th>after</th></tr><tr>{cells}</tr></table>"


def operators(graph: torch.fx.GraphModule) -> int:
    """How many operators a graph calls."""
    return sum(node.op.startswith("call_") for node in graph.graph.nodes)


def _code(graph: torch.fx.GraphModule) -> str:
    return str(graph.code).strip("\n")


def minify(
    fn: Callable[..., Any],
    /,
    *args: Any,
    backend: str | CompilerFn = "inductor",
    after: After = "dynamo",
    fails: Predicate | None = None,
    tolerance: float | None = None,
    **kwargs: Any,
) -> Minified:
    """Find the smallest graph that still fails under a backend, and write the program that shows it.

    Args: fn: a function, bound method or module, called once with copies of the other arguments. backend: the one that
    fails, by name or as a callable; with after="aot" a callable gets graphs of aten operators. after: what is cut:
    "dynamo": the captured graph; "aot": the forward or backward graph that AOTAutograd makes of it. fails: `(graph,
    inputs) -> bool`, what counts as failing; None: compiling or running raises, or values or gradients differ from the
    graph run as it is. tolerance: how far they may be apart, relative to the largest element.

    Raises NothingFails when no graph of the call fails; ValueError for another `after`.

    >>> def no_sine(graph, inputs):
    ...     assert "sin" not in graph.code
    ...     return graph.forward
    >>> small = minify(lambda x: (x + 1).sin() * 2, torch.ones(3), backend=no_sine)
    >>> operators(small.before), operators(small.graph)
    (3, 1)
    """
    if after not in ("dynamo", "aot"):
        raise ValueError(f"after is 'dynamo' or 'aot', not {after!r}")
    seen = _graphs_of_call(fn, args, kwargs)
    compiler: Compiler = resolve(backend)
    if after == "aot":
        seen = [inner for graph, inputs in seen for inner in _graphs_behind_aot(graph, inputs, backend)]
        compiler = _inner_compiler(backend)
    for graph, inputs in seen:
        failure = failure_of(graph, inputs, compiler, fails, tolerance)
        if failure is not None:
            return shrink(graph, inputs, compiler, failure, backend=backend, after=after, fails=fails, tolerance=tolerance)
    raise NothingFails(f"none of the {len(seen)} graphs of this call fails under {backend!r} (after={after!r})")


def shrink(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    compiler: Compiler,
    failure: Failure,
    *,
    backend: str | CompilerFn,
    after: After = "dynamo",
    fails: Predicate | None = None,
    tolerance: float | None = None,
) -> Minified:
    """Cut a failing graph down while it fails in the same way."""

    def still_fails(smaller: torch.fx.GraphModule, smaller_inputs: Sequence[Any]) -> bool:
        return failure.is_like(failure_of(smaller, smaller_inputs, compiler, fails, tolerance))

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), _quiet():
        small, left = fx_minifier.minifier(_copy(graph), _copies(inputs), still_fails, dump_state=lambda *_: None)
    text = _program(small, left, failure, backend, after, fails, tolerance)
    return Minified(graph, small, tuple(left), failure, text)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What a backend logs about each of a hundred graphs helps nobody."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _program(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    failure: Failure,
    backend: str | CompilerFn,
    after: After,
    fails: Predicate | None,
    tolerance: float | None,
) -> str:
    """The text of the repro: with random inputs where the failure does not depend on them, else with these."""
    file = ReproFile(graph, inputs, backend=backend, after=after, failure=failure.words, tolerance=tolerance)
    if fails is None and can_stand_alone(backend):
        compiler = _inner_compiler(backend) if after == "aot" else resolve(backend)
        if failure.is_like(failure_of(graph, file.random_inputs(), compiler, None, tolerance)):
            return file.text(exact_inputs=False)
    return file.text(exact_inputs=True)


# -- does it fail? ---------------------------------------------------------------------------------------------------


def failure_of(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    compiler: Compiler,
    fails: Predicate | None = None,
    tolerance: float | None = None,
) -> Failure | None:
    """How a graph fails under a compiler; None when it is right."""
    if fails is not None:
        return Failure("fails", words="fails as asked") if fails(_copy(graph), _copies(inputs)) else None
    try:
        expected = _run(graph, inputs)
    except Exception:  # a cut may leave a graph that makes no sense: that is not the failure
        return None
    try:
        with _quiet():
            compiled = compiler(_copy(graph), _copies(inputs))
            found = _run(compiled, inputs)
    except Exception as error:  # whatever the compiler raises is the finding
        return Failure("raises", type(error).__name__, f"raises {type(error).__name__}: {_first_line(error)}")
    difference = first_difference(expected, found, tolerance)
    return Failure("differs", words=f"differs from the graph run as it is: {difference}") if difference is not None else None


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "")


def _run(compiled: Any, inputs: Sequence[Any]) -> Any:
    """Outputs, inputs afterwards, and gradients: of the inputs, with a weight for each output."""
    copies = _copies(inputs)
    torch.manual_seed(0)
    outer = native.enter(None)
    try:
        outputs = compiled(*copies)
        outputs = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
        sources = [one for one in outputs if isinstance(one, torch.Tensor) and one.requires_grad and one.grad_fn is not None]
        if sources:
            torch.autograd.backward(sources, [torch.full_like(one, 0.5 + index) for index, one in enumerate(sources)])
    finally:
        native.leave(outer)
    gradients = [one.grad if isinstance(one, torch.Tensor) and one.is_leaf else None for one in copies]
    return {"output": outputs, "input": copies, "gradient": gradients}


def _copy(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph that shares parameters and buffers with it: a deep copy would cut its gradients off."""
    return torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))


def _copies(inputs: Sequence[Any]) -> list[Any]:
    return [copy_of_tensor(one) if isinstance(one, torch.Tensor) else one for one in inputs]


# -- the graphs of a call --------------------------------------------------------------------------------------------

Seen = list[tuple[torch.fx.GraphModule, list[Any]]]


class _Keeping:
    """A backend that runs graphs as they are, and keeps each with the inputs of its first run."""

    def __init__(self) -> None:
        self.seen: Seen = []

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        kept = _copy(graph)
        is_first = True

        def run(*inputs: Any) -> Any:
            nonlocal is_first
            if is_first:
                is_first = False
                self.seen.append((kept, _copies(inputs)))
            return graph(*inputs)

        return run


def _graphs_of_call(fn: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Seen:
    start = StartingState(fn, args, kwargs)
    keeping = _Keeping()
    own_args, own_kwargs = start.fresh()
    outer = native.enter(None)  # of nested regions the outer wins: be in none
    try:
        with config.patch(log_level="ERROR"):
            optimized.wrap(fn, make_store(resolve(keeping), Options(dynamic=False)).region)(*own_args, **own_kwargs)
    finally:
        native.leave(outer)
        start.fresh()
    return keeping.seen


def _graphs_behind_aot(graph: torch.fx.GraphModule, inputs: Sequence[Any], backend: str | CompilerFn) -> Seen:
    """The forward graph, and the backward graph if there is one, that AOTAutograd makes of a captured graph."""
    common = importlib.import_module("torch._dynamo.backends.common")
    aot = importlib.import_module("torch._functorch.aot_autograd")
    keeping = _Keeping()
    boxed = [aot.make_boxed_compiler(keeping)] * 2
    decompositions = importlib.import_module("torch._inductor.decomposition").select_decomp_table() if backend == "inductor" else {}
    through = common.aot_autograd(fw_compiler=boxed[0], bw_compiler=boxed[1], decompositions=decompositions)
    _run(through(_copy(graph), _copies(inputs)), inputs)
    for _, given in keeping.seen:  # these graphs run below autograd
        for one in given:
            if isinstance(one, torch.Tensor):
                one.requires_grad_(False)
    return keeping.seen


def _inner_compiler(backend: str | CompilerFn) -> Compiler:
    """What stands behind AOTAutograd: Inductor's own part of it, or the callable."""
    if backend == "inductor":
        found: Compiler = importlib.import_module("torch._inductor.compile_fx").compile_fx_inner
        return lambda graph, inputs: _unboxed(found(graph, inputs))
    if isinstance(backend, str):
        raise ValueError(f"after='aot' takes backend='inductor' or a callable for aten graphs, not {backend!r}")
    return resolve(backend)


def _unboxed(compiled: Any) -> Callable[..., Any]:
    """Inductor's compiled graphs take one list of inputs, and empty it."""
    return (lambda *inputs: compiled(list(inputs))) if getattr(compiled, "_boxed_call", False) else compiled
