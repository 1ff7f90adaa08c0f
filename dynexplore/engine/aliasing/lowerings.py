"""Lowerings: what changes in a captured graph before a backend gets it, and the nodes that no backend may get.

The idea: capture records the program's own calls, whatever the backend; what a backend cannot trace is replaced afterwards.
Default devices are lowered here, subscripts by integer tensors in lower_indexing.py. A default device (`with torch.device(...)`,
`torch.set_default_device`) is a function mode, under which AOTAutograd would trace torch's own decompositions, too. Each
constructor gets its device as an argument, and the nodes that enter and exit default devices are erased.

Nodes that no backend may get are marked (`EAGER_NODE`): the graph is cut around them, and their pieces run as captured
(eager_pieces.py); if the graph cannot be cut, the backend is skipped (eligibility.py). Such nodes are

- a subscript that must stay a view
- an operator that creates a leaf (`torch.ones(2, requires_grad=True)`): AOTAutograd's only leaves are inputs, and the next piece
  gets the leaf as an input
- `x.data`, if a view of it is returned: AOTAutograd would regenerate that from x, whose version counter it does not share
- an autograd.Function whose code reads what may change: a backend runs that code once, when it traces it
- a checkpoint that draws random numbers and does not preserve the RNG state: a backend draws the same numbers again
- a `while_loop` with gradients: its number of steps is data-dependent

In: a finished graph. Out: the same graph, marked and lowered in place; `captured` is a copy of the captured graph if something
changed, and `lowerings` lists what was lowered. Inputs and outputs keep their nodes. PyTorch's counterpart: none; its frame falls
back to eager there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch.utils._device import _device_constructors

from dynexplore.engine.aliasing.mutation import aliases_storage
from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.finished_graph import FinishedGraph, example_value
from dynexplore.engine.graph.modes import has_default_device, inference_mode_entered, sets_default_device
from dynexplore.engine.graph.partition import can_be_cut
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.records import record

EAGER_NODE = "runs_eager"
"""The key in a node's meta that marks it as eager: no backend gets this node; the value says why."""

INDEX, LEAF, DATA, FUNCTION, REDRAW, LOOP = (
    "a view at an index held by a tensor", "a new leaf", "the data of a tensor",
    "an autograd.Function that reads values that may change", "a checkpoint that draws different random numbers",
    "a while_loop with gradients",
)  # fmt: skip

REDRAWS = "redraws"
"""The key in a node's meta that marks it as part of a checkpoint that draws random numbers without preserving the RNG state."""

OUTSIDE_READS = "outside_reads"
"""The key in the meta of `F.apply`: what each function of an autograd.Function reads from outside."""


@record()
class OutsideReads:
    """What a function reads from outside: the name of the first thing that may change, and constants that can be guarded."""

    unguarded: str | None
    constants: tuple[tuple[Source, Any], ...]


InstallGuard = Callable[[Source, str, Any], None]


def mark_eager_nodes(graph: FinishedGraph, guard: InstallGuard) -> None:
    """Mark the nodes that no backend may get, but for subscripts (lower_indexing.py)."""
    for node in calls_in(graph.module):
        kind = _eager_kind(node)
        if kind is not None:
            node.meta[EAGER_NODE] = kind
    mark_redrawing_checkpoints(graph)
    mark_returned_data(graph)
    mark_functions_that_read(graph, guard)


def _eager_kind(node: torch.fx.Node) -> str | None:
    """Why no backend may get a node, if the node alone determines that."""
    fake = fake_of(node)
    if "requires_grad" in node.kwargs and isinstance(fake, torch.Tensor) and fake.requires_grad and fake.is_leaf:
        return LEAF
    if _is_while_loop(node.target) and any(value.requires_grad for value in tensors_in(fake)):
        return LOOP
    return None


def _is_while_loop(target: Any) -> bool:
    """Whether this is the operator of `torch.while_loop`; its slow module is imported if the graph has the operator."""
    return isinstance(target, torch._ops.HigherOrderOperator) and str(target) == "while_loop"


def mark_redrawing_checkpoints(graph: FinishedGraph) -> None:
    """Mark each node that calls a subgraph which draws different random numbers when backward recomputes it."""
    for owner in graph_modules(graph.module):
        for node in owner.graph.nodes:
            bodies = [getattr(owner, str(arg.target), None) for arg in node.all_input_nodes if arg.op == "get_attr"]
            if any(_redraws(body) for body in bodies if isinstance(body, torch.fx.GraphModule)):
                node.meta[EAGER_NODE] = REDRAW


def _redraws(body: torch.fx.GraphModule) -> bool:
    return any(node.meta.get(REDRAWS) for owner in graph_modules(body) for node in owner.graph.nodes)


def mark_functions_that_read(graph: FinishedGraph, guard: InstallGuard) -> None:
    """Mark each autograd.Function whose code reads what may change; guard the constants that the others read."""
    for node in calls_in(graph.module):
        reads: Sequence[OutsideReads] = node.meta.get(OUTSIDE_READS, ())
        if any(read.unguarded is not None for read in reads):
            node.meta[EAGER_NODE] = FUNCTION
            continue
        for source, value in (constant for read in reads for constant in read.constants):  # by value, even if dynamic
            guard(source, "EQUALS", value)


def mark_returned_data(graph: FinishedGraph) -> None:
    """Mark each `x.data` of which an alias without autograd history is returned."""
    returned = {
        storage_of(fake) for fake in map(fake_of, graph.outputs) if isinstance(fake, torch.Tensor) and not fake.requires_grad
    }
    for node in calls_in(graph.module) if returned else ():
        if node.target is getattr and node.args[1] == "data" and any(aliases_storage(node, storage) for storage in returned):
            node.meta[EAGER_NODE] = DATA


def lower_default_devices(graph: FinishedGraph) -> None:
    """Give each constructor its device as an argument, and erase the nodes that enter and exit default devices."""
    owners = graph_modules(graph.module)
    setters = [node for owner in owners for node in owner.graph.nodes if sets_default_device(node)]
    if not (setters or has_default_device()) or graph.meta.runs_program_code:  # code of the program creates tensors, too
        return
    constructors = [node for node in calls_in(graph.module) if _creates_on_default_device(node)]
    if not setters and not constructors:
        return
    note_lowering(graph, f"default devices: {', '.join(node.name for node in (*constructors, *setters))}")
    for node in constructors:
        node.update_kwarg("device", fake_of(node).device)
    for node in reversed(setters):
        node.graph.erase_node(node)
    for owner in owners:
        owner.recompile()


def _creates_on_default_device(node: torch.fx.Node) -> bool:
    is_constructor = node.op == "call_function" and node.target in _device_constructors()
    return is_constructor and node.kwargs.get("device") is None and isinstance(fake_of(node), torch.Tensor)


def note_lowering(graph: FinishedGraph, lowering: str) -> None:
    """Keep a copy of the graph as it was captured, and note what is lowered."""
    if graph.captured is None:
        tensors = [*graph.module.parameters(), *graph.module.buffers()]
        graph.captured = copy.deepcopy(graph.module, {id(tensor): tensor for tensor in tensors})  # shares the tensors
    graph.lowerings = (*graph.lowerings, lowering)


def has_eager_nodes(module: torch.fx.GraphModule, kind: str = "") -> bool:
    """Whether a backend must not get the whole graph because of a node of this kind."""
    kinds = {node.meta.get(EAGER_NODE) for node in module.graph.nodes} - {None}
    return kind in kinds if kind else bool(kinds)


def only_eager_nodes(module: torch.fx.GraphModule) -> bool:
    """Whether a backend would get no node of a graph."""
    return all(node.meta.get(EAGER_NODE) for node in module.graph.nodes if node.op.startswith("call_"))


def has_eager_nodes_in_subgraphs(module: torch.fx.GraphModule, kind: str) -> bool:
    """Whether a subgraph of a higher-order operator contains such a node: it cannot be cut there."""
    return any(has_eager_nodes(inner, kind) for inner in graph_modules(module) if inner is not module)


def cannot_be_cut_at(graph: FinishedGraph, kind: str) -> bool:
    """Whether the graph has a node of a kind that no backend gets, and stays whole, or consists only of such nodes."""
    module = graph.module
    if has_eager_nodes_in_subgraphs(module, kind):
        return True
    if not has_eager_nodes(module, kind):
        return False
    has_blocks = any(inference_mode_entered(node) is not None for node in module.graph.nodes)
    return graph.meta.has_mutation or has_blocks or only_eager_nodes(module) or not can_be_cut(module)


def passes_functorch_tensors(graph: FinishedGraph) -> bool:
    """Whether an input or output is a functorch wrapper tensor: `vjp` keeps such tensors for the function that it returns."""
    values = [*(entry.example for entry in graph.inputs), *map(example_value, graph.outputs)]
    return any(isinstance(value, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(value) for value in values)


def calls_in(module: torch.nn.Module) -> Iterator[torch.fx.Node]:
    """Every call node, including those of subgraphs."""
    return (node for owner in graph_modules(module) for node in owner.graph.nodes if node.op.startswith("call_"))


def graph_modules(module: torch.nn.Module) -> list[torch.fx.GraphModule]:
    """The graph module, and those of its subgraphs."""
    return [inner for inner in module.modules() if isinstance(inner, torch.fx.GraphModule)]


def fake_of(value: Any) -> Any:
    """The fake value of a node; any other argument is its own."""
    return value.meta.get("example_value") if isinstance(value, torch.fx.Node) else value


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """The tensors of a nested value."""
    return (value for value in torch.utils._pytree.tree_leaves(values) if isinstance(value, torch.Tensor))
