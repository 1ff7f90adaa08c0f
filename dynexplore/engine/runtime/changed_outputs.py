"""Outputs that autograd refuses to change in place, though the program may: a compiler made them in other blocks than the program.

The idea: of `y = x * 2; y.view(-1).mul_(3)` AOTAutograd makes calls without writes: a product of what `y` looks like as a vector,
and `y` is what that looks like as a matrix, a view that was made inside a function. So an output that comes as a view, and is none
in the program, is copied, and what the program took of it becomes a view of the copy. And where no gradients are wanted the whole
graph runs without noting any: a view that it hands out may be changed by what has a gradient, as in eager, when autograd is told
that it was made where gradients are noted; and one that the program made where they are not is refused, as in eager. Such a view
has no history, though what it was taken of has one: AOTAutograd takes it anew, and gradients would go through it.

A compiler that computes into memory of its own, as Inductor does, hands out no views of the first kind; and what lies in one memory
is, where no gradients are wanted, no view either: it becomes one, so that autograd hears of changes.

In:  a finished graph, and what a backend made of it. Out: what gives outputs that can be changed.
AOTAutograd has no counterpart: under torch.compile such a change raises.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses import FakeTensor

from dynexplore.engine.graph.autograd_history import is_made_without_gradients, known_grad_fn
from dynexplore.engine.graph.builder import FinishedGraph, example_value
from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.graph.written_nodes import memories_from_outside, memories_written

_CHANGED_AS_EVER = torch._C._autograd.CreationMeta.DEFAULT


def with_outputs_that_change(compiled: Callable[..., Any], graph: FinishedGraph) -> Callable[..., Any]:
    """What a backend made of the graph; its outputs may be changed in place where those of the program may."""
    values = list(map(example_value, graph.outputs))
    copied = _made_and_written(graph) if graph.written_inside else []
    views = [(place, _kind(value), _viewed(values, place)) for place, value in enumerate(values) if _is_bare_view(value)]
    apart = _views_of_what_is_gone(values, [place for place, _, viewed in views if viewed is None])
    cut_off = [place for place, value in enumerate(values) if _is_cut_off(value)]
    if not (copied or views or cut_off):
        return compiled

    def call(*inputs: Any) -> Sequence[Any]:
        outputs = list(compiled(*inputs))
        with torch.enable_grad():  # whatever the block that the graph ends in: a copy has the history of what it is one of
            for places in copied:
                if any(_is_unlike(outputs[place], values[place]) for place in places):
                    _copy(outputs, values, places)
            for places in apart:
                _take_of_one(outputs, places)
            for place, kind, viewed in views:
                outputs[place] = _changed_as(kind, outputs[place], None if viewed is None else outputs[viewed])
        with torch.no_grad():
            for place in cut_off:
                outputs[place] = outputs[place].view_as(outputs[place])
        return outputs

    return call


def _is_plain(value: Any) -> bool:
    """Whether it stands for a tensor of torch's own class, with sizes and strides."""
    return isinstance(value, FakeTensor) and value.layout is torch.strided


def _is_bare_view(value: Any) -> bool:
    """Whether it is a view without a history."""
    return _is_plain(value) and value._is_view() and not value.requires_grad and not value.is_inference()


def _is_cut_off(value: Any) -> bool:
    """Whether it is a view without a history, made where no gradients are noted, of what has one."""
    return _is_plain(value) and value.requires_grad and is_made_without_gradients(value) and known_grad_fn(value) is None


def _kind(view: torch.Tensor) -> Any:
    """In which block a view was made, and by what: autograd goes by it where the view is changed."""
    return torch._C._autograd._get_creation_meta(view)


def _viewed(values: Sequence[Any], place: int) -> int | None:
    """The place of the output that this one is a view of, if it is one of them."""
    return next((other for other, value in enumerate(values) if value is values[place]._base), None)


def _views_of_what_is_gone(values: Sequence[Any], places: Sequence[int]) -> list[list[int]]:
    """Those of the places that hold views of one thing, two or more of them together."""
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for place in places:
        groups[id(values[place]._base)].append(place)
    return [group for group in groups.values() if len(group) > 1]


def _take_of_one(outputs: list[Any], places: Sequence[int]) -> None:
    """Make views of one thing of what a compiler took of what that was detached from, or did not know for views."""
    first = outputs[places[0]]
    one = first.detach()
    alike = all(storage_of(outputs[place]) == storage_of(first) and outputs[place].dtype is first.dtype for place in places)
    bases = [outputs[place]._base for place in places]
    if alike and any(base is None or base is not bases[0] or base.requires_grad for base in bases):
        for place in places:
            outputs[place] = _taken_of(one, outputs[place])


def _taken_of(one: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """What lies in the memory of a tensor as a view of that tensor."""
    return one.as_strided(found.shape, found.stride(), found.storage_offset())


def _changed_as(kind: Any, found: Any, viewed: Any) -> Any:
    """A view that may be changed as the program's; of what is none, but lies in the memory of what it was taken of, one is made."""
    if type(found) is not torch.Tensor or found.requires_grad or found.is_inference():
        return found
    has_same_kind = viewed is not None and viewed.dtype is found.dtype and not viewed.requires_grad and viewed._base is None
    if has_same_kind and found._base is not viewed and storage_of(viewed) == storage_of(found):
        found = _taken_of(viewed, found)
    if found._base is not None and (kind != _CHANGED_AS_EVER or not found._base.requires_grad):
        torch._C._autograd._set_creation_meta(found, kind)
    return found


# -- views that the program did not make -----------------------------------------------------------------------------


def _made_and_written(graph: FinishedGraph) -> list[list[int]]:
    """The outputs that lie in memory which the graph makes and writes to; those in one memory in order."""
    written = memories_written(graph.module.graph) - memories_from_outside(graph.module.graph)
    groups: defaultdict[int, list[int]] = defaultdict(list)
    order = {node: number for number, node in enumerate(graph.module.graph.nodes)}
    for place, node in sorted(enumerate(graph.outputs), key=lambda output: order[output[1]]):
        if _is_plain(value := example_value(node)) and storage_of(value) in written:
            groups[storage_of(value)].append(place)
    return list(groups.values())


def _is_unlike(found: torch.Tensor, meant: torch.Tensor) -> bool:
    """Whether it is laid out otherwise, is a view that the program did not make, or refuses to be changed where that does not."""
    if _is_laid_out_otherwise(found, meant):
        return True
    if not found._is_view():
        return False
    return not meant._is_view() or (_kind(found) != _CHANGED_AS_EVER and _kind(meant) == _CHANGED_AS_EVER)


def _is_laid_out_otherwise(found: torch.Tensor, meant: torch.Tensor) -> bool:
    return all(type(step) is int for step in meant.stride()) and found.stride() != meant.stride()


def _copy(outputs: list[Any], values: Sequence[Any], places: Sequence[int]) -> None:
    """Copy the output that the others were made of; without it they become views of a memory of their own."""
    made = [place for place in places if not values[place]._is_view()]
    if len({values[place].dtype for place in places}) > 1:
        return
    if not made:
        _place_in_one_memory(outputs, values, places)
        return
    found = outputs[made[0]]
    copied = _copied(found, values[made[0]])
    if len(places) > 1 and copied.stride() != found.stride():
        return
    bases = {id(values[made[0]]): copied}
    for place in places:
        meant, layout = values[place], _layout_in(found, outputs[place])
        if not meant._is_view():  # it was detached from the first one
            outputs[place] = bases.setdefault(id(meant), copied.as_strided(*layout).detach())
        else:
            outputs[place] = bases.setdefault(id(meant._base), copied.detach()).as_strided(*layout)


def _place_in_one_memory(outputs: list[Any], values: Sequence[Any], places: Sequence[int]) -> None:
    """What are views of something that is gone lie in a new memory as in the program's."""
    layouts = [(values[place].shape, values[place].stride(), values[place].storage_offset()) for place in places]
    if any(torch._debug_has_internal_overlap(values[place]) == 1 for place in places):
        return  # several elements in one place: nothing is copied there
    first = values[places[0]]
    size = first.untyped_storage().nbytes()
    if not all(type(number) is int for layout in layouts for part in layout[:2] for number in part) or type(size) is not int:
        return
    memory = torch.zeros(size // first.itemsize, dtype=first.dtype, device=first.device)
    for place, layout in zip(places, layouts, strict=True):
        memory.as_strided(*layout).copy_(outputs[place])
    for place, layout in zip(places, layouts, strict=True):
        outputs[place] = memory.as_strided(*layout)


def _copied(found: torch.Tensor, meant: torch.Tensor) -> torch.Tensor:
    """A copy that is laid out as in the program."""
    copied = found.clone()
    if not _is_laid_out_otherwise(copied, meant):
        return copied
    return torch.empty_strided(found.shape, meant.stride(), dtype=found.dtype, device=found.device).copy_(found)


def _layout_in(whole: torch.Tensor, part: torch.Tensor) -> tuple[Any, Any, Any]:
    """Sizes, strides, and how far from the whole a part of it begins."""
    return part.shape, part.stride(), part.storage_offset() - whole.storage_offset()
