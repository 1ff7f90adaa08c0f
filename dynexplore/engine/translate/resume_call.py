"""Calls of resume functions: how the rest of a frame continues after the instruction that broke.

The idea: after the instruction that broke has run, its results are popped, and the resume function at the next instruction is
called with the argument slots, the other live locals and the stack values. The modified code does not call it itself: it returns a
`TailCall`, and the frame hook calls the function when the frame has ended (native/tail_call.c). So a function is one frame at any
time, in tracebacks, in live stacks and against the recursion limit, however often it breaks. The locals of the ended frame are
released with it: so dead locals are passed as well if the program could observe their early finalization (a file, a temporary
folder, a weak reference's target).

In: where to resume, and which temporaries hold the stack. Out: bytecode that returns the call of the resume function.
PyTorch's counterpart: `create_call_resume_at` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.bytecode import Instruction, argument_slots, live_locals, unbound_locals
from dynexplore.engine.native import TailCall
from dynexplore.engine.provenance.sources import LocalSource
from dynexplore.engine.specialization.loop_carried import stored_around
from dynexplore.engine.translate.handlers.observed_end import has_finalizer
from dynexplore.engine.translate.injected_locals import TAIL_CALL
from dynexplore.engine.translate.observed_stack import stack_ends_observably
from dynexplore.engine.translate.resume import NOT_BOUND, ResumeCode, make_resume_code
from dynexplore.engine.translate.stack_shape import Shape
from dynexplore.engine.translate.unique_names import NUMBERS
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.scalars.constant import LITERALS, TORCH_CONSTANTS

if TYPE_CHECKING:
    from dynexplore.engine.translate.codegen import CodeGenerator
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

Slot = str | None  # the temporary that holds a stack value; None for NULL


def _came_as_local(value: VariableTracker) -> bool:
    """Whether an object came in as a local of the frame; or in another way (in an iterator), and its class has a `__del__`."""
    source = value.source
    return (isinstance(source, LocalSource) and not source.is_cell) or (source is not None and _has_finalizer(value))


def _has_finalizer(value: VariableTracker) -> bool:
    try:
        return has_finalizer(value.python_type())
    except NotImplementedError:
        return False


def _finalization_is_observable(value: VariableTracker) -> bool:
    """Whether the program may observe an object's finalization: not of a constant or tensor."""
    try:
        kind = value.python_type()
    except NotImplementedError:
        return True
    return not issubclass(kind, (torch.Tensor, *LITERALS, *TORCH_CONSTANTS))


class ResumeCalls:
    """Writes calls of the resume functions of one broken instruction."""

    def __init__(self, generator: CodeGenerator, broken: Instruction, frame: SymbolicFrame | None = None) -> None:
        self.ctx = generator.ctx
        self.generator = generator
        self.writer = generator.writer
        self.frame = frame or self.ctx.frames.root
        self.parsed = self.frame.parsed
        self.broken = broken
        self.deleted = broken.argval if broken.opname in ("DELETE_FAST", "DELETE_DEREF") else None  # the variable that it unbinds
        self.shadowed: dict[str, str] = {}  # name of a cell variable -> the temporary with the value in its slot
        self.other_cells: dict[str, str] = {}  # name of a cell variable -> the temporary with a cell other than the frame's
        self.on_stack = stack_ends_observably(self.frame)  # whether the stack holds all of its values while the instruction runs
        self.is_resume = self.ctx.resume is not None
        self.loops = any(step.target >= 0 and step.target <= step.index for step in self.parsed.steps)

    def passed_locals(self, target: Instruction, *, in_call: bool = False) -> frozenset[str]:
        """The locals that are passed to a resume function at `target`: those that it may read, and those that must stay alive.

        `in_call`: the frame is at the call before `target`, which may raise.
        """
        needed = live_locals(self.parsed, self.parsed.unit_start(self.broken)) if in_call else frozenset()
        stored = self._immediately_stored(target)
        passed = set(map(id, self._new_objects_on_stack()))
        keepalive = (
            name
            for name, value in self.frame.locals.items()
            if name not in stored and (id(value) in passed or _came_as_local(value)) and _finalization_is_observable(value)
        )
        return live_locals(self.parsed, target).union(keepalive, needed) - {self.deleted}

    def _new_objects_on_stack(self) -> Iterator[VariableTracker]:
        """New objects of this frame on the stack, directly or in a container: the instruction may create weak references."""
        waiting: list[Any] = list(self.frame.stack)
        walked = set()
        while waiting:
            value = waiting.pop()
            if isinstance(value, tuple):  # an item of a mapping
                waiting += value
            elif isinstance(value, VariableTracker) and value.source is None and id(value) not in walked:
                walked.add(id(value))
                yield value
                contents = value.contents()
                waiting += contents.items if contents is not None else ()

    def _maybe_unbound(self, target: Instruction) -> frozenset[str]:
        """The locals that are passed whether bound or not: those of a loop around `target`, and those that were received so."""
        in_loop = stored_around(self.parsed, target)
        if in_loop is None and not self.frame.as_passed:
            return frozenset()
        return unbound_locals(self.parsed, target) & ((in_loop or frozenset()) | self.frame.as_passed.keys())

    def _immediately_stored(self, target: Instruction) -> set[str]:
        """The locals that a resume function stores before it does anything else: their old values die there in any case."""
        stores = itertools.takewhile(lambda step: step.op == "STORE_FAST", self.parsed.steps[self.parsed.step_of(target) :])
        return {step.arg for step in stores}

    def _is_bound(self, name: str) -> bool:
        """Whether a local is bound after the broken instruction."""
        return name in self.frame.locals and name != self.deleted

    def leave_cells(self) -> None:
        """Save cell slots that hold a comprehension's plain value, or a cell of its own, inside an inlined comprehension."""
        for name in (*self.parsed.code.co_cellvars, *self.parsed.code.co_freevars):
            cell = self.frame.cells.get(name)
            if name in self.frame.locals:
                self.generator.push(self.frame.locals[name])
                self.shadowed[name] = self.generator.store_temporary()
            elif cell is not None and not cell.frame_cell:
                self.generator.push(cell)
                self.other_cells[name] = self.generator.store_temporary()

    def resume(self, target: Instruction, untouched: list[Slot], results: Shape) -> None:
        """Pop the results of the broken instruction, and call the resume function at `target`."""
        results_slots: list[Slot] = []
        with self.writer.role("resume"):
            for is_value in reversed(results):
                name = self.generator.store_temporary()
                results_slots.append(name if is_value else None)
            self.pop_stack(untouched)
            self._call_resume(target, [*untouched, *reversed(results_slots)])

    def resume_handler(self, slots: list[Slot]) -> None:
        """Resume in the original handler after the broken instruction raised, with the exception as a stack value."""
        handler = self.broken.handler
        assert handler is not None
        with self.writer.role("resume"):
            exception = self.generator.store_temporary()
            self.pop_stack(slots[: handler.depth])
            self._call_resume(handler.target, slots[: handler.depth], exception=exception, lasti=handler.lasti)

    def pop_stack(self, slots: Sequence[Slot]) -> None:
        """Pop the values that the stack has held while the instruction ran, into the temporaries that held them before."""
        if not self.on_stack:
            return
        for slot in reversed(slots):
            if slot is None:
                self.generator.store_temporary()
            else:
                self.writer.store_fast(slot)

    def _call_resume(self, target: Instruction, slots: list[Slot], exception: str | None = None, lasti: bool = False) -> None:
        shape = [slot is not None for slot in slots] + [True] * (lasti + (exception is not None))
        resume = self.resume_code(target, tuple(shape))
        self.note(resume)
        writer = self.writer
        self.begin_tail_call()
        self.push_resume_function(resume)
        count = self.push_arguments(resume, slots)
        if lasti:
            writer.load_const(resume.lasti_of(self.broken))
        if exception is not None:
            writer.load_fast(exception)
            writer.load_const(None)  # avoids a reference cycle through the traceback's frame
            writer.store_fast(exception)
        writer.call(count + lasti + (exception is not None) + 1)
        with writer.role("return"):
            writer.return_value()

    def begin_tail_call(self) -> None:
        """Begin a tail call: the resume function and its arguments are pushed next."""
        self.writer.begin_call()
        self.writer.load_fast(self.generator.injected.add(TailCall, TAIL_CALL))
        self.writer.callable_ready()

    def note(self, resume: ResumeCode) -> None:
        """Record that the modified code calls this resume function."""
        if all(resume.code is not other for other in self.generator.resume_codes):
            self.generator.resume_codes.append(resume.code)

    def resume_code(self, target: Instruction, shape: Shape, inner: ResumeCode | None = None) -> ResumeCode:
        """The resume function at `target`; if the frame is at a call, `inner` is the callee's."""
        arguments = argument_slots(self.parsed.code)
        cells = (*self.parsed.code.co_cellvars, *self.parsed.code.co_freevars)
        live = self.passed_locals(target, in_call=inner is not None)
        maybe_unbound = self._maybe_unbound(target).difference(arguments)
        bound = frozenset(name for name in arguments if self._is_bound(name) or name in cells)
        passed_names = maybe_unbound.union(live.intersection(self.frame.locals)).difference(arguments, cells)
        passed = tuple(name for name in self.parsed.code.co_varnames if name in passed_names)
        name = f"__resume_at_{target.offset}_{NUMBERS.next()}"
        cleared = tuple(name for name in cells if name not in self.shadowed and name not in self.frame.cells)
        return make_resume_code(
            self.parsed,
            target,
            stack=shape,
            locals=passed,
            bound_args=bound,
            name=name,
            shadowed=tuple(self.shadowed),
            cleared=cleared,
            maybe_unbound=maybe_unbound,
            call=self.broken if inner is not None else None,
            inner=inner,
            globals_key=self.globals_key,
        )

    @property
    def globals_key(self) -> int:
        """A key of the frame's globals: 0 for those of the root."""
        values = self.frame.globals.values
        return 0 if values is self.ctx.frames.root.globals.values else id(values)

    def push_resume_function(self, resume: ResumeCode) -> None:
        """Push a function of a resume code."""
        for name in resume.freevars:
            if name in self.other_cells:
                self.writer.load_fast(self.other_cells[name])
            else:
                self.writer.load_closure(name)
        if resume.freevars:
            self.writer.build_tuple(len(resume.freevars))
        self.writer.make_function(resume.code, closure=bool(resume.freevars))

    def load_local(self, name: str) -> None:
        """Push a local of the frame."""
        self.writer.load_fast(name)

    def has_content(self, name: str) -> bool:
        """Whether a cell of the frame is not empty behind the broken instruction."""
        return name != self.deleted and self.frame.cells[name].content is not None

    def load_cell_content(self, name: str) -> None:
        """Push the content of a cell of the frame."""
        self.writer.load_deref(name)

    def push_arguments(self, resume: ResumeCode, slots: list[Slot]) -> int:
        """Push the argument slots (None for a dead or unbound one), other locals, and stack values; return their number."""
        writer = self.writer
        live = self.passed_locals(resume.target, in_call=resume.inner is not None)
        cells = {*resume.freevars}
        for index, name in enumerate(resume.arguments):
            if name in cells:
                if index == 0 and "__class__" in cells and self.has_content(name):  # zero-argument super() reads slot 0
                    self.load_cell_content(name)
                else:
                    writer.load_const(None)
            elif self._is_bound(name) and name in live:
                self.load_local(name)
            else:
                writer.load_const(None)
        for name in resume.locals:
            if self._is_bound(name) or name in self.frame.as_passed:
                self.load_local(name)
            else:
                writer.load_const(NOT_BOUND)
        for name in resume.shadowed:
            writer.load_fast(self.shadowed[name])
        values = [slot for slot in slots if slot is not None]
        load = writer.load_fast_and_clear if self.on_stack else writer.load_fast
        for slot in values:  # a returned exception may lead to this frame: the two would be a reference cycle
            load(slot)
        return len(resume.arguments) + len(resume.locals) + len(resume.shadowed) + len(values)
