"""Context managers without an effect on the graph: `contextlib.nullcontext`, a profiler and its ranges.

The idea: they do not affect the values inside the block, so entering returns a value and adds no node.

In: calls of these managers. Out: managers without an active mode. PyTorch's counterpart: `NullContextVariable` and
`ProfilerContextVariable` in torch/_dynamo/variables/ctx_manager.py.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import traceback

from dynexplore.engine.raw_attributes import class_module
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.modes.protocol import ModeManagerVariable
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.rules import Handler, rule
from dynexplore.engine.variables.scalars.constant import constant_of
from dynexplore.engine.variables.signatures import builtin

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


class NullContextVariable(ModeManagerVariable):
    """A profiler range, or nullcontext: no effect on the values inside."""

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
    """fx_traceback.annotate: it annotates nodes of FX tracers, and no other tracer is active."""
    return NullContextVariable(contextlib.nullcontext)


_WATCHES_ONLY = frozenset({
    "activities", "enabled", "record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "use_cpu",
    "use_cuda", "use_device", "use_kineto", "acc_events",
})  # fmt: skip  # fmt: skip
"""Arguments of a profiler that only select what it records; others are callbacks into the program."""


class ProfilerVariable(NullContextVariable):
    """A profiler that is entered but whose results are never read: it is left out.

    If it is read, or outlives the graph, it has to be real: the frame stops before the step that creates it.
    """

    def enter(self, ctx: TraceContext) -> VariableTracker:
        return self

    def exit_class(self) -> type[Any]:
        return contextlib.nullcontext

    def reconstruct(self, build: Reconstruction) -> None:
        raise NotImplementedError("a profiler whose records may be read")


def _profiler_row(cls: type[Any]) -> Handler:
    def handler(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        options = {name for name, value in kwargs.items() if not (value.is_constant() and value.as_constant() is None)}
        if args or options - _WATCHES_ONLY:
            ctx.break_graph("DX203", function=f"{class_module(cls)}.{cls.__qualname__}")
        return ProfilerVariable(cls)

    return handler


for _profiler in (torch.autograd.profiler.profile, torch.profiler.profile):
    rule(_profiler)(_profiler_row(_profiler))


@builtin(contextlib.nullcontext)
def _nullcontext(ctx: TraceContext, enter_result: VariableTracker = NONE) -> VariableTracker:
    return NullContextVariable(contextlib.nullcontext, (), enter_result)
