"""The root frame of an attempt: its arguments, cells and, for a resume function, the stack it resumes with.

The idea: everything that enters the frame becomes a lazy tracker with a source. A resume function is interpreted as its original
code, from the middle; so its arguments are put into the locals and stack slots of the original frame.

In: a `TranslationRequest`, the resume point of its code. Out: a `SymbolicFrame`. PyTorch's counterpart:
`InstructionTranslator.__init__` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from dynexplore.engine.bytecode import ParsedCode
from dynexplore.engine.provenance.sources import CellSource, ClosureSource, LocalSource, ResumedCellSource
from dynexplore.engine.specialization.decide import Specializer
from dynexplore.engine.specialization.loop_carried import has_dynamic_output_shape, loop_carried_locals, stored_around
from dynexplore.engine.translate.contract.request import TranslationRequest
from dynexplore.engine.translate.nested_frames import allows_partial_graph, forwarding_method_of
from dynexplore.engine.translate.nested_resume import function_parameter, parameter_at
from dynexplore.engine.translate.resume import NotBound, ResumeCode
from dynexplore.engine.translate.symbolic_frame import NULL, SymbolicFrame
from dynexplore.engine.variables.callables.function import CellVariable, FunctionVariable
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.side_effects import Journal

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter
    from dynexplore.engine.variables.objects.namespace import NamespaceVariable


class RootFrame:
    """Fills the root frame, and notes which of its values differ in the next iteration of a loop."""

    def __init__(
        self, request: TranslationRequest, journal: Journal, resume: ResumeCode | None, specializer: Specializer
    ) -> None:
        self._request = request
        self._journal = journal
        self._resume = resume
        cells = dict(zip(request.code.co_freevars, request.closure or (), strict=True))
        self._specializer = specializer
        specializer.note_unstable_variables(request.module_classes.names_of_repeated(request.values, cells), "block")

    def build(self, parsed: ParsedCode, namespace: NamespaceVariable) -> SymbolicFrame:
        """The frame at its start, or at its resume point."""
        frame = SymbolicFrame(parsed, namespace, None, None)
        for index, name in enumerate(self._request.code.co_freevars):
            frame.cells[name] = self._free_variable(name, index)
        if self._resume is not None:
            self._fill_resumed(frame, self._resume)
        else:
            self._fill_arguments(frame)
        return frame

    def build_callees(self, ctx: Interpreter, root: SymbolicFrame) -> list[SymbolicFrame]:
        """The callees in which a resume function resumes (nested_resume.py), outermost first; each caller is at its call."""
        frames: list[SymbolicFrame] = []
        resume, caller, in_loop = self._resume, root, False
        through: list[tuple[FunctionType, VariableTracker]] = []
        while resume is not None and resume.inner is not None:
            assert resume.call is not None
            if not through:
                caller.current, caller.unit_began_at = resume.call, -1
                in_loop = in_loop or stored_around(caller.parsed, resume.target) is not None
            resume = resume.inner
            if in_loop:
                self._note_unstable(resume.callee_name, resume.own_parameters, "loop")
            frame = self._callee(ctx, caller, resume)
            method = forwarding_method_of(resume)
            if method is not None:
                through.append((method, _first_argument(frame)))
                continue
            frame.called_through = tuple(through)
            through.clear()
            frames.append(frame)
            caller = frame
        return frames

    def _callee(self, ctx: Interpreter, caller: SymbolicFrame, resume: ResumeCode) -> SymbolicFrame:
        parsed, name = resume.parsed, function_parameter(resume.callee_name)
        assert parsed is not None
        live: Any = self._request.values[name]
        function = FunctionVariable(live, LocalSource(name, self._request.slot_names.index(name)), by_code=True)
        frame = SymbolicFrame(parsed, ctx.calls.namespace_of(function), function, caller)
        frame.allows_nested_break, frame.allows_partial_graph = True, allows_partial_graph(frame)
        for index, variable in enumerate(resume.freevars):
            frame.cells[variable] = function.cell(ctx, index)
        self._fill_resumed(frame, resume, resume.callee_name)
        return frame

    def _argument(self, slot: int, name: str, is_cell: bool = False) -> VariableTracker:
        return LazyVariable(self._request.values[name], LocalSource(name, slot, is_cell=is_cell))

    def _fill_arguments(self, frame: SymbolicFrame) -> None:
        """Bind the arguments of a function that begins; those that closures share are in cells."""
        code = self._request.code
        for slot, name in enumerate(self._request.slot_names):
            if name not in self._request.values:
                continue
            if name in code.co_cellvars:
                frame.cells[name] = CellVariable(name, self._argument(slot, name, True), frame_cell=True)
            else:
                frame.locals[name] = self._argument(slot, name)
        for name in code.co_cellvars:
            frame.cells.setdefault(name, CellVariable(name, None, frame_cell=True))

    def _fill_resumed(self, frame: SymbolicFrame, resume: ResumeCode, callee: str = "") -> None:
        """Fill locals and stack of a resume function that begins; the original code is interpreted from the middle.

        `callee`: the name of the callee in which the resume function of the root resumes.
        """

        def passed(parameter: str) -> VariableTracker:
            name = parameter_at(callee, parameter)
            return self._argument(self._request.slot_names.index(name), name)

        for original, parameter in zip(resume.arguments, resume.parameters, strict=False):
            if original in resume.bound_args and original not in frame.cells:
                frame.locals[original] = passed(parameter)
        for name in resume.locals:
            value = passed(name)
            if name in resume.maybe_unbound:
                assert value.source is not None
                frame.as_passed[name] = value.source, value.python_type()
            if value.python_type() is not NotBound:
                frame.locals[name] = value
        for name in (*resume.shadowed, *resume.cleared):  # in a comprehension whose variable is also a closure variable
            del frame.cells[name]
        for name in resume.shadowed:
            frame.locals[name] = passed(f"___slot_{name}")
        frame.stack = [NULL if name is None else passed(name) for name in resume.stack_parameters]
        self._note_varying_locals(frame, resume, callee)
        frame.pc = frame.parsed.step_of(resume.target)

    def _note_varying_locals(self, frame: SymbolicFrame, resume: ResumeCode, callee: str) -> None:
        """Note which locals and stack values are other numbers, objects or output shapes in the next iteration."""
        specializer = self._specializer
        loop_carried = loop_carried_locals(frame.parsed)
        for name, value in frame.locals.items():
            if value.source is not None and name in loop_carried:
                specializer.note_change(value.source, "loop")
        for value in frame.stack:
            if value.source is not None:
                specializer.note_change(value.source, "stack")
        if has_dynamic_output_shape(frame.parsed, resume.target) and frame.stack and frame.stack[-1].source is not None:
            specializer.note_dynamic_output_shape(frame.stack[-1].source)
        in_loop = stored_around(frame.parsed, resume.target)
        on_stack = [name for name in resume.stack_parameters if name is not None]
        if specializer.has_unstable_variables:  # values live around one of several blocks may depend on it
            self._note_unstable(callee, (*resume.locals, *on_stack), "beside block")
        if in_loop is not None:
            self._note_unstable(callee, (*in_loop, *on_stack), "loop")

    def _note_unstable(self, callee: str, names: Iterable[str], why: str) -> None:
        self._specializer.note_unstable_variables([parameter_at(callee, name) for name in names], why)

    def _free_variable(self, name: str, index: int) -> CellVariable:
        assert self._request.closure is not None
        cell = self._request.closure[index]
        same_cell = self._journal.tracker_of(cell)
        if isinstance(same_cell, CellVariable):
            return same_cell
        content: VariableTracker | None
        was_empty_at: CellSource | None = None
        try:
            is_local = self._resume is not None and name in self._resume.own_cells
            content = LazyVariable(cell.cell_contents, (ResumedCellSource if is_local else ClosureSource)(name, index))
        except ValueError:  # an unbound cell
            content, was_empty_at = None, CellSource(name, index)
        tracker = CellVariable(name, content, frame_cell=True, was_empty_at=was_empty_at)
        self._journal.remember(cell, tracker)
        return tracker


def _first_argument(frame: SymbolicFrame) -> VariableTracker:
    """The receiver of a method, unless the method has rebound the variable."""
    first = frame.parsed.code.co_varnames[0]
    receiver = frame.cells[first].content if first in frame.cells else frame.locals[first]
    assert receiver is not None
    return receiver
