"""ActiveMode: a torch mode that traced code has entered, and how to leave it.

The idea: a mode (no_grad, autocast, a default device) is really in force in the process while the frame is interpreted, and it has
enter and exit nodes in the graph. Whoever enters a mode supplies how to leave it in both places, and how to set it in the modified
code if it outlives the frame.

In: the files that enter modes (modes/, torch_/higher_order/vmap.py). Out: `ctx.active_modes`, which the translator unwinds.
PyTorch's counterpart: `ContextWrappingVariable` in torch/_dynamo/variables/ctx_manager.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


class ActiveMode:
    """A torch mode that was entered: how to leave it in the process and in the graph."""

    def __init__(self, leave: Callable[[], None], leave_in_graph: Callable[[TraceContext], None],
                 set_for_real: Callable[[Reconstruction], None] | None = None, *, of: str) -> None:
        self.of = of  # the kind of mode; leaving it also undoes what was set inside
        self.leave = leave
        self.leave_in_graph = leave_in_graph
        self.set_for_real = set_for_real  # for a mode that outlives the frame
