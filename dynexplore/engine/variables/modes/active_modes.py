"""Active modes: the torch modes in force while a frame is interpreted, their nodes, and how they are exited.

The idea: entering a mode (`torch.no_grad()`) at trace time applies it in the process, so that fake tensor results are right, and
adds a node to the graph that sets it, as Dynamo does. If the graph ends inside the block, nodes that exit the mode are added at its
end. A mode that was set by a call (`torch.set_grad_enabled(False)`) outlives the frame: the modified code sets it after the graph
has run.

In: `ctx.active_modes`, to which the managers of this folder add. Out: nodes, and a process whose modes are restored. PyTorch's
counterpart: `set_cleanup_hook` and `_call_func` in torch/_dynamo/variables/ctx_manager.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.graph.modes import Modes, leave_inference_modes

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.active_mode import ActiveMode
    from dynexplore.engine.variables.contract.context import TraceContext

_transforms: Any = torch._C._functorch


def leave_all(modes: list[ActiveMode]) -> None:
    """Restore the process's modes, in reverse order of entry."""
    while modes:
        modes.pop().leave()


def leave_in_graph(ctx: TraceContext, modes: list[ActiveMode]) -> None:
    """Add the nodes that exit the modes, for a graph that ends inside them."""
    for mode in reversed(modes):
        mode.leave_in_graph(ctx)


def leave_mode(ctx: TraceContext, mode: ActiveMode) -> None:
    """Exit a mode, and modes set inside it for the rest of its block."""
    mode.leave()
    mode.leave_in_graph(ctx)
    index = ctx.active_modes.index(mode)
    inner_modes = ctx.active_modes[index + 1:]
    ctx.active_modes[index:] = [other for other in inner_modes if other.of != mode.of or other.set_for_real is None]


def add_mode_node(ctx: TraceContext, function: Any, *args: Any) -> Any:
    """Add a node that changes a mode; it is not counted as an operation of the program."""
    node = ctx.graph.graph.create_node("call_function", function, args, {})
    node.meta["example_value"] = None
    node.meta["sets_mode"] = True
    ctx.graph.sets_modes = True
    ctx.graph.grad_mode = None  # most such functions also set other modes
    return node


def restoring_modes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a compiled graph that sets modes so that it restores them even if one of its operators raises."""

    def run(*inputs: Any) -> Any:
        modes = Modes.now()
        depth = _transforms.get_dynamic_layer_stack_depth()
        try:
            return function(*inputs)
        except BaseException as raised:
            _transforms.pop_dynamic_layer_stack_and_undo_to_depth(depth)
            leave_inference_modes(raised)
            modes.restore()
            raise

    return run
