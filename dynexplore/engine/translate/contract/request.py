"""The interface between translator and runtime: request and result.

The idea: the translator sees of the runtime only the request, and the runtime sees of a translation only the result, so that either
can be tested alone.

In: a `TranslationRequest`, made by runtime/convert.py for the frame that is about to run. Out: a `Translation`, which becomes a
cache entry; or SkipFrame. PyTorch's counterpart: the arguments and the `ConvertFrameReturn` of torch/_dynamo/convert_frame.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Protocol

from dynexplore.engine.aliasing.lower import GraphCompiler
from dynexplore.engine.graph.finished_graph import FinishedGraph
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
    """This call of the frame, and everything that it calls, should run as plain Python, but not later ones; holds the reason."""


class StepObserver(Protocol):
    """An observer of each step of a translation, which compares the step's effect with the meaning of the instruction."""

    def attempt_started(self, frame_id: int, attempt: int, ctx: TraceContext, innermost: Callable[[], SymbolicFrame]) -> None:
        """An attempt begins; `innermost` is the frame that is being interpreted."""

    def stepping(self, frame: SymbolicFrame, step: Step, callees: int) -> None:
        """A step is about to be interpreted; `callees` were interpreted so far."""

    def stepped(self, frame: SymbolicFrame, step: Step, inline: int, callees: int) -> None:
        """A step was interpreted; `inline` is the number of the callee that it belongs to."""

    def record_contents(self, view: Callable[[VariableTracker], ValueView]) -> None:
        """Record the content of containers that the latest step created or mutated; `view` shows a tracker."""


@record()
class CompiledGuards:
    """The guards of an attempt: as code, as a walk over the state of modules, and the objects of that state."""

    check: GuardCheck
    walk: Any
    weak_owners: list[tuple[Any, str]]  # an object, and where it was found


@record(frozen=False)
class TranslationRequest:
    """What the runtime knows about the call that is about to run."""

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
    views_are_static: bool = False  # whether inputs that are views have static sizes
    patience: float = 1.0  # the fraction of the time limit that this translation has
    nested_breaks: bool = False  # whether a break in a callee may end the graph there
    skipped_under: CompiledGuards | None = None  # the guards under which it may not, although it is enabled
    guards_separate_callee: bool = True  # whether to record these: see specialization/break_chains.py
    symbolic_numbers: bool = True  # whether dynamic numbers may be graph inputs: not after the backend failed on such a graph


@record(frozen=False)
class CompiledGraph:
    """A graph that was passed to the backend, and the result."""

    name: str
    graph: FinishedGraph
    function: Callable[..., Any]


@record(frozen=False)
class Translation:
    """The result: the modified code, the values of its injected locals, the guards, and the compiled graphs."""

    code: CodeType
    injected: tuple[Any, ...]
    inject_index: int
    check: GuardCheck
    walk: Any
    graphs: list[CompiledGraph]
    breaks: list[GraphBreak]
    weak_owners: list[tuple[Any, str]]  # an object, and where it was found
    resume_codes: list[CodeType] = field(default_factory=list)
    left_to_python: bool = False  # whether the frame is skipped: `code` is its own
    types: TypeGuard | None = None  # the whole of `check`, if C can check it
    may_be_numbers_only: bool = False  # whether everything up to the break is work on numbers, with no tensor in reach
    runs_alone: bool = False  # whether `code` calls its graph and no user code, so that the hook may be off
    separate_callee: bool = False  # whether the frame resumes in a chain, and its callee runs as a separate frame


@record(frozen=False)
class RestartPoint:
    """Where the next attempt must stop, and why: just before step number `stop_at`, counted over the frames that nest."""

    stop_at: int
    graph_break: GraphBreak
    has_nested: bool = False  # whether callees were interpreted in which the graph might have ended
    stack_follows: bool = False  # the break is reported with the stack at the stop, which the next attempt records
    transient_break_guards: tuple[Callable[[TraceContext], None], ...] = ()
    """Each installs a guard on a transient program state that is the only reason for the break."""
