"""Context managers that do nothing to a graph: `contextlib.nullcontext`, a profiler and its ranges.

The idea: nothing happens to the values inside, so that entering gives a value and adds no node.

In: calls of these managers. Out: managers without an active mode.
torch/_dynamo/variables/ctx_manager.py (NullContextVariable, ProfilerContextVariable) does the same job.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import traceback

from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.modes.protocol import ModeManagerVariable
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.rules import Answer, rule
from dynexplore.engine.variables.scalars.constant import constant_of
from dynexplore.engine.variables.signatures import builtin

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


class NullContextVariable(ModeManagerVariable):
    """A profiler's range, or nullcontext: nothing happens to the values inside."""

    def __init__(self, cls: type[Any], arguments: tuple[Any, ...] = (), gives: VariableTracker = NONE) -> None:
        super().__init__(cls, arguments)
        self.gives = gives

    def enter(self, ctx: TraceContext) -> VariableTracker:
        return self.gives

    def exit(self, ctx: TraceContext) -> None:
        return


@builtin(torch.autograd.profiler.record_function)
def _record_function(ctx: TraceContext, name: VariableTracker, args: VariableTracker | None = None) -> VariableTracker:
    names = tuple(constant_of(ctx, arg, "record_function") for arg in (name, args) if arg is not None)
    return NullContextVariable(torch.autograd.profiler.record_function, names)


@rule(traceback.annotate)
def _annotate(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """It writes on the nodes of tracers, of which none but the engine is at work."""
    return NullContextVariable(contextlib.nullcontext)


_WATCHES_ONLY = frozenset({
    "activities", "enabled", "record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "use_cpu",
    "use_cuda", "use_device", "use_kineto", "acc_events",
})  # fmt: skip  # fmt: skip
"""Arguments of a profiler that only say what it writes down; others call the program back."""


class ProfilerVariable(NullContextVariable):
    """A profiler that is entered and never asked: nobody sees what it wrote down, so it is left out.

    One that is asked, or that outlives the graph, is made for real: the frame stops before the step that makes it.
    """

    def enter(self, ctx: TraceContext) -> VariableTracker:
        return self

    def exit_class(self) -> type[Any]:
        return contextlib.nullcontext

    def reconstruct(self, build: Reconstruction) -> None:
        raise NotImplementedError("a profiler whose records may be read")


def _profiler_row(cls: type[Any]) -> Answer:
    def answer(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        options = {name for name, value in kwargs.items() if not (value.is_constant() and value.as_constant() is None)}
        if args or options - _WATCHES_ONLY:
            ctx.break_graph("DX203", function=f"{cls.__module__}.{cls.__qualname__}")
        return ProfilerVariable(cls)

    return answer


for _profiler in (torch.autograd.profiler.profile, torch.profiler.profile):
    rule(_profiler)(_profiler_row(_profiler))


@builtin(contextlib.nullcontext)
def _nullcontext(ctx: TraceContext, enter_result: VariableTracker = NONE) -> VariableTracker:
    return NullContextVariable(contextlib.nullcontext, (), enter_result)
