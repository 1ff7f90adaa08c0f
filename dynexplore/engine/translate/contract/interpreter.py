"""What handlers, inlining, operations and code generation may ask of the translator.

The idea: the translator calls the handlers, and the handlers call the translator. The circle goes through this Protocol, as that of
trackers goes through variables/contract/context.py; it adds what only this layer needs.

In/out: `translator.py` implements it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from dynexplore.engine.variables.contract.context import TraceContext

if TYPE_CHECKING:
    import torch.fx

    from dynexplore.engine.bytecode import ParsedCode
    from dynexplore.engine.events import UserFrame
    from dynexplore.engine.graph.builder import OperatorFailed
    from dynexplore.engine.provenance.guard_check import GuardCheck
    from dynexplore.engine.provenance.guards import GuardSet
    from dynexplore.engine.provenance.module_guards import StateWalk
    from dynexplore.engine.translate.contract.request import TranslationRequest
    from dynexplore.engine.translate.narrator import Narrator
    from dynexplore.engine.translate.resume import ResumeCode
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
    from dynexplore.engine.variables.contract.base import VariableTracker
    from dynexplore.engine.variables.objects.function import CellVariable
    from dynexplore.engine.variables.objects.generator import GeneratorVariable
    from dynexplore.engine.variables.objects.namespace import NamespaceVariable


class Interpreter(TraceContext, Protocol):
    """The translator, as its own layer sees it."""

    request: TranslationRequest
    narrator: Narrator | None
    guards: GuardSet
    parsed: ParsedCode
    resume: ResumeCode | None
    argument_names: tuple[str, ...]
    root: SymbolicFrame
    running: list[SymbolicFrame]
    unit_began_at: int
    raised_at: dict[VariableTracker, int]
    generators: list[GeneratorVariable]
    kept: list[object]
    size_nodes: dict[tuple[torch.fx.Node, int], torch.fx.Node]

    @property
    def innermost(self) -> SymbolicFrame:
        """The frame that is being interpreted just now: the last on the stack of frames."""
        ...

    def user_stack(self) -> tuple[UserFrame, ...]:
        """The symbolic frames, outermost first, as people know them from tracebacks."""
        ...

    def interpret(self, frame: SymbolicFrame, thrown: VariableTracker | None = None) -> bool:
        """Run a frame until it returns or yields; True when the planned stop is reached instead.

        `thrown`: an exception that is raised in the frame, by the instruction at which it stands.
        """
        ...

    def namespace_of(self, function: Any) -> NamespaceVariable:
        """The tracker of a function's globals."""
        ...

    def new_cell(self, name: str, content: VariableTracker | None) -> CellVariable:
        """A cell that the root frame makes anew."""
        ...

    def operator_failed(self, failure: OperatorFailed) -> NoReturn:
        """An operator raised on fake tensors: break, with the kind that fits."""
        ...

    def leave_modes_in_graph(self) -> None:
        """The graph ends inside `with` blocks: it must leave their modes."""
        ...

    def finish_check(self) -> GuardCheck:
        """Compile the guards."""
        ...

    def finish_relaxed_check(self) -> tuple[GuardCheck, StateWalk | None]:
        """Compile the guards of a frame that is left to Python."""
        ...
