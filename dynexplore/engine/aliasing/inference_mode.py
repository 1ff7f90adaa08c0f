"""Inference mode inside a graph, for AOTAutograd: lowered to no_grad blocks, whose outputs become inference tensors afterwards.

The idea: AOTAutograd traces a graph on functional tensors, and in inference mode a view of one of them has no version counter to
share: torch raises, and leaves its dispatcher unusable for the whole process (under torch.compile, too). But a graph needs only
one property of inference mode: autograd records nothing. So the backend gets no_grad blocks instead, and each output that is an
inference tensor in the program becomes one afterwards: a new tensor on the same storage.

AOTAutograd regenerates a no_grad view with gradients after the graph has run (torch.compile, too). Such an output is detached
afterwards.

In: a graph that was captured outside inference mode. Out: the graph for the backend, and a callable that fixes its outputs.
PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.autograd import grad_mode

from dynexplore.engine.aliasing.autograd_graph import grad_fn_of
from dynexplore.engine.aliasing.metadata import OutputAliasInfo
from dynexplore.engine.graph.finished_graph import copy_of_graph
from dynexplore.engine.graph.modes import inference_mode_entered

_EXIT: Any = grad_mode._exit_inference_mode
_SETTERS = (torch._C._set_grad_enabled, torch.set_grad_enabled)


def has_blocks(module: torch.fx.GraphModule) -> bool:
    """Whether a graph itself enters or leaves inference mode."""
    return any(inference_mode_entered(node) is not None for node in module.graph.nodes)


def without_gradients(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph with no_grad blocks in place of inference mode blocks (enable_grad for `inference_mode(False)`).

    Grad mode changes inside inference mode are remembered but have no effect: autograd records nothing there.
    """
    copied = copy_of_graph(module)
    began = grad_enabled = torch.is_grad_enabled()
    before: dict[torch.fx.Node, bool] = {}
    open_blocks: list[bool] = []  # for each open block, whether it is an inference mode block
    for node in list(copied.graph.nodes):
        mode = inference_mode_entered(node)
        if mode is not None:
            before[node] = grad_enabled
            open_blocks.append(mode)
            grad_enabled = not mode
            _insert_set_grad_mode(copied.graph, node, grad_enabled)
        elif node.target is _EXIT:
            grad_enabled = before[node.args[0]]
            open_blocks.pop()
            _insert_set_grad_mode(copied.graph, node, grad_enabled)
            copied.graph.erase_node(node)
        elif node.target in _SETTERS:
            grad_enabled = node.args[0] and True not in open_blocks[-1:]
            node.args = (grad_enabled,)
    for entered in before:
        if not entered.users:
            copied.graph.erase_node(entered)
    if grad_enabled is not began:
        _insert_set_grad_mode(copied.graph, copied.graph.output_node(), began)  # it ends inside a block, which the frame exits
    copied.recompile()
    return copied


def _insert_set_grad_mode(graph: torch.fx.Graph, node: torch.fx.Node, enabled: bool) -> None:
    with graph.inserting_before(node):
        graph.call_function(torch._C._set_grad_enabled, (enabled,))


def wrap_inference_outputs(compiled: Callable[..., Any], outputs: Sequence[OutputAliasInfo]) -> Callable[..., Any]:
    """The backend's callable; outputs that the program creates in inference mode become inference tensors."""
    indices = [index for index, info in enumerate(outputs) if info.is_inference]

    def call(*inputs: Any) -> Any:
        results = list(compiled(*inputs))
        for index in indices:
            results[index] = _as_inference_tensor(results[index])
        return tuple(results)

    return call


def _as_inference_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_inference():
        return tensor
    with torch.inference_mode():
        inference_tensor = torch.empty((0,), dtype=tensor.dtype, device=tensor.device)
        return inference_tensor.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())


def detach_no_grad_views(compiled: Callable[..., Any], views: Mapping[int, bool]) -> Callable[..., Any]:
    """The backend's callable; these outputs are detached, as in eager."""

    def call(*inputs: Any) -> Any:
        results = list(compiled(*inputs))
        for index, requires_grad in views.items():
            if grad_fn_of(results[index]) is not None:
                results[index] = _view_without_gradient(results[index]) if requires_grad else results[index].detach()
        return tuple(results)

    return call


@torch.no_grad()
def _view_without_gradient(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view_as(tensor)  # such a view requires grad and is a leaf
