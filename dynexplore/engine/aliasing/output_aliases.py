"""View regeneration and creation meta: outputs that alias others come back as views that the program may change in place.

The idea: of `y = x * 2; y.view(-1).mul_(3)` AOTAutograd makes a functional graph: `y` comes back as a view that was created inside
a custom autograd.Function, and autograd refuses to mutate such a view. So an output that is a view here and none in the program is
cloned, and outputs that alias it are regenerated as views of the clone. If no output requires grad, the whole compiled graph runs
in no_grad mode, so its views get the creation meta of no_grad views; here each gets the creation meta that it has in eager (a view
that the program itself created under no_grad is still refused). A no_grad view has no grad_fn though its base has one: AOTAutograd
regenerates it from the base, and gradients would flow through it; so its history is cut.

Inductor's outputs that share a storage are not views of each other when autograd records nothing; they become views of one base,
so that they share a version counter.

In: a finished graph, and the backend's callable. Out: a callable whose outputs can be mutated as in eager. PyTorch's counterpart:
`AliasOfInputHandler` and `AliasOfIntermediateHandler` (torch/_functorch/_aot_autograd/runtime_wrappers.py); under torch.compile
the in-place change raises.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses import FakeTensor

from dynexplore.engine.aliasing.autograd_graph import ends_ahead_of_base, grad_fn_of, is_no_grad_view
from dynexplore.engine.aliasing.mutation import mutated_storages, outside_storages
from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.finished_graph import FinishedGraph, example_value

DEFAULT_CREATION_META = torch._C._autograd.CreationMeta.DEFAULT


def wrap_output_aliases(compiled: Callable[..., Any], graph: FinishedGraph) -> Callable[..., Any]:
    """The backend's callable; its outputs may be mutated wherever the program's may."""
    values = list(map(example_value, graph.outputs))
    copied = _mutated_intermediates(graph) if graph.meta.has_mutation else []
    views = [(index, _kind(value), _viewed(values, index)) for index, value in enumerate(values) if _is_bare_view(value)]
    apart = _views_of_dead_bases(values, [index for index, _, viewed in views if viewed is None])
    cut_off = [index for index, value in enumerate(values) if _is_no_grad_view_of_grad_tensor(value)]
    if not (copied or views or cut_off):
        return compiled

    def call(*inputs: Any) -> Sequence[Any]:
        outputs = list(compiled(*inputs))
        with torch.enable_grad():  # even if the graph ends in a no_grad block: a copy has the history of its original
            for indices in copied:
                if any(_differs_from_captured(outputs[index], values[index]) for index in indices):
                    _copy(outputs, values, indices)
            for indices in apart:
                _rebase_views(outputs, indices)
            for index, kind, viewed in views:
                outputs[index] = _set_creation_meta(kind, outputs[index], None if viewed is None else outputs[viewed])
        with torch.no_grad():
            for index in cut_off:
                outputs[index] = outputs[index].view_as(outputs[index])
        return outputs

    return call


def _is_plain(value: Any) -> bool:
    """Whether it represents a tensor of torch's own class, with sizes and strides."""
    return isinstance(value, FakeTensor) and value.layout is torch.strided


def _is_bare_view(value: Any) -> bool:
    """Whether it is a view without autograd history."""
    return _is_plain(value) and value._is_view() and not value.requires_grad and not value.is_inference()


def _is_no_grad_view_of_grad_tensor(value: Any) -> bool:
    """Whether it is a view without history, created with grad mode off, of a base that has one."""
    return _is_plain(value) and value.requires_grad and is_no_grad_view(value) and grad_fn_of(value) is None


def _kind(view: torch.Tensor) -> Any:
    """The creation meta of a view: whether autograd lets it be mutated depends on it."""
    return torch._C._autograd._get_creation_meta(view)


def _viewed(values: Sequence[Any], index: int) -> int | None:
    """The index of the output that this one is a view of, if any."""
    return next((other for other, value in enumerate(values) if value is values[index]._base), None)


def _views_of_dead_bases(values: Sequence[Any], indices: Sequence[int]) -> list[list[int]]:
    """The indices of views that share a base which is not an output, in groups of two or more."""
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for index in indices:
        groups[id(values[index]._base)].append(index)
    return [group for group in groups.values() if len(group) > 1]


def _rebase_views(outputs: list[Any], indices: Sequence[int]) -> None:
    """Make outputs views of one common base, which the backend created separately or not as views."""
    first = outputs[indices[0]]
    detached = first.detach()
    alike = all(storage_of(outputs[index]) == storage_of(first) and outputs[index].dtype is first.dtype for index in indices)
    bases = [outputs[index]._base for index in indices]
    if alike and any(base is None or base is not bases[0] or base.requires_grad for base in bases):
        for index in indices:
            outputs[index] = _view_of(detached, outputs[index])


def _view_of(base: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """A tensor in the storage of another one as a view of that."""
    return base.as_strided(output.shape, output.stride(), output.storage_offset())


def _set_creation_meta(kind: Any, output: Any, viewed: Any) -> Any:
    """Return a view that may be mutated as the program's; an output that only shares the storage is made a view first."""
    if type(output) is not torch.Tensor or output.requires_grad or output.is_inference():
        return output
    has_same_kind = viewed is not None and viewed.dtype is output.dtype and not viewed.requires_grad and viewed._base is None
    if has_same_kind and output._base is not viewed and storage_of(viewed) == storage_of(output):
        output = _view_of(viewed, output)
    if output._base is not None and (kind != DEFAULT_CREATION_META or not output._base.requires_grad):
        torch._C._autograd._set_creation_meta(output, kind)
    return output


# -- views whose history ends at a no_grad view ------------------------------------------------------------------


def cut_history(compiled: Callable[..., Any], graph: FinishedGraph) -> Callable[..., Any]:
    """The backend's callable; views of `no_grad` views are regenerated so that no gradient flows through them to the base."""
    cut = {index: value for index, value in enumerate(map(example_value, graph.outputs)) if ends_ahead_of_base(value)}
    if not cut:
        return compiled

    def call(*inputs: Any) -> Sequence[Any]:
        outputs = list(compiled(*inputs))
        for index, value in cut.items():
            outputs[index] = _replay_views(outputs[index], value)
        return outputs

    return call


def _replay_views(output: torch.Tensor, captured: Any) -> torch.Tensor:
    """The program's views, replayed on a detached view of the base."""
    base: Any = output._base
    if base is None or storage_of(base) != storage_of(output):  # `.data` was assigned: its base has other memory
        base = output
    with torch.no_grad():
        start = base.view_as(base)
    with torch.enable_grad():
        if base is output:
            return start.view_as(start)  # type: ignore[no-any-return]
        has_fixed_layout = all(type(number) is int for number in (*captured.shape, *captured.stride(), captured.storage_offset()))
        replay: Any = captured._view_func_unsafe if has_fixed_layout else output._view_func_unsafe
        view: torch.Tensor = replay(start)
        return view


# -- views that the program did not create -------------------------------------------------------------------------


def _mutated_intermediates(graph: FinishedGraph) -> list[list[int]]:
    """The outputs in storages that the graph allocates and mutates, grouped by storage and ordered."""
    written = mutated_storages(graph.module.graph) - outside_storages(graph.module.graph)
    groups: defaultdict[int, list[int]] = defaultdict(list)
    order = {node: number for number, node in enumerate(graph.module.graph.nodes)}
    for index, node in sorted(enumerate(graph.outputs), key=lambda output: order[output[1]]):
        if _is_plain(value := example_value(node)) and storage_of(value) in written:
            groups[storage_of(value)].append(index)
    return list(groups.values())


def _differs_from_captured(output: torch.Tensor, captured: torch.Tensor) -> bool:
    """Whether its strides differ, only it is a view, or autograd refuses to mutate it but not the program's."""
    if _has_other_strides(output, captured):
        return True
    if not output._is_view():
        return False
    return not captured._is_view() or (_kind(output) != DEFAULT_CREATION_META and _kind(captured) == DEFAULT_CREATION_META)


def _has_other_strides(output: torch.Tensor, captured: torch.Tensor) -> bool:
    return all(type(step) is int for step in captured.stride()) and output.stride() != captured.stride()


def _copy(outputs: list[Any], values: Sequence[Any], indices: Sequence[int]) -> None:
    """Copy the output that the others were derived from; the others become views of the copy, or of a new storage."""
    base_indices = [index for index in indices if not values[index]._is_view()]
    if not base_indices:
        if len({values[index].dtype for index in indices}) > 1:
            return
        _rebase_on_one_storage(outputs, values, indices)
        return
    base = outputs[base_indices[0]]
    if any(values[index].dtype not in (base.dtype, base.dtype.to_real()) for index in indices):
        return
    copied = _clone_with_strides(base, values[base_indices[0]])
    if len(indices) > 1 and copied.stride() != base.stride():
        return
    bases = {id(values[base_indices[0]]): copied}
    for index in indices:
        captured = values[index]
        if captured.dtype is not base.dtype:  # a view of the real or imaginary parts of complex numbers
            outputs[index] = torch.view_as_real(copied).as_strided(*_layout_in(torch.view_as_real(base), outputs[index]))
            continue
        layout = _layout_in(base, outputs[index])
        if not captured._is_view():  # it was detached from the first one
            outputs[index] = bases.setdefault(id(captured), copied.as_strided(*layout).detach())
        else:
            outputs[index] = bases.setdefault(id(captured._base), copied.detach()).as_strided(*layout)


def _rebase_on_one_storage(outputs: list[Any], values: Sequence[Any], indices: Sequence[int]) -> None:
    """Place views of a base that is not an output in one new storage, laid out as in the program."""
    layouts = [(values[index].shape, values[index].stride(), values[index].storage_offset()) for index in indices]
    if any(torch._debug_has_internal_overlap(values[index]) == 1 for index in indices):
        return  # several elements share memory: do not copy
    first = values[indices[0]]
    size = first.untyped_storage().nbytes()
    if not all(type(number) is int for layout in layouts for part in layout[:2] for number in part) or type(size) is not int:
        return
    memory = torch.zeros(size // first.itemsize, dtype=first.dtype, device=first.device)
    for index, layout in zip(indices, layouts, strict=True):
        memory.as_strided(*layout).copy_(outputs[index])
    for index, layout in zip(indices, layouts, strict=True):
        outputs[index] = memory.as_strided(*layout)


def _clone_with_strides(output: torch.Tensor, captured: torch.Tensor) -> torch.Tensor:
    """A copy with the strides that it has in the program."""
    copied = output.clone()
    if not _has_other_strides(copied, captured):
        return copied
    return torch.empty_strided(output.shape, captured.stride(), dtype=output.dtype, device=output.device).copy_(output)


def _layout_in(whole: torch.Tensor, part: torch.Tensor) -> tuple[Any, Any, Any]:
    """Sizes, strides, and the offset of a part in the whole."""
    return part.shape, part.stride(), part.storage_offset() - whole.storage_offset()
