"""disable_nested_graph_breaks in traced code: a setting for the block that is interpreted, without a node in the graph.

The idea: as in error_on_graph_break.py. A block that is entered at trace time sets the thread's setting, and restores it at its
end, or when the attempt is discarded; if a graph ends inside the block, the modified code enters it for real.

In: `with disable_nested_graph_breaks():`, ours, or torch's, which sets its own option to the same effect. Out: an active mode
without a node. PyTorch's counterpart: `torch._dynamo.disable_nested_graph_breaks` (decorators.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynexplore.engine.policy.nested_breaks import CHANGES_OF_TORCHS, Disabled, disable_nested_graph_breaks, set_disabled
from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.modes.active_modes import leave_mode
from dynexplore.engine.variables.modes.protocol import MANAGERS, ModeManagerVariable, exit_for_real
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.rules import late_rule, rule

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_TORCH, _ITS_CLASS = "torch._dynamo.decorators", "DynamoConfigPatchProxy"


class NestedBreaksDisabledVariable(ModeManagerVariable):
    """`disable_nested_graph_breaks()`."""

    def __init__(self) -> None:
        super().__init__(Disabled)

    def enter(self, ctx: TraceContext) -> VariableTracker:
        before = set_disabled(True)
        mode = ActiveMode(lambda: _set(before), _nothing, of="nested_graph_breaks")
        self.entered.append(mode)
        ctx.active_modes.append(mode)
        return NONE

    def exit(self, ctx: TraceContext) -> None:
        leave_mode(ctx, self.entered.pop())


def _set(disabled: bool) -> None:
    set_disabled(disabled)


def _nothing(ctx: TraceContext) -> None:
    """No node: the setting does not affect the graph."""


@rule(disable_nested_graph_breaks)
@late_rule(_TORCH, "disable_nested_graph_breaks")
def _make(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    functions = [*args, *kwargs.values()]
    manager = NestedBreaksDisabledVariable()
    return manager.call(ctx, functions, {}) if functions else manager


@rule(Disabled.__exit__)
def _leave(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """The block was entered for real, before a break inside it: its real `__exit__` runs at the end of the frame."""
    manager = args[0]

    def for_real(build: Reconstruction) -> None:
        build.call_object(exit_for_real, manager)
        build.writer.pop_top()

    before = set_disabled(manager.live_value().before[-1])
    ctx.active_modes.append(ActiveMode(lambda: _set(before), _nothing, for_real, of="nested_graph_breaks"))
    return NONE


def _of_live(ctx: TraceContext, manager: VariableTracker) -> VariableTracker:
    return NestedBreaksDisabledVariable()


def _of_torchs(ctx: TraceContext, manager: VariableTracker) -> VariableTracker:
    return NestedBreaksDisabledVariable() if manager.live_value().changes == CHANGES_OF_TORCHS else manager


MANAGERS["Disabled"] = Disabled.__module__, _of_live
MANAGERS[_ITS_CLASS] = _TORCH, _of_torchs
