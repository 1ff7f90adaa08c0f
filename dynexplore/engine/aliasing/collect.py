"""Collect the metadata of a graph when it is closed, in one walk over its inputs and outputs.

The idea: while operators ran on fake tensors, the fake mode recorded which storages they mutate, and autograd recorded the
operators. Here these records are turned into facts about each input and output. Version counters tell whether autograd noticed a
mutation: a mutation through `.data` bumps the counter of the alias, not that of the input.

In: inputs (node and real example), output nodes, the effects recorded by the fake mode. Out: `GraphMetadata`. PyTorch's
counterpart: torch/_functorch/_aot_autograd/collect_metadata_analysis.py, which runs the graph on functional tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.fx

from dynexplore.engine.aliasing.autograd_graph import grad_fn_of, is_no_grad_view, is_one_of_several_views
from dynexplore.engine.aliasing.metadata import GraphMetadata, InputAliasInfo, OutputAliasInfo
from dynexplore.engine.aliasing.mutation import IN_PLACE_VIEWS, operator_name
from dynexplore.engine.aliasing.stale_views import is_leaf_unless_stale
from dynexplore.engine.aliasing.storage import has_internal_overlap, storage_of
from dynexplore.engine.graph.custom_operators import is_of_program


class Input(Protocol):
    """An input of a graph: its node, and its value in this call."""

    node: torch.fx.Node
    example: Any


class Effects(Protocol):
    """The effects of operators that the fake mode recorded (graph/fake_mode.py)."""

    written: set[int]
    as_strided_storages: set[int]
    data_aliases: list[tuple[torch.Tensor, int]]
    draws_random_numbers: bool
    may_raise: bool
    has_overlapping_write: bool


def collect_metadata(
    module: torch.fx.GraphModule, inputs: Sequence[Input], outputs: Sequence[torch.fx.Node], effects: Effects,
    versions: Mapping[int, int], *, mutates_saved_data: bool, mutates_recompute_inputs: bool,
) -> GraphMetadata:  # fmt: skip
    """The metadata of a graph. `versions`: the version counter of each input's fake value at its creation, by id."""
    with torch._C.DisableTorchFunctionSubclass():  # do not run `__torch_function__` of user subclasses
        hidden = _hidden_storages(inputs, effects, versions)
        resized = _resized_in_place(module) if effects.written else set()
        input_infos = tuple(_input_info(entry, effects, hidden, resized, versions) for entry in inputs)
        fakes = [node.meta["example_value"] for node in outputs]
        passed = [entry.node.meta["example_value"] for entry in inputs]
        storages = {storage_of(value) for value in (*fakes, *passed) if _is_strided(value) and value.requires_grad}
        mutated_leaves = {storage_of(fake) for fake, info in zip(passed, input_infos, strict=True) if info.requires_grad}
        output_infos = tuple(_output_info(fake, fakes, storages, mutated_leaves) for fake in fakes)
    return GraphMetadata(
        input_infos, output_infos,
        op_count=len(calls := _calls(module)), has_mutation=bool(effects.written), may_raise=effects.may_raise,
        draws_rng=effects.draws_random_numbers, runs_program_code=any(map(is_of_program, calls)),
        warns=any("warnings" in node.meta for node in calls),
        has_overlapping_write=effects.has_overlapping_write or _mutates_an_expanded_input(inputs, effects),
        mutates_saved_data=mutates_saved_data, mutates_recompute_inputs=mutates_recompute_inputs,
    )  # fmt: skip


def _mutates_an_expanded_input(inputs: Sequence[Input], effects: Effects) -> bool:
    """Whether a part of an expanded input is mutated: a backend writes the whole input back, which copies one place twice."""
    fakes = [entry.node.meta["example_value"] for entry in inputs] if effects.written else []
    return any(_is_strided(fake) and storage_of(fake) in effects.written and has_internal_overlap(fake) for fake in fakes)


def _hidden_storages(inputs: Sequence[Input], effects: Effects, versions: Mapping[int, int]) -> set[int]:
    """The storages that are mutated only through `.data`.

    If several inputs share a storage, they may share a version counter, and a mutation noticed by one was noticed by all.
    """
    owned = {storage_of(owner) for owner, _ in effects.data_aliases} & effects.written
    fakes = [entry.node.meta["example_value"] for entry in inputs] if owned else []
    aliases = [fake for fake in fakes if isinstance(fake, torch.Tensor) and storage_of(fake) in owned]
    return owned - {storage_of(fake) for fake in aliases if _was_bumped(fake, versions)}


def _was_bumped(fake: torch.Tensor, versions: Mapping[int, int]) -> bool:
    return fake.is_inference() or fake._version != versions.get(id(fake), 0)


def _resized_in_place(module: torch.fx.GraphModule) -> set[int]:
    """The ids of fake tensors whose sizes or strides an in-place operator changes, even if only temporarily."""
    resizing = [node for node in module.graph.nodes if operator_name(node) in IN_PLACE_VIEWS]
    return {id(argument.meta["example_value"]) for node in resizing for argument in node.all_input_nodes[:1]}


def _input_info(
    entry: Input, effects: Effects, hidden: set[int], resized: set[int], versions: Mapping[int, int]
) -> InputAliasInfo:
    fake, real = entry.node.meta["example_value"], entry.example
    if not isinstance(fake, torch.Tensor):
        return _NO_TENSOR
    storage = storage_of(fake) if effects.written or effects.as_strided_storages else None
    if storage not in effects.written or not isinstance(real, torch.Tensor):
        return InputAliasInfo(storage in effects.written, False, storage in hidden, storage in effects.as_strided_storages)
    return InputAliasInfo(
        True, id(fake) in resized, storage in hidden, storage in effects.as_strided_storages, _was_bumped(fake, versions),
        real.requires_grad, bool(is_leaf_unless_stale(real)), real.is_inference(),
        not real.requires_grad and not real.is_meta and fake.requires_grad,
    )  # fmt: skip


_NO_TENSOR = InputAliasInfo()


def _calls(module: torch.nn.Module) -> list[torch.fx.Node]:
    graphs = [inner.graph for inner in module.modules() if isinstance(inner, torch.fx.GraphModule)]
    return [node for graph in graphs for node in graph.nodes if node.op.startswith("call_")]


def _is_strided(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _output_info(fake: Any, fakes: Sequence[Any], storages: set[int], mutated_leaves: set[int]) -> OutputAliasInfo:
    """`storages`: those of tensors that require grad."""
    if not isinstance(fake, torch.Tensor):
        return _NO_TENSOR_OUT
    is_view = fake._is_view()
    base = next((index for index, other in enumerate(fakes) if other is fake._base), None) if is_view else None
    has_grad_fn = grad_fn_of(fake) is not None
    loses_grad_fn = not has_grad_fn and bool(storages) and _is_strided(fake) and storage_of(fake) in storages
    return OutputAliasInfo(
        True, is_view, base, fake.requires_grad, has_grad_fn, fake.is_inference(), is_view and is_no_grad_view(fake),
        is_one_of_several_views(fake) and storage_of(fake) in mutated_leaves, loses_grad_fn,
    )  # fmt: skip


_NO_TENSOR_OUT = OutputAliasInfo()
