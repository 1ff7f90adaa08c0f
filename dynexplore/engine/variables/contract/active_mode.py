"""ActiveMode: a mode of torch that traced code has entered, and how it is left again.

The idea: a mode (no gradients, autocast, a device) holds for the process while the frame is interpreted, and has nodes of its own
in the graph. Whoever enters one says how to leave it in both places, and how to set it for real where it outlives the frame.

In: what enters a mode (the files of modes/, torch_/higher_order/vmap.py). Out: `ctx.active_modes`, which the translator leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


class ActiveMode:
    """A mode of torch that is entered: how to leave it for real, and in the graph."""

    def __init__(self, leave: Callable[[], None], leave_in_graph: Callable[[TraceContext], None],
                 set_for_real: Callable[[Reconstruction], None] | None = None, *, of: str) -> None:
        self.of = of  # what it is a mode of: leaving it takes back what was set inside
        self.leave = leave
        self.leave_in_graph = leave_in_graph
        self.set_for_real = set_for_real  # for a mode that outlives the frame
