"""The table of passes that a graph goes through before its backend gets it.

The idea: AOTAutograd's graph differs from eager in ways that a small rewrite can compensate. Each rewrite is one row: a name, why
it is needed, when, and the function to run. A pass works on a copy: the captured graph is unchanged, for the recording, for a
fallback, and for eager execution. The event SubgraphCompiled lists the passes that ran (`passes`). The rows run in this order, on
graphs that go to their backend whole; pieces are cut from the graph as captured (eligibility.py: BE22).

In: a module and its candidate. Out: the module for the backend. PyTorch's counterpart: `CompilerWrapper.pre_compile` of the
wrappers in torch/_functorch/_aot_autograd/runtime_wrappers.py.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from dynexplore.engine.aliasing.clone_inputs import save_mutated_inputs, with_cloned_inputs
from dynexplore.engine.aliasing.eligibility import Candidate
from dynexplore.engine.aliasing.inference_mode import without_gradients
from dynexplore.engine.aliasing.keep_raising_ops import with_raising_ops_as_outputs
from dynexplore.engine.aliasing.mutation import dead_raising_ops
from dynexplore.engine.aliasing.runtime_asserts import env_with_deferred_asserts, with_runtime_asserts
from dynexplore.engine.graph.modes import inference_mode_entered
from dynexplore.engine.records import record

Module = torch.fx.GraphModule


@record()
class Pass:
    """One row: `run` returns the module for the backend; `wants` says whether the graph needs it."""

    name: str
    why: str
    wants: Callable[[Candidate], bool]
    run: Callable[[Module, Candidate], Module]


NO_GRAD, CLONES, RAISING = "inference mode to no_grad", "clone mutated inputs", "keep raising operators"
SAVED, ASSERTS = "save mutated inputs", "insert deferred runtime asserts"


def _enters_inference_mode(candidate: Candidate) -> bool:
    nodes = candidate.graph.module.graph.nodes
    return not torch.is_inference_mode_enabled() and any(inference_mode_entered(node) is not None for node in nodes)


def _has_dead_raising_ops(candidate: Candidate) -> bool:
    return candidate.graph.meta.may_raise and bool(dead_raising_ops(candidate.graph.module.graph))


def _mutates_inputs_of_symbolic_size(candidate: Candidate) -> bool:
    fakes = [candidate.graph.inputs[index].node.meta["example_value"] for index in candidate.graph.meta.mutated_inputs]
    return any(isinstance(size, torch.SymInt) for fake in fakes for size in fake.shape)


def _has_deferred_asserts(candidate: Candidate) -> bool:
    module = candidate.graph.module
    is_unbacked = any(node.meta.get("unbacked_bindings") for node in module.graph.nodes)
    return is_unbacked and env_with_deferred_asserts(module) is not None


def _clone_inputs(module: Module, candidate: Candidate) -> Module:
    return with_cloned_inputs(module, candidate.names(candidate.inputs_to_clone))


def _save_mutated_inputs(module: Module, candidate: Candidate) -> Module:
    save_mutated_inputs(module, candidate.names(candidate.graph.meta.mutated_inputs))
    return module


PASSES: dict[str, Pass] = {
    row.name: row
    for row in (
        Pass(
            NO_GRAD,
            "AOTAutograd traces on functional tensors, and inference mode cannot create views of them. All that a graph "
            "needs from inference mode is that autograd records nothing.",
            _enters_inference_mode,
            lambda module, candidate: without_gradients(module),
        ),
        Pass(
            CLONES,
            "If backward recomputed a value from a mutated input, it would use the new data. So the graph reads the input from a "
            "clone before the mutation, and the clone is saved.",
            lambda candidate: bool(candidate.inputs_to_clone),
            _clone_inputs,
        ),
        Pass(
            RAISING,
            "A compiler removes an operator whose result is unused, and with it the error that eager raises. Outputs are kept.",
            _has_dead_raising_ops,
            lambda module, candidate: with_raising_ops_as_outputs(module),
        ),
        Pass(
            SAVED,
            "Where sizes are symbolic, the partitioner may keep a mutated input for its sizes, and recompute from it.",
            _mutates_inputs_of_symbolic_size,
            _save_mutated_inputs,
        ),
        Pass(
            ASSERTS,
            "Which data-dependent sizes an operator accepts is unknown while tracing, and a compiler decomposes the operator that "
            "would check them.",
            _has_deferred_asserts,
            lambda module, candidate: with_runtime_asserts(module),
        ),
    )
}
"""The passes by name, in order."""


def run_passes(candidate: Candidate) -> Module:
    """Run the passes; returns the module for the backend, and records the names of those that ran on the candidate."""
    module = candidate.graph.module
    for row in PASSES.values():
        if row.wants(candidate):
            module = row.run(module, candidate)
            candidate.passes.append(row.name)
    return module
