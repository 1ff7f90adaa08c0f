"""What a tracker may ask of the translator.

The idea: trackers and translator know each other (a list's `append` must reach the journal, a function's call must be
inlined by the translator). The circle goes through this Protocol, so that imports still run down only.

In/out: `translate/translator.py` implements `TraceContext`; every method of a tracker gets it as `ctx`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    from dynexplore.engine.graph.builder import GraphBuilder
    from dynexplore.engine.graph.function_question import Asked
    from dynexplore.engine.provenance.guard_check import GlobalState
    from dynexplore.engine.provenance.module_guards import ModuleGuards
    from dynexplore.engine.provenance.sources import Source
    from dynexplore.engine.recorder import Recorder
    from dynexplore.engine.variables.contract.active_mode import ActiveMode
    from dynexplore.engine.variables.contract.base import VariableTracker
    from dynexplore.engine.variables.contract.function_modes import FunctionModes
    from dynexplore.engine.variables.contract.side_effects import Journal


class UserRaised(Exception):
    """The traced program raises: `exception` is the tracker of what it raises. Unwinds symbolic frames."""

    def __init__(self, ctx: TraceContext, exception: VariableTracker) -> None:
        super().__init__(exception)
        self.exception = exception
        ctx.let_go.append(self._forget_frames)

    def _forget_frames(self) -> None:
        """A frame that has caught it is in its traceback, and holds it: a circle, with all that the program's frame holds."""
        self.__traceback__ = self.__context__ = self.__cause__ = None


class TraceContext(Protocol):
    """The translator, as trackers see it."""

    graph: GraphBuilder
    journal: Journal
    recorder: Recorder | None
    module_guards: ModuleGuards
    global_state: GlobalState
    active_modes: list[ActiveMode]
    function_modes: FunctionModes  # the TorchFunctionModes that traced code has entered
    draws: list[tuple[str, Any, tuple[Any, ...]]]  # random numbers: the local each goes to, the function, its arguments
    new_parameters: list[tuple[Any, Callable[[], Any]]]  # tracker of each parameter that the frame makes, and what makes it
    graphs_run_as_they_are: bool  # nobody traces them, so that a node may run the program's own code anew in each call
    told_compiling: bool  # whether the program asked if it is being compiled: it may have taken a way that it else does not take
    passing: list[Callable[[TraceContext], None]]  # each guards, in the next attempt, what makes this frame break for now
    module_path: list[tuple[str, str]]  # path and class of the nn.Modules whose forward is being interpreted
    let_go: list[Callable[[], object]]  # called when the attempt is over: opens circles in which the program's objects are held

    def build(self, value: object, source: Source | None) -> VariableTracker:
        """The tracker of a live value (the registry of build.py decides), with the guards that costs.

        `source` None: a constant of the engine's own making; no guard.
        """
        ...

    def lazy(self, value: object, source: Source | None) -> VariableTracker:
        """A live value that becomes a tracker when it is first looked at."""
        ...

    def guard(self, source: Source, kind: str, expected: Any) -> None:
        """Rely on a fact about the value at `source`, on behalf of the current instruction.

        Nothing is installed if `module_guards.implies(source, kind, expected)`.
        """
        ...

    def is_held_by_the_frame(self, value: VariableTracker) -> bool:
        """Whether a local of the frame that is translated, not of one that it calls, is this very object."""
        ...

    def is_stable(self, source: Source) -> bool:
        """Whether the object at `source` may be guarded by its identity.

        False for a source, and all that hangs on it, where an entry of this code object failed because another object stood there
        (another instance of a block, a counter, a cache): then by type and content instead.
        """
        ...

    def note_number(self, source: Source, value: object) -> None:
        """Remember a number that is taken as a constant without a guard of its own on `source`: another one there varies."""
        ...

    def super_arguments(self) -> tuple[VariableTracker, VariableTracker]:
        """What `super()` without arguments means in the innermost frame: the `__class__` cell's content, the first argument."""
        ...

    def handled_exception(self) -> VariableTracker | None:
        """The exception that an `except` or `finally` block of the innermost frame, or of one around it, handles just now."""
        ...

    def guard_tensor(self, tensor: Any, source: Source) -> Any:
        """Make a tensor an input of the graph: TENSOR_MATCH, fake twin and placeholder; gives the node."""
        ...

    def unspecialized_value(self, value: Any, source: Source) -> VariableTracker | None:
        """The tracker of a number or string that is not relied on, because it changes from call to call; None for others."""
        ...

    def new_input(self, tensor: Any, source: Source) -> Any:
        """Make a tensor that the modified code makes an input of the graph, without a guard; gives the node."""
        ...

    def drawn_number(self, value: Any, source: Source) -> Any:
        """Make a number that is drawn in each call an input of the graph; gives the node, or None where the backend takes none."""
        ...

    def dynamic_number(self, value: Any, source: Source) -> VariableTracker | None:
        """The symbol of a number that changes from call to call; None while it is taken as a constant."""
        ...

    def keep(self, value: object) -> None:
        """Let the cache entry hold an object that was made while tracing."""
        ...

    def constant_tensor(self, tensor: Any) -> VariableTracker:
        """A tensor that the engine itself holds (made while tracing) as an attribute of the graph."""
        ...

    def wrap_size(self, size: Any, tensor: VariableTracker) -> VariableTracker:
        """The tracker of a tensor's torch.Size; symbolic entries become nodes when they are used."""
        ...

    def wrap(self, node: Any, value: Any) -> VariableTracker:
        """The tracker of a graph value: a tensor, a symbolic number, or a nest of them."""
        ...

    def pair(self, first: VariableTracker, second: VariableTracker) -> VariableTracker:
        """A new tuple of two."""
        ...

    def iterator_over(self, items: list[VariableTracker]) -> VariableTracker:
        """An iterator tracker over known items."""
        ...

    def operation(self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> VariableTracker:
        """Put a torch operation into the graph; args and kwargs are trackers. The tracker of its result.

        Under a TorchFunctionMode that is asked about it: what the mode makes of it.
        """
        ...

    def ask_function_mode(self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> VariableTracker | None:
        """What the innermost TorchFunctionMode makes of a call that is answered without an operation; None: it is not asked."""
        ...

    def question_about(self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Asked | None:
        """What torch asks a TorchFunctionMode when this call is made; None where it asks nothing."""
        ...

    def call_function(
        self, function: VariableTracker, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        """Call any tracker."""
        ...

    def inline(
        self,
        function: VariableTracker,
        args: Sequence[VariableTracker],
        kwargs: Mapping[str, VariableTracker],
    ) -> VariableTracker:
        """Interpret a Python function's body as a nested symbolic frame."""
        ...

    def resume_generator(
        self, generator: VariableTracker, sent: VariableTracker, thrown: VariableTracker | None = None
    ) -> VariableTracker | None:
        """Run an inlined generator's body to its next `yield`; None when it returned.

        `thrown`: an exception that is raised in it, where it stands.
        """
        ...

    def break_graph(self, kind: str, **facts: object) -> NoReturn:
        """Give up on tracing this instruction: raises GraphBreak."""
        ...

    def raise_exception(self, exception_type: type[BaseException], *args: object) -> NoReturn:
        """The traced program raises this exception: raises UserRaised."""
        ...
