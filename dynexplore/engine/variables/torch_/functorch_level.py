"""A level of functorch: what torch.vmap and torch.func.grad run their function in.

The idea: torch writes its transforms in Python, around a function in C that begins a level and one that ends it. Both become
nodes; the level is also entered for real, as the fake tensors inside must behave as in that level. It is a mode of torch, which
an attempt that is thrown away leaves with the others.

In: the calls of the two functions. Out: nodes, an active mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.context_manager import NONE, add_mode_node, leave_mode
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


@dataclass(frozen=True)
class FunctorchLevel:
    """The two functions of one transform, and the name of its mode."""

    mode: str
    begin_for_real: Callable[..., int]
    end_for_real: Callable[[], Any]

    def begin(self, ctx: TraceContext, *given: Any, known: tuple[Any, ...] = ()) -> VariableTracker:
        """Enter the level: the node's arguments, and what they are for the fake tensors; gives the level's number."""
        node = add_mode_node(ctx, self.begin_for_real, *given)
        level = node.meta["example_value"] = self.begin_for_real(*known)
        ctx.active_modes.append(ActiveMode(self._leave, self._leave_in_graph, of=self.mode))
        return ConstantVariable(level)

    def stands(self, ctx: TraceContext) -> bool:
        """Whether the program is inside a level of this transform that was begun while tracing."""
        return any(mode.of == self.mode for mode in ctx.active_modes)

    def end(self, ctx: TraceContext) -> VariableTracker:
        """Leave the innermost level of this transform."""
        leave_mode(ctx, next(mode for mode in reversed(ctx.active_modes) if mode.of == self.mode))
        return NONE

    def _leave(self) -> None:
        self.end_for_real()

    def _leave_in_graph(self, ctx: TraceContext) -> None:
        add_mode_node(ctx, self.end_for_real)
