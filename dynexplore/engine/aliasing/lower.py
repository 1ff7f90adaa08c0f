"""Lowering: the one path from a captured graph to the callable that runs it.

The idea: whatever the backend, the steps are the same, and each is recorded:

1. lowerings: the captured graph becomes one that a backend can trace (lowerings.py, lower_indexing.py)
2. eligibility: may the backend compile it? If not, the first matching row of the table says why (eligibility.py)
3. pieces: buckets of DistributedDataParallel; partitions around nodes that no backend gets (eager_pieces.py)
4. passes: rewrites of the backend's graph (passes.py)
5. the backend
6. wrappers: around the backend's callable (wrappers.py), and around the call (translate/call_wrappers.py)

With the backend "eager", and if the backend is skipped, the graph runs as captured: steps 1, 2 and 4 are omitted, and of step 6
the wrappers for compiled graphs.

In: a finished graph, a `GraphCompiler`, the breaks that end the graph. Out: `Lowered`: the callable, what runs it and why, the
names of the passes and wrappers. Raises the compiler's exceptions. PyTorch's counterpart: `create_aot_state` and the stages after
it in torch/_functorch/aot_autograd.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from dynexplore.engine.aliasing import float_inputs
from dynexplore.engine.aliasing.aotautograd_limits import inputs_recomputed_after_mutation
from dynexplore.engine.aliasing.cse_safety import disable_cse, returns_equal_calls
from dynexplore.engine.aliasing.eager_pieces import compile_pieces, has_eager_node, pieces_of
from dynexplore.engine.aliasing.eligibility import CAPTURED, FAILED, GUARDED, RECURRENT, SPLIT, Candidate, skip_backend
from dynexplore.engine.aliasing.lower_indexing import lower_data_dependent_indexing
from dynexplore.engine.aliasing.lowerings import has_eager_nodes, lower_default_devices, mark_eager_nodes
from dynexplore.engine.aliasing.overlap_guard import InstallGuard, Varies
from dynexplore.engine.aliasing.passes import run_passes
from dynexplore.engine.aliasing.synthetic_bases import with_bases, wrap_synthetic_bases
from dynexplore.engine.aliasing.wrappers import CALL, OUTPUTS, VIEWS, Compiled, apply_wrappers, rows_of
from dynexplore.engine.counters import counters
from dynexplore.engine.errors import BackendCompilerError
from dynexplore.engine.events import SkipReason
from dynexplore.engine.graph.finished_graph import FinishedGraph, GraphInput, example_value
from dynexplore.engine.graph.partition import Piece
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.phases import timed
from dynexplore.engine.records import record

Module = torch.fx.GraphModule


class GraphCompiler(Protocol):
    """Compiles the graphs of a frame: the backend, and its observers."""

    name: str
    is_eager: bool  # it runs graphs as captured
    is_of_torch: bool  # it is one of torch's, which are built on AOTAutograd
    takes_floats_as_tensors: bool

    def buckets(self, graph: FinishedGraph) -> list[Piece]:
        """The pieces that end at the bucket boundaries of DistributedDataParallel."""

    def run_as_captured(self, module: Module) -> Compiled:
        """The graph itself, operator by operator."""

    def compile_module(
        self, module: Module, examples: Sequence[Any], name: str, fake_mode: Any, around: Sequence[AbstractContextManager[Any]]
    ) -> Compiled:
        """Compile one module with the backend inside these context managers. Raises BackendCompilerError."""

    def begin(self, graph: FinishedGraph, name: str) -> Callable[[Compiled], Compiled]:
        """Begin to compile a graph; returns the function that finishes the compiled callable."""

    def observed(self, graph: FinishedGraph, name: str, compile_graph: Callable[[], Compiled]) -> Compiled:
        """Compile a graph while observers watch."""


@record(frozen=False)
class Lowered:
    """A callable graph and how it was produced: `because` is the reason why the backend was skipped."""

    function: Compiled
    ran_by: str
    because: SkipReason | None
    passes: tuple[str, ...]
    wrappers: tuple[str, ...]
    runs_as_captured: bool


def lower(
    graph: FinishedGraph, name: str, compiler: GraphCompiler, fake_mode: Any, breaks: Sequence[GraphBreak], guard: InstallGuard,
    varies: Varies,
) -> Lowered:  # fmt: skip
    """Lower a captured graph to the callable that runs it. `breaks`: those that end it; `guard`: installs a guard; `varies`:
    whether inputs overlapped differently in an earlier call.
    """
    if not compiler.is_eager:
        mark_eager_nodes(graph, guard)
        lower_default_devices(graph)
        lower_data_dependent_indexing(graph, fake_mode)
    candidate = Candidate(graph, breaks, guard, varies)
    if not compiler.is_eager:
        for stage in (CAPTURED, GUARDED):
            skip_backend(candidate, stage)
        candidate.inputs_to_clone = () if graph.backend_skipped is not None else inputs_recomputed_after_mutation(graph)
    function = compiler.observed(graph, name, functools.partial(_compile, candidate, name, compiler, fake_mode))
    function = apply_wrappers(function, rows_of(CALL), candidate, candidate.wrappers)
    ran_by = "eager" if graph.backend_skipped is not None else compiler.name
    passes, wrappers = tuple(dict.fromkeys(candidate.passes)), tuple(dict.fromkeys(candidate.wrappers))
    return Lowered(function, ran_by, graph.backend_skipped, passes, wrappers, candidate.runs_as_captured)


@timed("backend")
def _compile(candidate: Candidate, name: str, compiler: GraphCompiler, fake_mode: Any) -> Compiled:
    """Compile the graph, or its pieces, with the backend, and wrap the result."""
    graph = candidate.graph
    candidate.passes.clear()
    candidate.wrappers.clear()
    buckets = compiler.buckets(graph)
    is_cut = compiler.is_of_torch or has_eager_nodes(graph.module)
    pieces = pieces_of(graph) if is_cut and graph.backend_skipped is None and not buckets else []
    if buckets or pieces:  # a piece is cut from the graph as captured
        skip_backend(candidate, SPLIT)
    if pieces:
        skip_backend(candidate, RECURRENT)
    candidate.runs_as_captured = compiler.is_eager or graph.backend_skipped is not None
    is_whole = not (candidate.runs_as_captured or buckets or pieces)
    module = run_passes(candidate) if is_whole else graph.module
    finish = compiler.begin(graph, name)
    compile_module = functools.partial(_compile_module, candidate, compiler, fake_mode)
    if buckets:
        function = compile_pieces(graph, buckets, name, compile_module)
    elif is_whole:
        function = _compile_whole(candidate, module, name, compiler, compile_module, fake_mode)
    elif candidate.runs_as_captured:
        function = compile_module(module, [], name)
    else:
        function = compile_pieces(graph, pieces, name, functools.partial(_compile_piece, compiler, compile_module))
    if not candidate.runs_as_captured:
        function = apply_wrappers(function, rows_of(VIEWS), candidate, candidate.wrappers)
    return finish(function)


def _compile_piece(
    compiler: GraphCompiler, compile_module: Callable[..., Compiled], module: Module, examples: list[Any], name: str
) -> Compiled:
    """Compile a piece with the backend; a piece with a node that no backend gets runs as captured."""
    return compiler.run_as_captured(module) if has_eager_node(module) else compile_module(module, examples, name)


def _compile_whole(
    candidate: Candidate, module: Module, name: str, compiler: GraphCompiler, compile_module: Callable[..., Compiled],
    fake_mode: Any,
) -> Compiled:  # fmt: skip
    """Compile a graph that is not split; after a failure that eligibility.py covers, returns the graph itself."""
    graph = candidate.graph
    try:
        examples = list(map(_fake_before_mutation, graph.inputs))
        if candidate.bases:
            candidate.passes.append("synthetic bases")
            module, examples = with_bases(module, examples, candidate.bases, fake_mode)
        function = compile_module(module, examples, name)
    except BackendCompilerError as error:
        candidate.error = error.__cause__
        skip_backend(candidate, FAILED)
        if graph.backend_skipped is None:
            raise
        candidate.passes.clear()
        candidate.runs_as_captured = True
        return compiler.run_as_captured(graph.module)
    if candidate.bases:
        function = wrap_synthetic_bases(function, graph, candidate.bases)
    return apply_wrappers(function, rows_of(OUTPUTS), candidate, candidate.wrappers)


def _compile_module(
    candidate: Candidate, compiler: GraphCompiler, fake_mode: Any, module: Module, examples: list[Any], name: str
) -> Compiled:
    """Compile a graph or piece: with its floats as the backend accepts them, without CSE where that is unsafe."""
    if candidate.runs_as_captured:
        counters["backend"][compiler.name if compiler.is_eager else "eager"] += 1
        return compiler.run_as_captured(module)
    is_unsafe = returns_equal_calls(module.graph)
    if is_unsafe:
        candidate.passes.append("no CSE")

    def compile_module(module: Module, examples: Sequence[Any], *around: AbstractContextManager[Any]) -> Compiled:
        blocks = [disable_cse(), *around] if is_unsafe else around
        return compiler.compile_module(module, examples, name, fake_mode, blocks)

    floats = float_inputs.float_indices(examples)
    if not floats:
        return compile_module(module, examples, float_inputs.without_recapture(fake_mode.shape_env))
    is_drawn = float_inputs.are_random(examples, floats)
    failure: BackendCompilerError | None = None
    for names, compile_floats in _ways_to_pass_floats(compiler, module, is_drawn):
        try:
            compiled = compile_floats(compile_module, module, examples, floats, fake_mode)
        except BackendCompilerError as error:
            candidate.error, failure = error.__cause__, error
        else:
            candidate.passes.extend(names)
            return compiled
    if is_drawn:
        skip_backend(candidate, FAILED)
        return compiler.run_as_captured(module)
    assert failure is not None  # a float with a hint can be specialized, which the backend has refused
    raise failure


def _ways_to_pass_floats(
    compiler: GraphCompiler, module: Module, is_drawn: bool
) -> Iterator[tuple[tuple[str, ...], float_inputs.CompileFloats]]:
    """The ways to pass float inputs to the backend, in the order to try them, with the name of the pass."""
    if not compiler.is_of_torch:
        yield (), float_inputs.compile_with_symfloats
    elif compiler.takes_floats_as_tensors and float_inputs.can_become_tensors(module):
        yield ("floats as tensors",), float_inputs.compile_as_tensors
    if not is_drawn:
        yield ("specialize floats",), float_inputs.compile_for_values


# -- the backend's example inputs ---------------------------------------------------------------------------------------


def _fake_before_mutation(graph_input: GraphInput) -> Any:
    """The fake value of an input before the graph ran, which may write a tensor that requires grad into it."""
    fake, real = example_value(graph_input.node), graph_input.example
    if not (isinstance(fake, torch.Tensor) and isinstance(real, torch.Tensor)):
        return fake
    return fake.detach() if fake.requires_grad and not real.requires_grad else fake
