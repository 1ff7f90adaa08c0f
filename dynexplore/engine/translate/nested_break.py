"""Code generation at a graph break in a callee: one graph for all frames before the break, one resume function for all of the rest.

The idea: as in break_code.py, values go into temporaries and side effects are replayed; here those of every frame around the break.
Then, at the root frame's call, carriers run the instruction that broke (carriers.py), and for each outcome the frame returns the
call of one resume function for the rest of the chain (nested_resume.py). Shared objects are created once, new cells are real cells
by then, and iterators are created after the side effects, in whichever frame they are.

In: an attempt that stopped in a callee, `FrameStack.chain`. Out: a `Translation` of the code before the break.
PyTorch's counterpart: `compile_subgraph` (torch/_dynamo/output_graph.py) and `create_call_resume_at`
(torch/_dynamo/symbolic_convert.py) with several frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Label
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.native import TailCall, finish_call
from dynexplore.engine.specialization.loop_carried import note_dynamic_output_shape
from dynexplore.engine.translate.break_code import SIZE_OF_DATA, BreakWriter, may_hold_tensor
from dynexplore.engine.translate.broken_unit import BrokenUnit
from dynexplore.engine.translate.carriers import Carrier, CarrierWriter, Outcome
from dynexplore.engine.translate.contract.request import SkipFrame, Translation
from dynexplore.engine.translate.handlers.names import guard_on_binding
from dynexplore.engine.translate.nested_frames import forwarding_frames
from dynexplore.engine.translate.nested_resume import write_callee_call
from dynexplore.engine.translate.resume import ResumeCode, write_stack
from dynexplore.engine.translate.resume_call import ResumeCalls, Slot
from dynexplore.engine.translate.stack_shape import Shape, shape_after
from dynexplore.engine.translate.symbolic_frame import NULL, SymbolicFrame
from dynexplore.engine.variables.containers.iterator import IteratorVariable
from dynexplore.engine.variables.contract.base import VariableTracker

if TYPE_CHECKING:
    from dynexplore.engine.translate.codegen import CodeGenerator
    from dynexplore.engine.translate.contract.interpreter import Interpreter

_CHANGES_LOCALS = frozenset({"STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR", "RETURN_VALUE"})
_CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX", "LOAD_ATTR"})
_Late = list[tuple[Callable[[str], None], VariableTracker]]


class CalleeAtBreak(ResumeCalls):
    """The state of a callee at the end of the graph: its locals, cells and stack are in temporaries of the root frame."""

    def __init__(self, generator: CodeGenerator, frame: SymbolicFrame) -> None:
        self.unit = BrokenUnit(frame.parsed, frame.current)
        super().__init__(generator, self.unit.broken, frame)
        self.slots: list[Slot] = []
        self.locals: dict[str, str] = {}
        self.cells: dict[str, str] = {}
        self._late: _Late = []

    def leave_state(self) -> None:
        """Store everything but iterators in temporaries."""
        for depth, value in enumerate(self.frame.stack):
            self.slots.append(None)
            if value is not NULL:
                self._leave(value, partial(self.slots.__setitem__, depth))
        needed = self._live()
        for name, value in self.frame.locals.items():
            if name in needed:
                self._leave(value, partial(self.locals.__setitem__, name))
        code = self.parsed.code
        for name in (*code.co_cellvars, *code.co_freevars):
            if name in self.frame.locals or name not in self.frame.cells:  # in an inlined comprehension
                raise SkipFrame("a callee is in a comprehension")
            self._leave(self.frame.cells[name], partial(self.cells.__setitem__, name))

    def leave_late(self) -> None:
        """Create the iterators."""
        for note, value in self._late:
            self.generator.push(value)
            note(self.generator.store_temporary())

    def _leave(self, value: VariableTracker, note: Callable[[str], None]) -> None:
        if isinstance(value, IteratorVariable) and value.source is None:
            self.generator.store_iterator_parts(value)
            self._late.append((note, value))
            note("")
        else:
            self.generator.push(value)
            note(self.generator.store_temporary())

    def _live(self) -> frozenset[str]:
        live = frozenset(self.passed_locals(self.unit.instructions[0]))
        for target in self.unit.targets():
            live |= self.passed_locals(target)
        return live

    @property
    def shape(self) -> Shape:
        """Which slots of the stack hold values."""
        return tuple(value is not NULL for value in self.frame.stack)

    # -- writing calls of resume functions

    def load_local(self, name: str) -> None:
        """Push a local; one that nothing has read yet is still an argument of the root's resume function."""
        self.writer.load_fast(self.locals[name] if name in self.locals else self.frame.as_passed[name][0].local)  # type: ignore[attr-defined]

    def load_cell_content(self, name: str) -> None:
        self.writer.load_fast(self.cells[name])
        self.writer.load_attr("cell_contents")

    def push_function_of(self, code: CodeType) -> None:
        """Push a function with this code, and with the globals of the callee."""
        writer = self.writer
        if code.co_freevars:
            for name in code.co_freevars:
                writer.load_fast(self.cells[name])
            writer.build_tuple(len(code.co_freevars))
        values = self.frame.globals.values
        if not code.co_freevars:
            self.generator.push_object(FunctionType(code, values))
        elif values is self.ctx.frames.root.globals.values:
            writer.make_function(code, closure=True)
        else:
            closure = self.generator.store_temporary()
            self.generator.call_helper(
                FunctionType,
                lambda: writer.load_const(code),
                lambda: self.generator.push_object(values),
                lambda: writer.load_const(code.co_name),
                lambda: writer.load_const(None),
                lambda: writer.load_fast(closure),
            )


class NestedBreakWriter(BreakWriter):
    """Writes the code after a graph that ends at a break in a callee."""

    def __init__(self, ctx: Interpreter, graph_break: GraphBreak) -> None:
        super().__init__(ctx, graph_break)
        frames = [callee for frame in ctx.frames.chain[1:] for callee in (*forwarding_frames(frame), frame)]
        self.callees = [CalleeAtBreak(self.generator, frame) for frame in frames]
        self.leaf = self.callees[-1]
        units = [self.unit, *(callee.unit for callee in self.callees[:-1])]
        if not all(unit.steps[-1].op in _CALLS for unit in units):
            raise SkipFrame("a frame is suspended in an instruction that does more than call")
        if any(step.op in _CHANGES_LOCALS for step in self.leaf.unit.steps):
            raise SkipFrame("the instruction that breaks changes a local variable")
        if not ctx.request.break_chains.admit([(frame.parsed.code, frame.current.offset) for frame in ctx.frames.chain]):
            raise SkipFrame("the callee broke here in several other chains")
        on_stack = any(frame.on_stack for frame in (self.resumes, *self.callees))
        for frame in (self.resumes, *self.callees):
            frame.on_stack = on_stack
        for step in self.leaf.unit.steps:
            if "FAST" in step.op:
                guard_on_binding(self.leaf.frame, step.arg, ctx)

    def _refuse_idle_loop(self) -> None:
        loops = self.resumes.is_resume and any(frame.loops for frame in (self.resumes, *self.callees))
        if not loops or self.ctx.graph.call_count:
            return
        for frame in self.ctx.frames.chain:
            values = [*frame.stack, *frame.locals.values(), *(cell.content for cell in frame.cells.values())]
            if any(value is not None and may_hold_tensor(value) for value in values):
                return
        raise SkipFrame("a loop without tensors")

    def _push_callees(self) -> None:
        for callee in self.callees:
            callee.leave_state()

    def _push_late_callees(self) -> None:
        for callee in self.callees:
            callee.leave_late()

    # -- the instruction that broke, and what follows

    def _write_original(self, slots: list[Slot]) -> None:
        unit, writer = self.leaf.unit, self.writer
        shape = self.leaf.shape
        after, untouched = shape_after(shape, unit.steps, jumped=False)
        outcomes = []
        after_jump: Shape = ()
        if unit.jump is not None:
            after_jump, untouched_jump = shape_after(shape, unit.steps, jumped=True)
            untouched = min(untouched, untouched_jump)
        on_stack = self.resumes.on_stack
        if on_stack:
            untouched = 0  # the carrier holds and returns the whole stack
        if unit.jump is not None:
            outcomes.append(Outcome(len(self.callees), unit.targets()[-1 - (self.leaf.broken.handler is not None)],
                                    after_jump[untouched:], jumped=True))
        if not unit.ends_here:
            outcomes.append(Outcome(len(self.callees), unit.targets()[0], after[untouched:]))
        for level, callee in enumerate(self.callees, 1):
            around = callee.broken.handler
            if around is not None:
                below = callee.shape[: around.depth] if on_stack else ()
                outcomes.append(Outcome(level, around.target, (*below, True), caught=True))
        is_here = len(self.graph_break.user_stack) == len(self.ctx.frames.chain)
        if self.graph_break.kind.id == SIZE_OF_DATA and is_here and not unit.ends_here:
            note_dynamic_output_shape(self.leaf.parsed, self.leaf.parsed.next_unit(self.leaf.broken))
        failed = Label("failed")
        handler = self.broken.handler
        if on_stack:
            with writer.role("restore stack"):
                write_stack(writer, slots)
        with self._covered_by(failed), writer.role("call carrier"):
            writer.emit("NOP")
            self._call_carriers(outcomes, slots, untouched)
        with writer.role("resume"):
            self._dispatch_on_outcome(outcomes, slots, untouched)
        if handler is not None:
            writer.mark(failed)
            self.resumes.resume_handler(slots)

    def _call_carriers(self, outcomes: Sequence[Outcome], slots: list[Slot], untouched: int) -> None:
        """Call the outermost carrier with its own arguments and those of all others."""
        carriers, passed = self._carriers(outcomes, untouched)
        operands = self._operands(untouched)
        moves = self.resumes.on_stack  # then nothing but the carriers may hold their arguments
        if moves:
            self.writer.begin_call()
            self.writer.load_const(finish_call)
            self.writer.callable_ready()
        self.writer.begin_call()
        if moves:
            self.writer.load_const(TailCall)
            self.writer.callable_ready()
        self.callees[0].push_function_of(carriers[0].code)
        if not moves:
            self.writer.callable_ready()
        count = int(moves)
        for level, callee in enumerate(self.callees):
            if level:
                callee.push_function_of(carriers[level].code)
                count += 1
            for name in passed[level]:
                if name in operands:
                    self.writer.load_fast_and_clear(name)
                elif name:
                    self.writer.load_fast(name)
                else:
                    callee.load_cell_content(callee.parsed.code.co_varnames[0])
            count += len(passed[level])
        of_callees = {*self._left_by_callees()} if outcomes else set()  # else the traceback alone holds them
        if moves:
            self._clear_temporaries(of_callees, moved=slots)
        elif self.leaf.unit.raises:
            is_caught = bool(outcomes) or self.broken.handler is not None
            self._clear_temporaries({*slots, *of_callees} - operands if is_caught else ())
        self.writer.call(count)
        if moves:
            self.writer.call(1)

    def _carriers(self, outcomes: Sequence[Outcome], untouched: int) -> tuple[list[Carrier], list[list[str]]]:
        """The carrier of each callee, outermost first, and the arguments of each; "" is the content of a cell in slot 0."""
        carriers: list[Carrier] = []
        passed: list[list[str]] = []
        for level in range(len(self.callees), 0, -1):
            callee = self.callees[level - 1]
            code = callee.parsed.code
            first = code.co_varnames[0] if code.co_argcount else ""
            in_first_slot = [first] if first in callee.locals else []
            names = [*in_first_slot, *(name for name in callee.locals if name != first)]
            is_read = first in callee.cells and "__class__" in callee.cells  # zero-argument super() reads slot 0
            has_first_content = is_read and callee.has_content(first)
            writer = CarrierWriter(callee.unit, names, outcomes, level, has_first_content)
            values = [callee.locals[name] for name in names]
            is_leaf = callee is self.leaf
            on_stack = callee.slots[untouched:] if is_leaf else callee.slots if callee.on_stack else []
            shape = [slot is not None for slot in on_stack]
            depth = callee.broken.handler.depth if callee.on_stack and callee.broken.handler is not None else 0
            carriers.insert(0, writer.innermost(shape, depth) if is_leaf else writer.around(carriers[0], shape, depth))
            values += [slot for slot in on_stack if slot is not None]
            passed.insert(0, ["", *values] if has_first_content else values)
        return carriers, passed

    def _left_by_callees(self) -> Iterator[Slot]:
        for callee in self.callees:
            yield from (*callee.slots, *callee.locals.values(), *callee.cells.values())

    def _operands(self, untouched: int) -> set[str]:
        """The temporaries with stack values that the carriers take over: if not all, those that only the instruction reads."""
        if self.resumes.on_stack:
            return {slot for callee in self.callees for slot in callee.slots if slot is not None}
        handler = self.leaf.broken.handler
        lowest = max(untouched, handler.depth if handler is not None else 0)
        return {slot for slot in self.leaf.slots[lowest:] if slot is not None}

    def _dispatch_on_outcome(self, outcomes: Sequence[Outcome], slots: list[Slot], untouched: int) -> None:
        """Dispatch on the outcome that the carriers returned, which is on the stack: call its resume function."""
        writer = self.writer
        if not outcomes:
            writer.return_value()  # never reached: the instruction raises
            return
        several = len(outcomes) > 1
        outcome_name, number = self.generator.store_temporary(), ""
        self.resumes.pop_stack(slots)
        if several:
            writer.load_fast(outcome_name)
            writer.load_const(0)
            writer.binary_subscr()
            number = self.generator.store_temporary()
        for index, outcome in enumerate(outcomes):
            following = Label("another outcome")
            if index < len(outcomes) - 1:
                writer.load_fast(number)
                writer.load_const(index)
                writer.is_op()
                writer.pop_jump_if_false(following)
            below, outer = self._returned_stacks(outcome)
            count = sum(outcome.results) - len(below)
            writer.load_fast(outcome_name)
            writer.unpack_sequence(several + len(below) + count + len(outer))
            if several:
                writer.pop_top()
            for slot in below:
                writer.store_fast(slot)
            values = [self.generator.store_temporary() for _ in range(count)]
            for slot in outer:
                writer.store_fast(slot)
            writer.load_const(None)
            writer.store_fast(outcome_name)
            self._return_resume_call(outcome, values, slots, untouched)
            if index < len(outcomes) - 1:
                writer.mark(following)

    def _returned_stacks(self, outcome: Outcome) -> tuple[list[str], list[str]]:
        """The temporaries of stack values that an outcome returns: before its exception, and after its results."""
        if not self.resumes.on_stack:
            return [], []
        callee = self.callees[outcome.level - 1]
        handler = callee.broken.handler
        below = callee.slots[: handler.depth] if outcome.caught and handler is not None else []
        outer = [slot for around in reversed(self.callees[: outcome.level - 1]) for slot in around.slots]
        return [slot for slot in below if slot is not None], [slot for slot in outer if slot is not None]

    def _return_resume_call(self, outcome: Outcome, values: list[str], slots: list[Slot], untouched: int) -> None:
        """Return the call of the resume function of the chain up to the frame that continues."""
        writer = self.writer
        innermost = self.callees[outcome.level - 1]
        handler = innermost.broken.handler
        if outcome.caught:
            assert handler is not None
            below, results = innermost.slots[: handler.depth], [True] * (1 + handler.lasti)
        else:
            below, results = innermost.slots[:untouched], list(outcome.results)
        shape = (*(slot is not None for slot in below), *results)
        resumes: list[ResumeCode] = [innermost.resume_code(outcome.target, shape)]
        for callee in reversed(self.callees[: outcome.level - 1]):
            resumes.insert(0, callee.resume_code(callee.unit.targets()[0], callee.shape, resumes[0]))
        root = self.resumes.resume_code(self.unit.targets()[0], tuple(slot is not None for slot in slots), resumes[0])
        self.resumes.note(root)
        if outcome.caught and handler is not None and handler.lasti:
            writer.load_const(resumes[-1].lasti_of(innermost.broken))
            values = [self.generator.store_temporary(), *values]
        waiting = iter(values)
        top: list[Slot] = [next(waiting) if is_value else None for is_value in results]
        self.resumes.begin_tail_call()
        self.resumes.push_resume_function(root)
        count = self.resumes.push_arguments(root, slots)
        for callee, resume in zip(self.callees, resumes, strict=False):
            callee.push_function_of(resume.code)
            on_stack = [*below, *top] if resume is resumes[-1] else callee.slots
            count += 1 + callee.push_arguments(resume, on_stack)
        if outcome.caught:  # avoids a reference cycle through the traceback's frame
            writer.load_const(None)
            writer.store_fast(values[-1])
        writer.call(count + 1)
        with writer.role("return"):
            writer.return_value()


class CallOfCallee(BreakWriter):
    """A chain that cannot resume as one function: the callee's resume function runs first, then the root's.

    It has the guards of the attempt that showed this: in another call, the chain may take another path, and be one graph. After
    several such entries it has none (specialization/break_chains.py).
    """

    def __init__(self, ctx: Interpreter, resume: ResumeCode) -> None:
        super().__init__(ctx, GraphBreak("DX310", because="the called function runs as a separate frame"))
        assert resume.inner is not None
        self.callee = resume.inner

    def finish(self) -> Translation:
        with self.writer.at(self.broken, self.parsed.nearest_with_line(self.broken).position):
            self._write_original(self._leave_state())
        guards = self.ctx.request.skipped_under
        if guards is not None and self.ctx.emitter is not None:
            for guard in guards.check.guards[len(self.ctx.guards.guards) :]:
                self.ctx.emitter.guard_installed(guard, guard.because)
        translation = self.generator.finish([], guards)
        translation.separate_callee = True
        return translation

    def _entry_locals(self) -> list[str]:
        taken_by_callee = set(self.callee.parameters_in_caller)
        return [name for name in super()._entry_locals() if name not in taken_by_callee]

    def _write_original(self, slots: list[Slot]) -> None:
        failed, handler = Label("failed"), self.broken.handler
        if self.resumes.on_stack:
            self._move_to_stack(slots)
        with self._covered_by(failed):
            self.writer.emit("NOP")
            write_callee_call(self.writer, self.callee.parameters_in_caller)
        self.resumes.resume(self.unit.targets()[0], slots, (True,))
        if handler is not None:
            self.writer.mark(failed)
            self.resumes.resume_handler(slots)
