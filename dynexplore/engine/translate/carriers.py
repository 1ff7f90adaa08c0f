"""Carriers: frames that imitate inlined callees while the instruction that broke runs in one of them.

The idea: the graph has ended, and the instruction that broke it runs for real, under one frame for each callee that was being
interpreted. Such a carrier has the callee's name, file and globals, the same current position, its live locals under their names,
and its exception handlers. So stacks, tracebacks, `warnings.warn(stacklevel=2)` and handlers behave as in eager. The innermost
carrier restores the part of the stack that the instruction reads, and runs it; each of the others calls the next one. A carrier
returns an `Outcome`: its number, if there is more than one, and its values.

    modified code of the frame     calls a carrier where the frame calls `middle`
      carrier of middle              calls a carrier where `middle` calls `leaf`
        carrier of leaf                print(...), and returns its value

An exception that no frame catches propagates through all of them.

In: a callee, the state of its frame, and the outcomes. Out: a code object. PyTorch's counterpart: none; there the instruction runs
in the outermost frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import CodeType

from dynexplore.engine.bytecode import Instruction, Label, Writer, assemble
from dynexplore.engine.native import skip_code
from dynexplore.engine.records import record
from dynexplore.engine.translate.broken_unit import BrokenUnit
from dynexplore.engine.translate.nested_resume import callee_name, callee_parameters, write_moving_call
from dynexplore.engine.translate.resume import write_stack

_VARARGS, _VARKEYWORDS, _NESTED = 0x04, 0x08, 0x10
_FIRST_CONTENT = "___first_argument"


@record(eq=False)
class Outcome:
    """One of the ways in which execution may continue after the instruction that broke.

    Execution continues at `target` in the frame `level` calls deep: where the instruction fell through or jumped, with its
    results (True for a value, False for a NULL), or in an exception handler, with the exception.
    """

    level: int
    target: Instruction
    results: tuple[bool, ...]
    jumped: bool = False
    caught: bool = False


@record(eq=False)
class Carrier:
    """The code of a carrier. Its arguments: locals, stack values, then its callee's carrier function and that one's arguments.

    `names` are the names under which it and its callees appear in parameters.
    """

    code: CodeType
    parameters_in_caller: tuple[str, ...]
    names: tuple[str, ...]


class CarrierWriter:
    """Writes the carrier of one callee."""

    def __init__(
        self, unit: BrokenUnit, locals: Sequence[str], outcomes: Sequence[Outcome], level: int, first_content: bool
    ) -> None:
        self.unit, self.outcomes, self.level = unit, outcomes, level
        self.original = unit.parsed.code
        self.freevars = (*self.original.co_cellvars, *self.original.co_freevars)
        self.parameters = [_FIRST_CONTENT, *locals] if first_content else list(locals)
        self.temporaries: list[str] = []
        self.of_callee: Carrier | None = None
        self.writer = Writer(self.original)

    def innermost(self, stack: Sequence[bool], handler_depth: int) -> Carrier:
        """The carrier that runs the instruction.

        `stack`: the slots that it holds, bottom first; True is a value. `handler_depth`: how many of them the handler keeps.
        """
        names = self._stack_parameters(stack)
        fell, jumped = self._outcome(jumped=False), self._outcome(jumped=True)
        label, failed = Label("jumped"), Label("failed")
        writer = self.writer
        writer.prologue((), self.freevars, self.original.co_cellvars)
        with writer.at(self.unit.broken, self.unit.parsed.nearest_with_line(self.unit.broken).position):
            write_stack(writer, names)
            with self._covered_by(failed, handler_depth), writer.role("original instruction"):
                self.unit.write(writer, label if jumped is not None else None)
            if fell is not None:
                self._return(fell)
            if jumped is not None:
                writer.mark(label)
                jump = self.unit.jump
                assert jump is not None
                self.unit.write_fillers(writer, jump)
                self._return(jumped)
            self._write_handler(failed)
        return self._carrier()

    def around(self, callee: Carrier, stack: Sequence[bool], handler_depth: int) -> Carrier:
        """The carrier that calls its callee's carrier. It appends the values of its stack to the outcome."""
        function, *arguments = callee.parameters_in_caller
        self.of_callee = callee
        names = self._stack_parameters(stack)
        failed = Label("failed")
        writer = self.writer
        writer.prologue((), self.freevars, self.original.co_cellvars)
        with writer.at(self.unit.broken, self.unit.parsed.nearest_with_line(self.unit.broken).position):
            write_stack(writer, names)
            with self._covered_by(failed, handler_depth), writer.role("call carrier"):
                writer.emit("NOP")
                moved = [partial(writer.load_fast_and_clear, name) for name in arguments]
                write_moving_call(writer, [partial(writer.load_fast, function), *moved])
            with writer.role("return"):
                if any(stack):
                    self._append_stack(stack)
                writer.return_value()
            self._write_handler(failed)
        return self._carrier()

    def _stack_parameters(self, stack: Sequence[bool]) -> list[str | None]:
        """Add a parameter for each value of the stack; returns them from the bottom, None for a NULL."""
        names = [f"___stack{depth}" if is_value else None for depth, is_value in enumerate(stack)]
        self.parameters += [name for name in names if name is not None]
        return names

    def _covered_by(self, failed: Label, depth: int) -> AbstractContextManager[None]:
        return self.writer.covered_by(failed if self._caught is not None else None, depth if self._caught is not None else 0)

    def _append_stack(self, stack: Sequence[bool]) -> None:
        """Append the values below an outcome, which is on top, to it. The locals are cleared, as in `_return`."""
        writer, outcome = self.writer, self._store_result()
        own = [name for name, is_value in self._pop(stack) if is_value]
        writer.load_fast_and_clear(outcome)
        for name in own:
            writer.load_fast_and_clear(name)
        writer.build_tuple(len(own))
        writer.binary("+")

    def _store_result(self) -> str:
        """Pop the top of the stack into a new local variable."""
        name = f"___result{len(self.temporaries)}"
        self.temporaries.append(name)
        self.writer.store_fast(name)
        return name

    def _pop(self, shape: Sequence[bool]) -> list[tuple[str, bool]]:
        """Pop these slots, the top last; returns the local variable of each, from the bottom, and whether it holds a value."""
        return [(self._store_result(), is_value) for is_value in reversed(shape)][::-1]

    @property
    def _caught(self) -> Outcome | None:
        return next((outcome for outcome in self.outcomes if outcome.caught and outcome.level == self.level), None)

    def _outcome(self, *, jumped: bool) -> Outcome | None:
        return next((outcome for outcome in self.outcomes if not outcome.caught and outcome.jumped == jumped), None)

    def _write_handler(self, failed: Label) -> None:
        if self._caught is not None:
            self.writer.mark(failed)
            self._return(self._caught)

    def _return(self, outcome: Outcome) -> None:
        """Return an outcome, whose results are on the stack."""
        writer = self.writer
        with writer.role("return"):
            names = [name for name, is_value in self._pop(outcome.results) if is_value]
            several = len(self.outcomes) > 1
            if several:
                writer.load_const(self.outcomes.index(outcome))
            for name in names:  # an exception, caught or returned, may lead to this frame: the two would be a reference cycle
                writer.load_fast_and_clear(name)
            writer.build_tuple(len(names) + several)
            writer.return_value()

    def _carrier(self) -> Carrier:
        original, callee = self.original, self.of_callee
        of_callee = callee.parameters_in_caller if callee is not None else ()
        parameters = (*self.parameters, *of_callee)
        parameters_and_cells = {*parameters, *self.freevars}
        others = [name for name in original.co_varnames if name not in parameters_and_cells]
        code = assemble(
            self.writer,
            original,
            argcount=len(parameters),
            posonlyargcount=0,
            kwonlyargcount=0,
            flags=original.co_flags & ~(_VARARGS | _VARKEYWORDS) | (_NESTED if self.freevars else 0),
            varnames=(*parameters, *self.temporaries, *others, *original.co_cellvars),
            cellvars=(),
            freevars=self.freevars,
            moved=original.co_cellvars,
        )
        skip_code(code)
        names = callee.names if callee is not None else ()
        name = callee_name(original, names)
        return Carrier(code, callee_parameters(name, tuple(self.parameters), of_callee), (name, *names))
