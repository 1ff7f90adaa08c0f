"""Logging that says nothing: a call below a logger's level leaves no trace.

The idea: models log, and mostly nobody listens. Whether anybody does is a matter of levels: the logger's own or that of the
first parent which has one, and the one below which all logging is off. They are read, and so guarded, like any attribute; a call
that would be heard breaks the graph, for its text is seen by people.

In: calls of logging.Logger's methods. Out: None. Mirrors CPython's Lib/logging/__init__.py (Logger.isEnabledFor).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.objects.class_facts import raw_lookup
from dynexplore.engine.variables.rules import Answer, rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, constant_of

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


def _logs_at(level: int, name: str) -> Answer:
    def answer(
        ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        if _is_enabled(ctx, args[0], level):
            ctx.break_graph("DX206", function=f"logging.Logger.{name}")
        return NONE

    return answer


for _function, _level in _LEVELS:
    rule(_function)(_logs_at(_level, _function.__name__))


@rule(logging.Logger.log)
def _log(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    if _is_enabled(ctx, args[0], constant_of(ctx, args[1], "Logger.log")):
        ctx.break_graph("DX206", function="logging.Logger.log")
    return NONE


@rule(logging.Logger.isEnabledFor)
def _is_enabled_for(
    ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    level = args[1] if len(args) > 1 else kwargs["level"]
    return ConstantVariable(_is_enabled(ctx, args[0], constant_of(ctx, level, "Logger.isEnabledFor")))
