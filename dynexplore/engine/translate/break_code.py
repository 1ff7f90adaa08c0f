"""What follows a graph that ends at a break: the instruction that broke runs for real, resume functions do the rest.

The idea: stack values go into temporaries and live locals into their variables, changes are replayed, the stack is put back as
far as the instruction needs it, and the original instruction is written. Where it may go on (behind it, at its jump target, in
the handler that covers it) a resume function is called.

In: an attempt that stopped at its planned place. Out: a `Translation` of the first part.
torch/_dynamo/symbolic_convert.py (compile_subgraph, break_graph_if_unsupported, generic_jump) does the same job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.bytecode import FACTS, Instruction, Label, Step, live_locals
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.provenance.sources import LocalSource
from dynexplore.engine.translate.codegen import CodeGenerator
from dynexplore.engine.translate.contract.request import SkipFrame, Translation
from dynexplore.engine.translate.handlers.names import rely_on_binding
from dynexplore.engine.translate.left_to_python import is_numbers_so_far, leave_to_python_at_break
from dynexplore.engine.translate.resume_call import ResumeCalls, Slot
from dynexplore.engine.translate.stack_shape import Shape, shape_after
from dynexplore.engine.translate.symbolic_frame import NULL
from dynexplore.engine.translate.varying_locals import note_sizes_of_data
from dynexplore.engine.variables.containers.iterator import IteratorVariable
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.scalars.constant import is_constant_value

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


def finish_with_break(ctx: Interpreter, graph_break: GraphBreak) -> Translation:
    """The frame breaks before the current instruction: run that for real, then resume functions; or leave it all to Python."""
    numbers_only = is_numbers_so_far(ctx)
    if numbers_only and ctx.request.history.goes_on_plain:
        return leave_to_python_at_break(ctx)
    translation = BreakWriter(ctx, graph_break).finish()
    translation.may_be_numbers_only = numbers_only
    return translation


def _may_hold_tensor(value: VariableTracker) -> bool:
    """Whether a value is a tensor, or may hold one: everything but plain constants and iterators over such."""
    return not (value.is_constant() or (isinstance(value, LazyVariable) and is_constant_value(value.value))
                or value.kind in ("iterator", "range") or value.python_type() in _PLAIN)


_PLAIN: tuple[type[Any], ...] = (type(iter(range(0))), type(iter(())), type(iter([])), type(iter("")), range, str)
_SIZE_OF_DATA = "DX107"


class BreakWriter:
    """Writes what follows a graph that ends at a break."""

    def __init__(self, ctx: Interpreter, graph_break: GraphBreak) -> None:
        self.ctx = ctx
        self.graph_break = graph_break
        self.generator = CodeGenerator(ctx)
        self.writer = self.generator.writer
        self.frame = ctx.root
        self.parsed = ctx.root.parsed
        self.unit = self.parsed.unit(self.frame.current)
        self.broken = self.unit[-1]
        self.steps = [step for step in self.parsed.steps if step.origin in self.unit]
        self.resumes = ResumeCalls(self.generator, self.broken)
        self.late_locals: list[tuple[str, VariableTracker]] = []

    def finish(self) -> Translation:
        """The whole of it."""
        self._refuse_idle_loop()
        for step in self.steps:
            if "FAST" in step.op and step.op != "STORE_FAST":  # Python reads it
                rely_on_binding(self.frame, step.arg, self.ctx)
        self.ctx.leave_modes_in_graph()
        with self.writer.at(self.broken, self.parsed.placed(self.broken).position):
            slots = self._leave_state()
            self._write_original(slots)
        return self.generator.finish([self.graph_break])

    def _refuse_idle_loop(self) -> None:
        """A loop that goes round in resume functions without any tensor in sight is better run plain."""
        if not (self.resumes.is_resume and self.resumes.loops) or self.ctx.graph.call_count:
            return
        values = [*self.frame.stack, *self.frame.locals.values(), *(cell.content for cell in self.frame.cells.values())]
        if not any(value is not None and _may_hold_tensor(value) for value in values):
            raise SkipFrame("a loop without tensors")

    # -- stack and locals

    def _leave_state(self) -> list[Slot]:
        """Put stack values into temporaries and locals into their variables, changes replayed in between."""
        generator, writer = self.generator, self.writer
        slots: list[Slot] = []
        late: list[tuple[int, VariableTracker]] = []
        with writer.role("restore stack"):
            for value in self.frame.stack:
                if value is NULL:
                    slots.append(None)
                elif isinstance(value, IteratorVariable):
                    generator.hold_walked(value)
                    late.append((len(slots), value))
                    slots.append("")
                else:
                    generator.push(value)
                    slots.append(generator.store_temporary())
        with writer.role("restore locals"):
            self.resumes.leave_cells()
            names = self._push_locals()
        generator.side_effects(returning=False)
        with writer.role("restore stack"):
            for index, value in late:
                generator.push(value)
                slots[index] = generator.store_temporary()
        with writer.role("restore locals"):
            for name, value in self.late_locals:
                generator.push(value)
                names.append(name)
            for name in reversed(names):
                writer.store_fast(name)
            for name in self._entry_locals():
                if name not in self.frame.locals and name not in self.frame.as_passed:
                    writer.delete_fast(name)
        return slots

    def _push_locals(self) -> list[str]:
        """Push every local that may still be read and is not yet in its variable."""
        needed = self._live()
        names = []
        for name, value in self.frame.locals.items():
            here = isinstance(value.source, LocalSource) and value.source.local == name
            if name not in needed or here or name in self.resumes.shadowed:
                continue
            if isinstance(value, IteratorVariable):
                self.generator.hold_walked(value)
                self.late_locals.append((name, value))
            else:
                self.generator.push(value)
                names.append(name)
        return names

    def _live(self) -> frozenset[str]:
        live = live_locals(self.parsed, self.unit[0])
        for target in self._targets():
            live |= self.resumes.handed_on(target)
        return live

    def _targets(self) -> list[Instruction]:
        """The original instructions where Python may go on after the broken one."""
        targets = []
        if not self._ends_here():
            targets.append(self.parsed.next_unit(self.broken))
        jump = self._jump_step()
        if jump is not None:
            targets.append(self.parsed.steps[jump.target].origin)
        if self.broken.handler is not None:
            targets.append(self.broken.handler.target)
        return targets

    def _jump_step(self) -> Step | None:
        return next((step for step in self.steps if step.target >= 0), None)

    def _ends_here(self) -> bool:
        return self.steps[-1].op in ("JUMP", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE")

    def _entry_locals(self) -> list[str]:
        """Argument slots that held a value at entry and are plain locals of the original code."""
        own = set(self.parsed.code.co_varnames)
        cells = {*self.parsed.code.co_cellvars, *self.parsed.code.co_freevars}
        return [name for name in self.ctx.request.slot_names if name in own and name not in cells
                and name in self.ctx.request.values]

    # -- the instruction that broke, and what follows

    def _write_original(self, slots: list[Slot]) -> None:
        writer = self.writer
        shape: Shape = tuple(slot is not None for slot in slots)
        jump = self._jump_step()
        after, kept = shape_after(shape, self.steps, jumped=False)
        after_jump: Shape = ()
        if jump is not None:
            after_jump, kept_jump = shape_after(shape, self.steps, jumped=True)
            kept = min(kept, kept_jump)
        with writer.role("restore stack"):
            for slot in slots[kept:]:
                self._load_slot(slot)
        failed, jumped = Label("failed"), Label("jumped")
        handler = self.broken.handler
        with writer.covered_by(failed if handler is not None else None), writer.role("original instruction"):
            if handler is not None:
                # CPython 3.13 looks for the handler of a frame that `__init__` raised in (CALL_ALLOC_AND_ENTER_INIT, which asks
                # no frame hook) one code unit before the call: there must be a covered one
                writer.emit("NOP")
            self._copy_unit(jumped if jump is not None else None)
        if not self._ends_here():
            if self.graph_break.kind.id == _SIZE_OF_DATA and len(self.graph_break.user_stack) == 1:
                note_sizes_of_data(self.parsed, self.parsed.next_unit(self.broken))
            self.resumes.resume(self.parsed.next_unit(self.broken), slots[:kept], after[kept:])
        elif self.steps[-1].op == "RETURN_VALUE":
            pass
        if jump is not None:
            writer.mark(jumped)
            self._write_fillers(jump)
            self.resumes.resume(self.parsed.steps[jump.target].origin, slots[:kept], after_jump[kept:])
        if handler is not None:
            writer.mark(failed)
            self.resumes.resume_handler(slots)

    def _load_slot(self, slot: Slot) -> None:
        if slot is None:
            self.writer.push_null()
        else:
            self.writer.load_fast(slot)

    def _copy_unit(self, jumped: Label | None) -> None:
        """The original instructions; the method forms of attribute loads are written so that the NULL stays known."""
        first = self.steps[0]
        if len(self.steps) > 1 and first.op in ("LOAD_ATTR", "LOAD_SUPER_ATTR"):
            if first.op == "LOAD_ATTR":
                self.writer.load_attr(first.arg)
            else:
                assert self.broken.arg is not None
                self.writer.emit("LOAD_SUPER_ATTR", self.broken.arg & ~1, first.arg[0])
            self.writer.push_null()
            if FACTS.null_below:
                self.writer.swap(2)
            return
        for instruction in self.unit:
            self.writer.original(instruction, jumped if instruction.target is not None else None)

    def _write_fillers(self, jump: Step) -> None:
        """3.12 and later: what stands at the target of an exhausted FOR_ITER is skipped, but must be there."""
        if jump.op != "FOR_ITER":
            return
        assert self.broken.target is not None
        after = self.parsed.steps[jump.target].origin
        for index in range(self.broken.target.index, after.index):
            self.writer.original(self.parsed.instructions[index])
