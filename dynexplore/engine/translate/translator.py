"""The translator: interprets a frame's canonical steps symbolically, until it returns or must break.

The idea: CPython's evaluation loop over trackers instead of values. Tensor operations go into the graph; facts that were relied
on become guards; changes go to the journal. When an instruction cannot be traced, the attempt is thrown away and a second one
stops just before that instruction (no state is ever rolled back): `translate` runs at most two attempts.

In: a `TranslationRequest` (what the runtime knows of the call). Out: a `Translation` (modified code, graphs, guards).
`Translator` implements `TraceContext`, the Protocol through which trackers ask it.

torch/_dynamo/symbolic_convert.py and output_graph.py do the same job.
"""

from __future__ import annotations

import functools
import linecache
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

import torch
import torch.fx

from dynexplore.engine.bytecode import ParsedCode, Step, argument_slots, read
from dynexplore.engine.collector import collector_at_rest
from dynexplore.engine.config import config
from dynexplore.engine.errors import MarkViolated
from dynexplore.engine.events import UserFrame
from dynexplore.engine.graph.builder import GraphBuilder, OperatorFailed
from dynexplore.engine.graph.function_question import Asked
from dynexplore.engine.graph.open_sizes import serves_this_call, try_guesses
from dynexplore.engine.graph.shapes import (
    dynamic_context,
    dynamic_number,
    make_shape_env,
    settled_size,
    shape_guards,
    unknown_number,
)
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.native import GuardWalk
from dynexplore.engine.phases import timed
from dynexplore.engine.policy import dimensions
from dynexplore.engine.policy.break_errors import breaks_are_errors
from dynexplore.engine.provenance.guard_check import GlobalState, GuardCheck, ShapeExpressions, TensorMatch, compile_check
from dynexplore.engine.provenance.guard_filter import GuardFilter, kept_by
from dynexplore.engine.provenance.guards import GuardSet
from dynexplore.engine.provenance.module_guards import ModuleGuards, StateWalk
from dynexplore.engine.provenance.sources import (
    AttributeSource,
    CellSource,
    ClosureSource,
    GlobalsSource,
    LocalSource,
    ObjectSource,
    PinnedSource,
    Scope,
    Source,
)
from dynexplore.engine.raw_attributes import has_python_getattribute
from dynexplore.engine.shown_files import shown_file
from dynexplore.engine.translate import comptime, handlers, inlining, operations
from dynexplore.engine.translate.abandoned_generators import does_something_when_closed, may_do_something_when_closed
from dynexplore.engine.translate.break_code import finish_with_break
from dynexplore.engine.translate.codegen import NotRebuilt, finish_with_return
from dynexplore.engine.translate.contract.request import PlainThisTime, Plan, SkipFrame, Translation, TranslationRequest
from dynexplore.engine.translate.dispatch import HANDLERS
from dynexplore.engine.translate.left_to_python import relaxed
from dynexplore.engine.translate.narrator import Narrator
from dynexplore.engine.translate.resume import NotBound, ResumeCode, resume_point
from dynexplore.engine.translate.shared_dictionaries import first_change_behind_another, guard_that_they_are_apart
from dynexplore.engine.translate.symbolic_frame import NULL, SymbolicFrame
from dynexplore.engine.translate.varying_locals import gives_sizes_of_data, stored_around, varying_locals
from dynexplore.engine.variables import all_rows
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.active_mode import ActiveMode
from dynexplore.engine.variables.contract.base import VariableTracker, progress
from dynexplore.engine.variables.contract.build import row_for
from dynexplore.engine.variables.contract.context import TraceContext, UserRaised
from dynexplore.engine.variables.contract.function_modes import FunctionModes
from dynexplore.engine.variables.contract.side_effects import Journal
from dynexplore.engine.variables.objects.context_manager import leave_all, leave_in_graph
from dynexplore.engine.variables.objects.exception import ExceptionVariable, exception_from_python, set_context
from dynexplore.engine.variables.objects.function import CellVariable
from dynexplore.engine.variables.objects.generator import GeneratorVariable
from dynexplore.engine.variables.objects.namespace import NamespaceVariable
from dynexplore.engine.variables.objects.weak_reference import HELD_BY_THE_FRAME
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.symbolic_number import SymbolicNumberVariable
from dynexplore.engine.variables.scalars.unspecialized import UnspecializedVariable
from dynexplore.engine.variables.torch_.function_modes import ask_function_mode
from dynexplore.engine.variables.torch_.nn_module import FOR_WEIGHTS, runs_a_module
from dynexplore.engine.variables.torch_.tensor import TensorVariable
from dynexplore.engine.variables.torch_.wrapper_tensor import is_wrapper

_ROWS = (all_rows, comptime, handlers)  # imported for the rows they declare

_CLOSED_IN_TIME = "a generator is suspended inside `try` or `with`: only plain Python closes it as soon as it is dropped"
_FINALIZED = "DX321"
IDLE_LIMIT = 50_000
ATTEMPTS = 8  # two as a rule; one more for each value that cannot be rebuilt where the one before wanted to stop


@timed("translate")
def translate(request: TranslationRequest) -> Translation:
    """Translate one frame.

    Raises GraphBreak if the request is `nopython` and the frame cannot be one graph; SkipFrame when it is better run plain, and
    PlainThisTime when this call of it is.
    """
    plan: Plan | None = None
    opens_sizes = not request.backend_questions.asks
    for attempt in range(1, ATTEMPTS + 1):
        with collector_at_rest(), progress.of_an_attempt():
            translator = Translator(request, attempt, plan, opens_sizes=opens_sizes)
            try:
                outcome = translator.run()
            finally:
                translator.close()
        if isinstance(outcome, Translation):
            return outcome
        plan = outcome
        opens_sizes &= plan is not None
    raise SkipFrame("the frame broke in a new place on every attempt")


class Translator:
    """One attempt at one frame; implements TraceContext."""

    def __init__(self, request: TranslationRequest, attempt: int, plan: Plan | None, *, opens_sizes: bool = False) -> None:
        self.request = request
        self.plan = plan
        self.recorder = request.recorder
        self.let_go: list[Callable[[], object]] = []
        self.narrator = self._narrator(request, attempt)
        if self.narrator is not None:
            self.narrator.ctx = self
        self.opens_sizes = opens_sizes
        self.graph = GraphBuilder(functools.partial(make_shape_env, opens_sizes=opens_sizes))
        self.guards = GuardSet()
        self.module_guards = ModuleGuards()
        self.journal = Journal(self.narrator.changed if self.narrator is not None else None)
        self.draws: list[tuple[str, Any, tuple[Any, ...]]] = []
        self.new_parameters: list[tuple[Any, Callable[[], Any]]] = []
        self.active_modes: list[ActiveMode] = []
        self.function_modes = FunctionModes()
        self.graphs_run_as_they_are = request.runs_as_it_is
        self.told_compiling = False
        self.namespaces: dict[int, NamespaceVariable] = {}
        self.history = request.history
        cells = dict(zip(request.code.co_freevars, request.closure or (), strict=True))
        self.chosen = request.blocks.among(request.values, cells)  # the variables that will hold another object in the next call
        self.resume = resume_point(request.code)
        original = self.resume.parsed if self.resume is not None else None
        if original is None:
            self.resume = None
        self.parsed = original if original is not None else read(request.code)
        self.argument_names = argument_slots(self.parsed.code)
        self.root = self._root_frame(self.parsed)
        self.running: list[SymbolicFrame] = []  # the stack of frames, the root first
        self.left: tuple[BaseException | None, tuple[SymbolicFrame, ...]] = None, ()  # an exception, the frames it came through
        self.steps_done = 0  # of the root frame
        self.unit_began_at = 0
        self.total_steps = 0
        self.raised_at: dict[VariableTracker, int] = {}  # exception -> the unit of the root frame to go back to
        self.generators: list[GeneratorVariable] = []
        self.size_nodes: dict[tuple[torch.fx.Node, int], torch.fx.Node] = {}
        self.kept: list[object] = []
        self.numbers: dict[Source, SymbolicNumberVariable] = {}
        self.promised: list[tuple[Source, torch.Tensor, int]] = []  # the dimensions that `mark_dynamic` promises to be any size
        self.passing: list[Callable[[TraceContext], None]] = []
        self.module_path: list[tuple[str, str]] = []  # the nn.Modules whose forward is being interpreted

    def _narrator(self, request: TranslationRequest, attempt: int) -> Narrator | None:
        if request.recorder is None:
            return None
        return Narrator(request.recorder, request.frame_id, attempt, request.step_observer)

    def close(self) -> None:
        """Undo what the attempt did to the process: entered modes; and let go of the program's objects at once.

        They are held in circles (a tracker knows its context), which only the collector would open, later than the program
        expects: a generator closes, a weak reference dies when the last owner goes.
        """
        leave_all(self.active_modes)
        for open_circle in self.let_go:
            open_circle()
        for guard in self.guards.guards:
            if guard.kind == "TENSOR_MATCH":
                guard.expected.let_go()
        self.graph.let_go()
        vars(self).clear()

    # -- the root frame

    def _root_frame(self, parsed: ParsedCode) -> SymbolicFrame:
        request = self.request
        namespace = NamespaceVariable(request.globals, of_frame=True)
        self.namespaces[id(request.globals)] = namespace
        frame = SymbolicFrame(parsed, namespace, None, None)
        for index, name in enumerate(request.code.co_freevars):
            frame.cells[name] = self._free_variable(name, index)
        if self.resume is not None:
            self._fill_resumed(frame, self.resume)
        else:
            self._fill_arguments(frame)
        return frame

    def _argument(self, slot: int, name: str, is_cell: bool = False) -> VariableTracker:
        return LazyVariable(self.request.values[name], LocalSource(name, slot, is_cell=is_cell))

    def _fill_arguments(self, frame: SymbolicFrame) -> None:
        """A function begins: its arguments are bound, those that closures share live in cells."""
        code = self.request.code
        for slot, name in enumerate(self.request.slot_names):
            if name not in self.request.values:
                continue
            if name in code.co_cellvars:
                frame.cells[name] = CellVariable(name, self._argument(slot, name, True), frame_cell=True)
            else:
                frame.locals[name] = self._argument(slot, name)
        for name in code.co_cellvars:
            frame.cells.setdefault(name, CellVariable(name, None, frame_cell=True))

    def _fill_resumed(self, frame: SymbolicFrame, resume: ResumeCode) -> None:
        """A resume function begins: the original code is interpreted from the middle, with locals and stack as passed."""
        slots = {name: slot for slot, name in enumerate(self.request.slot_names)}
        for original, parameter in zip(resume.arguments, resume.parameters, strict=False):
            if original in resume.bound_args and original not in frame.cells:
                frame.locals[original] = self._argument(slots[parameter], parameter)
        for name in resume.locals:
            value = self._argument(slots[name], name)
            if name in resume.perhaps_unbound:
                assert value.source is not None
                frame.as_passed[name] = value.source, value.python_type()
            if value.python_type() is not NotBound:
                frame.locals[name] = value
        for name in (*resume.shadowed, *resume.cleared):  # in a comprehension whose variable is also a closure variable
            del frame.cells[name]
        for name in resume.shadowed:
            frame.locals[name] = self._argument(slots[f"___slot_{name}"], f"___slot_{name}")
        varying = varying_locals(frame.parsed)
        for name, value in frame.locals.items():
            if value.source is not None:
                value.source.varies = name in varying
        frame.stack = [NULL if name is None else self._argument(slots[name], name) for name in resume.stack_parameters]
        for value in frame.stack:
            if value.source is not None:
                value.source.varies = True
        if gives_sizes_of_data(frame.parsed, resume.target) and frame.stack and frame.stack[-1].source is not None:
            frame.stack[-1].source.size_of_data = True
        in_loop = stored_around(frame.parsed, resume.target)
        if self.chosen:  # what stands around one of several blocks may hang on it
            self.chosen = self.chosen.union(resume.locals, filter(None, resume.stack_parameters))
        if in_loop is not None:
            self.chosen = self.chosen.union(in_loop, filter(None, resume.stack_parameters))
        frame.pc = frame.parsed.step_of(resume.target)

    def _free_variable(self, name: str, index: int) -> CellVariable:
        assert self.request.closure is not None
        cell = self.request.closure[index]
        known = self.journal.tracker_of(cell)
        if isinstance(known, CellVariable):
            return known
        content: VariableTracker | None
        was_empty_at: CellSource | None = None
        try:
            content = LazyVariable(cell.cell_contents, ClosureSource(name, index))
        except ValueError:  # an unbound cell
            content, was_empty_at = None, CellSource(name, index)
        tracker = CellVariable(name, content, frame_cell=True, was_empty_at=was_empty_at)
        self.journal.remember(cell, tracker)
        return tracker

    # -- running

    def run(self) -> Translation | Plan | None:
        """Interpret the root frame to its end; a Translation, or the plan of the next attempt.

        None: the next one begins without a plan, and takes all sizes as they are.
        """
        self.global_state = GlobalState()
        modes = self.guards.add(GlobalsSource(), "GLOBAL_STATE", self.global_state, 0)
        if self.narrator is not None:
            self.narrator.attempt_started()
            if modes is not None:
                self.narrator.guard_installed(modes)
        try:
            for guard_it in self.plan.passing if self.plan is not None else ():
                guard_it(self)
            self.root.stack = [value.read(self) for value in self.root.stack]
            planned = self.interpret(self.root)
        except GraphBreak as graph_break:
            return self._broke(graph_break) if self._serves_this_call() else None
        except UserRaised as raised:
            if not self._serves_this_call():
                return None
            if self.told_compiling and not self.request.nopython:
                raise SkipFrame(f"it raises {raised.exception.text()} where torch.compiler.is_compiling() is True") from None
            self.unit_began_at = self.raised_at.get(raised.exception, self.unit_began_at)
            return self._broke(self._graph_break("DX310", {"exception": raised.exception.text()}, raised))
        except RuntimeError as error:  # a size that only the graph's data can tell was asked for its number
            if type(error).__name__ != "GuardOnDataDependentSymNode":
                raise
            return self._broke(self._graph_break("DX110", {"operator": self.root.current.opname}, error))
        try:
            self._refuse_unfinished_generators()
            self._refuse_changes_behind_another_name()
            try_guesses(self.graph)
            if not self._serves_this_call():
                return None
            if planned:
                assert self.plan is not None
                finished = finish_with_break(self, self.plan.graph_break)
            else:
                finished = finish_with_return(self)
            return finished if self._serves_this_call() else None
        except NotRebuilt as failure:
            if planned:
                self._refuse_to_hand_on_generators(failure.step)
            return self._break_where_made(failure)
        except GraphBreak as graph_break:
            raise SkipFrame(graph_break.reason) from graph_break

    def _serves_this_call(self) -> bool:
        """False where the attempt took a size 0 or 1 for another one, and that makes a difference by now."""
        serves = serves_this_call(self.graph)
        if not serves and self.narrator is not None:
            self.narrator.gives_up("a size that only data told is 0 or 1 in this call")
        return serves

    def _refuse_where_forbidden(self, graph_break: GraphBreak) -> None:
        """Raise it where the function is to be one graph, or a block of the program forbids breaks."""
        if self.request.nopython or breaks_are_errors():
            raise graph_break

    def _plain_where_weights_are_made(self, graph_break: GraphBreak) -> None:
        """A lazy module draws its weights in its first call, in the program's order: then the model around it runs plain, once.

        A function that only calls the model breaks there, as it may be the program's main function and never be called again.
        """
        forbidden = self.request.nopython or breaks_are_errors()
        if graph_break.facts.get("waits") == FOR_WEIGHTS and (forbidden or self._is_a_modules()):
            raise PlainThisTime(f"{graph_break.facts['type']} waits {FOR_WEIGHTS}") from graph_break

    def _is_a_modules(self) -> bool:
        """Whether the root frame is the call of a module, or goes on for one."""
        code = self.root.parsed.code
        return bool(code.co_varnames) and runs_a_module(code, self.request.values.get(code.co_varnames[0]))

    def _broke(self, graph_break: GraphBreak) -> Translation | Plan:
        self._plain_where_weights_are_made(graph_break)
        self._refuse_where_forbidden(graph_break)
        here = len(graph_break.user_stack) == 1 or graph_break.facts.get("how") == HELD_BY_THE_FRAME
        if graph_break.kind.id == _FINALIZED and here:  # as with generators, below
            raise SkipFrame(graph_break.reason)
        if self.plan is not None and self.plan.stop_at <= self.unit_began_at and not self.root.exceptions:
            raise SkipFrame(graph_break.reason)
        stop_at = self._last_plain_unit()
        if self.narrator is not None:
            self.narrator.restarted(graph_break, self.root.current)
        return Plan(stop_at, _without_frames(graph_break), passing=tuple(self.passing))

    def _break_where_made(self, failure: NotRebuilt) -> Plan:
        """A value is alive at the end of the graph that only Python can make: stop before it is made, so that it is real."""
        graph_break = self._graph_break("DX318", failure.facts)
        self._refuse_where_forbidden(graph_break)
        if self.plan is not None and self.plan.stop_at <= failure.step:
            raise SkipFrame(graph_break.reason)
        if self.narrator is not None:
            self.narrator.restarted(graph_break, self.root.current)
        return Plan(failure.step, _without_frames(graph_break), stack_follows=True)

    def _refuse_unfinished_generators(self) -> None:
        """One that waits inside `try` or `with` still has something to do when it is thrown away: Python must make it.

        The frame itself then runs plain: what a resume function is called with stays alive on its caller's stack.
        """
        for generator in self.generators:
            if generator.started and does_something_when_closed(generator.frame):
                if self._is_held_here(generator) and not self.request.nopython:
                    raise SkipFrame(_CLOSED_IN_TIME)
                raise NotRebuilt("generator", "it is suspended inside `try` or `with`", generator.made_at)

    def _refuse_changes_behind_another_name(self) -> None:
        """Python makes a change of a dictionary that another tracker stands for, too."""
        if not self.journal.changed:
            return
        changed = first_change_behind_another(self.journal, self.namespaces.values())
        if changed is None:
            guard_that_they_are_apart(self, self.namespaces.values())
        else:
            because = "it is changed, and known to the function in another way, too"
            raise NotRebuilt(changed.type_name(), because, self.journal.changed[changed])

    def _is_held_here(self, generator: GeneratorVariable) -> bool:
        """Whether the frame itself made it, or another generator of the frame did (`yield from`)."""
        makers = {id(other.frame): other.holder for other in self.generators}
        holder = generator.holder
        while id(holder) in makers:
            holder = makers[id(holder)]
        return holder is self.root

    def _refuse_to_hand_on_generators(self, made_at: int) -> None:
        """The same for one that the frame made at this step and that an instruction wants for real."""
        for generator in self.generators:
            here = generator.made_at == made_at and self._is_held_here(generator) and not self.request.nopython
            if here and may_do_something_when_closed(generator.frame):
                raise SkipFrame(_CLOSED_IN_TIME)

    def interpret(self, frame: SymbolicFrame, thrown: VariableTracker | None = None) -> bool:
        """Run a frame until it returns or yields; True when the planned stop is reached instead.

        `thrown`: an exception that is raised in the frame, by the instruction at which it stands.
        """
        self.running.append(frame)
        try:
            return self._take_steps(frame, thrown)
        except (UserRaised, RuntimeError) as error:
            if error is not self.left[0]:
                self.left = error, tuple(self.running)
            raise
        finally:  # however it is left: no frame that an exception abandoned stays on the stack
            self.running.pop()

    def _take_steps(self, frame: SymbolicFrame, thrown: VariableTracker | None) -> bool:
        """The loop of `interpret`."""
        steps = frame.steps
        is_root = frame is self.root
        narrator = self.narrator
        if thrown is not None:
            self._catch(frame, steps[frame.pc - 1], UserRaised(self, thrown))
        while frame.returned is None and frame.yielded is None:
            step = steps[frame.pc]
            if is_root and self._reached_stop(frame, step):
                return True
            frame.current = step.origin
            frame.pc += 1
            handler = HANDLERS.get(step.op)
            if narrator is not None:
                narrator.stepping(frame, step)
            try:
                self._count_step()
                if handler is None:
                    self.break_graph("DX301", opcode=step.op, because=handlers.NOT_TRACED[step.op])
                handler(frame, step, self)
            except UserRaised as raised:
                self._catch(frame, step, raised)
            if narrator is not None:
                narrator.stepped(frame, step, handler)
        return False

    @property
    def innermost(self) -> SymbolicFrame:
        """The frame that is being interpreted just now."""
        return self.running[-1] if self.running else self.root

    def _reached_stop(self, frame: SymbolicFrame, step: Step) -> bool:
        """Keep count of the root frame's steps; whether the planned stop is reached."""
        if frame.parsed.first_step[step.origin.index] == step.index:
            self.unit_began_at = self.steps_done
            progress.step = frame.caught_at[0] if frame.caught_at else self.steps_done
        if self.plan is not None and self.plan.stop_at == self.steps_done:
            frame.current = step.origin
            if self.plan.stack_follows:
                self.plan.graph_break.user_stack = self.user_stack()
            return True
        self.steps_done += 1
        return False

    def _count_step(self) -> None:
        """A program that runs too long to be captured breaks; one that does no tensor work for long is left alone."""
        self.total_steps += 1
        if self.total_steps > config.instruction_limit:
            self.total_steps = 0
            self.break_graph("DX502", instructions=config.instruction_limit)
        if self.total_steps > IDLE_LIMIT and not self.graph.call_count:
            raise SkipFrame(f"{IDLE_LIMIT:,} instructions without a tensor operation")

    def _catch(self, frame: SymbolicFrame, step: Step, raised: UserRaised) -> None:
        """Go to the handler of the raising instruction, or let the exception leave the frame."""
        handler = step.origin.handler
        if handler is None:
            raise raised
        del frame.stack[handler.depth :]
        if handler.lasti:
            frame.push(ConstantVariable(step.origin.index))
        frame.push(raised.exception)
        if isinstance(raised.exception, ExceptionVariable):
            raised.exception.note_caught()
        began = self.raised_at.setdefault(raised.exception, self._last_plain_unit())
        if frame is self.root:
            frame.in_flight_since = began
        frame.jump(frame.parsed.first_step[handler.target.index])

    def _last_plain_unit(self) -> int:
        """Where the frame can stop for real: here; or, while an exception is handled or on its way, where that was raised."""
        if self.root.caught_at:
            return self.root.caught_at[0]
        return self.unit_began_at if self.root.in_flight_since is None else self.root.in_flight_since

    # -- TraceContext: values

    def build(self, value: object, source: Source | None) -> VariableTracker:
        """The tracker of a live value."""
        known = self.journal.tracker_of(value)
        if known is not None:
            if source is not None and known.source is not None and known.source is not source:
                self.guard(source, "ALIAS", known.source)
            if source is None or known.source is not None:
                return known
        if source is not None and has_python_getattribute(type(value)):
            source.runs_code = True
        tracker = row_for(value)(self, value, source)
        if not isinstance(tracker, ConstantVariable | SymbolicNumberVariable):  # a small int is one object everywhere
            self.journal.remember(value, tracker)
        return tracker

    def lazy(self, value: object, source: Source | None) -> VariableTracker:
        """A live value that becomes a tracker when it is first looked at."""
        return self.build(value, None) if source is None else LazyVariable(value, source)

    def guard(self, source: Source, kind: str, expected: Any) -> None:
        """Rely on a fact, on behalf of the root frame's current instruction."""
        if self.module_guards.implies(source, kind, expected):
            return
        installed = self.guards.add(source, kind, expected, self.root.current.offset)
        if installed is not None and self.narrator is not None:
            self.narrator.guard_installed(installed)

    def is_stable(self, source: Source) -> bool:
        """Whether the object at `source` may be guarded by its identity; not where another one has been, or will be, seen there."""
        if self.request.guard_filter is not None:
            return False  # its guard may be left out
        if source.chosen:
            return False
        unstable, chosen = self.history.unstable, self.chosen
        step: Source | None = source if unstable or chosen else None
        while step is not None:
            if step.text() in unstable or (isinstance(step, LocalSource | ClosureSource) and step.text() in chosen):
                return False
            step = step.base
        return True

    def _is_of_several(self, source: Source) -> bool:
        """Whether a number stands on an object that is one of several: a layer's own index is another one on each."""
        return self.request.guard_filter is None and not self.is_stable(source)

    def note_number(self, source: Source, value: object) -> None:
        """Remember a number that is taken as a constant without a guard of its own on `source`: another one there varies."""
        if type(value) in (int, float):
            self.history.note_number(source.text(), value)

    def super_arguments(self) -> tuple[VariableTracker, VariableTracker]:
        """What `super()` means in the innermost frame: its `__class__` cell's content and its first argument."""
        frame = self.innermost
        code = frame.parsed.code
        if "__class__" not in frame.cells or not code.co_argcount:
            self.break_graph("DX313", function=code.co_qualname)
        first = code.co_varnames[0]
        receiver = frame.cells[first].load(self) if first in frame.cells else frame.locals.get(first)
        if receiver is None:
            self.break_graph("DX313", function=code.co_qualname)
        return frame.cells["__class__"].load(self), receiver.read(self)

    def handled_exception(self) -> VariableTracker | None:
        """The exception that is being handled."""
        return next((frame.exceptions[-1] for frame in reversed(self.running) if frame.exceptions), None)

    def guard_tensor(self, tensor: torch.Tensor, source: Source) -> torch.fx.Node:
        """Make a live tensor an input of the graph."""
        context = None
        if not isinstance(source, PinnedSource):
            where, wanted = source.text(), self.request.dynamic
            is_open = self.opens_sizes and self.request.backend_questions.asks_nothing
            dynamic = self.history.dynamic_dims(where, tensor, wanted, source.size_of_data, is_open)
            strides = self.history.dynamic_strides(where, tensor, wanted)
            if is_wrapper(tensor) or self.graph.written_base(tensor) is not None:  # the sizes behind it would have to follow
                dynamic = strides = frozenset()
            context = dynamic_context(tensor, dynamic, strides) if dynamic or strides else None
        fake = self.graph.fake_tensor(tensor, source, context)
        if context is not None:
            self.promised += [(source, fake, dim) for dim in dimensions.dynamic(tensor)]
        sizes = tuple(map(_fixed, fake.shape))
        fixed = tuple(map(_fixed, fake.stride())) if context is None else (None,) * fake.dim()
        self.guard(source, "TENSOR_MATCH", TensorMatch(source, tensor, sizes, fixed, self.root.current.offset))
        return self._input(tensor, source, fake)

    def new_input(self, tensor: torch.Tensor, source: Source) -> torch.fx.Node:
        """Make a tensor that the modified code makes an input of the graph."""
        return self._input(tensor, source, self.graph.fake_tensor(tensor, source))

    def _input(self, tensor: torch.Tensor, source: Source, fake: torch.Tensor) -> torch.fx.Node:
        node = self.graph.placeholder(source.text(), source, tensor, fake)
        if self.narrator is not None:
            self.narrator.node_added(node, self)
        return node

    def unspecialized_value(self, value: Any, source: Source) -> VariableTracker | None:
        """The tracker of a number or string that changes from call to call: what a resume function gets, as a rule."""
        where = source.text()
        # noted on the source, because what is computed of it (`ComputedSource`) varies, too, and asks the sources below it
        source.varies |= self.history.has_failed_when_plain(where, "EQUALS")
        if source.varies or (self.resume is not None and isinstance(source, LocalSource)):
            in_graph = type(value) is int and self.history.is_known_to_vary(where)
            return None if in_graph else UnspecializedVariable(self, value, source)
        if type(value) is int and isinstance(source, AttributeSource) and self._is_of_several(source):
            if self.history.is_known_to_vary(where):
                return None
            self.guard(source, "TYPE_MATCH", int)  # the object must have it, whichever it is
            source.varies = self.history.was_another(where, value)
            return UnspecializedVariable(self, value, source)
        if type(value) is float and self.history.is_dynamic_number(where, value, self.request.dynamic):
            source.varies = True
            return UnspecializedVariable(self, value, source)
        return None

    def drawn_number(self, value: Any, source: Source) -> torch.fx.Node | None:
        """Make a number that is drawn in each call an input of the graph."""
        if not self.request.symbolic_floats:
            return None
        return self.graph.placeholder(source.text(), source, value, unknown_number(self.graph, value))

    def dynamic_number(self, value: Any, source: Source) -> VariableTracker | None:
        """The symbol of a number that changes from call to call; None while it is taken as a constant."""
        if type(value) not in (int, float) or (type(value) is float and not self._may_be_symbolic(value)):
            return None
        varies = self.history.is_dynamic_number(source.text(), value, self.request.dynamic, source.varies)
        if not varies:
            return None
        known = self.numbers.get(source)
        if known is None:
            self.guard(source, "TYPE_MATCH", type(value))
            symbol = dynamic_number(self.graph, value, source)
            node = self.graph.placeholder(source.text(), source, value, symbol)
            known = self.numbers[source] = SymbolicNumberVariable(node, symbol, source)
        return known

    def _may_be_symbolic(self, value: float) -> bool:
        """Whether a float may be a symbol: ShapeEnv knows no sign of zero, and of nan and infinity it concludes what is wrong."""
        return self.request.symbolic_floats and math.isfinite(value) and value != 0

    def keep(self, value: object) -> None:
        """Let the cache entry hold an object that was made while tracing."""
        self.kept.append(value)

    def constant_tensor(self, tensor: torch.Tensor) -> VariableTracker:
        """A tensor that the engine itself holds."""
        source = ObjectSource(tensor, "constant")
        fake = self.graph.fake_tensor(tensor, source)
        return TensorVariable(self.graph.attribute("constant", tensor, fake), fake, source, tensor)

    def wrap_size(self, size: torch.Size, tensor: VariableTracker) -> VariableTracker:
        """The tracker of a torch.Size."""
        return operations.wrap_size(self, size, tensor)

    def wrap(self, node: torch.fx.Node, value: Any) -> VariableTracker:
        """The tracker of a graph value."""
        return operations.wrap(self, node, value)

    def iterator_over(self, items: list[VariableTracker]) -> VariableTracker:
        """An iterator over known items."""
        return operations.iterator_over(items)

    def pair(self, first: VariableTracker, second: VariableTracker) -> VariableTracker:
        """A new tuple of two."""
        return TupleVariable([first, second])

    # -- TraceContext: operations and calls

    def operation(
        self, op: str, target: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        """Put a torch operation into the graph."""
        answer = self.ask_function_mode(op, target, args, kwargs) if self.function_modes.may_be_asked else None
        return answer if answer is not None else operations.add(self, op, target, args, kwargs)

    def ask_function_mode(
        self, op: str, target: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker | None:
        """What the innermost TorchFunctionMode makes of a call, where it is asked."""
        return ask_function_mode(self, op, target, args, kwargs)

    def question_about(
        self, op: str, target: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> Asked | None:
        """What torch asks a TorchFunctionMode when this call is made."""
        return operations.question_about(self, op, target, args, kwargs)

    def call_function(
        self, function: VariableTracker, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        """Call any tracker."""
        return function.call(self, args, kwargs)

    def inline(
        self, function: VariableTracker, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        """Interpret a Python function's body as a nested symbolic frame."""
        return inlining.inline(self, function, args, kwargs)

    def resume_generator(
        self, generator: VariableTracker, sent: VariableTracker, thrown: VariableTracker | None = None
    ) -> VariableTracker | None:
        """Run an inlined generator to its next `yield`."""
        return inlining.resume_generator(self, generator, sent, thrown)

    def new_cell(self, name: str, content: VariableTracker | None) -> CellVariable:
        """A cell that the root frame makes anew (a comprehension's variable)."""
        return CellVariable(name, content)

    def namespace_of(self, function: Any) -> NamespaceVariable:
        """The tracker of a function's globals."""
        values = function.global_namespace()
        namespace = self.namespaces.get(id(values))
        if namespace is None:
            namespace = self.namespaces[id(values)] = NamespaceVariable(values, of_frame=False, owner=function.source)
        return namespace

    # -- TraceContext: giving up and raising

    def break_graph(self, kind: str, **facts: object) -> NoReturn:
        """Give up on tracing this instruction."""
        raise self._graph_break(kind, facts)

    def _graph_break(self, kind: str, facts: Mapping[str, object], error: BaseException | None = None) -> GraphBreak:
        """A break here; or, for an exception that left the root frame, where that was raised."""
        graph_break = GraphBreak(kind, **facts)
        frames = self.left[1] if error is not None and error is self.left[0] else self.running
        graph_break.user_stack = tuple(map(user_frame, frames or [self.root]))
        self.request.blocks.note(frames, Scope(self.request.values, self.request.closure, self.request.globals))
        if self.narrator is not None:
            self.narrator.broke(graph_break, self.root)
        return graph_break

    def is_held_by_the_frame(self, value: VariableTracker) -> bool:
        """Whether a local of the frame that is translated is this very object."""
        return any(held is value for held in self.root.locals.values())

    def operator_failed(self, failure: OperatorFailed) -> NoReturn:
        """An operator raised on fake tensors: break, with the kind that fits."""
        kind, facts = operations.kind_of_failure(failure)
        raise self._graph_break(kind, facts) from failure

    def raise_exception(self, exception_type: type[BaseException], *args: object) -> NoReturn:
        """The traced program raises this exception."""
        exception = exception_from_python(self, exception_type, args)
        set_context(self, exception)
        raise UserRaised(self, exception)

    def user_stack(self) -> tuple[UserFrame, ...]:
        """The symbolic frames, outermost first, as people know them from tracebacks."""
        return tuple(map(user_frame, self.running or [self.root]))

    # -- the end of the attempt

    def leave_modes_in_graph(self) -> None:
        """The graph ends inside `with` blocks: it must leave their modes; the modified code enters them for real."""
        leave_in_graph(self, self.active_modes)

    def finish_check(self) -> GuardCheck:
        """Compile the guards; those on the state of modules and other objects are there to be read, the walk checks them."""
        shapes = self._shape_expressions()
        guard_filter = self.request.guard_filter
        if guard_filter is not None and not self._filter_guards(guard_filter, shapes is not None):
            shapes = None
        self._note_state_guards()
        return self._compiled_check(shapes)

    def _filter_guards(self, guard_filter: GuardFilter, has_shapes: bool) -> bool:
        """Leave out the guards that the program filters away; whether the relations between sizes stay."""
        request = self.request
        scope = Scope(request.values, request.closure, request.globals)
        states, subjects = self.module_guards.guards(), self.module_guards.subjects()
        about = {id(guard): subject for guard, subject in zip(states, subjects, strict=True)}
        kept, shapes = kept_by(guard_filter, [*self.guards.guards, *states], scope, about, shapes=has_shapes)
        staying = set(map(id, kept))
        self.module_guards.leave_out(subject for place, subject in about.items() if place not in staying)
        self.guards.guards = [guard for guard in self.guards.guards if id(guard) in staying]
        return shapes

    def finish_relaxed_check(self) -> tuple[GuardCheck, StateWalk | None]:
        """The check and the walk of a frame that is left to Python."""
        walk = None
        if not self.history.has_failed_when_plain("", "MODULE_STATE"):
            self._note_state_guards()
            walk = self.module_guards.walk(cast("Callable[..., Any]", GuardWalk))
        self.guards.guards = relaxed(self.guards.guards, self.request)
        return self._compiled_check(self._shape_expressions()), walk

    def _note_state_guards(self) -> None:
        for guard in self.module_guards.guards():
            self.guards.guards.append(guard)
            if self.narrator is not None:
                self.narrator.guard_installed(guard)

    def _shape_expressions(self) -> ShapeExpressions | None:
        if self.graph.shape_env is None:
            return None
        self._check_promises()
        return shape_guards(self.graph)

    def _compiled_check(self, shapes: ShapeExpressions | None) -> GuardCheck:
        check = compile_check(self.guards, self.request.slot_names, shapes, self.module_guards.subclass_answers)
        if self.narrator is not None:
            for guard in check.guards[len(self.guards.guards) :]:
                self.narrator.guard_installed(guard, guard.because)
        return check

    def _check_promises(self) -> None:
        """Raise MarkViolated where a dimension that is marked to be of any size was taken for a number."""
        for source, fake, dim in self.promised:
            size = settled_size(fake.shape[dim])
            if size is not None:
                raise MarkViolated(dimensions.violation(source.text(), dim, size))


def _without_frames(graph_break: GraphBreak) -> GraphBreak:
    """A break that lives on, in the plan of the next attempt: its traceback would keep this attempt alive."""
    graph_break.__traceback__ = graph_break.__context__ = graph_break.__cause__ = None
    return graph_break


def user_frame(frame: SymbolicFrame) -> UserFrame:
    """Where a symbolic frame stands."""
    code = frame.parsed.code
    placed = frame.parsed.placed(frame.current)
    position = placed.position
    line = placed.lineno or code.co_firstlineno
    text = linecache.getline(code.co_filename, line, frame.globals.values).rstrip("\n")
    column = position.col if position is not None and position.col is not None else 0
    same_line = position is not None and position.end_lineno == position.lineno
    end_column = position.end_col if position is not None and same_line and position.end_col is not None else len(text)
    return UserFrame(shown_file(code.co_filename), line, code.co_qualname, text, column, end_column)


def _fixed(size: Any) -> int | None:
    """A size that is guarded as it is; None for a symbol."""
    return size if isinstance(size, int) else None
