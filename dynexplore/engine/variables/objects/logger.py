"""Logging calls below the logger's level, which have no effect and are not captured.

The idea: models log, and usually the level filters the call out. Whether a record is emitted depends on the effective level (that
of the logger, or of the first parent that has one) and on the level that `logging.disable` sets. Both are read, and thus guarded,
like any attribute. A call that would emit a record has an external effect, and breaks the graph.

In: calls of logging.Logger's methods. Out: None. PyTorch's counterpart: `LoggingLoggerVariable` in torch/_dynamo/variables/misc.py.
Mirrors CPython's Lib/logging/__init__.py (Logger.isEnabledFor).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.objects.type_lookup import raw_lookup
from dynexplore.engine.variables.scalars.constant import ConstantVariable, constant_of
from dynexplore.engine.variables.signatures import builtin

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_LEVELS: tuple[tuple[Callable[..., Any], int], ...] = (
    (logging.Logger.debug, logging.DEBUG), (logging.Logger.info, logging.INFO), (logging.Logger.warning, logging.WARNING),
    (logging.Logger.error, logging.ERROR), (logging.Logger.exception, logging.ERROR),
    (logging.Logger.critical, logging.CRITICAL),
)
_ASKING = ("isEnabledFor", "getEffectiveLevel")


def _is_enabled(ctx: TraceContext, logger: VariableTracker, level: int) -> bool:
    """Logger.isEnabledFor."""
    def read(owner: VariableTracker, name: str) -> Any:
        return constant_of(ctx, owner.get_attribute(ctx, name).read(ctx), f"Logger.{name}")

    cls = logger.python_type()
    if any(raw_lookup(ctx, cls, name) is not vars(logging.Logger)[name] for name in _ASKING):
        ctx.break_graph("DX203", function=f"{cls.__qualname__}.isEnabledFor")
    if read(logger, "disabled") or read(logger.get_attribute(ctx, "manager"), "_disable") >= level:
        return False
    return bool(level >= _effective_level(ctx, logger, read))


def _effective_level(ctx: TraceContext, logger: VariableTracker, read: Callable[[VariableTracker, str], Any]) -> int:
    """Logger.getEffectiveLevel."""
    while not (level := read(logger, "level")):
        parent = logger.get_attribute(ctx, "parent").read(ctx)
        if parent.is_constant():
            return logging.NOTSET
        logger = parent
    return int(level)


def _logs_at(level: int, name: str) -> Callable[..., VariableTracker]:
    def row(
        ctx: TraceContext, self: VariableTracker, msg: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker:
        if _is_enabled(ctx, self, level):
            ctx.break_graph("DX206", function=f"logging.Logger.{name}")
        return NONE

    return row


for _function, _level in _LEVELS:
    builtin(_function)(_logs_at(_level, _function.__name__))


@builtin(logging.Logger.log)
def _log(
    ctx: TraceContext, self: VariableTracker, level: VariableTracker, msg: VariableTracker, *args: VariableTracker,
    **kwargs: VariableTracker,
) -> VariableTracker:  # fmt: skip
    if _is_enabled(ctx, self, constant_of(ctx, level, "Logger.log")):
        ctx.break_graph("DX206", function="logging.Logger.log")
    return NONE


@builtin(logging.Logger.isEnabledFor)
def _is_enabled_for(ctx: TraceContext, self: VariableTracker, level: VariableTracker) -> VariableTracker:
    return ConstantVariable(_is_enabled(ctx, self, constant_of(ctx, level, "Logger.isEnabledFor")))
