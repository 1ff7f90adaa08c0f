"""An exception that is raised where a frame goes on, before its resume function has begun.

The idea: a frame that broke has ended when its resume function is translated. What is raised meanwhile - Ctrl-C, a backend that
fails, a break where none is allowed - belongs to the function at the instruction where it goes on: a `with` block around that
instruction is left, its `finally` runs, its `except` may catch. So the resume function gets code that puts the stack back as ever
and then raises, under the exception handler of the instruction at which it would have gone on.

In: how a resume function was made. Out: the code that raises what the hook puts into a local variable; None where no handler waits.
PyTorch's Dynamo calls resume functions from the frame that broke, whose own handlers catch.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType

from dynexplore.engine.bytecode import Instruction, Label, Writer, assemble, read
from dynexplore.engine.translate.resume import ResumeCode

_RAISED = "___raised"


def raising_code(resume: ResumeCode) -> CodeType | None:
    """The code that raises; the local variable after the parameters holds what."""
    code = resume.code
    instructions = read(code).instructions
    begin = next(number for number, one in enumerate(instructions) if one.role == "original")
    goes_on = instructions[begin - 1].target  # the last of what is written before the body jumps
    if goes_on is None or goes_on.handler is None:
        return None
    handler, label = goes_on.handler, Label("handler")
    writer = Writer(code)
    writer.prologue((), code.co_freevars, resume.own_cells)
    writer.originals(instructions[_end_of_prologue(instructions, resume) : begin - 1])
    with writer.at(goes_on), writer.covered_by(label, handler.depth, handler.lasti):
        writer.load_fast(_RAISED)
        writer.raise_varargs(1)
    writer.originals(instructions[begin:], labels={handler.target: label})
    others = [name for name in code.co_varnames if name not in (*resume.parameters, *resume.own_cells)]
    return assemble(
        writer, code, varnames=(*resume.parameters, _RAISED, *others, *resume.own_cells), cellvars=code.co_cellvars,
        freevars=code.co_freevars, moved=resume.own_cells,
    )  # fmt: skip


def _end_of_prologue(instructions: Sequence[Instruction], resume: ResumeCode) -> int:
    """Where the free variables are there and the cells among them are moved to locals, by two instructions each."""
    begun = next(number for number, one in enumerate(instructions) if one.opname == "RESUME")
    return begun + 1 + 2 * len(resume.own_cells)
