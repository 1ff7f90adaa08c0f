"""Lowerings: passes over a captured graph that replace operators which a backend cannot trace.

The idea: capture records the program's own call, whatever the backend. `weights[t]`, where `t` is an integer tensor with one
element, is a view in eager: torch reads the integer (`item`) and selects. AOTAutograd cannot trace that. So before a backend gets
the graph, a subscript whose result is indistinguishable from a copy becomes `aten.index`, and an assignment becomes
`aten.index_put_`. A copy is distinguishable from a view if it is an output, if it or its base is mutated later, or if its strides
differ. An assignment to a slice with tensor bounds (`mask[i, lengths[i]:] = 0`) becomes `where`, with a mask that compares each
index with the bounds: a bound may be negative or out of range, and a slice never raises.

`aten.index` raises IndexError for an integer out of range on the CPU only, so subscripts on other devices are unchanged.

A default device (`with torch.device(...)`, `torch.set_default_device`) is a function mode, under which AOTAutograd would trace
torch's own decompositions, too. Each constructor gets its device as an argument, and the nodes that enter and exit default devices
are erased.

Nodes that no backend may get are marked (`EAGER_NODE`): the graph is cut around them, and their pieces run as captured
(eager_pieces.py); if the graph cannot be cut, the backend is skipped (eligibility.py). Such nodes are

- a subscript that must stay a view
- an operator that creates a leaf (`torch.ones(2, requires_grad=True)`): AOTAutograd's only leaves are inputs, and the next piece
  gets the leaf as an input
- `x.data`, if a view of it is returned: AOTAutograd would regenerate that from x, whose version counter it does not share
- an autograd.Function whose code reads what may change: a backend runs that code once, when it traces it
- a checkpoint that draws random numbers and does not preserve the RNG state: a backend draws the same numbers again
- a `while_loop` with gradients: its number of steps is data-dependent

In: a finished graph. Out: the same graph, lowered in place; `captured` is a copy of the captured graph if something changed, and
`lowerings` lists what was lowered. Inputs and outputs keep their nodes. PyTorch's counterpart: none; its frame falls back to eager
there.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch.utils._device import _device_constructors
from torch.utils.checkpoint import CheckpointPolicy

from dynexplore.engine.aliasing.mutation import aliases_storage, mutated_args, operator_name
from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.builder import FinishedGraph, example_value
from dynexplore.engine.graph.modes import has_default_device, inference_mode_entered, sets_default_device
from dynexplore.engine.graph.partition import can_be_cut
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.records import record

EAGER_NODE = "runs_eager"
"""The key in a node's meta that marks it as eager: no backend gets this node; the value says why."""

INDEX, LEAF, DATA, FUNCTION, REDRAW, LOOP = (
    "a view at an index that a tensor holds", "a new leaf", "the data of a tensor",
    "an autograd.Function that reads what may change", "a checkpoint that draws other random numbers",
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


_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)
_VIEW_ONLY = frozenset({"as_strided", "as_strided_", "set_", "getattr", "take_data", "resize_"})


InstallGuard = Callable[[Source, str, Any], None]


def lower_captured(graph: FinishedGraph, fake_mode: Any, guard: InstallGuard) -> None:
    """Run all lowerings: the captured graph becomes the backend's graph."""
    for node in calls_in(graph.module):
        kind = _eager_kind(node)
        if kind is not None:
            node.meta[EAGER_NODE] = kind
    mark_redrawing_checkpoints(graph)
    mark_returned_data(graph)
    mark_functions_that_read(graph, guard)
    lower_data_dependent_indexing(graph, fake_mode)
    lower_default_devices(graph)


def _eager_kind(node: torch.fx.Node) -> str | None:
    """Why no backend may get a node, if the node alone determines that."""
    fake = _fake_of(node)
    if "requires_grad" in node.kwargs and isinstance(fake, torch.Tensor) and fake.requires_grad and fake.is_leaf:
        return LEAF
    if _is_while_loop(node.target) and any(value.requires_grad for value in _tensors(fake)):
        return LOOP
    return None


def _is_while_loop(target: Any) -> bool:
    """Whether this is the operator of `torch.while_loop`; its slow module is imported if the graph has the operator."""
    return isinstance(target, torch._ops.HigherOrderOperator) and str(target) == "while_loop"


def mark_redrawing_checkpoints(graph: FinishedGraph) -> None:
    """Mark each node that calls a subgraph which draws different random numbers when backward recomputes it."""
    for owner in _graph_modules(graph.module):
        for node in owner.graph.nodes:
            bodies = [getattr(owner, str(arg.target), None) for arg in node.all_input_nodes if arg.op == "get_attr"]
            if any(_redraws(body) for body in bodies if isinstance(body, torch.fx.GraphModule)):
                node.meta[EAGER_NODE] = REDRAW


def _redraws(body: torch.fx.GraphModule) -> bool:
    return any(node.meta.get(REDRAWS) for owner in _graph_modules(body) for node in owner.graph.nodes)


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
        storage_of(fake) for fake in map(_fake_of, graph.outputs) if isinstance(fake, torch.Tensor) and not fake.requires_grad
    }
    for node in calls_in(graph.module) if returned else ():
        if node.target is getattr and node.args[1] == "data" and any(aliases_storage(node, storage) for storage in returned):
            node.meta[EAGER_NODE] = DATA


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
    _note_lowering(graph, f"data-dependent indexing: {', '.join(node.name for _, node in lowered)}")
    for owner, node in lowered:
        with fake_mode, owner.graph.inserting_before(node):
            _lowering_of(node)(owner.graph, node)
        owner.recompile()


def lower_default_devices(graph: FinishedGraph) -> None:
    """Give each constructor its device as an argument, and erase the nodes that enter and exit default devices."""
    owners = _graph_modules(graph.module)
    setters = [node for owner in owners for node in owner.graph.nodes if sets_default_device(node)]
    if not (setters or has_default_device()) or graph.meta.runs_program_code:  # code of the program creates tensors, too
        return
    constructors = [node for node in calls_in(graph.module) if _creates_on_default_device(node)]
    if not setters and not constructors:
        return
    _note_lowering(graph, f"default devices: {', '.join(node.name for node in (*constructors, *setters))}")
    for node in constructors:
        node.update_kwarg("device", _fake_of(node).device)
    for node in reversed(setters):
        node.graph.erase_node(node)
    for owner in owners:
        owner.recompile()


def _creates_on_default_device(node: torch.fx.Node) -> bool:
    is_constructor = node.op == "call_function" and node.target in _device_constructors()
    return is_constructor and node.kwargs.get("device") is None and isinstance(_fake_of(node), torch.Tensor)


def _note_lowering(graph: FinishedGraph, lowering: str) -> None:
    """Keep a copy of the graph as it was captured, and note what is lowered."""
    if graph.captured is None:
        tensors = [*graph.module.parameters(), *graph.module.buffers()]
        graph.captured = copy.deepcopy(graph.module, {id(tensor): tensor for tensor in tensors})  # shares the tensors
    graph.lowerings = (*graph.lowerings, lowering)


def _lowering_of(node: torch.fx.Node) -> Callable[[torch.fx.Graph, torch.fx.Node], None]:
    if node.target is operator.getitem:
        return _lower_getitem
    return _lower_slice_fill if any(map(_has_tensor_end, _items(node))) else _lower_setitem


def has_eager_nodes(module: torch.fx.GraphModule, kind: str = "") -> bool:
    """Whether a backend must not get the whole graph because of a node of this kind."""
    kinds = {node.meta.get(EAGER_NODE) for node in module.graph.nodes} - {None}
    return kind in kinds if kind else bool(kinds)


def only_eager_nodes(module: torch.fx.GraphModule) -> bool:
    """Whether a backend would get no node of a graph."""
    return all(node.meta.get(EAGER_NODE) for node in module.graph.nodes if node.op.startswith("call_"))


def has_eager_nodes_in_subgraphs(module: torch.fx.GraphModule, kind: str) -> bool:
    """Whether a subgraph of a higher-order operator contains such a node: it cannot be cut there."""
    return any(has_eager_nodes(inner, kind) for inner in _graph_modules(module) if inner is not module)


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


# -- which nodes --------------------------------------------------------------------------------------------------------


def _subscripts(module: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.GraphModule, torch.fx.Node]]:
    """The subscripts for which torch would read a tensor's integer, with the graph that each is in."""
    for owner in _graph_modules(module):
        for node in owner.graph.nodes:
            is_subscript = node.target in (operator.getitem, operator.setitem) and any(map(_reads_integer, _items(node)))
            is_narrow = node.op == "call_method" and node.target == "narrow" and _holds_one_integer(node.args[2])
            if is_narrow or (is_subscript and isinstance(_fake_of(node.args[0]), torch.Tensor)):
                yield owner, node


def calls_in(module: torch.nn.Module) -> Iterator[torch.fx.Node]:
    """Every call node, including those of subgraphs."""
    return (node for owner in _graph_modules(module) for node in owner.graph.nodes if node.op.startswith("call_"))


def _graph_modules(module: torch.nn.Module) -> list[torch.fx.GraphModule]:
    return [inner for inner in module.modules() if isinstance(inner, torch.fx.GraphModule)]


def _reads_integer(item: Any) -> bool:
    """Whether torch reads an integer from an item of a subscript."""
    return _holds_one_integer(item) or _has_tensor_end(item)


def _has_tensor_end(item: Any) -> bool:
    """Whether it is a slice with a tensor bound."""
    return isinstance(item, slice) and any(map(_holds_one_integer, (item.start, item.stop)))


def _items(node: torch.fx.Node) -> tuple[Any, ...]:
    key = node.args[1]
    return tuple(key) if isinstance(key, tuple | list) else (key,)


def _fake_of(value: Any) -> Any:
    return value.meta.get("example_value") if isinstance(value, torch.fx.Node) else value


def _holds_one_integer(item: Any) -> bool:
    fake = _fake_of(item)
    return isinstance(fake, torch.Tensor) and fake.dim() == 0 and fake.dtype in _INTEGERS


def _can_be_lowered(graph: torch.fx.Graph, node: torch.fx.Node) -> bool:
    if node.target not in (operator.getitem, operator.setitem):
        return False
    tensor, items = _fake_of(node.args[0]), _items(node)
    if any(map(_has_tensor_end, items)):
        return node.target is operator.setitem and _can_be_filled_by_mask(tensor, items, node.args[2])
    operands = [tensor, *map(_fake_of, filter(_holds_one_integer, items))]
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
    fake = _fake_of(item)
    if item is Ellipsis:
        return -1
    if isinstance(item, slice) or _is_number(item) or _holds_one_integer(item):
        return 1
    if isinstance(fake, torch.Tensor) and fake.dim() > 0 and fake.dtype in (torch.int32, torch.int64):
        return 1  # each of its integers selects a row
    return 0 if item is None else None


def _is_number(item: Any) -> bool:
    return type(_fake_of(item)) is int or isinstance(_fake_of(item), torch.SymInt)


def _is_full_slice(item: Any) -> bool:
    return item is Ellipsis or (isinstance(item, slice) and item == slice(None))


def _fits_index_put(tensor: torch.Tensor, value: Any) -> bool:
    """Whether `index_put_` accepts the assigned value."""
    fake = _fake_of(value)
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
    devices = {fake.device for fake in map(_fake_of, [*ends, value]) if isinstance(fake, torch.Tensor)}
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
    fakes, named = torch.fx.node.map_arg((args, kwargs), _fake_of)
    value = _fake_of(like)
    has_grad = any(tensor.requires_grad for tensor in _tensors((value, fakes)))
    with torch.set_grad_enabled(has_grad), torch.inference_mode(isinstance(value, torch.Tensor) and value.is_inference()):
        call = getattr(fakes[0], target) if isinstance(target, str) else target
        lowered.meta["example_value"] = call(*fakes[isinstance(target, str) :], **named)
    return lowered


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    return (value for value in torch.utils._pytree.tree_leaves(values) if isinstance(value, torch.Tensor))


def _lower_getitem(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Select by numbers, copy the rows, and apply the rest of the subscript to the copy."""
    items = _items(node)
    dims = _dimensions(items, _fake_of(node.args[0]).dim())
    assert dims is not None
    numbers = [place for place, item in enumerate(items) if _is_number(item)]
    index_places = [place for place, item in enumerate(items) if _holds_one_integer(item)]
    part: Any = node.args[0]
    for place in reversed(numbers):
        part = _call(graph, node, torch.select, part, dims[place], items[place])
    for place in reversed(index_places):
        dim = dims[place] - sum(before < place for before in numbers)
        part = _call(graph, node, torch.ops.aten.index.Tensor, part, _indices(graph, node, dim, items[place], part))
    rest = tuple(item for place, item in enumerate(items) if place not in index_places and place not in numbers)
    if rest:
        part = _call(graph, node, operator.getitem, part, rest)
    node.replace_all_uses_with(part)
    graph.erase_node(node)


def _lower_setitem(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    tensor, items, value = node.args[0], _items(node), node.args[2]
    fake = _fake_of(tensor)
    dims = _dimensions(items, fake.dim())
    assert dims is not None
    (place,) = (place for place, item in enumerate(items) if _holds_one_integer(item))
    value = _as_tensor(graph, node, value, fake)
    indices = _indices(graph, node, dims[place], items[place], tensor, value)
    put = graph.call_function(torch.ops.aten.index_put_.default, (tensor, indices, value))
    put.meta = {**node.meta, "example_value": fake}
    graph.erase_node(node)


def _lower_slice_fill(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Fill the selection of the subscript without these slices where a mask is true."""
    tensor, items = node.args[0], _items(node)
    fake = _fake_of(tensor)
    dims = _dimensions(items, fake.dim())
    assert dims is not None
    value = _as_tensor(graph, node, node.args[2], fake)
    whole = tuple(slice(None) if _has_tensor_end(item) else item for item in items)
    part = _call(graph, node, operator.getitem, tensor, whole)
    mask: Any = None
    for place, item in enumerate(items):
        dim = dims[place] - sum(type(before) is int for before in items[:place])
        ends = zip((item.start, item.stop), (operator.ge, operator.lt), strict=True) if _has_tensor_end(item) else ()
        for end, compare in ends:
            if end is not None:
                reached = _is_in_slice(graph, node, part, dim, end, compare)
                mask = reached if mask is None else _call(graph, node, operator.and_, mask, reached)
    filled = _call(graph, node, torch.where, mask, value, part)
    copied = graph.call_method("copy_", (part, filled))  # `masked_fill_` may change the strides of its base
    copied.meta = {**node.meta, "example_value": _fake_of(part)}
    graph.erase_node(node)


def _is_in_slice(graph: torch.fx.Graph, node: torch.fx.Node, part: Any, dim: int, end: Any, compare: Any) -> torch.fx.Node:
    """Compare each index of a dimension with a bound of a slice, in a shape that broadcasts to the filled part."""
    fake = _fake_of(part)
    length = fake.shape[dim] if type(fake.shape[dim]) is int else _call(graph, node, "size", part, dim)
    places = _call(graph, node, torch.arange, length, device=fake.device)
    if _holds_one_integer(end):
        wide = _call(graph, node, "to", end, torch.int64)
        is_negative = _call(graph, node, operator.lt, wide, 0)
        from_behind = _call(graph, node, operator.add, wide, length)
        end = _call(graph, node, torch.where, is_negative, from_behind, wide)
    elif end < 0:
        end += fake.shape[dim]
    reached = _call(graph, node, compare, places, end)
    return _call(graph, node, "view", reached, -1, *[1] * (fake.dim() - dim - 1))


def _as_tensor(graph: torch.fx.Graph, node: torch.fx.Node, value: Any, fake: torch.Tensor) -> Any:
    """The assigned value as a tensor, in the dtype of the target."""
    if not isinstance(_fake_of(value), torch.Tensor):
        return _call(graph, node, torch.full, [], value, dtype=fake.dtype, device=fake.device)
    return value if _fake_of(value).dtype is fake.dtype else _call(graph, node, "to", value, fake.dtype)


def _indices(graph: torch.fx.Graph, node: torch.fx.Node, dim: int, item: Any, *operands: Any) -> list[Any]:
    """The arguments of `aten.index` for one item at a dimension.

    Its backward needs the integer again, while a view's backward stores it: the program may change the tensor in the meantime.
    """
    if _fake_of(item).dtype is not torch.int64:
        item = _call(graph, node, "to", item, torch.int64)
    if any(tensor.requires_grad for tensor in _tensors([_fake_of(operand) for operand in operands])):
        item = _call(graph, node, "clone", item)
        item.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return [*[None] * dim, item]
