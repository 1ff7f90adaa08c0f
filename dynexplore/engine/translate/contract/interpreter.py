"""What handlers, inlining, operations and code generation may ask of the translator.

The idea: the translator calls the handlers, and the handlers call the translator. The circle goes through this Protocol, as that of
trackers goes through variables/contract/context.py; it adds what only this layer needs.

In/out: `translator.py` implements it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from dynexplore.engine.variables.contract.context import TraceContext

if TYPE_CHECKING:
    from dynexplore.engine.graph_breaks import GraphBreak
    from dynexplore.engine.provenance.guards import GuardSet
    from dynexplore.engine.translate.calls import CallDispatcher
    from dynexplore.engine.translate.contract.request import TranslationRequest
    from dynexplore.engine.translate.event_emitter import EventEmitter
    from dynexplore.engine.translate.frame_stack import FrameStack
    from dynexplore.engine.translate.resume import ResumeCode
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
    from dynexplore.engine.translate.value_builder import ValueBuilder
    from dynexplore.engine.variables.contract.base import VariableTracker


class Interpreter(TraceContext, Protocol):
    """The translator, as its own layer sees it."""

    request: TranslationRequest
    emitter: EventEmitter | None  # None when nobody records
    guards: GuardSet
    resume: ResumeCode | None
    values: ValueBuilder
    calls: CallDispatcher
    frames: FrameStack
    raised_at: dict[VariableTracker, int]

    def interpret(self, frame: SymbolicFrame, thrown: VariableTracker | None = None) -> bool:
        """Run a frame until it returns or yields; True when the restart point is reached instead.

        `thrown`: an exception that is raised in the frame, by the instruction at which it stands.
        """
        ...

    def graph_break(self, kind: str, facts: Mapping[str, object]) -> GraphBreak:
        """A break at the current instruction, which the caller raises."""
        ...
