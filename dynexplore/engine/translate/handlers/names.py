"""Names: constants, fast locals, globals, closure cells."""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.symbolic_frame import NULL, SymbolicFrame
from dynexplore.engine.variables.scalars.constant import LITERALS, ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


def rely_on_binding(frame: SymbolicFrame, name: str, ctx: Interpreter) -> None:
    """A local is read: where a resume function was passed it as it was, rely on its being bound, or on its not being so."""
    if name in frame.as_passed:
        source, kind = frame.as_passed.pop(name)
        ctx.guard(source, "TYPE_MATCH", kind)


@handles("LOAD_CONST")
def load_const(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """A constant of the code: plain ones at once, tuples and code objects through their rows."""
    value = step.arg
    plain = type(value) in LITERALS or type(value) is CodeType
    frame.push(ConstantVariable(value) if plain else ctx.build(value, None))


@handles("LOAD_FAST")
def load_fast(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """A local variable; it becomes a real tracker on its first load."""
    rely_on_binding(frame, step.arg, ctx)
    value = frame.locals.get(step.arg)
    if value is None:
        ctx.raise_exception(
            UnboundLocalError, f"cannot access local variable {step.arg!r} where it is not associated with a value"
        )
    frame.locals[step.arg] = value = value.read(ctx)
    frame.push(value)


@handles("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Save a local around an inlined comprehension: an unbound one is an empty slot, a cell stays a cell."""
    name = step.arg
    if name in frame.cells:
        frame.push(frame.cells.pop(name))
        return
    rely_on_binding(frame, name, ctx)
    value = frame.locals.pop(name, None)
    frame.push(NULL if value is None else value.read(ctx))


@handles("STORE_FAST")
def store_fast(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Bind a local; the empty slot that LOAD_FAST_AND_CLEAR saved makes it unbound again."""
    value = frame.pop()
    frame.as_passed.pop(step.arg, None)
    if value is NULL:
        frame.locals.pop(step.arg, None)
    elif value.kind == "cell" and step.arg in frame.parsed.code.co_cellvars:
        frame.cells[step.arg] = value  # type: ignore[assignment]
    else:
        frame.locals[step.arg] = value


@handles("DELETE_FAST")
def delete_fast(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Unbind a local."""
    rely_on_binding(frame, step.arg, ctx)
    if frame.locals.pop(step.arg, None) is None:
        ctx.raise_exception(
            UnboundLocalError, f"cannot access local variable {step.arg!r} where it is not associated with a value"
        )


@handles("LOAD_GLOBAL")
def load_global(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """A global or a builtin."""
    frame.push(frame.globals.load(ctx, step.arg))


@handles("STORE_GLOBAL")
def store_global(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Bind a global; replayed when the graph has run."""
    frame.globals.store(ctx, step.arg, frame.pop())


@handles("DELETE_GLOBAL")
def delete_global(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Unbind a global."""
    frame.globals.store(ctx, step.arg, None)


@handles("MAKE_CELL")
def make_cell(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """A fresh cell for a local of an inlined comprehension."""
    rely_on_binding(frame, step.arg, ctx)
    from_local = frame.locals.pop(step.arg, None)
    frame.cells[step.arg] = ctx.new_cell(step.arg, from_local)


@handles("LOAD_CLOSURE")
def load_closure(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push a cell itself; inside an inlined comprehension its slot may hold the plain value of a variable of that name."""
    if step.arg in frame.locals:
        load_fast(frame, step, ctx)
    else:
        frame.push(frame.cells[step.arg])


@handles("LOAD_DEREF")
def load_deref(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push what a cell holds."""
    cell = frame.cells[step.arg]
    if cell.content is None and step.arg in frame.parsed.code.co_cellvars:
        cell.rely_on_absence(ctx)  # in a resume function it was there before
        ctx.raise_exception(
            UnboundLocalError, f"cannot access local variable {step.arg!r} where it is not associated with a value"
        )
    frame.push(cell.load(ctx))


@handles("STORE_DEREF")
def store_deref(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Put the top into a cell."""
    frame.cells[step.arg].store(ctx, frame.pop())


@handles("DELETE_DEREF")
def delete_deref(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Empty a cell."""
    ctx.break_graph("DX314", what=f"del {step.arg} (a closure variable)")
