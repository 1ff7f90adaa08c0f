"""Calls of resume functions: how the rest of a frame goes on after the instruction that broke.

The idea: when the broken instruction has run for real, its results are taken off the stack, and the resume function at the next
instruction is called with the argument slots, the other live locals and the stack values. The modified code does not call it
itself: it returns a `TailCall`, and the frame hook calls the function when the frame has ended (native/tail_call.c). So a
function is one frame at any time, in tracebacks, in live stacks and against the recursion limit, however often it breaks.
What the ended frame held dies with it: so objects that nobody reads any more are handed on as well, where the program could see
them die too early (a file, a temporary folder, a weak reference's target).

In: where to go on, and which temporaries hold the stack. Out: bytecode that returns the call of the resume function.
torch/_dynamo/symbolic_convert.py (create_call_resume_at) does the same job.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch

from dynexplore.engine.bytecode import Instruction, live_locals, unbound_locals
from dynexplore.engine.native import TailCall
from dynexplore.engine.provenance.sources import LocalSource
from dynexplore.engine.translate.injected_locals import TAIL_CALL
from dynexplore.engine.translate.resume import NOT_BOUND, ResumeCode, make_resume_code
from dynexplore.engine.translate.stack_shape import Shape
from dynexplore.engine.translate.unique_names import NUMBERS
from dynexplore.engine.translate.varying_locals import stored_around
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.scalars.constant import LITERALS, TORCH_CONSTANTS

if TYPE_CHECKING:
    from dynexplore.engine.translate.codegen import CodeGenerator

Slot = str | None  # the temporary that holds a stack value; None for NULL


def _death_is_seen(value: VariableTracker) -> bool:
    """Whether a local holds an object that came in from outside and whose end a program may notice: no constant, no tensor."""
    if not isinstance(value.source, LocalSource) or value.source.is_cell:
        return False
    try:
        kind = value.python_type()
    except NotImplementedError:
        return True
    return not issubclass(kind, (torch.Tensor, *LITERALS, *TORCH_CONSTANTS))


class ResumeCalls:
    """Writes calls of the resume functions of one broken instruction."""

    def __init__(self, generator: CodeGenerator, broken: Instruction) -> None:
        self.ctx = generator.ctx
        self.generator = generator
        self.writer = generator.writer
        self.frame = self.ctx.root
        self.parsed = self.ctx.root.parsed
        self.broken = broken
        self.shadowed: dict[str, str] = {}  # name of a cell variable -> the temporary with the value that stands in its slot
        self.other_cells: dict[str, str] = {}  # name of a cell variable -> the temporary with another cell than the frame's own
        self.is_resume = self.ctx.resume is not None
        self.loops = any(step.target >= 0 and step.target <= step.index for step in self.parsed.steps)

    def handed_on(self, target: Instruction) -> frozenset[str]:
        """The locals that a resume function at `target` is given: those that it may read, and those that must not die yet."""
        stored = self._stored_at_once(target)
        kept = (name for name, value in self.frame.locals.items() if name not in stored and _death_is_seen(value))
        return live_locals(self.parsed, target).union(kept)

    def _perhaps_unbound(self, target: Instruction) -> frozenset[str]:
        """The locals that are passed as they are, bound or not: those of a loop around `target`, and those that came that way."""
        in_loop = stored_around(self.parsed, target)
        if in_loop is None and not self.frame.as_passed:
            return frozenset()
        return unbound_locals(self.parsed, target) & ((in_loop or frozenset()) | self.frame.as_passed.keys())

    def _stored_at_once(self, target: Instruction) -> set[str]:
        """The locals that a resume function stores before it does anything else: what they held dies there in any case."""
        stores = itertools.takewhile(lambda step: step.op == "STORE_FAST", self.parsed.steps[self.parsed.step_of(target) :])
        return {step.arg for step in stores}

    def leave_cells(self) -> None:
        """Inside an inlined comprehension, the slot of a cell may hold the plain value of its variable, or a cell of its own."""
        for name in (*self.parsed.code.co_cellvars, *self.parsed.code.co_freevars):
            cell = self.frame.cells.get(name)
            if name in self.frame.locals:
                self.generator.push(self.frame.locals[name])
                self.shadowed[name] = self.generator.store_temporary()
            elif cell is not None and not cell.frame_cell:
                self.generator.push(cell)
                self.other_cells[name] = self.generator.store_temporary()

    def resume(self, target: Instruction, kept: list[Slot], results: Shape) -> None:
        """Results of the broken instruction are on the stack: take them off, call the resume function at `target`."""
        taken: list[Slot] = []
        with self.writer.role("resume"):
            for is_value in reversed(results):
                name = self.generator.store_temporary()
                taken.append(name if is_value else None)
            self._call_resume(target, [*kept, *reversed(taken)])

    def resume_handler(self, slots: list[Slot]) -> None:
        """The broken instruction raised: go on in the original handler, with the exception as a stack value."""
        handler = self.broken.handler
        assert handler is not None
        with self.writer.role("resume"):
            exception = self.generator.store_temporary()
            self._call_resume(handler.target, slots[: handler.depth], exception=exception, lasti=handler.lasti)

    def _call_resume(self, target: Instruction, slots: list[Slot], exception: str | None = None, lasti: bool = False) -> None:
        shape = [slot is not None for slot in slots] + [True] * (lasti + (exception is not None))
        resume = self._resume_code(target, tuple(shape))
        writer = self.writer
        writer.begin_call()
        writer.load_fast(self.generator.injected.add(TailCall, TAIL_CALL))
        writer.callable_ready()
        self._push_resume_function(resume)
        count = self._push_arguments(resume, slots)
        if lasti:
            writer.load_const(resume.lasti_of(self.broken))
        if exception is not None:
            writer.load_fast(exception)
            writer.load_const(None)  # no cycle through the frame of the traceback
            writer.store_fast(exception)
        writer.call(count + lasti + (exception is not None) + 1)
        with writer.role("return"):
            writer.return_value()

    def _resume_code(self, target: Instruction, shape: Shape) -> ResumeCode:
        if self.parsed.ambiguous_names:
            self.ctx.break_graph("DX504", names=", ".join(sorted(self.parsed.ambiguous_names)))
        arguments = self.ctx.argument_names
        cells = (*self.parsed.code.co_cellvars, *self.parsed.code.co_freevars)
        live = self.handed_on(target)
        perhaps_unbound = self._perhaps_unbound(target).difference(arguments)
        bound = frozenset(name for name in arguments if name in self.frame.locals or name in cells)
        wanted = perhaps_unbound.union(live.intersection(self.frame.locals)).difference(arguments, cells)
        passed = tuple(name for name in self.parsed.code.co_varnames if name in wanted)
        name = f"__resume_at_{target.offset}_{NUMBERS.next()}"
        cleared = tuple(name for name in cells if name not in self.shadowed and name not in self.frame.cells)
        resume = make_resume_code(
            self.parsed,
            target,
            stack=shape,
            locals=passed,
            bound_args=bound,
            name=name,
            shadowed=tuple(self.shadowed),
            cleared=cleared,
            perhaps_unbound=perhaps_unbound,
        )
        if all(resume.code is not known for known in self.generator.resume_codes):
            self.generator.resume_codes.append(resume.code)
        return resume

    def _push_resume_function(self, resume: ResumeCode) -> None:
        for name in resume.freevars:
            if name in self.other_cells:
                self.writer.load_fast(self.other_cells[name])
            else:
                self.writer.load_closure(name)
        if resume.freevars:
            self.writer.build_tuple(len(resume.freevars))
        self.writer.make_function(resume.code, closure=bool(resume.freevars))

    def _push_arguments(self, resume: ResumeCode, slots: list[Slot]) -> int:
        """The argument slots (None for a dead or unbound one), other locals, stack values."""
        writer = self.writer
        live = self.handed_on(resume.target)
        cells = {*resume.freevars}
        for index, name in enumerate(resume.arguments):
            if name in cells:
                if index == 0 and "__class__" in cells:  # zero-argument super() reads slot 0
                    writer.load_deref(name)
                else:
                    writer.load_const(None)
            elif name in self.frame.locals and name in live:
                writer.load_fast(name)
            else:
                writer.load_const(None)
        for name in resume.locals:
            if name in self.frame.locals or name in self.frame.as_passed:
                writer.load_fast(name)
            else:
                writer.load_const(NOT_BOUND)
        for name in resume.shadowed:
            writer.load_fast(self.shadowed[name])
        values = [slot for slot in slots if slot is not None]
        for slot in values:
            writer.load_fast(slot)
        return len(resume.arguments) + len(resume.locals) + len(resume.shadowed) + len(values)
