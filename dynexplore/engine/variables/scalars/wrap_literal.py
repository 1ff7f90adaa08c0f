"""Literals that a frame reads: numbers, strings and other constants of Python and torch.

The idea: a literal is a constant that is guarded by type and value, unless the specializer decides otherwise: a number that changes
from call to call is a symbol of the graph, or is passed on without a guard on its value.

In: a live literal and its source. Out: its tracker. PyTorch's counterpart: `wrap_literal` and `wrap_symint` in
torch/_dynamo/variables/builder.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.config import config
from dynexplore.engine.provenance.sources import ItemSource, LocalSource, Source
from dynexplore.engine.specialization.tables import Kind
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds, builds_when
from dynexplore.engine.variables.scalars.constant import LITERALS, ConstantVariable, is_literal, is_numpy_number
from dynexplore.engine.variables.scalars.symint import is_short, symbolic_input
from dynexplore.engine.variables.scalars.unspecialized import NumpyNumberVariable, UnspecializedVariable, may_vary_as_numpy

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


@builds(*LITERALS, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo)
def wrap_literal(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A constant, guarded by type and value; or a number that changes from call to call."""
    if source is not None and type(value) in (int, float, str):
        decision = ctx.specializer.decide_number(source, value)
        if decision.kind is Kind.UNSPECIALIZED:
            if decision.reason == "attribute of several":
                ctx.guard(source, "TYPE_MATCH", int)  # guards the type for each of the objects at this source
            return UnspecializedVariable(ctx, value, source)
        if decision.is_symbol and is_short(value):
            return symbolic_input(ctx, value, source)
    if source is not None:
        ctx.guard(source, "EQUALS", value)
    constant = ConstantVariable(value, source if not is_literal(value) else None)
    constant.origin = source
    return constant


@builds_when(is_numpy_number, rank=5)
def wrap_numpy_number(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A numpy scalar: unspecialized if the caller passes it, since such values usually change; else a constant."""
    if source is not None and may_vary_as_numpy(value) and _is_argument(source) and not config.specialize_float:
        return NumpyNumberVariable(ctx, value, source)
    if source is not None:
        ctx.guard(source, "EQUALS", value)
    return ConstantVariable(value, source)


def _is_argument(source: Source) -> bool:
    """Whether the source is a local variable, or an item of one."""
    step: Source | None = source
    while isinstance(step, ItemSource):
        step = step.base
    return isinstance(step, LocalSource)
