"""Synthetic bases: overlapping inputs are passed to a backend as one input and views of it.

The idea: AOTAutograd's graph reads its inputs first and mutates them last, so it needs inputs that do not overlap. If they do, the
backend gets their whole storage as one flat tensor, the *synthetic base*, and the graph takes each input from it by `as_strided`.
A mutation of one is then visible in all, as in eager. If the inputs are views of one tensor, so is the base: it shares their
version counter, and outputs that are views of it have the same base as in eager. If they are not (`.data` was assigned, or they
were deep-copied together), the base is a new tensor on the storage; version counters are bumped after the graph, and the graph may
return no view of it, and compute nothing that requires grad.

A base is possible for plain strided tensors of one dtype without gradients. `as_strided` uses offsets from the start of the
storage, which are constants of the graph. So the layout is guarded (overlap_guard.py).

In: the tensors of a call, or a finished graph and its bases. Out: the bases, plain comparable tuples; the module and the example
inputs for the backend; a callable that takes the program's inputs. PyTorch's counterpart: `merge_view_inputs` in
torch/_functorch/_aot_autograd/runtime_wrappers.py, inside the backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.fx

from dynexplore.engine.aliasing.lowerings import calls_in
from dynexplore.engine.aliasing.mutation import is_as_strided, is_mutated_after, mutated_args, storages_of, tensors_of
from dynexplore.engine.aliasing.storage import groups_that_overlap, layout_of, storage_of
from dynexplore.engine.graph.finished_graph import FinishedGraph, copy_of_graph, example_value

Base = tuple[tuple[int, ...], tuple[int, ...], int, bool]
"""The indices of the inputs in one storage, the storage offset of each, the base's number of elements, and whether the inputs are
views of one tensor.
"""


def bases_of(tensors: Sequence[torch.Tensor], mutated: Iterable[int]) -> tuple[Base, ...] | None:
    """The bases of the storages in which tensors overlap and some are mutated; None if a storage can have none.

    >>> x = torch.ones(6)
    >>> bases_of([x[:4], x[2:]], [0])
    (((0, 1), (0, 2), 6, True),)
    """
    groups = groups_that_overlap(tensors, mutated)
    storages = dict.fromkeys(storage_of(tensors[index]) for group in groups for index in group)
    bases = [_base_in(storage, tensors) for storage in storages]
    return None if None in bases else tuple(base for base in bases if base is not None)


def _base_in(storage: int, tensors: Sequence[torch.Tensor]) -> Base | None:
    indices = tuple(index for index, tensor in enumerate(tensors) if storage_of(tensor) == storage)
    aliases = [tensors[index] for index in indices]
    if not all(map(_can_be_view_of_base, aliases)) or len({tensor.dtype for tensor in aliases}) > 1:
        return None
    offsets = tuple(int(tensor.storage_offset()) for tensor in aliases)
    has_one_base = len({id(_viewed(tensor)) for tensor in aliases}) == 1
    return indices, offsets, aliases[0].untyped_storage().nbytes() // aliases[0].itemsize, has_one_base


def _can_be_view_of_base(tensor: torch.Tensor) -> bool:
    viewed = _viewed(tensor)
    is_plain = all(type(each) in (torch.Tensor, torch.nn.Parameter) and each.layout is torch.strided for each in (tensor, viewed))
    has_gradient = tensor.requires_grad or viewed.requires_grad
    is_lazy = tensor.is_conj() or tensor.is_neg()
    return is_plain and tensor.dtype is viewed.dtype and not (has_gradient or is_lazy or tensor.is_inference())


def _viewed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor._base is None else tensor._base


def are_views_in_graph(bases: Sequence[Base], graph: FinishedGraph) -> bool:
    """Whether the graph can take these inputs from bases: each has fixed sizes, is no output, and no attribute is in its storage.

    Inductor of torch 2.14 orders several mutations of one base incorrectly, so only one mutation is allowed.
    """
    if sum(bool(mutated_args(node)) for node in calls_in(graph.module)) > 1:
        return False
    nodes = [graph.inputs[index].node for indices, *_ in bases for index in indices]
    storages = set().union(*map(storages_of, nodes))
    attributes = (node for node in graph.module.graph.nodes if node.op == "get_attr")
    if any(node in graph.outputs for node in nodes) or any(not storages.isdisjoint(storages_of(node)) for node in attributes):
        return False
    if is_mutated_after(calls_in(graph.module), lambda node: is_as_strided(node) and node.args[0] in nodes):
        return False  # of a view of the base it would be one that has no inverse
    numbers = (number for node in nodes for part in layout_of(example_value(node)) for number in _numbers(part))
    if not all(isinstance(number, int) for number in numbers):
        return False
    return all(has_one_base for *_, has_one_base in bases) or not any(_is_view_or_trains(node, storages) for node in graph.outputs)


def _is_view_or_trains(output: torch.fx.Node, storages: set[int]) -> bool:
    return not storages.isdisjoint(storages_of(output)) or any(value.requires_grad for value in tensors_of(output))


def _numbers(part: Any) -> Sequence[Any]:
    return part if isinstance(part, Sequence) else (part,)


def with_bases(
    module: torch.fx.GraphModule, examples: Sequence[Any], bases: Sequence[Base], fake_mode: Any
) -> tuple[torch.fx.GraphModule, list[Any]]:
    """A copy of the graph that takes bases, after the remaining inputs, and its example inputs."""
    copied = copy_of_graph(module)
    placeholders = [node for node in copied.graph.nodes if node.op == "placeholder"]
    last, fake_bases = placeholders[-1], []
    for number, (indices, _, count, has_one_base) in enumerate(bases):
        with fake_mode, torch.no_grad():
            fake_bases.append(_flat(examples[indices[0]], count, has_one_base))
        with copied.graph.inserting_after(last):
            last = copied.graph.placeholder(f"base_{number}")
        last.meta["example_value"] = fake_bases[-1]
    nodes = [node for node in copied.graph.nodes if node.op == "placeholder"][len(placeholders) :]
    for base, (indices, *_) in zip(nodes, bases, strict=True):
        for index in indices:
            last = _replace_by_view_of_base(copied.graph, base, placeholders[index], last)
    copied.recompile()
    return copied, [examples[index] for index in _inputs_without_base(len(placeholders), bases)] + fake_bases


def _replace_by_view_of_base(
    graph: torch.fx.Graph, base: torch.fx.Node, placeholder: torch.fx.Node, after: torch.fx.Node
) -> torch.fx.Node:
    """Replace an input by a view of the base; returns the node of the view."""
    sizes, strides, offset = layout_of(example_value(placeholder))
    with graph.inserting_after(after):
        view = graph.call_method("as_strided", (base, tuple(sizes), tuple(strides), offset))
    view.meta = dict(placeholder.meta)
    placeholder.replace_all_uses_with(view)
    graph.erase_node(placeholder)
    return view


def wrap_synthetic_bases(compiled: Callable[..., Any], graph: FinishedGraph, bases: Sequence[Base]) -> Callable[..., Any]:
    """The backend's callable for the graph with bases, called with the program's inputs."""
    unchanged = _inputs_without_base(len(graph.inputs), bases)
    firsts = [(indices[0], count, has_one_base) for indices, _, count, has_one_base in bases]
    own = [index for indices, *_, has_one_base in bases if not has_one_base for index in indices]  # counters that no base shares
    bumped = [index for index in own if graph.meta.inputs[index].bumps_version]

    def call(*inputs: Any) -> Any:
        with torch.no_grad():
            flat = [_flat(inputs[index], elements, has_one_base) for index, elements, has_one_base in firsts]
        outputs = compiled(*(inputs[index] for index in unchanged), *flat)
        torch.autograd.graph.increment_version([inputs[index] for index in bumped])
        return outputs

    return call


def _flat(tensor: torch.Tensor, count: int, is_view: bool) -> torch.Tensor:
    """A tensor's whole storage, as a view of the tensor's base or as a new tensor."""
    if is_view:
        return _viewed(tensor).as_strided((count,), (1,), 0)
    return tensor.new_empty(0).set_(tensor.untyped_storage(), 0, (count,), (1,))


def _inputs_without_base(count: int, bases: Sequence[Base]) -> list[int]:
    replaced = {index for indices, *_ in bases for index in indices}
    return [index for index in range(count) if index not in replaced]
