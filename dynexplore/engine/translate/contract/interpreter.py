"""`Interpreter`: the interface of the translator to handlers, inlining, operations and code generation.

The idea: the translator calls the handlers, and the handlers call the translator. The cycle goes through this Protocol, as that of
trackers goes through variables/contract/context.py; it adds what only this layer needs.

In: nothing. Out: a Protocol, which `translator.py` implements. PyTorch's counterpart: `InstructionTranslatorBase`, passed as `tx`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from dynexplore.engine.variables.contract.context import Calls, TraceContext, Values

if TYPE_CHECKING:
    from dynexplore.engine.graph_breaks import GraphBreak
    from dynexplore.engine.provenance.guards import GuardSet
    from dynexplore.engine.provenance.sources import Source
    from dynexplore.engine.translate.contract.request import TranslationRequest
    from dynexplore.engine.translate.event_emitter import EventEmitter
    from dynexplore.engine.translate.frame_stack import FrameStack
    from dynexplore.engine.translate.resume import ResumeCode
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
    from dynexplore.engine.variables.callables.generator import GeneratorVariable
    from dynexplore.engine.variables.contract.base import VariableTracker
    from dynexplore.engine.variables.objects.namespace import NamespaceVariable


class InterpreterValues(Values, Protocol):
    """Inputs of the graph."""

    dynamic_constraints: list[tuple[Source, Any, int]]  # dimensions marked by `mark_dynamic`


class InterpreterCalls(Calls, Protocol):
    """Calls of Python bodies and of modes."""

    generators: list[GeneratorVariable]
    namespaces: dict[int, NamespaceVariable]  # by the id of a function's globals

    def namespace_of(self, function: Any) -> NamespaceVariable:
        """The tracker of a function's globals."""
        ...


class Interpreter(TraceContext, Protocol):
    """The translator, as its own layer sees it."""

    request: TranslationRequest
    emitter: EventEmitter | None  # None if nothing is recorded
    guards: GuardSet
    resume: ResumeCode | None
    frames: FrameStack
    raised_at: dict[VariableTracker, int]

    @property
    def values(self) -> InterpreterValues:
        """Inputs of the graph."""
        ...

    @property
    def calls(self) -> InterpreterCalls:
        """Calls of Python bodies and of modes."""
        ...

    def interpret(self, frame: SymbolicFrame, thrown: VariableTracker | None = None) -> bool:
        """Run a frame until it returns or yields; True if the restart point is reached instead.

        `thrown`: an exception to raise in the frame, at its current instruction.
        """
        ...

    def record_break(self, kind: str, facts: Mapping[str, object]) -> GraphBreak:
        """Record a break at the current instruction, and return it for the caller to raise."""
        ...
