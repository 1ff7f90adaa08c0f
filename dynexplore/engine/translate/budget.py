"""The budget of a translation: instructions, seconds, and the share of them that may pass without a tensor operation.

The idea: a program that runs too long to be captured breaks the graph; a frame that does no tensor work for long is skipped.
Seconds are CPU time of the translating thread, so a busy machine captures the same graphs as an idle one.

In: each interpreted step. Out: GraphBreak (DX502), or SkipFrame.
PyTorch's counterpart: none; the nearest limit is `torch._dynamo.config.recompile_limit`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dynexplore.engine.config import config
from dynexplore.engine.graph_breaks import SkipFrame

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

IDLE_LIMIT = 50_000
IDLE_SHARE = 0.025  # share of a translation's time limit that may pass without a tensor operation
_WATCHED = 10  # factor on the limit of a recorded translation: recording should not change what is captured
_STEPS_PER_CLOCK_READ = 256


class TranslationBudget:
    """The steps and seconds that one attempt has used."""

    def __init__(self, patience: float, *, is_recorded: bool) -> None:
        self._patience = patience * (_WATCHED if is_recorded else 1)
        self._steps = 0
        self._began = self._latest_call = time.thread_time()
        self._calls_at_last_read = 0

    def count_step(self, ctx: Interpreter) -> None:
        """Count one step; called before each."""
        self._steps += 1
        if self._steps > config.instruction_limit:
            self._steps = 0
            ctx.break_graph("DX502", instructions=config.instruction_limit)
        if self._steps > IDLE_LIMIT and not ctx.graph.call_count:
            raise SkipFrame(f"{IDLE_LIMIT:,} instructions without a tensor operation")
        if not self._steps % _STEPS_PER_CLOCK_READ:
            self.check_clock(ctx)

    def check_clock(self, ctx: Interpreter) -> None:
        """Skip the frame if its time limit, or the share of it without a tensor operation, is exceeded."""
        now = time.thread_time()
        if ctx.graph.call_count != self._calls_at_last_read:
            self._calls_at_last_read, self._latest_call = ctx.graph.call_count, now
        limit = config.translation_seconds * self._patience
        if now - self._began > limit or now - self._latest_call > limit * IDLE_SHARE:
            facts = {"seconds": f"{now - self._began:.1f}", "operators": ctx.graph.call_count}
            graph_break = ctx.record_break("DX505", facts)
            raise SkipFrame(graph_break.reason) from graph_break
