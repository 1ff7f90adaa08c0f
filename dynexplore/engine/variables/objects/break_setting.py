"""error_on_graph_break in traced code: the setting holds while its block is interpreted, and nothing of it is in the graph.

The idea: the translator asks the thread's setting when it meets a break (policy/break_errors.py). A block that is entered while
tracing sets it, and sets it back at its end, or when the attempt is thrown away. Where a graph ends inside the block it is entered
for real, so that what goes on behind the break, and what is called there, is captured under it too.

In: `with error_on_graph_break(...)`, ours or torch's. Out: an active mode without a node.
torch/_dynamo/variables/ctx_manager.py (ErrorOnGraphBreakVariable) does the same job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dynexplore.engine.policy.break_errors import error_on_graph_break, set_breaks_are_errors
from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.context_manager import MANAGERS, NONE, ModeManagerVariable, leave_mode
from dynexplore.engine.variables.rules import late_rule, rule
from dynexplore.engine.variables.scalars.constant import constant_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_MODE = "error_on_graph_break"


class BreakSettingVariable(ModeManagerVariable):
    """`error_on_graph_break(True)`."""

    def __init__(self, wanted: bool) -> None:
        super().__init__(error_on_graph_break, (wanted,))
        self.wanted = wanted
        self.entered: list[ActiveMode] = []

    def enter(self, ctx: TraceContext) -> VariableTracker:
        before = set_breaks_are_errors(self.wanted)
        mode = ActiveMode(lambda: _set(before), _nothing, of=_MODE)
        self.entered.append(mode)
        ctx.active_modes.append(mode)
        return NONE

    def exit(self, ctx: TraceContext) -> None:
        leave_mode(ctx, self.entered.pop())


def _set(wanted: bool) -> None:
    set_breaks_are_errors(wanted)


def _nothing(ctx: TraceContext) -> None:
    """It has no node."""


@rule(error_on_graph_break)
@late_rule("torch._dynamo.decorators", "error_on_graph_break")
def _make(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    wanted = constant_of(ctx, args[0] if args else kwargs["error_on_graph_break"], _MODE)
    return BreakSettingVariable(bool(wanted))


@rule(error_on_graph_break.__exit__)
def _leave(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """The block was entered for real, before a break inside it: it is left for real, too, when the frame is done."""
    manager = args[0]

    def for_real(build: Reconstruction) -> None:
        build.call_object(_leave_for_real, manager)
        build.writer.pop_top()

    before = set_breaks_are_errors(manager.live_value().before[-1])
    ctx.active_modes.append(ActiveMode(lambda: _set(before), _nothing, for_real, of=_MODE))
    return NONE


def _leave_for_real(manager: error_on_graph_break) -> None:
    manager.__exit__()


# the live manager of a decorator stands for itself in each call
MANAGERS[error_on_graph_break] = lambda manager: BreakSettingVariable(manager.wanted)
