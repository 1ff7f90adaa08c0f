"""The interface of the translator that trackers use.

The idea: trackers and the translator depend on each other (a list's `append` reaches the journal, a function's call is inlined by
the translator). These Protocols break the import cycle. `TraceContext` has the five verbs that nearly every tracker uses (build,
guard, operation, break_graph, raise_exception); less common operations are grouped in `values`, `calls` and `frames`.

In: calls from trackers; every method of a tracker gets the context as `ctx`. Out: `translate/translator.py` implements it.
PyTorch's counterpart: the `tx: InstructionTranslator` parameter of torch/_dynamo/variables/.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    from dynexplore.engine.graph.builder import GraphBuilder
    from dynexplore.engine.graph.torch_function_probe import TorchFunctionDispatched
    from dynexplore.engine.provenance.module_guards import ModuleGuards
    from dynexplore.engine.provenance.sources import Source
    from dynexplore.engine.provenance.torch_guards import GlobalState
    from dynexplore.engine.specialization.decide import Specializer
    from dynexplore.engine.variables.contract.active_mode import ActiveMode
    from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
    from dynexplore.engine.variables.contract.frame_effects import FrameEffects
    from dynexplore.engine.variables.contract.function_modes import FunctionModes
    from dynexplore.engine.variables.contract.side_effects import Journal


class ObservedException(Exception):
    """The traced program raises; `exception` is the tracker of the exception. Unwinds symbolic frames."""

    def __init__(self, ctx: TraceContext, exception: VariableTracker) -> None:
        super().__init__(exception)
        self.exception = exception
        ctx.effects.cleanup_callbacks.append(self._forget_frames)

    def _forget_frames(self) -> None:
        """Drop the traceback: a frame that caught this exception is in it and refers to it, a
        cycle that would keep the program's objects alive.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None


class Values(Protocol):
    """Inputs of the graph."""

    symbolic_inputs: dict[Source, VariableTracker]  # numbers that are symbolic graph inputs

    def lazy(self, value: object, source: Source | None) -> VariableTracker:
        """A live value that becomes a tracker on first use."""
        ...

    def guard_tensor(self, tensor: Any, source: Source) -> Any:
        """Make a tensor a graph input: TENSOR_MATCH guard, fake tensor and placeholder; returns the node."""
        ...

    def new_input(self, tensor: Any, source: Source) -> Any:
        """Make a tensor that the modified code creates a graph input, without a guard; returns the node."""
        ...

    def constant_tensor(self, tensor: Any) -> VariableTracker:
        """A tensor that the engine itself created while tracing, as an attribute of the graph module."""
        ...

    def wrap_size(self, size: Any, tensor: VariableTracker) -> VariableTracker:
        """The tracker of a tensor's torch.Size; symbolic entries become nodes on first use."""
        ...

    def iterator_over(self, items: list[VariableTracker]) -> VariableTracker:
        """An iterator tracker over known items."""
        ...


class Calls(Protocol):
    """Calls that leave the tracker layer: into a Python body, or to a TorchFunctionMode."""

    module_path: list[tuple[str, str]]  # path and class of each nn.Module whose forward is being interpreted

    def inline(
        self, function: VariableTracker, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        """Interpret a Python function's body as a nested symbolic frame."""
        ...

    def make_enumeration(self, base: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`Enum("Color", "RED GREEN")`: the class that the equivalent class statement would make."""
        ...

    def make_class(self, name: str, bases: list[VariableTracker], namespace: VariableTracker) -> VariableTracker:
        """`type(name, bases, namespace)`: the class that the equivalent class statement would make."""
        ...

    def resume_generator(
        self, generator: VariableTracker, sent: VariableTracker, thrown: VariableTracker | None = None
    ) -> VariableTracker | None:
        """Run an inlined generator's body to its next `yield`; None if it returned.

        `thrown`: an exception to raise at the point where the generator is suspended.
        """
        ...

    def dispatch_torch_function(
        self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> VariableTracker | None:
        """The innermost TorchFunctionMode's result for a call that needs no operation
        in the graph; None: the mode is not called.
        """
        ...

    def torch_function_call(
        self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TorchFunctionDispatched | None:
        """The arguments with which torch would call `__torch_function__` for this call; None if torch calls no mode."""
        ...


class ActiveFrames(Protocol):
    """The stack of frames that are being interpreted."""

    def handled_exception(self) -> VariableTracker | None:
        """The exception being handled by an `except` or `finally` block of the innermost frame or of one around it."""
        ...

    def forward_call(
        self, caller: VariableTracker, function: VariableTracker, through: Sequence[types.FunctionType] = ()
    ) -> None:
        """Note that calling `caller` only calls `function` and returns its result unchanged.

        `through`: methods of `caller` that forward the call in eager and are not interpreted, outermost first.
        """
        ...

    def runs_as_in_eager(self) -> bool:
        """Whether the innermost frame takes the path that eager takes, though it is captured."""
        ...

    def is_owned_by_root(self, value: VariableTracker) -> bool:
        """Whether a local of the root frame, not of an inlined callee or of a caller, holds this object made in the frame."""
        ...

    def super_arguments(self, ctx: Any) -> tuple[VariableTracker, VariableTracker]:
        """The arguments that zero-argument `super()` implies: the content of the `__class__` cell and the first argument."""
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
        """The tracker of a live value, as the registry (build.py) decides, with the guards that this requires.

        `source` None: a constant that the engine itself makes; no guard.
        """
        ...

    def guard(self, source: Source, kind: str, expected: Any) -> None:
        """Install a guard on the value at `source`, attributed to the current instruction.

        Nothing is installed if `module_guards.implies(source, kind, expected)`.
        """
        ...

    def operation(self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> VariableTracker:
        """Add a torch operation to the graph and return the tracker of its result; args and kwargs are trackers.

        If an active TorchFunctionMode handles the call, the result is what the mode returns.
        """
        ...

    def break_graph(self, kind: str, **facts: object) -> NoReturn:
        """Stop tracing at this instruction: raises GraphBreak."""
        ...

    def raise_exception(self, exception_type: type[BaseException], *args: object) -> NoReturn:
        """Raise this exception in the traced program: raises ObservedException."""
        ...
