"""The translator: interprets a frame's canonical steps symbolically, until it returns or must break.

The idea: CPython's evaluation loop over trackers instead of values. Tensor operations go into the graph; assumptions become guards;
mutations go to the journal. When an instruction cannot be traced, the attempt is discarded and a second one stops just before that
instruction (no state is ever rolled back): `translate` usually runs at most two attempts.

In: a `TranslationRequest` (what the runtime knows about the call). Out: a `Translation` (modified code, graphs, guards).
`Translator` implements `TraceContext`, the Protocol through which trackers reach it: it is the loop, composed with the objects that
trackers use (`values`, `calls`, `frames`, `graph`, `journal`, `effects`).

PyTorch's counterpart: `InstructionTranslatorBase` in torch/_dynamo/symbolic_convert.py (discarding attempts: `SpeculationLog`,
`RestartAnalysis`) and torch/_dynamo/output_graph.py.
"""

from __future__ import annotations

import contextlib
import functools
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from dynexplore.engine.bytecode import ParsedCode, Step, read
from dynexplore.engine.events import UserFrame
from dynexplore.engine.gc_control import gc_disabled
from dynexplore.engine.graph.builder import GraphBuilder
from dynexplore.engine.graph.unbacked_symints import capturing_for
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.phases import timed
from dynexplore.engine.policy.error_on_graph_break import breaks_are_errors
from dynexplore.engine.provenance.guards import GuardSet
from dynexplore.engine.provenance.module_guards import ModuleGuards
from dynexplore.engine.provenance.sources import GlobalsSource, Scope, Source
from dynexplore.engine.provenance.torch_guards import GlobalState
from dynexplore.engine.raw_attributes import class_qualname, has_python_getattribute
from dynexplore.engine.specialization.decide import Options, Specializer
from dynexplore.engine.specialization.shape_env import make_shape_env, relies_on_unnamed_sizes
from dynexplore.engine.specialization.size_oblivious import guards_admit_current_hints, validate_size_oblivious
from dynexplore.engine.translate import class_statement, comptime, handlers, operations
from dynexplore.engine.translate.break_code import finish_with_break
from dynexplore.engine.translate.budget import TranslationBudget
from dynexplore.engine.translate.calls import CallDispatcher
from dynexplore.engine.translate.codegen import LastReferenceGoes, ReconstructionError, TraceTimeClassEscapes, finish_with_return
from dynexplore.engine.translate.contract.request import (
    CompiledGuards,
    RestartPoint,
    SkipFrame,
    SkipFrameOnce,
    Translation,
    TranslationRequest,
)
from dynexplore.engine.translate.dispatch import HANDLERS
from dynexplore.engine.translate.event_emitter import EventEmitter
from dynexplore.engine.translate.frame_stack import FrameStack, user_frame
from dynexplore.engine.translate.guard_compilation import compile_guards_and_walk
from dynexplore.engine.translate.handlers.observed_end import RELEASED
from dynexplore.engine.translate.nested_break import CallOfCallee, NestedBreakWriter
from dynexplore.engine.translate.nested_frames import module_called, only_forwards_call, only_repeats
from dynexplore.engine.translate.observed_return import observed_with_callees, refuse_observed_return
from dynexplore.engine.translate.observed_unwinding import released_by_unwinding
from dynexplore.engine.translate.resume import ResumeCode, resume_point
from dynexplore.engine.translate.root_frame import RootFrame
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.translate.unreconstructible import refuse_generators_created_at, refuse_unreconstructible
from dynexplore.engine.translate.value_builder import ValueBuilder
from dynexplore.engine.variables import all_rows
from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import Args, Kwargs, UnknownType, VariableTracker, progress
from dynexplore.engine.variables.contract.build import row_for
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.contract.frame_effects import FrameEffects
from dynexplore.engine.variables.contract.function_modes import FunctionModes
from dynexplore.engine.variables.contract.side_effects import Journal
from dynexplore.engine.variables.modes.active_modes import leave_all
from dynexplore.engine.variables.objects.exception import ExceptionVariable, exception_from_python, set_context
from dynexplore.engine.variables.objects.weak_reference import HELD_BY_THE_FRAME
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.torch_.nn.nn_module import WAITS_FOR_LAZY_INIT, is_module_frame

_ROWS = (all_rows, class_statement, comptime, handlers)  # imported for the rows they declare

_FINALIZED = "DX321"
_GUARDS_PER_CLOCK_READ = 1024
ATTEMPTS = 8  # usually two; one more for each value that cannot be reconstructed at the previous attempt's restart point


@timed("translate")
def translate(request: TranslationRequest) -> Translation:
    """Translate one frame.

    Raises GraphBreak if the request is `nopython` and the frame cannot be one graph; SkipFrame if it should run as plain Python,
    and SkipFrameOnce if only this call should.
    """
    restart: RestartPoint | None = None
    size_oblivious = not request.backend_size_guards.guards_sizes
    for attempt in range(1, ATTEMPTS + 1):
        with gc_disabled(), progress.of_an_attempt(), capturing_for(nopython=request.nopython):
            translator = Translator(request, attempt, restart, size_oblivious=size_oblivious)
            try:
                outcome = translator.run()
            except SkipFrame:
                if not (request.nested_breaks and (translator.has_nested or (restart is not None and restart.has_nested))):
                    raise
                request.nested_breaks, outcome = False, None  # no frame is skipped because of one of its callees
                request.skipped_under = translator.guards_so_far() if request.guards_separate_callee else None
            finally:
                translator.close()
        if isinstance(outcome, Translation):
            return outcome
        restart = outcome
        size_oblivious &= restart is not None
    raise SkipFrame("the frame broke in a new place on every attempt")


def interpreted_at(error: BaseException) -> tuple[UserFrame, ...]:
    """The lines of the program that were being interpreted when the engine failed, outermost first.

    Read from the traceback: frames that an exception has unwound are no longer on the stack.
    """
    entries = (entry for entry, _ in traceback.walk_tb(error.__traceback__))
    return tuple(user_frame(entry.f_locals["frame"]) for entry in entries if entry.f_code is Translator._take_steps.__code__)


class _StopInCallee(BaseException):
    """The restart point is reached in a callee that allows a nested break; `FrameStack.chain` holds the frames."""


class Translator:
    """One attempt at one frame; implements TraceContext."""

    def __init__(
        self, request: TranslationRequest, attempt: int, restart: RestartPoint | None, *, size_oblivious: bool = False
    ) -> None:
        self.request = request
        self.restart = restart
        self.emitter = self._new_emitter(attempt)
        self.guards = GuardSet()
        self.module_guards = ModuleGuards()
        self.journal = Journal(self.emitter.changed if self.emitter is not None else None, self._refuse_change)
        self.effects = FrameEffects()
        self.active_modes: list[ActiveMode] = []
        self.function_modes = FunctionModes()
        self.budget = TranslationBudget(request.patience, is_recorded=self.emitter is not None)
        self.calls = CallDispatcher(self)
        self.resume, parsed = _resumed_code(request.code)
        self.specializer = _specializer(
            request, self.emitter, is_resume=self.resume is not None, size_oblivious=size_oblivious
        )
        depends_on_data = self.specializer.has_dynamic_output_shape
        self.graph = GraphBuilder(
            functools.partial(make_shape_env, depends_on_data=depends_on_data, is_size_oblivious=size_oblivious)
        )
        self.values = ValueBuilder(self)
        self.effects.ends_with_callees = observed_with_callees(self.resume, request.values)
        self._build_frames(parsed)
        self.has_nested = False  # whether a callee was interpreted in which the graph might have ended
        self._steps_done = 0  # steps of the frames that nest
        self.raised_at: dict[VariableTracker, int] = {}  # exception -> the unit of a nesting frame at which to stop

    def _new_emitter(self, attempt: int) -> EventEmitter | None:
        """What makes the events of this attempt; None if nobody records it."""
        request = self.request
        if request.recorder is None:
            return None
        return EventEmitter(request.recorder, request.frame_id, attempt, self, lambda: self.frames.innermost, request.step_observer)

    def _build_frames(self, parsed: ParsedCode) -> None:
        """The root frame, and the frames of the callees in which a resume function resumes."""
        request = self.request
        root = RootFrame(request, self.journal, self.resume, self.specializer)
        scope = Scope(request.values, request.closure, request.globals)
        built = root.build(parsed, self.calls.namespaces[id(request.globals)])
        self.frames: FrameStack = FrameStack(built, request.module_classes, scope, request.break_chains)
        if self.resume is not None:
            self.frames.chain += root.build_callees(self, self.frames.root)

    def guards_so_far(self) -> CompiledGuards | None:
        """The guards of an attempt that failed because of a callee; None if the frame has no callee, or fails its own guards."""
        if self.resume is None or self.resume.inner is None or self.values.dynamic_constraints or not self._serves_this_call():
            return None
        if relies_on_unnamed_sizes(self.graph):
            return None
        leave_all(self.active_modes)  # a guard on a tensor reads the process's modes when it is made
        return compile_guards_and_walk(self)

    def close(self) -> None:
        """Undo the attempt's changes to the process (entered modes), and release the program's objects at once.

        They are part of reference cycles (a tracker refers to its context), which only the collector would break, later than the
        program expects: a generator is closed and a weak reference dies when the last owner is gone.
        """
        leave_all(self.active_modes)
        for break_cycle in self.effects.cleanup_callbacks:
            break_cycle()
        for _, tracker in self.journal.existing():
            storage = getattr(tracker, "storage", None)
            if isinstance(storage, VariableTracker):
                storage.storage_owner = None
        for guard in self.guards.guards:
            if guard.kind == "TENSOR_MATCH":
                guard.expected.release()
        self.graph.release()
        self.specializer.on_decision = None  # ShapeEnv, which holds it, may stay alive
        for part in (self.calls, self.values, self.frames, self):
            vars(part).clear()

    # -- one attempt, and where the next one stops

    def run(self) -> Translation | RestartPoint | None:
        """Interpret the root frame to its end; a Translation, or the restart point of the next attempt.

        None: the next attempt has no restart point, and specializes all sizes.
        """
        self._guard_on_global_state()
        root = self.frames.root
        if self.resume is not None and self.resume.inner is not None and not self.request.nested_breaks:
            return CallOfCallee(self, self.resume).finish()
        try:
            for install_guard in self.restart.transient_break_guards if self.restart is not None else ():
                install_guard(self)
            for frame in self.frames.chain:
                frame.stack = [value.read(self) for value in frame.stack]
            stopped = self._interpret_chain(self.frames.chain.copy())
        except GraphBreak as graph_break:
            return self._restart_before(graph_break) if self._serves_this_call() else None
        except ObservedException as raised:
            return self._restart_where_raised(raised) if self._serves_this_call() else None
        except RuntimeError as error:  # the value of a data-dependent size was needed
            if type(error).__name__ != "GuardOnDataDependentSymNode":
                raise
            return self._restart_before(self.record_break("DX110", {"operator": root.current.opname}, error))
        try:
            return self._finish(stopped)
        except ReconstructionError as failure:
            if stopped:
                refuse_generators_created_at(self, failure.step)
            return self._restart_before_value(failure)
        except GraphBreak as graph_break:
            raise SkipFrame(graph_break.reason) from graph_break

    def _guard_on_global_state(self) -> None:
        """Every graph depends on the process's modes: the first guard, which begins the attempt's events."""
        self.global_state = GlobalState()
        modes = self.guards.add(GlobalsSource(), "GLOBAL_STATE", self.global_state, 0)
        if self.emitter is not None:
            self.emitter.attempt_started()
            if modes is not None:
                self.emitter.guard_installed(modes)

    def _finish(self, stopped: bool) -> Translation | None:
        """Write the modified code: up to the return, or to the restart point of this attempt."""
        refuse_unreconstructible(self)
        validate_size_oblivious(self.graph)
        if not self._serves_this_call():
            return None
        if not self.request.views_are_static and relies_on_unnamed_sizes(self.graph):
            self.request.views_are_static = True
            return None
        if stopped:
            assert self.restart is not None
            writer = NestedBreakWriter if len(self.frames.chain) > 1 else None
            translation = finish_with_break(self, self.restart.graph_break, writer)
        else:
            translation = finish_with_return(self)
        return translation if self._serves_this_call() else None

    def _serves_this_call(self) -> bool:
        """False if the attempt treated a size 0 or 1 as a general size, and that has turned out to matter."""
        serves = guards_admit_current_hints(self.graph)
        if not serves and self.emitter is not None:
            self.emitter.attempt_abandoned("a size of a dynamic output shape is 0 or 1 in this call")
        return serves

    def _refuse_where_forbidden(self, graph_break: GraphBreak) -> None:
        """Raise it if the function must be one graph, or a block of the program forbids breaks."""
        if self.request.nopython or breaks_are_errors():
            raise graph_break

    def _skip_during_lazy_init(self, graph_break: GraphBreak) -> None:
        """Skip the model around a lazy module once: the module draws its weights in its first call, in program order.

        A function that only calls the model breaks there, as it may be the program's main function and never be called again.
        """
        forbidden = self.request.nopython or breaks_are_errors()
        code = self.frames.root.parsed.code
        first = self.request.values.get(code.co_varnames[0]) if code.co_varnames else None
        is_of_module = bool(code.co_varnames) and is_module_frame(code, first)
        if graph_break.facts.get("waits") == WAITS_FOR_LAZY_INIT and (forbidden or is_of_module):
            raise SkipFrameOnce(f"{graph_break.facts['type']} waits {WAITS_FOR_LAZY_INIT}") from graph_break

    def _restart_where_raised(self, raised: ObservedException) -> RestartPoint:
        """Stop the next attempt where the exception that leaves the frame was raised, so that Python raises it."""
        if self.effects.observed_is_compiling and not self.request.nopython:
            raise SkipFrame(f"it raises {raised.exception.text()} where torch.compiler.is_compiling() is True") from None
        frame = self.frames.stopping
        frame.unit_began_at = self.raised_at.get(raised.exception, frame.unit_began_at)
        return self._restart_before(self.record_break("DX310", {"exception": raised.exception.text()}, raised))

    def _restart_before(self, graph_break: GraphBreak) -> RestartPoint:
        """Stop the next attempt before the instruction that breaks the graph."""
        self._skip_during_lazy_init(graph_break)
        self._refuse_where_forbidden(graph_break)
        root = self.frames.root
        is_lazy_init = graph_break.facts.get("waits") == WAITS_FOR_LAZY_INIT  # the model around it runs as one piece
        is_in_root = len(graph_break.user_stack) == 1 or graph_break.facts.get("how") == HELD_BY_THE_FRAME
        is_creation = graph_break.kind.id == _FINALIZED and graph_break.facts.get("how") != RELEASED
        if is_creation and is_in_root:  # the frame would keep it alive (unreconstructible.py)
            raise SkipFrame(graph_break.reason)
        frame = root if is_creation or is_lazy_init else self.frames.stopping
        if frame.unit_began_at < 0:
            raise SkipFrame(graph_break.reason)  # it is at a call of its first part
        if self.restart is not None and self.restart.stop_at <= frame.unit_began_at and not frame.exceptions:
            raise SkipFrame(graph_break.reason)
        stop_at = self._last_plain_unit(frame)
        if self.emitter is not None:
            self.emitter.restarted(graph_break, root.current)
        guards = tuple(self.effects.transient_break_guards)
        return RestartPoint(stop_at, _without_frames(graph_break), self.has_nested, transient_break_guards=guards)

    def _restart_before_value(self, failure: ReconstructionError) -> RestartPoint:
        """Stop the next attempt before a value is created that is alive at the end of the graph and that only Python can create.

        If a callee creates it in the call in which the graph broke, the frame around that call breaks there, for the same reason.
        """
        at_call = any(frame.unit_began_at == failure.step for frame in self.frames.chain[:-1])
        graph_break = self.restart.graph_break if self.restart and at_call else self._break_before_value(failure)
        self._refuse_where_forbidden(graph_break)
        if self.restart is not None and self.restart.stop_at <= failure.step:
            raise SkipFrame(graph_break.reason)
        if self.emitter is not None:
            self.emitter.restarted(graph_break, self.frames.root.current)
        return RestartPoint(failure.step, _without_frames(graph_break), self.has_nested, stack_follows=not at_call)

    def _break_before_value(self, failure: ReconstructionError) -> GraphBreak:
        """The break for a value that cannot be reconstructed; for a class, at its class statement."""
        if isinstance(failure, LastReferenceGoes):
            return self.record_break("DX321", {"type": failure.facts["type"], "how": RELEASED})
        if not isinstance(failure, TraceTimeClassEscapes):
            return self.record_break("DX318", failure.facts)
        graph_break = self.record_break("DX315", failure.facts)
        graph_break.user_stack = failure.user_stack
        return graph_break

    # -- the loop

    def interpret(self, frame: SymbolicFrame, thrown: VariableTracker | None = None) -> bool:
        """Run a frame until it returns or yields; True if the restart point is reached instead.

        `thrown`: an exception to raise in the frame, at its current instruction.
        """
        with self.frames.entered(frame), self._in_chain(frame):
            return self._take_steps(frame, thrown)

    @contextlib.contextmanager
    def _in_chain(self, frame: SymbolicFrame) -> Iterator[None]:
        """Keep a callee that allows a nested break on the chain while it is interpreted; after a break, it stays the last."""
        if not frame.allows_nested_break or frame is self.frames.root:
            yield
            return
        root = self.frames.root
        del self.frames.chain[frame.depth :]
        self.frames.chain.append(frame)
        if frame.parent is root:
            self.frames.root_only_forwards = not self.graph.call_count and (
                only_forwards_call(root, self.frames.root_began_at)
                or only_repeats(root, frame, self.request.module_classes, self.frames.scope)
            )
        self.has_nested = True
        try:
            yield
        except ObservedException as raised:
            self._note_raised(raised)
            self._leave_chain()
            raise
        self._leave_chain()

    def _leave_chain(self) -> None:
        if len(self.frames.chain) == 2:
            self.frames.root_only_forwards = False
        self.frames.chain.pop()

    def _interpret_chain(self, frames: Sequence[SymbolicFrame]) -> bool:
        """Interpret the callees in which the root's resume function resumes, innermost first, and then the root frame."""
        root, *callees = frames
        del self.frames.chain[1:]
        try:
            if callees:
                with self.frames.entered(root):
                    self._finish_call(root, callees)
            return self.interpret(root)
        except _StopInCallee:
            return True

    def _finish_call(self, caller: SymbolicFrame, callees: Sequence[SymbolicFrame]) -> None:
        """Interpret the rest of the call at which the caller is, which resumes in the first of the callees."""
        callee, *inner = callees
        if self.emitter is not None:
            self.emitter.inline_entered(callee, caller)
        try:
            if inner:
                with self.frames.entered(callee), self._in_chain(callee):
                    self._finish_call(callee, inner)
            self.interpret(callee)
        except ObservedException as raised:
            if self.emitter is not None:
                self.emitter.inline_left(callee, "raised")
            step = next(step for step in reversed(caller.steps) if step.origin is caller.current)
            self._catch(caller, step, raised)
            return
        if self.emitter is not None:
            self.emitter.inline_left(callee)
        assert callee.returned is not None
        refuse_observed_return(self.effects.ends_with_callees[-len(callees)], callee, self.frames.running)
        caller.push(callee.returned.read(self))

    def _take_steps(self, frame: SymbolicFrame, thrown: VariableTracker | None) -> bool:
        """The loop of `interpret`."""
        steps = frame.steps
        may_stop = frame.allows_partial_graph
        emitter = self.emitter
        count_step = self.budget.count_step
        if thrown is not None:
            self._catch(frame, steps[frame.pc - 1], ObservedException(self, thrown))
        while frame.returned is None and frame.yielded is None:
            step = steps[frame.pc]
            if may_stop and self._reached_stop(frame, step):
                if frame is self.frames.root:
                    return True
                raise _StopInCallee
            frame.current = step.origin
            frame.pc += 1
            handler = HANDLERS.get(step.op)
            if emitter is not None:
                emitter.stepping(frame, step)
            try:
                count_step(self)
                if handler is None:
                    self.break_graph("DX301", opcode=step.op, because=handlers.NOT_TRACED[step.op])
                handler(frame, step, self)
            except ObservedException as raised:
                self._catch(frame, step, raised)
            except UnknownType as unknown:
                self.break_graph("DX302", type=unknown.tracker.text())
            if emitter is not None:
                emitter.stepped(frame, step, handler)
        return False

    def _reached_stop(self, frame: SymbolicFrame, step: Step) -> bool:
        """Count the steps of the frames that nest; return whether the restart point is reached."""
        if frame.parsed.first_step[step.origin.index] == step.index:
            frame.unit_began_at = self._steps_done
            progress.step = frame.caught_at[0] if frame.caught_at else self._steps_done
        if self.restart is not None and self.restart.stop_at == self._steps_done:
            frame.current = step.origin
            if self.restart.stack_follows:
                self.restart.graph_break.user_stack = self.frames.user_stack()
            return True
        self._steps_done += 1
        return False

    def _catch(self, frame: SymbolicFrame, step: Step, raised: ObservedException) -> None:
        """Jump to the handler of the raising instruction, or let the exception leave the frame."""
        frame.only_calls = None
        handler = step.origin.handler
        if handler is None:
            raise raised
        self._refuse_observed_unwinding(raised, handler.depth)
        del frame.stack[handler.depth :]
        if handler.lasti:
            frame.push(ConstantVariable(step.origin.index))
        frame.push(raised.exception)
        if isinstance(raised.exception, ExceptionVariable):
            raised.exception.record_traceback()
        began = self._note_raised(raised)
        if frame.allows_nested_break:
            frame.in_flight_since = began
        frame.jump(frame.parsed.first_step[handler.target.index])

    def _refuse_observed_unwinding(self, raised: ObservedException, depth: int) -> None:
        """Break where an exception was raised if the program observes what it releases on its way to its handler."""
        released = released_by_unwinding(self, depth)
        if released is None:
            return
        frame = self.frames.stopping
        frame.unit_began_at = self._note_raised(raised)
        raise self.record_break("DX321", {"type": class_qualname(type(released)), "how": RELEASED}, raised)

    def _note_raised(self, raised: ObservedException) -> int:
        """Record and return where an exception was raised that leaves a frame or reaches a handler."""
        return self.raised_at.setdefault(raised.exception, self._last_plain_unit(self.frames.stopping))

    def _last_plain_unit(self, frame: SymbolicFrame) -> int:
        """The unit at which a nesting frame can stop: the current one; or, if it handles an exception or one is in flight, the one
        that raised it. Its callers handle none.
        """
        if frame.caught_at:
            return frame.caught_at[0]
        return frame.unit_began_at if frame.in_flight_since is None else frame.in_flight_since

    # -- TraceContext

    def build(self, value: object, source: Source | None) -> VariableTracker:
        """The tracker of a live value: one per object."""
        same_object = self.journal.tracker_of(value)
        if same_object is not None:
            if source is not None and same_object.source is not None and same_object.source is not source:
                self.guard(source, "ALIAS", same_object.source)
            if source is None or same_object.source is not None:
                return same_object
        if source is not None and has_python_getattribute(type(value)):
            source.runs_code = True
        tracker = row_for(value)(self, value, source)
        if not isinstance(tracker, ConstantVariable | SymbolicNumberVariable):  # small ints are shared objects
            self.journal.remember(value, tracker)
        return tracker

    def guard(self, source: Source, kind: str, expected: Any) -> None:
        """Install a guard, attributed to the root frame's current instruction."""
        if self.module_guards.implies(source, kind, expected):
            return
        if not len(self.guards.guards) % _GUARDS_PER_CLOCK_READ and self.guards.guards:
            self.budget.check_clock(self)  # one step may read a large container
        installed = self.guards.add(source, kind, expected, self.frames.root.current.offset)
        if installed is not None and self.emitter is not None:
            self.emitter.guard_installed(installed)

    def operation(self, op: str, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Add a torch operation to the graph."""
        may_ask = self.function_modes.may_dispatch
        dispatched = self.calls.dispatch_torch_function(op, target, args, kwargs) if may_ask else None
        return dispatched if dispatched is not None else operations.add(self, op, target, args, kwargs)

    def _refuse_change(self, tracker: VariableTracker, change: str) -> None:
        self.break_graph("DX213", method=change, type="an object that is its own __dict__")

    def break_graph(self, kind: str, **facts: object) -> NoReturn:
        """Give up on tracing this instruction."""
        raise self.record_break(kind, facts)

    def record_break(self, kind: str, facts: Mapping[str, object], error: BaseException | None = None) -> GraphBreak:
        """Record a break at the current position; or, for an exception that left the root frame, where that was raised."""
        graph_break = GraphBreak(kind, **facts)
        frames = self.frames.unwound_by(error)
        graph_break.user_stack = tuple(map(user_frame, frames or [self.frames.root]))
        self.request.module_classes.note(filter(None, map(module_called, frames[1:])), self.frames.scope)
        if self.frames.is_entry_of_a_frame() and not self.request.nopython and not breaks_are_errors():
            graph_break.is_callees = True
        elif self.emitter is not None:
            nested = any(frame.allows_partial_graph for frame in self.frames.joined(frames)[1:])
            self.emitter.broke(graph_break, self.frames.root, nested=nested)
        return graph_break

    def raise_exception(self, exception_type: type[BaseException], *args: object) -> NoReturn:
        """Raise this exception in the traced program."""
        exception = exception_from_python(self, exception_type, args)
        set_context(self, exception)
        raise ObservedException(self, exception)


def _resumed_code(code: types.CodeType) -> tuple[ResumeCode | None, ParsedCode]:
    """The resume function that a frame runs, if its original still exists, and the code to interpret."""
    resume = resume_point(code)
    original = resume.parsed if resume is not None else None
    return (None, read(code)) if original is None else (resume, original)


def _specializer(
    request: TranslationRequest, emitter: EventEmitter | None, *, is_resume: bool, size_oblivious: bool
) -> Specializer:
    """The specializer that decides how the sizes, numbers and objects of this attempt are specialized."""
    options = Options(
        dynamic=request.dynamic,
        takes_symbols=request.symbolic_numbers,
        has_guard_filter=request.guard_filter is not None,
        is_resume=is_resume,
        is_oblivious=size_oblivious,
        serves_zero_and_one=size_oblivious and request.backend_size_guards.leaves_sizes,
    )
    return Specializer(request.profile, options, emitter.specialized if emitter is not None else None)


def _without_frames(graph_break: GraphBreak) -> GraphBreak:
    """Drop the traceback of a break that outlives the attempt, in its restart point: it would keep the attempt alive."""
    graph_break.__traceback__ = graph_break.__context__ = graph_break.__cause__ = None
    return graph_break
