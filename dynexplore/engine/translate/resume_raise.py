"""Exceptions raised at a resume point, before the resume function has begun.

The idea: a frame that broke has ended when its resume function is translated. An exception raised in between (Ctrl-C, a failing
backend, a graph break where none is allowed) belongs to the function at the instruction where it resumes: a `with` block around
that instruction exits, its `finally` runs, its `except` may catch. So the resume function has a variant that restores the stack as
usual and then raises, under the exception handler of the instruction at which it would have resumed.

In: a `ResumeCode`. Out: the code that raises the exception, which the hook stores in a local variable; None if no handler covers
the resume point. PyTorch's counterpart: none; there the frame that broke calls the resume function, and its own handlers catch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import CodeType, FunctionType

from dynexplore.engine.bytecode import Instruction, Label, Writer, assemble, read
from dynexplore.engine.translate.nested_resume import RESUME_CALLEE
from dynexplore.engine.translate.resume import ResumeCode

_RAISED = "___raised"


def raising_code(resume: ResumeCode) -> CodeType | None:
    """The code that raises; the local variable after the parameters holds the exception."""
    code = resume.code
    instructions = read(code).instructions
    begin = next(number for number, instruction in enumerate(instructions) if instruction.role == "original")
    continuation = instructions[begin - 1].target  # the last instruction written before the body jumps
    end = begin - 1
    callee = raising_code(resume.inner) if resume.inner is not None else None
    if resume.inner is not None:
        end = next(number for number, instruction in enumerate(instructions) if instruction.role == RESUME_CALLEE)
        continuation = instructions[end]
    if continuation is None or (continuation.handler is None and callee is None):
        return None
    handler, label = continuation.handler, Label("handler")
    covered = (label, handler.depth, handler.lasti) if handler is not None else (None,)
    writer = Writer(code)
    writer.prologue((), code.co_freevars, resume.own_cells)
    writer.originals(instructions[_end_of_prologue(instructions, resume) : end])
    with writer.at(continuation), writer.covered_by(*covered):
        if resume.inner is not None and callee is not None:
            _raise_in_callee(writer, resume.inner, callee)
            begin -= 1  # includes the jump
        else:
            writer.load_fast(_RAISED)
            writer.raise_varargs(1)
    writer.originals(instructions[begin:], labels={} if handler is None else {handler.target: label})
    others = [name for name in code.co_varnames if name not in (*resume.parameters, *resume.own_cells)]
    return assemble(
        writer, code, varnames=(*resume.parameters, _RAISED, *others, *resume.own_cells), cellvars=code.co_cellvars,
        freevars=code.co_freevars, moved=resume.own_cells,
    )  # fmt: skip


def _raise_in_callee(writer: Writer, callee: ResumeCode, code: CodeType) -> None:
    """Raise in the callee if the frame is at a call; the value that the handlers there return is the result of the call."""
    function, *arguments = callee.parameters_in_caller
    raising = code.replace(co_argcount=code.co_argcount + 1)
    writer.begin_call()
    writer.load_const(_with_code)
    writer.callable_ready()
    writer.load_fast(function)
    writer.load_const(raising)
    writer.call(2)
    writer.store_fast(function)
    writer.call_helper(
        partial(writer.load_fast, function), *[partial(writer.load_fast, name) for name in (*arguments, _RAISED)]
    )


def _with_code(function: FunctionType, code: CodeType) -> FunctionType:
    return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)


def _end_of_prologue(instructions: Sequence[Instruction], resume: ResumeCode) -> int:
    """The index after the prologue: free variables are copied, and cells among them moved to locals by two instructions each."""
    begun = next(number for number, instruction in enumerate(instructions) if instruction.opname == "RESUME")
    return begun + 1 + 2 * len(resume.own_cells)
