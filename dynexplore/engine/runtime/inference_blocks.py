"""Blocks of inference mode inside a graph that a compiler compiles: blocks without gradients, whose results are marked.

The idea: AOTAutograd traces a graph on functional tensors, and in inference mode a view of one of them has no version to share:
torch raises, and leaves its dispatcher unusable for the whole process (torch.compile, too). But a graph needs no more of inference
mode than that nothing is noted for gradients. So the compiler gets blocks without gradients in its place, and what comes out of
the graph as a tensor of inference mode is made one afterwards: a new tensor on the same memory.

Of a view that a graph takes without gradients AOTAutograd gives one that it takes again when the graph has run, with gradients
(torch.compile, too). Such a result is taken off autograd's graph afterwards.

In:  a graph that was captured outside of inference mode. Out: the graph for the compiler, and a callable that marks what comes out.
torch/_functorch/_aot_autograd has no counterpart.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import grad_mode

from dynexplore.engine.graph.autograd_history import known_grad_fn
from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.graph.modes import inference_mode_entered

_EXIT: Any = grad_mode._exit_inference_mode
_SETTERS = (torch._C._set_grad_enabled, torch.set_grad_enabled)


def has_blocks(module: torch.fx.GraphModule) -> bool:
    """Whether a graph enters or leaves inference mode by itself."""
    return any(inference_mode_entered(node) is not None for node in module.graph.nodes)


def without_gradients(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph whose blocks of inference mode are blocks without gradients (with them: `inference_mode(False)`).

    What is set inside of inference mode is remembered, and has no effect: nothing is noted for gradients there.
    """
    copied = torch.fx.GraphModule(module, copy.deepcopy(module.graph))  # it shares the parameters
    began = now = torch.is_grad_enabled()
    before: dict[torch.fx.Node, bool] = {}
    inside: list[bool] = []  # for each block that is open, whether it is one of inference mode
    for node in list(copied.graph.nodes):
        mode = inference_mode_entered(node)
        if mode is not None:
            before[node] = now
            inside.append(mode)
            now = not mode
            _set_before(copied.graph, node, now)
        elif node.target is _EXIT:
            now = before[node.args[0]]
            inside.pop()
            _set_before(copied.graph, node, now)
            copied.graph.erase_node(node)
        elif node.target in _SETTERS:
            now = node.args[0] and True not in inside[-1:]
            node.args = (now,)
    for entered in before:
        if not entered.users:
            copied.graph.erase_node(entered)
    if now is not began:
        _set_before(copied.graph, copied.graph.output_node(), began)  # the graph ends inside a block, which the frame leaves
    copied.recompile()
    return copied


def _set_before(graph: torch.fx.Graph, node: torch.fx.Node, enabled: bool) -> None:
    with graph.inserting_before(node):
        graph.call_function(torch._C._set_grad_enabled, (enabled,))


def marking(compiled: Callable[..., Any], outputs: Sequence[Any]) -> Callable[..., Any]:
    """What the compiler made; of the outputs those that were made in inference mode are tensors of inference mode."""
    places = [place for place, fake in enumerate(outputs) if isinstance(fake, torch.Tensor) and fake.is_inference()]
    if not places:
        return compiled

    def call(*inputs: Any) -> Any:
        results = list(compiled(*inputs))
        for place in places:
            results[place] = _marked(results[place])
        return tuple(results)

    return call


def _marked(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_inference():
        return tensor
    with torch.inference_mode():
        made = torch.empty((0,), dtype=tensor.dtype, device=tensor.device)
        return made.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())


def without_their_gradients(compiled: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Callable[..., Any]:
    """What the compiler made; of the outputs those that are views of what has a gradient, but were taken without, have none."""
    followed = {storage_of(one) for one in (*inputs, *outputs) if _is_strided(one) and one.requires_grad}
    leaves = {
        place: one.requires_grad for place, one in enumerate(outputs)
        if _is_strided(one) and known_grad_fn(one) is None and storage_of(one) in followed
    }
    if not leaves:
        return compiled

    def call(*given: Any) -> Any:
        results = list(compiled(*given))
        for place, requires_grad in leaves.items():
            if known_grad_fn(results[place]) is not None:
                results[place] = _view_without_gradient(results[place]) if requires_grad else results[place].detach()
        return tuple(results)

    return call


def _is_strided(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


@torch.no_grad()
def _view_without_gradient(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view_as(tensor)  # such a view says that it requires grad, and is a leaf
