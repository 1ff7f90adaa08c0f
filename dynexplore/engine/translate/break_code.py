"""Code generation at a graph break: run the graph, run the instruction that broke, call a resume function for the rest.

The idea: stack values are stored in temporaries and live locals in their variables, side effects are replayed, the part of the
stack that the instruction needs is restored (all of it if the program may observe when its values are released, observed_stack.py),
and the original instruction is emitted. At each of its successors (the next instruction, its jump target, the exception handler
that covers it) the code calls a resume function.

In: an attempt that stopped at its restart point. Out: a `Translation` of the code before the break.
PyTorch's counterpart: `compile_subgraph` in torch/_dynamo/output_graph.py, and `break_graph_if_unsupported` and `generic_jump` in
torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from dynexplore.engine.bytecode import Label, live_locals
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.provenance.sources import LocalSource
from dynexplore.engine.specialization.loop_carried import note_dynamic_output_shape
from dynexplore.engine.translate.broken_unit import BrokenUnit
from dynexplore.engine.translate.codegen import CodeGenerator
from dynexplore.engine.translate.contract.request import SkipFrame, Translation
from dynexplore.engine.translate.handlers.names import guard_on_binding
from dynexplore.engine.translate.resume import write_stack
from dynexplore.engine.translate.resume_call import ResumeCalls, Slot
from dynexplore.engine.translate.skip_frames import is_scalar_only_so_far, skip_frame_at_break
from dynexplore.engine.translate.stack_shape import Shape, shape_after
from dynexplore.engine.translate.symbolic_frame import NULL
from dynexplore.engine.variables.containers.iterator import IteratorVariable
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.modes.active_modes import leave_in_graph
from dynexplore.engine.variables.scalars.constant import is_constant_value

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


def finish_with_break(
    ctx: Interpreter, graph_break: GraphBreak, writer: Callable[[Interpreter, GraphBreak], BreakWriter] | None = None
) -> Translation:
    """Finish a frame that breaks before the current instruction: run it for real, then call resume functions; or skip the frame."""
    numbers_only = is_scalar_only_so_far(ctx)
    if numbers_only and ctx.request.profile.resume_was_skipped:
        return skip_frame_at_break(ctx)
    translation = (writer or BreakWriter)(ctx, graph_break).finish()
    translation.may_be_numbers_only = numbers_only
    return translation


def may_hold_tensor(value: VariableTracker) -> bool:
    """Whether a value is or may contain a tensor: anything but plain constants and iterators over them."""
    return not (value.is_constant() or (isinstance(value, LazyVariable) and is_constant_value(value.value))
                or value.kind in ("iterator", "range") or value.python_type() in _PLAIN)


_PLAIN: tuple[type[Any], ...] = (type(iter(range(0))), type(iter(())), type(iter([])), type(iter("")), range, str)
SIZE_OF_DATA = "DX107"


class BreakWriter:
    """Writes the code after a graph that ends at a break."""

    def __init__(self, ctx: Interpreter, graph_break: GraphBreak) -> None:
        self.ctx = ctx
        self.graph_break = graph_break
        self.generator = CodeGenerator(ctx)
        self.writer = self.generator.writer
        self.frame = ctx.frames.root
        self.parsed = ctx.frames.root.parsed
        self.unit = BrokenUnit(self.parsed, self.frame.current)
        self.broken = self.unit.broken
        self.resumes = ResumeCalls(self.generator, self.broken)
        self.late_locals: list[tuple[str, VariableTracker]] = []

    def finish(self) -> Translation:
        """Write all of it and finish the translation."""
        self._refuse_idle_loop()
        for step in self.unit.steps:
            if "FAST" in step.op and step.op != "STORE_FAST":  # Python reads it
                guard_on_binding(self.frame, step.arg, self.ctx)
        leave_in_graph(self.ctx, self.ctx.active_modes)
        with self.writer.at(self.broken, self.parsed.nearest_with_line(self.broken).position):
            slots = self._leave_state()
            self._write_original(slots)
        return self.generator.finish([] if self.graph_break.is_callees else [self.graph_break])

    def _refuse_idle_loop(self) -> None:
        """Skip a frame whose loop iterates through resume functions without any tensor in reach."""
        if not (self.resumes.is_resume and self.resumes.loops) or self.ctx.graph.call_count:
            return
        values = [*self.frame.stack, *self.frame.locals.values(), *(cell.content for cell in self.frame.cells.values())]
        if not any(value is not None and may_hold_tensor(value) for value in values):
            raise SkipFrame("a loop without tensors")

    # -- stack and locals

    def _leave_state(self) -> list[Slot]:
        """Store stack values in temporaries and locals in their variables; replay side effects in between."""
        writer = self.writer
        with writer.role("restore stack"):
            slots, iterators = self._store_stack()
        with writer.role("restore locals"):
            self.resumes.leave_cells()
            names = self._push_locals()
            self._push_callees()
        self.generator.side_effects(returning=False)
        with writer.role("restore stack"):
            for index, iterator in iterators.items():
                self.generator.push(iterator)
                slots[index] = self.generator.store_temporary()
        with writer.role("restore locals"):
            self._store_locals(names)
        return slots

    def _store_stack(self) -> tuple[list[Slot], dict[int, VariableTracker]]:
        """Store the stack values. Iterators made in the frame are created after the side effects: their slots stay open."""
        slots: list[Slot] = []
        open_slots: dict[int, VariableTracker] = {}
        for index, value in enumerate(self.frame.stack):
            if value is NULL:
                slots.append(None)
            elif isinstance(value, IteratorVariable) and value.source is None:
                self.generator.store_iterator_parts(value)
                open_slots[index] = value
                slots.append("")
            else:
                self.generator.push(value)
                slots.append(self.generator.store_temporary())
        return slots, open_slots

    def _store_locals(self, names: list[str]) -> None:
        """Push the late values, store all that was pushed, and unbind what the frame has deleted."""
        for name, value in self.late_locals:
            self.generator.push(value)
            names.append(name)
        self._push_late_callees()
        for name in reversed(names):
            self.writer.store_fast(name)
        for name in self._entry_locals():
            if name not in self.frame.locals and name not in self.frame.as_passed:
                self.writer.delete_fast(name)

    def _push_locals(self) -> list[str]:
        """Push every live local that is not yet in its variable."""
        needed = self._live()
        names = []
        for name, value in self.frame.locals.items():
            is_in_place = isinstance(value.source, LocalSource) and value.source.local == name
            if name not in needed or is_in_place or name in self.resumes.shadowed:
                continue
            if isinstance(value, IteratorVariable) and value.source is None:
                self.generator.store_iterator_parts(value)
                self.late_locals.append((name, value))
            else:
                self.generator.push(value)
                names.append(name)
        return names

    def _push_callees(self) -> None:
        """Store the state of inlined callees in temporaries (nested_break.py)."""

    def _push_late_callees(self) -> None:
        """Store the values of callees that are created after the side effects."""

    def _live(self) -> frozenset[str]:
        first = self.unit.instructions[0]
        live = live_locals(self.parsed, first) | self.resumes.passed_locals(first)  # a traceback, too, keeps what is alive
        for target in self.unit.targets():
            live |= self.resumes.passed_locals(target)
        return live

    def _entry_locals(self) -> list[str]:
        """Argument slots bound at entry: plain locals of the original code, values of its stack, and those of callees."""
        resume = self.ctx.resume
        own = {*self.parsed.code.co_varnames, *(resume.stack_parameters_of_all if resume is not None else ())}
        if resume is not None and resume.inner is not None:
            unread = {source.local for frame in self.ctx.frames.chain for source, _ in frame.as_passed.values()}  # type: ignore[attr-defined]
            own |= {*resume.inner.parameters_in_caller} - unread
        cells = {*self.parsed.code.co_cellvars, *self.parsed.code.co_freevars}
        return [name for name in self.ctx.request.slot_names if name in own and name not in cells
                and name in self.ctx.request.values]

    # -- the instruction that broke, and what follows

    def _write_original(self, slots: list[Slot]) -> None:
        writer = self.writer
        shape: Shape = tuple(slot is not None for slot in slots)
        jump = self.unit.jump
        after, untouched = shape_after(shape, self.unit.steps, jumped=False)
        after_jump: Shape = ()
        if jump is not None:
            after_jump, untouched_jump = shape_after(shape, self.unit.steps, jumped=True)
            untouched = min(untouched, untouched_jump)
        handler = self.broken.handler
        with writer.role("restore stack"):
            if self.resumes.on_stack:
                self._move_to_stack(slots)
            else:
                for slot in slots[untouched:]:
                    self._load_slot(slot)
                if self.unit.raises:
                    self._clear_temporaries(slots[: handler.depth] if handler is not None else ())
        failed, jumped = Label("failed"), Label("jumped")
        with self._covered_by(failed), writer.role("original instruction"):
            self.unit.write(writer, jumped if jump is not None else None)
        if not self.unit.ends_here:
            if self.graph_break.kind.id == SIZE_OF_DATA and len(self.graph_break.user_stack) == 1:
                note_dynamic_output_shape(self.parsed, self.parsed.next_unit(self.broken))
            self.resumes.resume(self.parsed.next_unit(self.broken), slots[:untouched], after[untouched:])
        if jump is not None:
            writer.mark(jumped)
            self.unit.write_fillers(writer, jump)
            self.resumes.resume(self.parsed.steps[jump.target].origin, slots[:untouched], after_jump[untouched:])
        if handler is not None:
            writer.mark(failed)
            self.resumes.resume_handler(slots)

    def _covered_by(self, failed: Label) -> AbstractContextManager[None]:
        """Cover what is written inside by the handler of the broken instruction, if it has one: it continues at `failed`."""
        handler = self.broken.handler
        if handler is None:
            return self.writer.covered_by(None)
        return self.writer.covered_by(failed, handler.depth if self.resumes.on_stack else 0)

    def _move_to_stack(self, slots: Sequence[Slot]) -> None:
        """Move all values to the stack, where the instruction finds its operands: as in eager, nothing else holds them."""
        write_stack(self.writer, slots)
        self._clear_temporaries((), moved=slots)

    def _clear_temporaries(self, needed_later: Iterable[Slot], moved: Sequence[Slot] = ()) -> None:
        """Clear the other temporaries. One that held the exception would make a reference cycle through the traceback's frame."""
        needed = {*needed_later, *moved, *self.resumes.shadowed.values(), *self.resumes.other_cells.values()}
        for name in self.generator.temporaries:
            if name not in needed:
                self.writer.load_const(None)
                self.writer.store_fast(name)

    def _load_slot(self, slot: Slot) -> None:
        if slot is None:
            self.writer.push_null()
        else:
            self.writer.load_fast(slot)
