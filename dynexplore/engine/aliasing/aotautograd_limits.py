"""What AOTAutograd cannot reproduce: the predicates of the eligibility table that are about autograd.

The idea: AOTAutograd turns a graph into a functional one (no mutation, no views of inputs) and makes all of it one node of
autograd's graph. Most programs cannot observe the difference. The functions here find those that can, from the fake tensors of a
finished graph, which autograd has recorded like real ones:

- One node has one backward: each output depends on each input, and gradients cannot be differentiated again. Programs observe this
  through `torch.autograd.grad`, a hook, or outputs that reach different leaves.
- Saved tensors: if a graph mutates what autograd saved for backward, backward raises a version error when called. AOTAutograd's
  partitioner saves or recomputes other tensors.
- Mutations of inputs happen once, after the graph. What backward recomputes from a mutated input is then computed from the new
  data, unless the graph reads the input from a clone (aliasing/clone_inputs.py).
- Views are regenerated after the graph, in the modes active then: a `no_grad` view comes back with a grad_fn, and a view that
  autograd refuses to mutate (one of several, as from `split`) comes back as one that it allows.
- A backward that raises: in eager this has no effect until backward is called. AOTAutograd traces it together with the forward.

In: a finished graph, and the breaks that end it. Out: answers; no function here has an effect. PyTorch's counterpart: none for the
predicates; torch/_functorch/_aot_autograd/collect_metadata_analysis.py collects such facts, and these graphs are compiled, or
AOTAutograd raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from dynexplore.engine.aliasing.autograd_graph import (
    ends_ahead_of_base,
    grad_fn_of,
    grad_nodes,
    has_stale_saved_tensors,
    have_same_grad_leaves,
    is_no_grad_view,
)
from dynexplore.engine.aliasing.clone_inputs import can_read_clones
from dynexplore.engine.aliasing.lowerings import calls_in
from dynexplore.engine.aliasing.mutation import (
    IN_PLACE_VIEWS,
    aliases_storage,
    is_as_strided,
    is_mutated_after,
    mutated_args,
    mutated_storages,
    operator_name,
    storages_of,
    tensors_of,
)
from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.finished_graph import FinishedGraph, example_value
from dynexplore.engine.graph.modes import inference_mode_entered
from dynexplore.engine.graph_breaks import GraphBreak

Breaks = Sequence[GraphBreak]

EAGER_ONLY_BREAKS = frozenset({
    "torch.autograd.grad", "Tensor.backward(create_graph=True)", "Tensor.register_hook()", "Tensor.retain_grad()",
    "a write to a tensor whose .data was assigned, or to that data",
})  # fmt: skip
"""Operations that break the graph and observe more of autograd's graph than the gradients of the outputs."""


# -- what the program does after the graph ------------------------------------------------------------------------------


def needs_eager_autograd(breaks: Breaks) -> bool:
    """Whether the graph ends at an operation that observes autograd nodes inside it."""
    return any(
        broke.kind.id in ("DX404", "DX406", "DX408") and broke.facts.get("operation") in EAGER_ONLY_BREAKS for broke in breaks
    )


def reads_version_counter(graph: FinishedGraph, breaks: Breaks) -> bool:
    """Whether the program reads `_version` after a mutating graph: a functionalized graph counts mutations differently."""
    return graph.meta.has_mutation and any(broke.facts.get("attribute") == "_version" for broke in breaks)


def shows_grad_leaves(graph: FinishedGraph, breaks: Breaks) -> bool:
    """Whether the program calls backward or reads `.grad` after a graph whose outputs reach different leaves."""
    wants_gradients = any(broke.kind.id == "DX406" or broke.facts.get("attribute") == "grad" for broke in breaks)
    return wants_gradients and _outputs_have_different_grad_leaves(graph.outputs)


def retains_chained_outputs(graph: FinishedGraph, breaks: Breaks) -> bool:
    """Whether backward retains an autograd graph in which one output depends on another."""
    is_kept = any(broke.facts.get("operation") == "Tensor.backward(retain_graph=True)" for broke in breaks)
    return is_kept and _one_output_is_behind_another(graph.outputs)


def operator_refuses_a_view(graph: FinishedGraph, breaks: Breaks) -> bool:
    """Whether an operator fails after a graph that returns views with a grad_fn: autograd may refuse to mutate exactly these."""
    return any(broke.kind.id == "DX401" for broke in breaks) and any(
        info.is_view and info.requires_grad for info in graph.meta.outputs
    )


# -- what the graph returns and mutates --------------------------------------------------------------------------------


def returns_view_that_cannot_be_replayed(graph: FinishedGraph) -> bool:
    """Whether the autograd history of an output ends at a `no_grad` view and contains more than views of it."""
    values = list(map(example_value, graph.outputs))
    ended = [value for value in values if ends_ahead_of_base(value)]
    if not ended:
        return False
    mutated = mutated_storages(graph.module.graph)
    grad_fns = [grad_fn_of(value) for value in values if isinstance(value, torch.Tensor) and value.requires_grad]
    return any(storage_of(value) in mutated or _has_more_than_views(value, grad_fns) for value in ended)


def _has_more_than_views(value: torch.Tensor, grad_fns: Sequence[Any]) -> bool:
    """Whether the history is not a chain of single nodes, or contains another output."""
    nodes = list(grad_nodes([value]))
    is_chain = all(len(node.next_functions) == 1 for node in nodes)  # a leaf at the end has none
    return not is_chain or sum(grad_fn in nodes for grad_fn in grad_fns if grad_fn is not None) > 1


def mutates_no_grad_view_through_data(graph: FinishedGraph) -> bool:
    """Whether an output is a `no_grad` view of a tensor that requires grad, and its storage is mutated only through `.data`.

    AOTAutograd regenerates the view after the mutation, and the mutation's version bump is undone.
    """
    hidden = {storage_of(example_value(graph.inputs[index].node)) for index in graph.meta.hidden_mutations}
    return bool(hidden) and any(
        info.is_no_grad_view and info.requires_grad and storage_of(example_value(node)) in hidden
        for info, node in zip(graph.meta.outputs, graph.outputs, strict=True)
    )


def mutates_saved_tensor(graph: FinishedGraph) -> bool:
    """Whether the graph mutates what autograd saved for the backward of its outputs or of its mutated inputs."""
    mutated = [graph.inputs[index].node for index in graph.meta.mutated_inputs]
    return graph.meta.has_mutation and has_stale_saved_tensors(map(example_value, [*graph.outputs, *mutated]))


def mutates_storage_of_as_strided_view(graph: FinishedGraph) -> bool:
    """Whether the graph mutates a storage of which `as_strided` took a view of a view."""
    return graph.meta.has_mutation and is_mutated_after(calls_in(graph.module), _is_as_strided_of_a_view)


def mutates_non_leaf(graph: FinishedGraph) -> bool:
    """Whether an input with a grad_fn is mutated."""
    return any(info.mutates_data and info.requires_grad and not info.is_leaf for info in graph.meta.inputs)


def gives_input_a_grad_fn(graph: FinishedGraph) -> bool:
    """Whether a mutation writes a tensor that requires grad into an input that does not."""
    return any(info.gains_grad_fn for info in graph.meta.inputs)


def returns_aliases_with_distinct_bases(graph: FinishedGraph) -> bool:
    """Whether the graph mutates an output that autograd does not consider a view of the other tensors in its storage.

    A tensor that was detached and then mutated has a base of its own; AOTAutograd regenerates it from the original tensor.
    """
    outputs = [value for node in graph.outputs for value in tensors_of(node)]
    if not graph.meta.has_mutation or not any(value.requires_grad for value in outputs):
        return False
    mutated = mutated_storages(graph.module.graph)
    bases: dict[int, set[int]] = {}
    for value in (value for graph_input in graph.inputs for value in tensors_of(graph_input.node)):
        bases.setdefault(storage_of(value), set()).add(id(_base_of(value)))
    for value in outputs:
        storage_bases = bases.setdefault(storage_of(value), {id(_base_of(value))})
        if id(_base_of(value)) not in storage_bases and storage_of(value) in mutated:
            return True
    return False


def inputs_recomputed_after_mutation(graph: FinishedGraph) -> tuple[int, ...]:
    """The indices of inputs that are read by an operator whose result has a grad_fn, before a later operator mutates them."""
    mutated = graph.meta.mutated_inputs
    return tuple(index for index in mutated if _is_read_for_backward_and_then_written(graph, graph.inputs[index].node))


def can_clone_recomputed_inputs(graph: FinishedGraph) -> bool:
    """Whether the graph can read each of these inputs from clones up to its mutation."""
    return all(can_read_clones(graph.module.graph, graph.inputs[index].node) for index in inputs_recomputed_after_mutation(graph))


# -- modes -------------------------------------------------------------------------------------------------------------


def returns_view_with_grad_from_no_grad(graph: FinishedGraph) -> bool:
    """Whether an output is a view with a grad_fn of an input or output, in a graph that begins with grad mode off.

    Views are regenerated after the graph, in the modes with which it began.
    """
    begins_without = not torch.is_grad_enabled() or torch.is_inference_mode_enabled()
    return begins_without and any(_is_view_with_gradient(graph, output) for output in graph.outputs)


def leaves_inference_mode(graph: FinishedGraph) -> bool:
    """Whether a graph that begins in inference mode leaves it: AOTAutograd traces and runs all of a graph in its first mode."""
    return torch.is_inference_mode_enabled() and any(inference_mode_entered(node) is False for node in calls_in(graph.module))


def mutates_inference_tensor(graph: FinishedGraph) -> bool:
    """Whether a graph that begins outside inference mode mutates an inference tensor.

    The program does so inside an inference mode block; AOTAutograd does it after the graph, where torch refuses.
    """
    if torch.is_inference_mode_enabled():
        return False
    return any(info.mutates_data and info.is_inference for info in graph.meta.inputs)


# -- helpers -----------------------------------------------------------------------------------------------------------


def _is_read_for_backward_and_then_written(graph: FinishedGraph, written: torch.fx.Node) -> bool:
    """Whether a value with a gradient is computed from an input that a later operator mutates.

    A partitioner that recomputes instead of saving (`min_cut_rematerialization_partition`) saves the input, with its data after
    the graph has run.
    """
    storage = storage_of(example_value(written))
    reads: list[torch.fx.Node] = []
    for node in graph.module.graph.nodes:
        is_call = node.op in ("call_function", "call_method")
        if not is_call or not any(aliases_storage(arg, storage) for arg in node.all_input_nodes):
            continue
        if mutated_args(node):
            if any(map(_has_grad_fn, _descendants_of(reads))):
                return True
        elif not aliases_storage(node, storage):
            reads.append(node)
    return False


def _descendants_of(nodes: Iterable[torch.fx.Node]) -> set[torch.fx.Node]:
    """The transitive users of these nodes, including the nodes themselves and what any of them mutates."""
    descendants: set[torch.fx.Node] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node not in descendants:
            descendants.add(node)
            pending += node.users
            pending += mutated_args(node)
    return descendants


def _has_grad_fn(node: torch.fx.Node) -> bool:
    """Whether autograd recorded how it was computed: not so for a parameter, which an optimizer mutates unrecorded."""
    return any(value.requires_grad and not value.is_leaf for value in tensors_of(node))


def _is_as_strided_of_a_view(node: torch.fx.Node) -> bool:
    """Whether it is `as_strided` of a view, or of a tensor transposed in place.

    A backend that replays a mutation on the base inverts the chain of views, and this one cannot be inverted.
    """
    if not is_as_strided(node) or not isinstance(viewed := node.args[0], torch.fx.Node):
        return False
    turned = any(operator_name(neighbor) in IN_PLACE_VIEWS for neighbor in (viewed, *viewed.users))
    return turned or (viewed.op != "placeholder" and _is_view_of_an_argument(viewed))


def _is_view_of_an_argument(node: torch.fx.Node) -> bool:
    value = example_value(node)
    if not value.is_inference():
        return bool(value._is_view())
    return any(storages_of(node) & storages_of(argument) for argument in node.all_input_nodes)  # autograd knows no view of it


def _is_view_with_gradient(graph: FinishedGraph, output: torch.fx.Node) -> bool:
    """Whether an output is a view of an input or output, and would not require grad if it were taken with grad mode off."""
    value = example_value(output)
    if output.op == "placeholder" or not isinstance(value, torch.Tensor) or not value.requires_grad:
        return False
    followed = grad_fn_of(value) is not None or torch.is_inference_mode_enabled()
    others = [
        *(candidate.node for candidate in graph.inputs),
        *(candidate for candidate in graph.outputs if candidate is not output),
    ]
    return followed and any(aliases_storage(candidate, storage_of(value)) for candidate in others)


def _outputs_have_different_grad_leaves(outputs: Iterable[torch.fx.Node]) -> bool:
    """Whether backward from one output reaches a leaf that backward from another one does not."""
    values = map(example_value, outputs)
    return not have_same_grad_leaves(value for value in values if isinstance(value, torch.Tensor) and value.requires_grad)


def _one_output_is_behind_another(outputs: Iterable[torch.fx.Node]) -> bool:
    """Whether backward from one output passes through another one, whose gradient a later backward may need."""
    values = [value for value in map(example_value, outputs) if isinstance(value, torch.Tensor) and value.requires_grad]
    grad_fns = [grad_fn_of(value) for value in values]
    return any(
        node is not own and node in grad_fns for value, own in zip(values, grad_fns, strict=True) for node in grad_nodes([value])
    )


def _base_of(value: torch.Tensor) -> torch.Tensor:
    return value if value._base is None else value._base


def mutates_with_no_grad_views(graph: FinishedGraph) -> bool:
    """Whether a mutating graph has views created with grad mode off: AOTAutograd refuses more of these mutations than eager."""
    values = (node.meta.get("example_value") for node in graph.module.graph.nodes)
    return graph.meta.has_mutation and any(map(is_no_grad_view, values))


def backward_raises(graph: FinishedGraph, kind: type[Any]) -> bool:
    """Whether the backward of a graph raises this exception type, on fake tensors."""
    outputs = [value for value in map(example_value, graph.outputs) if isinstance(value, torch.Tensor) and value.requires_grad]
    inputs = [
        value
        for graph_input in graph.inputs
        if isinstance(value := example_value(graph_input.node), torch.Tensor) and value.requires_grad
    ]
    if not outputs or not inputs:
        return False
    mode: Any = getattr(outputs[0], "fake_mode", contextlib.nullcontext())
    try:
        with mode:  # backward allocates tensors: zeros for unused gradients
            torch.autograd.grad(outputs, inputs, list(map(torch.ones_like, outputs)), retain_graph=True, allow_unused=True)
    except Exception as error:
        return type(error) is kind
    return False
