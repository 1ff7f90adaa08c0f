"""Lowering of data-dependent indexing: subscripts by integer tensors, for backends that cannot trace them.

The idea: `weights[t]`, where `t` is an integer tensor with one element, is a view in eager: torch reads the integer (`item`) and
selects. AOTAutograd cannot trace that. So before a backend gets the graph, a subscript whose result is indistinguishable from a
copy becomes `aten.index`, and an assignment becomes `aten.index_put_`. A copy is distinguishable from a view if it is an output, if
it or its base is mutated later, or if its strides differ: such a subscript is marked as an eager node (lowerings.py). An assignment
to a slice with tensor bounds (`mask[i, lengths[i]:] = 0`) becomes `where`, with a mask that compares each index with the bounds: a
bound may be negative or out of range, and a slice never raises.

`aten.index` raises IndexError for an integer out of range on the CPU only, so subscripts on other devices are unchanged.

In: a finished graph whose other eager nodes are marked. Out: the same graph, lowered in place. PyTorch's counterpart: none; its
frame falls back to eager there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch.utils.checkpoint import CheckpointPolicy

from dynexplore.engine.aliasing.lowerings import EAGER_NODE, INDEX, fake_of, graph_modules, note_lowering, tensors_in
from dynexplore.engine.aliasing.mutation import aliases_storage, mutated_args, operator_name
from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.finished_graph import FinishedGraph

_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)
_VIEW_ONLY = frozenset({"as_strided", "as_strided_", "set_", "getattr", "take_data", "resize_"})


def lower_data_dependent_indexing(graph: FinishedGraph, fake_mode: Any) -> None:
    """Lower each subscript by an integer tensor that can be a copy, and mark the others."""
    subscripts = list(_subscripts(graph.module))
    if not subscripts:
        return
    lowered = [(owner, node) for owner, node in subscripts if _can_be_lowered(owner.graph, node)]
    for _, node in subscripts:
        if all(node is not other for _, other in lowered):
            node.meta[EAGER_NODE] = INDEX
    if not lowered:
        return
    note_lowering(graph, f"data-dependent indexing: {', '.join(node.name for _, node in lowered)}")
    for owner, node in lowered:
        with fake_mode, owner.graph.inserting_before(node):
            _lowering_of(node)(owner.graph, node)
        owner.recompile()


def _lowering_of(node: torch.fx.Node) -> Callable[[torch.fx.Graph, torch.fx.Node], None]:
    if node.target is operator.getitem:
        return _lower_getitem
    return _lower_slice_fill if any(map(_has_tensor_end, _items(node))) else _lower_setitem


# -- which nodes --------------------------------------------------------------------------------------------------------


def _subscripts(module: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.GraphModule, torch.fx.Node]]:
    """The subscripts for which torch would read a tensor's integer, with the graph that each is in."""
    for owner in graph_modules(module):
        for node in owner.graph.nodes:
            is_subscript = node.target in (operator.getitem, operator.setitem) and any(map(_reads_integer, _items(node)))
            is_narrow = node.op == "call_method" and node.target == "narrow" and _holds_one_integer(node.args[2])
            if is_narrow or (is_subscript and isinstance(fake_of(node.args[0]), torch.Tensor)):
                yield owner, node


def _reads_integer(item: Any) -> bool:
    """Whether torch reads an integer from an item of a subscript."""
    return _holds_one_integer(item) or _has_tensor_end(item)


def _has_tensor_end(item: Any) -> bool:
    """Whether it is a slice with a tensor bound."""
    return isinstance(item, slice) and any(map(_holds_one_integer, (item.start, item.stop)))


def _items(node: torch.fx.Node) -> tuple[Any, ...]:
    key = node.args[1]
    return tuple(key) if isinstance(key, tuple | list) else (key,)


def _holds_one_integer(item: Any) -> bool:
    fake = fake_of(item)
    return isinstance(fake, torch.Tensor) and fake.dim() == 0 and fake.dtype in _INTEGERS


def _can_be_lowered(graph: torch.fx.Graph, node: torch.fx.Node) -> bool:
    if node.target not in (operator.getitem, operator.setitem):
        return False
    tensor, items = fake_of(node.args[0]), _items(node)
    if any(map(_has_tensor_end, items)):
        return node.target is operator.setitem and _can_be_filled_by_mask(tensor, items, node.args[2])
    operands = [tensor, *map(fake_of, filter(_holds_one_integer, items))]
    dims = _dimensions(items, tensor.dim())
    if dims is None or tensor.layout is not torch.strided or any(operand.device.type != "cpu" for operand in operands):
        return False
    if node.target is operator.setitem:
        tensor_indices = [item for item in items if _holds_one_integer(item)]
        return (
            len(tensor_indices) == 1
            and all(item in tensor_indices or _is_full_slice(item) for item in items)
            and _fits_index_put(tensor, node.args[2])
        )
    if tensor.is_conj() or tensor.is_neg():
        return False
    selected_dims = {dim for item, dim in zip(items, dims, strict=True) if _holds_one_integer(item) or _is_number(item)}
    return _is_laid_out_as_a_copy(tensor, selected_dims) and not _is_observed_as_view(graph, node, storage_of(tensor))


def dimension_of_each(takes: Sequence[int | None], ndim: int) -> list[int] | None:
    """The dimension of each item of an index, given how many dimensions each consumes (-1: `...`, None: not a basic index); None
    unless all are numbers, slices, None and at most one `...`.

    >>> dimension_of_each([1, -1, 1], 4), dimension_of_each([1, None], 2)
    ([0, 1, 3], None)
    """
    indexed_dims = sum(take for take in takes if take is not None and take > 0)
    if None in takes or takes.count(-1) > 1 or indexed_dims > ndim:
        return None
    dims, dim = [], 0
    for take in takes:
        dims.append(dim)
        dim += ndim - indexed_dims if take == -1 else take or 0
    return dims


def _dimensions(items: Sequence[Any], ndim: int) -> list[int] | None:
    """The dimension of each item; see `dimension_of_each`."""
    return dimension_of_each([_dimensions_consumed(item) for item in items], ndim)


def _dimensions_consumed(item: Any) -> int | None:
    """How many dimensions an item consumes: -1 for `...`, None if it is not a basic index."""
    fake = fake_of(item)
    if item is Ellipsis:
        return -1
    if isinstance(item, slice) or _is_number(item) or _holds_one_integer(item):
        return 1
    if isinstance(fake, torch.Tensor) and fake.dim() > 0 and fake.dtype in (torch.int32, torch.int64):
        return 1  # each of its integers selects a row
    return 0 if item is None else None


def _is_number(item: Any) -> bool:
    return type(fake_of(item)) is int or isinstance(fake_of(item), torch.SymInt)


def _is_full_slice(item: Any) -> bool:
    return item is Ellipsis or (isinstance(item, slice) and item == slice(None))


def _fits_index_put(tensor: torch.Tensor, value: Any) -> bool:
    """Whether `index_put_` accepts the assigned value."""
    fake = fake_of(value)
    if type(fake) in (bool, int, float, complex):
        return True
    if not isinstance(fake, torch.Tensor) or fake.device.type != "cpu" or fake.layout is not torch.strided:
        return False
    if fake.dim() >= tensor.dim() or storage_of(fake) == storage_of(tensor):
        return False
    return not fake.requires_grad or tensor.is_floating_point() or tensor.is_complex()  # torch refuses others


def _can_be_filled_by_mask(tensor: torch.Tensor, items: Sequence[Any], value: Any) -> bool:
    """Whether `where` can replace the assignment of one value to slices with tensor bounds."""
    if tensor.layout is not torch.strided or torch._debug_has_internal_overlap(tensor) != 0:
        return False
    ends = [end for item in items if isinstance(item, slice) for end in (item.start, item.stop)]
    devices = {fake.device for fake in map(fake_of, [*ends, value]) if isinstance(fake, torch.Tensor)}
    if not devices <= {tensor.device, torch.device("cpu")} or not _fits_index_put(tensor, value):
        return False
    dims = _dimensions(items, tensor.dim())
    return dims is not None and all(_has_plain_ends(item, tensor.shape[dim]) for item, dim in zip(items, dims, strict=True))


def _has_plain_ends(item: Any, size: int | torch.SymInt) -> bool:
    """Whether it is a number, `...`, or a slice of tensors and constants; a negative bound next to a tensor needs a static size."""
    if not isinstance(item, slice):
        return type(item) is int or item is Ellipsis
    constants = [end for end in (item.start, item.stop) if not _holds_one_integer(end)]
    return all(end is None or (type(end) is int and (end >= 0 or type(size) is int)) for end in constants)


def _is_laid_out_as_a_copy(tensor: torch.Tensor, selected_dims: set[int]) -> bool:
    """Whether a copy of the selection in these dimensions has the view's strides, or at most one dimension."""
    dims = enumerate(zip(tensor.shape, tensor.stride(), strict=True))
    rest = [(size, step) for dim, (size, step) in dims if dim not in selected_dims]
    if len(rest) <= 1:
        return True
    if not all(type(number) is int for pair in rest for number in pair):
        return False
    contiguous = torch.empty([size for size, _ in rest], device="meta").stride()
    return contiguous == tuple(step for _, step in rest)


def _is_observed_as_view(graph: torch.fx.Graph, node: torch.fx.Node, storage: int) -> bool:
    """Whether the program can distinguish the result of a subscript from a copy."""
    nodes = list(graph.nodes)
    later = nodes[nodes.index(node) + 1 :]
    views = {node}
    for user in later:
        if views.isdisjoint(user.all_input_nodes):
            continue
        if user.op == "output" or operator_name(user) in _VIEW_ONLY:
            return True
        if aliases_storage(user, storage):
            views.add(user)
    return any(aliases_storage(mutated, storage) for user in later for mutated in mutated_args(user))


# -- rewriting ----------------------------------------------------------------------------------------------------------


def _call(graph: torch.fx.Graph, like: torch.fx.Node, target: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
    """Create a node with its fake value, with the modes and source location of the node that it replaces."""
    lowered = graph.create_node("call_method" if isinstance(target, str) else "call_function", target, args, kwargs)
    lowered.meta = {key: value for key, value in like.meta.items() if key not in ("example_value", "writes", EAGER_NODE)}
    fakes, named = torch.fx.node.map_arg((args, kwargs), fake_of)
    value = fake_of(like)
    has_grad = any(tensor.requires_grad for tensor in tensors_in((value, fakes)))
    with torch.set_grad_enabled(has_grad), torch.inference_mode(isinstance(value, torch.Tensor) and value.is_inference()):
        call = getattr(fakes[0], target) if isinstance(target, str) else target
        lowered.meta["example_value"] = call(*fakes[isinstance(target, str) :], **named)
    return lowered


def _lower_getitem(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Select by numbers, copy the rows, and apply the rest of the subscript to the copy."""
    items = _items(node)
    dims = _dimensions(items, fake_of(node.args[0]).dim())
    assert dims is not None
    numbers = [position for position, item in enumerate(items) if _is_number(item)]
    index_positions = [position for position, item in enumerate(items) if _holds_one_integer(item)]
    part: Any = node.args[0]
    for position in reversed(numbers):
        part = _call(graph, node, torch.select, part, dims[position], items[position])
    for position in reversed(index_positions):
        dim = dims[position] - sum(before < position for before in numbers)
        part = _call(graph, node, torch.ops.aten.index.Tensor, part, _indices(graph, node, dim, items[position], part))
    rest = tuple(item for position, item in enumerate(items) if position not in index_positions and position not in numbers)
    if rest:
        part = _call(graph, node, operator.getitem, part, rest)
    node.replace_all_uses_with(part)
    graph.erase_node(node)


def _lower_setitem(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    tensor, items, value = node.args[0], _items(node), node.args[2]
    fake = fake_of(tensor)
    dims = _dimensions(items, fake.dim())
    assert dims is not None
    (position,) = (position for position, item in enumerate(items) if _holds_one_integer(item))
    value = _as_tensor(graph, node, value, fake)
    indices = _indices(graph, node, dims[position], items[position], tensor, value)
    put = graph.call_function(torch.ops.aten.index_put_.default, (tensor, indices, value))
    put.meta = {**node.meta, "example_value": fake}
    graph.erase_node(node)


def _lower_slice_fill(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Fill the selection of the subscript without these slices where a mask is true."""
    tensor, items = node.args[0], _items(node)
    fake = fake_of(tensor)
    dims = _dimensions(items, fake.dim())
    assert dims is not None
    value = _as_tensor(graph, node, node.args[2], fake)
    whole = tuple(slice(None) if _has_tensor_end(item) else item for item in items)
    part = _call(graph, node, operator.getitem, tensor, whole)
    mask: Any = None
    for position, item in enumerate(items):
        dim = dims[position] - sum(type(before) is int for before in items[:position])
        ends = zip((item.start, item.stop), (operator.ge, operator.lt), strict=True) if _has_tensor_end(item) else ()
        for end, compare in ends:
            if end is not None:
                reached = _is_in_slice(graph, node, part, dim, end, compare)
                mask = reached if mask is None else _call(graph, node, operator.and_, mask, reached)
    filled = _call(graph, node, torch.where, mask, value, part)
    copied = graph.call_method("copy_", (part, filled))  # `masked_fill_` may change the strides of its base
    copied.meta = {**node.meta, "example_value": fake_of(part)}
    graph.erase_node(node)


def _is_in_slice(graph: torch.fx.Graph, node: torch.fx.Node, part: Any, dim: int, end: Any, compare: Any) -> torch.fx.Node:
    """Compare each index of a dimension with a bound of a slice, in a shape that broadcasts to the filled part."""
    fake = fake_of(part)
    length = fake.shape[dim] if type(fake.shape[dim]) is int else _call(graph, node, "size", part, dim)
    positions = _call(graph, node, torch.arange, length, device=fake.device)
    if _holds_one_integer(end):
        wide = _call(graph, node, "to", end, torch.int64)
        is_negative = _call(graph, node, operator.lt, wide, 0)
        from_behind = _call(graph, node, operator.add, wide, length)
        end = _call(graph, node, torch.where, is_negative, from_behind, wide)
    elif end < 0:
        end += fake.shape[dim]
    reached = _call(graph, node, compare, positions, end)
    return _call(graph, node, "view", reached, -1, *[1] * (fake.dim() - dim - 1))


def _as_tensor(graph: torch.fx.Graph, node: torch.fx.Node, value: Any, fake: torch.Tensor) -> Any:
    """The assigned value as a tensor, in the dtype of the target."""
    if not isinstance(fake_of(value), torch.Tensor):
        return _call(graph, node, torch.full, [], value, dtype=fake.dtype, device=fake.device)
    return value if fake_of(value).dtype is fake.dtype else _call(graph, node, "to", value, fake.dtype)


def _indices(graph: torch.fx.Graph, node: torch.fx.Node, dim: int, item: Any, *operands: Any) -> list[Any]:
    """The arguments of `aten.index` for one item at a dimension.

    Its backward needs the integer again, while a view's backward stores it: the program may change the tensor in the meantime.
    """
    if fake_of(item).dtype is not torch.int64:
        item = _call(graph, node, "to", item, torch.int64)
    if any(tensor.requires_grad for tensor in tensors_in([fake_of(operand) for operand in operands])):
        item = _call(graph, node, "clone", item)
        item.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return [*[None] * dim, item]
