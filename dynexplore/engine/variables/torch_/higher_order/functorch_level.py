"""A functorch level (dynamic layer): what torch.vmap, torch.func.grad and jvp run their function in.

The idea: each transform pushes and pops a level with a pair of C functions. Both become nodes; the level is also pushed while
tracing, because the fake tensors inside must behave as at that level. It is an active mode, which a discarded attempt pops with
the others.

In: calls of the two functions. Out: nodes, an active mode.
PyTorch's counterpart: the *IncrementNestingCtxManagerVariable classes in torch/_dynamo/variables/ctx_manager.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.modes.active_modes import add_mode_node, leave_mode
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


@dataclass(frozen=True)
class FunctorchLevel:
    """The two functions of one transform, and the name of its mode."""

    mode: str
    push: Callable[..., int]
    pop: Callable[[], Any]

    def begin(self, ctx: TraceContext, *node_args: Any, live_args: tuple[Any, ...] = ()) -> VariableTracker:
        """Push the level, in the graph (`node_args`) and in the process (`live_args`); returns its number."""
        node = add_mode_node(ctx, self.push, *node_args)
        level = node.meta["example_value"] = self.push(*live_args)
        ctx.active_modes.append(ActiveMode(self._leave, self._leave_in_graph, of=self.mode))
        return ConstantVariable(level)

    def stands(self, ctx: TraceContext) -> bool:
        """Whether the program is inside a level of this transform that was pushed at trace time."""
        return any(mode.of == self.mode for mode in ctx.active_modes)

    def end(self, ctx: TraceContext) -> VariableTracker:
        """Pop the innermost level of this transform."""
        leave_mode(ctx, next(mode for mode in reversed(ctx.active_modes) if mode.of == self.mode))
        return NONE

    def _leave(self) -> None:
        self.pop()

    def _leave_in_graph(self, ctx: TraceContext) -> None:
        add_mode_node(ctx, self.pop)
