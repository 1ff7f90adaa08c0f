"""What a tracker may ask of the translator.

The idea: trackers and translator know each other (a list's `append` must reach the journal, a function's call must be
inlined by the translator). The circle goes through these Protocols, so that imports still run down only. `TraceContext` has five
verbs that nearly every tracker uses (build, guard, operation, break_graph, raise_exception); the rest belongs to its parts.

In/out: `translate/translator.py` implements `TraceContext`; every method of a tracker gets it as `ctx`.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    from dynexplore.engine.graph.builder import GraphBuilder
    from dynexplore.engine.graph.torch_function_probe import TorchFunctionDispatched
    from dynexplore.engine.provenance.guard_check import GlobalState
    from dynexplore.engine.provenance.module_guards import ModuleGuards
    from dynexplore.engine.provenance.sources import Source
    from dynexplore.engine.specialization.decide import Specializer
    from dynexplore.engine.variables.contract.active_mode import ActiveMode
    from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
    from dynexplore.engine.variables.contract.frame_effects import FrameEffects
    from dynexplore.engine.variables.contract.function_modes import FunctionModes
    from dynexplore.engine.variables.contract.side_effects import Journal


class ObservedException(Exception):
    """The traced program raises: `exception` is the tracker of what it raises. Unwinds symbolic frames."""

    def __init__(self, ctx: TraceContext, exception: VariableTracker) -> None:
        super().__init__(exception)
        self.exception = exception
        ctx.effects.cleanup_callbacks.append(self._forget_frames)

    def _forget_frames(self) -> None:
        """A frame that has caught it is in its traceback, and holds it: a cycle, with all that the program's frame holds."""
        self.__traceback__ = self.__context__ = self.__cause__ = None


class Values(Protocol):
    """Inputs of the graph."""

    symbolic_inputs: dict[Source, VariableTracker]  # the symbols of numbers that are inputs

    def lazy(self, value: object, source: Source | None) -> VariableTracker:
        """A live value that becomes a tracker when it is first looked at."""
        ...

    def guard_tensor(self, tensor: Any, source: Source) -> Any:
        """Make a tensor an input of the graph: TENSOR_MATCH, fake twin and placeholder; returns the node."""
        ...

    def new_input(self, tensor: Any, source: Source) -> Any:
        """Make a tensor that the modified code makes an input of the graph, without a guard; returns the node."""
        ...

    def constant_tensor(self, tensor: Any) -> VariableTracker:
        """A tensor that the engine itself holds (made while tracing) as an attribute of the graph."""
        ...

    def wrap_size(self, size: Any, tensor: VariableTracker) -> VariableTracker:
        """The tracker of a tensor's torch.Size; symbolic entries become nodes when they are used."""
        ...

    def iterator_over(self, items: list[VariableTracker]) -> VariableTracker:
        """An iterator tracker over known items."""
        ...


class Calls(Protocol):
    """Calls that leave the tracker's own layer: into a Python body, or to a TorchFunctionMode."""

    module_path: list[tuple[str, str]]  # path and class of the nn.Modules whose forward is being interpreted

    def inline(
        self, function: VariableTracker, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        """Interpret a Python function's body as a nested symbolic frame."""
        ...

    def make_enumeration(self, base: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`Enum("Color", "RED GREEN")`: the class that a class statement would make."""
        ...

    def resume_generator(
        self, generator: VariableTracker, sent: VariableTracker, thrown: VariableTracker | None = None
    ) -> VariableTracker | None:
        """Run an inlined generator's body to its next `yield`; None when it returned.

        `thrown`: an exception that is raised in it, where it stands.
        """
        ...

    def dispatch_torch_function(
        self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> VariableTracker | None:
        """What the innermost TorchFunctionMode makes of a call that is answered without an operation; None: it is not asked."""
        ...

    def torch_function_call(
        self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TorchFunctionDispatched | None:
        """What torch passes to `__torch_function__` when this call is made; None where torch asks no mode."""
        ...


class ActiveFrames(Protocol):
    """The frames that are being interpreted."""

    def handled_exception(self) -> VariableTracker | None:
        """The exception that an `except` or `finally` block of the innermost frame, or of one around it, handles."""
        ...

    def forward_call(
        self, caller: VariableTracker, function: VariableTracker, through: Sequence[types.FunctionType] = ()
    ) -> None:
        """Calling `caller` only calls `function`, and gives its result unchanged.

        `through`: methods of `caller` that do so in eager and are not interpreted, outermost first.
        """
        ...

    def is_owned_by_root(self, value: VariableTracker) -> bool:
        """Whether a local of the frame that is translated, not of a callee or caller, holds the object that it made."""
        ...

    def super_arguments(self, ctx: Any) -> tuple[VariableTracker, VariableTracker]:
        """What `super()` without arguments means in the innermost frame: the `__class__` cell's content, the first argument."""
        ...


class TraceContext(Protocol):
    """The translator, as trackers see it."""

    graph: GraphBuilder
    journal: Journal
    effects: FrameEffects
    module_guards: ModuleGuards
    specializer: Specializer
    global_state: GlobalState
    active_modes: list[ActiveMode]
    function_modes: FunctionModes  # the TorchFunctionModes that traced code has entered

    @property
    def values(self) -> Values:
        """Inputs of the graph."""
        ...

    @property
    def calls(self) -> Calls:
        """Calls of Python bodies and of modes."""
        ...

    @property
    def frames(self) -> ActiveFrames:
        """The frames that are being interpreted."""
        ...

    def build(self, value: object, source: Source | None) -> VariableTracker:
        """The tracker of a live value (the registry of build.py decides), with the guards that costs.

        `source` None: a constant that the engine itself makes; no guard.
        """
        ...

    def guard(self, source: Source, kind: str, expected: Any) -> None:
        """Rely on a fact about the value at `source`, on behalf of the current instruction.

        Nothing is installed if `module_guards.implies(source, kind, expected)`.
        """
        ...

    def operation(self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> VariableTracker:
        """Put a torch operation into the graph; args and kwargs are trackers. The tracker of its result.

        Under a TorchFunctionMode that is asked about it: what the mode makes of it.
        """
        ...

    def break_graph(self, kind: str, **facts: object) -> NoReturn:
        """Give up on tracing this instruction: raises GraphBreak."""
        ...

    def raise_exception(self, exception_type: type[BaseException], *args: object) -> NoReturn:
        """The traced program raises this exception: raises ObservedException."""
        ...
