"""Graphs that run as they stand because the program asks more of autograd than the gradients of their outputs.

The idea: to autograd a compiled graph is one operation: all its outputs depend on all its inputs, none of its gradients has a
gradient. A program that calls `torch.autograd.grad` on what the graph gave sees that (zeros for None, an error for the second
derivative), so does one that calls `backward` while its outputs depend on different inputs (zeros for None), a hook does (it is
called with None where no gradient comes), and so does a tensor that keeps its gradient (`retain_grad`), and whatever else hangs
on a tensor of autograd's that the graph writes to. Who asks a tensor for its `_version` would count a compiler's writes, too. A
graph that changes what autograd has saved for the backward makes backward raise, if it is ever called; a compiler raises at
once, or computes with what was there before. A write through `.data` reaches what autograd saved, and nobody is told: which of
a graph's tensors those are, a compiler decides for itself. Where a graph writes what has a gradient into an input that has
none, a compiler keeps the input for the backward as it was, and then writes to it. So it does where something with a gradient
came of an input before the graph writes to it, if it computes that again in the backward; such an input is read from copies
(graph/copies_for_backward.py), and only where that cannot be the graph runs as it stands. And autograd refuses to change a view
that is one of several (`x.split(2)`), or that was made before a write gave its base a history, but not the view that a compiled
graph hands out in its place: a graph that ends at an operator which refuses runs as it stands if it hands out views with a history.
Such graphs are captured, but not compiled.
A view that was made in `no_grad` has no history; a view of it that a graph hands out has that of what is behind, if it is compiled.
AOTAutograd also refuses writes to views made in `no_grad`, or to what they are views of, that eager allows
(`writes_beside_views_without_gradients`, asked when it has failed).

A backward may also raise by itself: an operator of which torch knows no derivative, a `Function` without a `backward`. In eager
that is nobody's concern as long as nobody calls it; a compiler traces it with the forward, and fails. If the backward raises the
same on fake tensors, the compiler is not to blame (`backward_raises`, asked when it has failed).

In:  a finished graph and the break it ends at. Out: whether it runs as it stands.
PyTorch's Dynamo compiles these, and AOTAutograd raises or differs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from dynexplore.engine.graph.autograd_history import history, is_made_without_gradients, known_grad_fn, same_leaves
from dynexplore.engine.graph.builder import FinishedGraph, GraphInput, example_value
from dynexplore.engine.graph.copies_for_backward import can_be_read_from_copies
from dynexplore.engine.graph.fake_mode import IN_PLACE_VIEWS, storage_of
from dynexplore.engine.graph.modes import inference_mode_entered
from dynexplore.engine.graph.written_nodes import lies_in, memories_of, memories_written, operator_of, tensors_of, written_by
from dynexplore.engine.graph_breaks import GraphBreak

ASKS_FOR_MORE = frozenset({
    "torch.autograd.grad", "Tensor.backward(create_graph=True)", "Tensor.register_hook()", "Tensor.retain_grad()",
    "a write to a tensor whose .data was assigned, or to that data",
})  # fmt: skip


def runs_as_it_stands(graph: FinishedGraph, breaks: Sequence[GraphBreak]) -> bool:
    """Whether what a compiler makes of the graph would be seen from outside."""
    if any(one.kind.id in ("DX404", "DX406", "DX408") and one.facts.get("operation") in ASKS_FOR_MORE for one in breaks):
        return True
    if graph.written_inside and any(one.facts.get("attribute") == "_version" for one in breaks):
        return True
    gradients = any(one.kind.id == "DX406" or one.facts.get("attribute") == "grad" for one in breaks)
    if gradients and _reach_different_leaves(graph.outputs):
        return True
    goes_on = any(one.facts.get("operation") == "Tensor.backward(retain_graph=True)" for one in breaks)
    if goes_on and _one_is_behind_another(graph.outputs):
        return True
    if any(one.kind.id == "DX401" for one in breaks) and any(map(_is_view_with_a_history, map(example_value, graph.outputs))):
        return True
    if any(map(_is_a_view_through_one_without_gradients, map(example_value, graph.outputs))):
        return True
    changed = [graph.inputs[place].node for place in graph.written]
    if graph.written_inside and backward_would_raise(map(example_value, [*graph.outputs, *changed])):
        return True
    if graph.written_inside and _writes_where_places_are_taken(graph):
        return True
    if any(_is_seen_by_autograd(graph.inputs[place]) for place in graph.written):
        return True
    if graph.written_inside and _hands_out_two_histories_of_one_memory(graph):
        return True
    read_before = [place for place in graph.written if _is_read_for_backward_and_then_written(graph, graph.inputs[place].node)]
    if not all(can_be_read_from_copies(graph.module.graph, graph.inputs[place].node) for place in read_before):
        return True
    graph.read_from_copies = tuple(read_before)
    return False


def _is_read_for_backward_and_then_written(graph: FinishedGraph, written: torch.fx.Node) -> bool:
    """Whether something with a gradient comes of what is computed of an input that a later operator writes to.

    A compiler that would rather compute it again than keep it for the backward (`min_cut_rematerialization_partition`) keeps the
    input, as it is when the graph has run.
    """
    storage = storage_of(example_value(written))
    reads: list[torch.fx.Node] = []
    for node in graph.module.graph.nodes:
        if node.op not in ("call_function", "call_method") or not any(lies_in(one, storage) for one in node.all_input_nodes):
            continue
        if written_by(node):
            if any(map(_has_history, _all_that_comes_of(reads))):
                return True
        elif not lies_in(node, storage):
            reads.append(node)
    return False


def _all_that_comes_of(nodes: Iterable[torch.fx.Node]) -> set[torch.fx.Node]:
    """These nodes, those that use them, and so on; what one of them writes to is one of them, too."""
    found: set[torch.fx.Node] = set()
    ahead = list(nodes)
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            ahead += node.users
            ahead += written_by(node)
    return found


def _has_history(node: torch.fx.Node) -> bool:
    """Whether autograd has noted how it was made: not of a parameter, which an optimizer changes unseen."""
    return any(value.requires_grad and not value.is_leaf for value in tensors_of(node))


def _writes_where_places_are_taken(graph: FinishedGraph) -> bool:
    """Whether something is written in a memory of which a view was taken apart by places."""
    taken: set[int] = set()
    for node in graph.call_nodes():
        if _takes_a_view_apart_by_places(node):
            taken |= memories_of(node)
        if taken and any(taken & memories_of(written) for written in written_by(node)):
            return True
    return False


def _takes_a_view_apart_by_places(node: torch.fx.Node) -> bool:
    """Whether it is `as_strided` of a view, or of what was turned round in place.

    A compiler that makes a write again on the base walks back through the views, and this one does not lead back.
    """
    name = operator_of(node)
    if not name.startswith("as_strided") or not isinstance(viewed := node.args[0], torch.fx.Node):
        return False
    turned = any(operator_of(one) in IN_PLACE_VIEWS for one in (viewed, *viewed.users))
    return turned or (viewed.op != "placeholder" and bool(example_value(viewed)._is_view()))


def crosses_modes(graph: FinishedGraph) -> bool:
    """Whether a graph does under another mode what a compiler would do under the mode with which the graph begins.

    One that begins outside of inference mode may enter it to change an input that is an inference tensor: a compiler writes to
    inputs when the graph has run, where torch refuses it. One that begins in it may leave it for gradients and for changes that
    count: a compiler traces, and runs, all of it in inference mode. And a view of an input or output is taken again when the graph
    has run: without gradients, where the graph begins without, or in inference mode.
    """
    without_gradients = not torch.is_grad_enabled() or torch.is_inference_mode_enabled()
    if without_gradients and any(_is_view_with_gradient(graph, output) for output in graph.outputs):
        return True
    if torch.is_inference_mode_enabled():
        return any(inference_mode_entered(node) is False for node in graph.call_nodes())
    written = [graph.inputs[place].example for place in graph.written]
    return any(isinstance(value, torch.Tensor) and value.is_inference() for value in written)


def _is_view_with_gradient(graph: FinishedGraph, output: torch.fx.Node) -> bool:
    """Whether an output is a view of an input or output, and would not require grad if it were taken without gradients."""
    value = example_value(output)
    if output.op == "placeholder" or not isinstance(value, torch.Tensor) or not value.requires_grad:
        return False
    followed = known_grad_fn(value) is not None or torch.is_inference_mode_enabled()
    others = [*(one.node for one in graph.inputs), *(one for one in graph.outputs if one is not output)]
    return followed and any(lies_in(one, storage_of(value)) for one in others)


def _reach_different_leaves(outputs: Iterable[torch.fx.Node]) -> bool:
    """Whether backward from one output gives a gradient to a leaf to which backward from another one gives none."""
    values = map(example_value, outputs)
    return not same_leaves(value for value in values if isinstance(value, torch.Tensor) and value.requires_grad)


def _one_is_behind_another(outputs: Iterable[torch.fx.Node]) -> bool:
    """Whether backward from one output goes through another one, which may be asked for its gradient the next time."""
    values = [value for value in map(example_value, outputs) if isinstance(value, torch.Tensor) and value.requires_grad]
    made = [known_grad_fn(value) for value in values]
    return any(node is not own and node in made for value, own in zip(values, made, strict=True) for node in history([value]))


def _is_view_with_a_history(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad and value._is_view()


def _is_a_view_through_one_without_gradients(value: Any) -> bool:
    """Whether its history ends at a view made without gradients, ahead of what it is a view of: that of a compiler goes on."""
    if not _is_view_with_a_history(value) or known_grad_fn(value) is None:
        return False
    base, behind = value._base, known_grad_fn(value._base)
    return not any(node == behind or getattr(node, "variable", None) is base for node in history([value]))


def _hands_out_two_histories_of_one_memory(graph: FinishedGraph) -> bool:
    """Whether the graph writes to what it hands out, and to autograd that is no view of the other things in its memory.

    What was detached of a tensor, and written to, has a history of its own; a compiler takes it of the tensor once more.
    """
    inputs = [value for one in graph.inputs for value in tensors_of(one.node)]
    outputs = [value for node in graph.outputs for value in tensors_of(node)]
    if not any(value.requires_grad for value in outputs):
        return False
    written = memories_written(graph.module.graph)
    roots: dict[int, set[int]] = {}
    for value in inputs:
        roots.setdefault(storage_of(value), set()).add(id(_root(value)))
    for value in outputs:
        known = roots.setdefault(storage_of(value), {id(_root(value))})
        if id(_root(value)) not in known and storage_of(value) in written:
            return True
    return False


def _root(value: torch.Tensor) -> torch.Tensor:
    return value if value._base is None else value._base


def _is_seen_by_autograd(written: GraphInput) -> bool:
    """Whether an input that is written to has a history before, or only afterwards."""
    before, after = written.example, example_value(written.node)
    if not isinstance(before, torch.Tensor):
        return False
    if before.requires_grad:
        return not before.is_leaf
    return bool(after.requires_grad) and not before.is_meta


def writes_beside_views_without_gradients(graph: FinishedGraph) -> bool:
    """Whether a graph that writes has views made where no gradients are noted: AOTAutograd refuses more of that than eager."""
    values = (node.meta.get("example_value") for node in graph.module.graph.nodes)
    return graph.written_inside and any(map(is_made_without_gradients, values))


def backward_raises(graph: FinishedGraph, kind: type[Any]) -> bool:
    """Whether the backward of a graph raises such an exception, on fake tensors."""
    outputs = [value for value in map(example_value, graph.outputs) if isinstance(value, torch.Tensor) and value.requires_grad]
    inputs = [value for one in graph.inputs if isinstance(value := example_value(one.node), torch.Tensor) and value.requires_grad]
    if not outputs or not inputs:
        return False
    mode: Any = getattr(outputs[0], "fake_mode", contextlib.nullcontext())
    try:
        with mode:  # a backward makes tensors of its own: zeros for what was not taken
            torch.autograd.grad(outputs, inputs, list(map(torch.ones_like, outputs)), retain_graph=True, allow_unused=True)
    except Exception as error:
        return type(error) is kind
    return False


def backward_would_raise(outputs: Iterable[Any]) -> bool:
    """Whether something was changed that autograd has saved for the backward of these tensors.

    The saved ones know which version they were, and raise when they are looked at in another one.

    >>> x = torch.ones(2, requires_grad=True)
    >>> y = x.exp()
    >>> backward_would_raise([y]), backward_would_raise([y.add_(1)])
    (False, True)
    """
    return any(map(_has_stale_tensors, history(outputs)))


def _has_stale_tensors(node: Any) -> bool:
    if node.name() == "CopySlices":  # a write to a view: nobody sees into it, so it is taken for stale
        return True
    try:
        for name in _saved_names(type(node)):
            getattr(node, name)
    except RuntimeError:
        return True
    return False


def _saved_names(kind: type[Any]) -> tuple[str, ...]:
    """The attributes of a kind of autograd's nodes that hold what it saved."""
    if kind not in _names:
        _names[kind] = tuple(name for name in dir(kind) if name.startswith("_saved_") or name == "saved_tensors")
    return _names[kind]


_names: dict[type[Any], tuple[str, ...]] = {}
