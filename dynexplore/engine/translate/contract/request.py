"""The interface between translator and runtime: request and result.

In: a `TranslationRequest`, made by runtime/convert.py for the frame that is about to run. Out: a `Translation`, which
becomes a cache entry; or SkipFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Protocol

from dynexplore.engine.aliasing.lower import GraphCompiler
from dynexplore.engine.graph.builder import FinishedGraph
from dynexplore.engine.graph_breaks import GraphBreak, SkipFrame
from dynexplore.engine.native import TypeGuard
from dynexplore.engine.provenance.guard_check import GuardCheck
from dynexplore.engine.provenance.guard_filter import GuardFilter
from dynexplore.engine.recorder import Recorder
from dynexplore.engine.records import record
from dynexplore.engine.specialization.break_chains import BreakChains
from dynexplore.engine.specialization.module_classes import ModuleClasses
from dynexplore.engine.specialization.profile import Profile
from dynexplore.engine.specialization.size_oblivious import BackendSizeGuards

if TYPE_CHECKING:
    from dynexplore.engine.bytecode import Step
    from dynexplore.engine.events import ValueView
    from dynexplore.engine.translate.contract.interpreter import Interpreter
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
    from dynexplore.engine.variables.contract.base import VariableTracker
    from dynexplore.engine.variables.contract.context import TraceContext

__all__ = [
    "CompiledGraph",
    "SkipFrameOnce",
    "RestartPoint",
    "SkipFrame",
    "StepObserver",
    "Translation",
    "TranslationRequest",
]


class SkipFrameOnce(Exception):
    """This call of the frame, and all that it calls, is better run plain; says why. The next one is another matter."""


class StepObserver(Protocol):
    """Who looks at each step of a translation, so as to compare what it did with what the instruction means."""

    def attempt_started(self, frame_id: int, attempt: int, ctx: Interpreter) -> None:
        """An attempt begins."""

    def stepping(self, frame: SymbolicFrame, step: Step, callees: int) -> None:
        """A step is about to be interpreted; so many callees were interpreted so far."""

    def stepped(self, frame: SymbolicFrame, step: Step, inline: int, callees: int) -> None:
        """It was; `inline` is the number of the callee that it belongs to."""

    def record_contents(self, view: Callable[[VariableTracker], ValueView]) -> None:
        """Record what the containers hold that the latest step made or changed; `view` shows a tracker."""


@record(frozen=False)
class TranslationRequest:
    """What the runtime knows of the call that is about to run."""

    code: CodeType
    function: FunctionType | None
    globals: dict[str, Any]
    builtins: dict[str, Any]
    closure: tuple[Any, ...] | None
    values: Mapping[str, object]  # the bound argument slots
    slot_names: tuple[str, ...]
    compiler: GraphCompiler
    profile: Profile
    module_classes: ModuleClasses
    break_chains: BreakChains
    nopython: bool = False
    dynamic: bool | None = None
    recorder: Recorder | None = None
    frame_id: int = 0
    backend_name: str = ""
    step_observer: StepObserver | None = None
    guard_filter: GuardFilter | None = None
    backend_size_guards: BackendSizeGuards = field(default_factory=BackendSizeGuards)
    views_are_static: bool = False  # whether inputs that are views have the sizes of this call
    patience: float = 1.0  # the share of the seconds of a translation that this one has
    nested_breaks: bool = False  # whether a break in a callee that nests ends the graph there
    symbolic_numbers: bool = True  # whether numbers that change may be inputs: not where the backend failed at their graph


@record(frozen=False)
class CompiledGraph:
    """A graph that was handed to the backend, and what came back."""

    name: str
    graph: FinishedGraph
    function: Callable[..., Any]


@record(frozen=False)
class Translation:
    """The outcome: the code that runs, what its extra locals hold, the guards, and what it is made of."""

    code: CodeType
    injected: tuple[Any, ...]
    inject_index: int
    check: GuardCheck
    walk: Any
    graphs: list[CompiledGraph]
    breaks: list[GraphBreak]
    weak_owners: list[tuple[Any, str]]  # an object, and where it stood
    resume_codes: list[CodeType] = field(default_factory=list)
    left_to_python: bool = False  # whether `code` is the frame's own: there is nothing worth a graph in it
    types: TypeGuard | None = None  # all that `check` asks, where C can ask it
    may_be_numbers_only: bool = False  # whether all up to the break is work on numbers, with no tensor in reach
    runs_alone: bool = False  # whether `code` calls its graph and nothing of the program's, so that the hook may be off


@record(frozen=False)
class RestartPoint:
    """Where the next attempt must stop, and why: just before step number `stop_at` of the frames that nest."""

    stop_at: int
    graph_break: GraphBreak
    has_nested: bool = False  # whether callees were interpreted in which the graph might have ended
    stack_follows: bool = False  # the break is reported for the place of the stop, which the next attempt finds
    transient_break_guards: tuple[Callable[[TraceContext], None], ...] = ()
    """Each guards a state of the program that alone makes the frame break."""
