"""The table of wrappers around the backend's callable.

The idea: the callable that AOTAutograd returns computes the same values as the graph; but views are regenerated, mutations are
copied in afterwards, and modes are those of the call. Some programs can observe that. Each wrapper compensates one such difference
and is one row: a name, why it is needed, when, and the wrapping function. The event SubgraphCompiled lists the wrappers of a graph
(`wrappers`). The rows apply in this order, the first one innermost. `stage`: "outputs" rows are for graphs that went to their
backend whole, "views" rows for pieces as well, "call" rows are applied after the observers (recorders, step checkers) have wrapped
the callable. Wrappers that depend on the frame are in translate/call_wrappers.py.

In: a callable and the candidate from which it was compiled. Out: the callable, wrapped. PyTorch's counterpart:
`CompilerWrapper.post_compile` of the wrappers in torch/_functorch/_aot_autograd/runtime_wrappers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from torch.autograd.grad_mode import _unsafe_preserve_version_counter as preserve_version_counter

from dynexplore.engine.aliasing.eligibility import Candidate
from dynexplore.engine.aliasing.inference_mode import detach_no_grad_views, wrap_inference_outputs
from dynexplore.engine.aliasing.keep_raising_ops import drop_extra_outputs
from dynexplore.engine.aliasing.lowerings import calls_in
from dynexplore.engine.aliasing.output_aliases import cut_history, wrap_output_aliases
from dynexplore.engine.aliasing.passes import NO_GRAD, RAISING
from dynexplore.engine.graph.operator_warnings import issue_warnings, place_warnings
from dynexplore.engine.records import record

Compiled = Callable[..., Any]
Facts = TypeVar("Facts")

OUTPUTS, VIEWS, CALL = "outputs", "views", "call"


@record()
class Wrapper(Generic[Facts]):
    """One row: `wrap` returns the wrapped callable; `wants` says whether the graph needs it."""

    name: str
    why: str
    wants: Callable[[Facts], bool]
    wrap: Callable[[Compiled, Facts], Compiled]
    stage: str = CALL


def apply_wrappers(function: Compiled, rows: Iterable[Wrapper[Facts]], facts: Facts, names: list[str]) -> Compiled:
    """Apply the wrappers that the callable needs; their names are appended to `names`."""
    for row in rows:
        if row.wants(facts):
            wrapped = row.wrap(function, facts)
            if wrapped is not function:
                names.append(row.name)
            function = wrapped
    return function


def _preserve_version_counters(function: Compiled, candidate: Candidate) -> Compiled:
    """The compiled graph mutates the input itself where the program mutates its `.data`: restore the version counters."""
    indices = candidate.graph.meta.hidden_mutations

    def run(*inputs: Any) -> Any:
        with preserve_version_counter(tuple(inputs[index] for index in indices)):
            return function(*inputs)

    return run


def _detach_no_grad_views(function: Compiled, candidate: Candidate) -> Compiled:
    if getattr(function, "__self__", None) is candidate.graph.module:
        return function  # the backend returned the graph itself, which runs as captured
    outputs = enumerate(candidate.graph.meta.outputs)
    return detach_no_grad_views(function, {index: info.requires_grad for index, info in outputs if info.loses_grad_fn})


WRAPPERS: dict[str, Wrapper[Candidate]] = {
    row.name: row
    for row in (
        Wrapper[Candidate](
            "drop extra outputs",
            "The pass that keeps raising operators made them outputs.",
            lambda candidate: RAISING in candidate.passes,
            lambda function, candidate: drop_extra_outputs(function, len(candidate.graph.outputs)),
            OUTPUTS,
        ),
        Wrapper[Candidate](
            "detach no_grad views",
            "Without this, a view taken in `no_grad` of a tensor that requires grad would be regenerated with a grad_fn.",
            lambda candidate: any(info.loses_grad_fn for info in candidate.graph.meta.outputs),
            _detach_no_grad_views,
            OUTPUTS,
        ),
        Wrapper[Candidate](
            "mark inference tensors",
            "The pass that replaced inference mode by no_grad turned inference tensors into normal tensors.",
            lambda candidate: NO_GRAD in candidate.passes and any(info.is_inference for info in candidate.graph.meta.outputs),
            lambda function, candidate: wrap_inference_outputs(function, candidate.graph.meta.outputs),
            OUTPUTS,
        ),
        Wrapper[Candidate](
            "regenerate output aliases",
            "A view that is not a view in the program, or has another creation meta, rejects mutations that eager allows.",
            lambda candidate: True,
            lambda function, candidate: wrap_output_aliases(function, candidate.graph),
            VIEWS,
        ),
        Wrapper[Candidate](
            "cut history at no_grad views",
            "A view of a view that was made in `no_grad` is regenerated from the base, and gradients would flow through.",
            lambda candidate: True,
            lambda function, candidate: cut_history(function, candidate.graph),
            VIEWS,
        ),
        Wrapper[Candidate](
            "preserve version counters",
            "The program mutates an input through `.data`, which bypasses the version counter; the compiled graph mutates it.",
            lambda candidate: not candidate.runs_as_captured and bool(candidate.graph.meta.hidden_mutations),
            _preserve_version_counters,
        ),
        Wrapper[Candidate](
            "issue warnings",
            "A backend runs an operator's Python code only while it traces the graph, so its warnings are issued in each call.",
            lambda candidate: not candidate.runs_as_captured and candidate.graph.meta.warns,
            lambda function, candidate: issue_warnings(function, calls_in(candidate.graph.module)),
        ),
        Wrapper[Candidate](
            "place warnings",
            "The warnings of a graph that runs as captured name its generated code; eager names the user's line.",
            lambda candidate: candidate.runs_as_captured and candidate.graph.meta.warns,
            lambda function, candidate: place_warnings(function, candidate.graph.module),
        ),
    )
}
"""The wrappers by name, in order."""


def rows_of(stage: str) -> list[Wrapper[Candidate]]:
    """The rows of one stage."""
    return [row for row in WRAPPERS.values() if row.stage == stage]
