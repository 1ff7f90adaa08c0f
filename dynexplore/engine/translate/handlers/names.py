"""Names: constants, fast locals, globals, closure cells.

The idea: locals and cells are dicts of trackers in the symbolic frame; globals belong to a namespace tracker, whose writes go to
the journal.

In: LOAD_FAST, STORE_GLOBAL, LOAD_DEREF and their neighbors. Out: trackers on the stack, bound names. PyTorch's counterpart:
`LOAD_FAST`, `LOAD_GLOBAL` and `STORE_DEREF` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import Step, moved_loads
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.handlers.observed_end import refuse_observed_end
from dynexplore.engine.translate.symbolic_frame import NULL, SymbolicFrame
from dynexplore.engine.variables.callables.function import CellVariable
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.scalars.constant import LITERALS, ConstantVariable, is_constant_value

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


def guard_on_binding(frame: SymbolicFrame, name: str, ctx: Interpreter) -> None:
    """Guard on whether a local that is read is bound, if a resume function received it bound or unbound."""
    if name in frame.as_passed:
        source, kind = frame.as_passed.pop(name)
        ctx.guard(source, "TYPE_MATCH", kind)


@handles("LOAD_CONST")
def load_const(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push a constant of the code: plain ones directly, tuples and code objects through the table of builders."""
    value = step.arg
    plain = type(value) in LITERALS or type(value) is CodeType
    frame.push(ConstantVariable(value) if plain else ctx.build(value, None))


@handles("LOAD_FAST")
def load_fast(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push a local variable; its lazy tracker is realized on the first load that is a use."""
    guard_on_binding(frame, step.arg, ctx)
    value = frame.locals.get(step.arg)
    if value is None:
        ctx.raise_exception(
            UnboundLocalError, f"cannot access local variable {step.arg!r} where it is not associated with a value"
        )
    if isinstance(value, LazyVariable) and is_constant_value(value.value) and step.index in moved_loads(frame.parsed):
        frame.push(value)  # no guard on a value that only moves
        return
    frame.locals[step.arg] = value = value.read(ctx)
    frame.push(value)


@handles("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Save a local around an inlined comprehension: an unbound one is saved as NULL, a cell stays a cell."""
    name = step.arg
    if name in frame.cells:
        frame.push(frame.cells.pop(name))
        return
    guard_on_binding(frame, name, ctx)
    value = frame.locals.pop(name, None)
    frame.push(NULL if value is None else value.read(ctx))


@handles("STORE_FAST")
def store_fast(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Bind a local; the NULL that LOAD_FAST_AND_CLEAR saved makes it unbound again."""
    value = frame.pop()
    if ctx.resume is not None and frame.locals.get(step.arg, value) is not value:
        refuse_observed_end(frame, frame.locals[step.arg], ctx, is_local=True)
    frame.as_passed.pop(step.arg, None)
    if value is NULL:
        frame.locals.pop(step.arg, None)
    elif value.kind == "cell" and step.arg in frame.parsed.code.co_cellvars:
        frame.cells[step.arg] = value  # type: ignore[assignment]
        frame.locals.pop(step.arg, None)  # the variable of the comprehension was in that slot
    else:
        frame.locals[step.arg] = value


@handles("DELETE_FAST")
def delete_fast(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Unbind a local."""
    guard_on_binding(frame, step.arg, ctx)
    if ctx.resume is not None and step.arg in frame.locals:
        refuse_observed_end(frame, frame.locals[step.arg], ctx, is_local=True)
    if frame.locals.pop(step.arg, None) is None:
        ctx.raise_exception(
            UnboundLocalError, f"cannot access local variable {step.arg!r} where it is not associated with a value"
        )


@handles("LOAD_NAME")
def load_name(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push a name of a class body: from its namespace, or else a global or a builtin."""
    value = frame.namespace.get(step.arg)
    frame.push(frame.globals.load(ctx, step.arg) if value is None else value.read(ctx))


@handles("STORE_NAME")
def store_name(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Bind a name of a class body."""
    frame.namespace[step.arg] = frame.pop()


@handles("DELETE_NAME")
def delete_name(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Unbind a name of a class body."""
    if frame.namespace.pop(step.arg, None) is None:
        ctx.raise_exception(NameError, f"name {step.arg!r} is not defined")


@handles("LOAD_CLASSDEREF")
def load_classderef(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push a name of a class body that an enclosing function binds."""
    value = frame.namespace.get(step.arg)
    frame.push(frame.cells[step.arg].load(ctx) if value is None else value.read(ctx))


@handles("LOAD_LOCALS")
def load_locals(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push the namespace of a class body for one of the next two opcodes, which read the namespace themselves."""
    frame.push(NULL)


@handles("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """LOAD_CLASSDEREF as compiled by Python 3.12 and later."""
    _pop_namespace(frame, ctx)
    load_classderef(frame, step, ctx)


@handles("LOAD_FROM_DICT_OR_GLOBALS")
def load_from_dict_or_globals(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """A global in scopes of type parameters and annotations (Python 3.12 and later)."""
    _pop_namespace(frame, ctx)
    load_name(frame, step, ctx)


def _pop_namespace(frame: SymbolicFrame, ctx: Interpreter) -> None:
    """Pop the namespace that LOAD_LOCALS pushed; the namespace of another scope breaks the graph."""
    if frame.pop() is not NULL:
        ctx.break_graph("DX315")


@handles("LOAD_GLOBAL")
def load_global(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push a global or a builtin."""
    frame.push(frame.globals.load(ctx, step.arg))


@handles("STORE_GLOBAL")
def store_global(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Bind a global; replayed after the graph has run."""
    frame.globals.store(ctx, step.arg, frame.pop())


@handles("DELETE_GLOBAL")
def delete_global(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Unbind a global."""
    frame.globals.store(ctx, step.arg, None)


@handles("MAKE_CELL")
def make_cell(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Create a cell for a local of an inlined comprehension."""
    guard_on_binding(frame, step.arg, ctx)
    from_local = frame.locals.pop(step.arg, None)
    frame.cells[step.arg] = CellVariable(step.arg, from_local)


@handles("LOAD_CLOSURE")
def load_closure(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push a cell itself; inside an inlined comprehension its slot may hold the plain value of a variable of that name."""
    if step.arg in frame.locals:
        load_fast(frame, step, ctx)
    else:
        frame.push(frame.cells[step.arg])


@handles("LOAD_DEREF")
def load_deref(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Push the content of a cell."""
    cell = frame.cells[step.arg]
    if cell.content is None and step.arg in frame.parsed.code.co_cellvars:
        cell.guard_on_absence(ctx)  # in a resume function the cell existed before
        ctx.raise_exception(
            UnboundLocalError, f"cannot access local variable {step.arg!r} where it is not associated with a value"
        )
    frame.push(cell.load(ctx))


@handles("STORE_DEREF")
def store_deref(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Store the top in a cell."""
    frame.cells[step.arg].store(ctx, frame.pop())


@handles("DELETE_DEREF")
def delete_deref(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """Empty a cell."""
    ctx.break_graph("DX314", what=f"del {step.arg} (a closure variable)")
