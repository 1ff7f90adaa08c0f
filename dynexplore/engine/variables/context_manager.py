"""Context managers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.base import VariableTracker

if TYPE_CHECKING:
    from dynexplore.engine.variables.context import TraceContext


class ActiveMode:
    """A mode of torch that is entered while tracing."""


def enter_context(ctx: TraceContext, manager: VariableTracker) -> tuple[VariableTracker, VariableTracker]:
    """Enter a context manager: its exit function, and what entering gave."""
    ctx.break_graph("DX308", type=manager.type_name())


def leave_all(modes: list[Any]) -> None:
    """Restore the process's real modes."""


def leave_in_graph(ctx: TraceContext, modes: list[Any]) -> None:
    """Add the nodes that leave the modes, for a graph that ends inside them."""
