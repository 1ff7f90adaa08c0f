"""Resume functions: a function that goes on in the middle of another one.

Idea: after a graph break the rest of the frame must run, and be captured in its turn. So it becomes a function of its
own: a prefix that puts the stack back and jumps, then the *whole original body*. The original body, also when a resume
function itself breaks: resume functions of resume functions are made from the original code, keyed on (code, instruction,
shape of the stack), and so do not explode. Five things make this exact:

- Exception regions stay valid, because the stack is restored from its bottom. A `for` loop's iterator and a `with`
  block's `__exit__` are ordinary stack values.
- The original argument slots come first, for zero-argument `super()` reads slot 0.
- It bears the name of the original, as its lines are those of the original: so tracebacks and live stacks show the function.
  People who look at modified code see another name, `__resume_at_30_1` (`name_of_code`).
- A local that is bound in some rounds of a loop and not in others is passed as it is, `NOT_BOUND` where it is not: so one resume
  function, and one graph, serves the first round and the later ones.
- The cell and free variables of the frame become free variables of the resume function, the cells its closure. What was a
  cell variable is then moved to a local: where it is unbound CPython must still speak of a local variable.

In: a parsed code object, an instruction of it, what is on the stack and which locals are bound. Out: `ResumeCode`.
PyTorch does the same job in torch/_dynamo/resume_execution.py (`ContinueExecutionCache`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from dataclasses import field
from types import CodeType

from dynexplore.engine.bytecode import Instruction, Label, ParsedCode, Writer, argument_slots, assemble, name_of_code, read
from dynexplore.engine.bytecode.reader import remember_name
from dynexplore.engine.records import record

_VARARGS, _VARKEYWORDS, _NESTED = 0x04, 0x08, 0x10
_GENERATOR_FLAGS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


class NotBound:
    """Stands, among the arguments of a resume function, for a local variable that is not bound."""

    def __repr__(self) -> str:
        return "NOT_BOUND"

    def __reduce__(self) -> str:
        return "NOT_BOUND"  # a copy, or what is read from a file, is this very object


NOT_BOUND = NotBound()


@record(eq=False, weakref_slot=True)
class ResumeCode:
    """The code of a resume function and how to call it.

    Call it with one positional argument for each of `parameters`: first the frame's argument slots (`arguments` are
    their original names; for one that is not in `bound_args` pass None, it becomes unbound), then `locals` (for one of
    `perhaps_unbound` that is not bound pass `NOT_BOUND`), then `shadowed`, then the stack values from the bottom. Its closure
    is the cells of `freevars`, in that order.
    It does not keep the original code object alive.
    """

    code: CodeType
    parameters: tuple[str, ...]
    freevars: tuple[str, ...]
    #: the original names of the argument slots; parameters[i] differs where the argument is a cell
    arguments: tuple[str, ...]
    bound_args: frozenset[str]
    locals: tuple[str, ...]
    perhaps_unbound: frozenset[str]
    shadowed: tuple[str, ...]
    cleared: tuple[str, ...]
    #: what is on the stack from the bottom: a value (True) or a NULL, and the parameter of each value
    stack: tuple[bool, ...]
    stack_parameters: tuple[str | None, ...]
    #: the free variables that were cell variables of the frame
    own_cells: tuple[str, ...]
    #: the original instruction where it goes on
    target: Instruction
    _original: weakref.ref[CodeType] = field(repr=False)
    _offsets: dict[Instruction, int] = field(repr=False)

    @property
    def parsed(self) -> ParsedCode | None:
        """The original code as read: what to interpret, from `target` on. None if the original code object is gone."""
        original = self._original()
        return None if original is None else read(original)

    def lasti_of(self, instruction: Instruction) -> int:
        """The number of an original instruction in this code, as a handler with `lasti` wants it on the stack."""
        return self._offsets[instruction] // 2


#: id of a resume function's code object -> how it was made (which holds the code object, so the id stays taken)
_made: weakref.WeakValueDictionary[int, ResumeCode] = weakref.WeakValueDictionary()


def resume_point(code: CodeType) -> ResumeCode | None:
    """How a resume function was made, if `code` is one and its original still exists."""
    resume = _made.get(id(code))
    return resume if resume is not None and resume.code is code else None


def make_resume_code(
    parsed: ParsedCode,
    target: Instruction,
    *,
    stack: tuple[bool, ...],
    locals: tuple[str, ...],
    bound_args: frozenset[str],
    name: str,
    prefix: Callable[[Writer], None] | None = None,
    prefix_key: Hashable = None,
    shadowed: tuple[str, ...] = (),
    cleared: tuple[str, ...] = (),
    perhaps_unbound: frozenset[str] = frozenset(),
) -> ResumeCode:
    """The code that goes on at `target`, made once for each shape.

    `stack` tells values (True) from NULLs, bottom first. `locals` are the fast locals to pass, arguments and cells
    excluded, `perhaps_unbound` those of them that may be passed unbound; `bound_args` the arguments that are bound.
    `prefix` may write instructions that run before the stack is put back (to enter context managers again); two prefixes that
    write the same have the same `prefix_key`.
    Where a comprehension is inlined and its variable shadows a cell of the frame, the cell's slot holds a plain value
    (`shadowed`: passed as an argument) or nothing (`cleared`); whatever cell is passed for it is put aside.

    ValueError: for a generator, for the code of a resume function (use its `parsed`), for ambiguous variables.
    """
    target = parsed.unit_start(target)  # a step's origin is the CALL; what prepares it must run too
    key = (target, stack, locals, perhaps_unbound, bound_args, shadowed, cleared, prefix_key)
    known: dict[Hashable, ResumeCode] = parsed.memo.setdefault("resume", {})
    if prefix is not None and prefix_key is None:
        known = {}  # nothing tells whether another prefix writes the same
    if key not in known:
        _refuse(parsed)
        made = _make(parsed, target, stack, locals, perhaps_unbound, bound_args, name, prefix, shadowed, cleared)
        _made[id(made.code)] = known[key] = made
    return known[key]


def _refuse(parsed: ParsedCode) -> None:
    code = parsed.code
    if code.co_flags & _GENERATOR_FLAGS:
        raise ValueError(f"{code.co_qualname} is a generator or coroutine: it cannot be resumed as a function")
    if resume_point(code) is not None:
        raise ValueError(f"{name_of_code(code)} is a resume function: make others from the original, resume_point().parsed")
    if parsed.ambiguous_names:
        raise ValueError(f"{code.co_qualname}: {sorted(parsed.ambiguous_names)} name both a cell and a free variable")


def _make(
    parsed: ParsedCode,
    target: Instruction,
    stack: tuple[bool, ...],
    locals: tuple[str, ...],
    perhaps_unbound: frozenset[str],
    bound_args: frozenset[str],
    name: str,
    prefix: Callable[[Writer], None] | None,
    shadowed: tuple[str, ...],
    cleared: tuple[str, ...],
) -> ResumeCode:
    original = parsed.code
    freevars = (*original.co_cellvars, *original.co_freevars)
    arguments = argument_slots(original)
    argument_parameters = tuple(f"___argument_{name}" if name in freevars else name for name in arguments)
    stack_parameters = tuple(f"___stack{depth}" if value else None for depth, value in enumerate(stack))
    parameters = (
        *argument_parameters,
        *locals,
        *(f"___slot_{name}" for name in shadowed),
        *(parameter for parameter in stack_parameters if parameter is not None),
    )
    writer = Writer(original)
    with writer.role("resume"):
        writer.prologue((), freevars, original.co_cellvars)
    with writer.at(target):
        _write_prefix(writer, arguments, argument_parameters, bound_args, shadowed, cleared)
        _unbind(writer, sorted(perhaps_unbound))
        if prefix is not None:
            prefix(writer)
        _write_stack(writer, stack_parameters)
        entry = Label("resume")
        with writer.role("resume"):
            writer.jump(entry)
    body = _write_body(writer, parsed, target, entry)
    code = assemble(
        writer,
        original,
        argcount=len(parameters),
        posonlyargcount=0,
        kwonlyargcount=0,
        flags=original.co_flags & ~(_VARARGS | _VARKEYWORDS) | (_NESTED if freevars else 0),
        varnames=(*parameters, *_other_locals(original, parameters, freevars), *original.co_cellvars),
        cellvars=(),
        freevars=freevars,
        moved=original.co_cellvars,
    )
    remember_name(code, name)
    return ResumeCode(
        code, parameters, freevars, arguments, bound_args, locals, perhaps_unbound, shadowed, cleared, stack, stack_parameters,
        original.co_cellvars, target,
        weakref.ref(original), {copied.origin: copied.final_offset for copied in body if copied.origin is not None},
    )  # fmt: skip


def _other_locals(original: CodeType, parameters: tuple[str, ...], freevars: tuple[str, ...]) -> list[str]:
    """The locals that begin unbound."""
    taken = {*parameters, *freevars}
    return [name for name in original.co_varnames if name not in taken]


def _write_prefix(
    writer: Writer,
    arguments: tuple[str, ...],
    argument_parameters: tuple[str, ...],
    bound_args: frozenset[str],
    shadowed: tuple[str, ...],
    cleared: tuple[str, ...],
) -> None:
    """What is unbound in the frame becomes unbound here; what is no cell in its cell's slot gets there."""
    with writer.role("resume"):
        for argument, parameter in zip(arguments, argument_parameters, strict=True):
            if argument == parameter and argument not in bound_args:
                writer.delete_fast(argument)
        for variable in shadowed:
            writer.load_fast(f"___slot_{variable}")
            writer.store_fast(variable)
        for variable in cleared:
            writer.emit("LOAD_FAST_AND_CLEAR", None, variable)
            writer.pop_top()


def _unbind(writer: Writer, names: list[str]) -> None:
    """What was passed as `NOT_BOUND` becomes unbound."""
    with writer.role("resume"):
        for name in names:
            bound = Label("bound")
            writer.load_fast(name)
            writer.load_const(NOT_BOUND)
            writer.is_op()
            writer.pop_jump_if_false(bound)
            writer.delete_fast(name)
            writer.mark(bound)


def _write_stack(writer: Writer, stack_parameters: tuple[str | None, ...]) -> None:
    with writer.role("restore stack"):
        for parameter in stack_parameters:
            if parameter is None:
                writer.push_null()
            else:
                writer.load_fast(parameter)


def _write_body(writer: Writer, parsed: ParsedCode, target: Instruction, entry: Label) -> list[Instruction]:
    """The original instructions after the prologue (whose cells exist already), with `entry` at the target."""
    opnames = [instruction.opname for instruction in parsed.instructions]
    body = parsed.instructions[opnames.index("RESUME") + 1 :]
    begin = len(writer.instructions)
    with writer.role("original"):
        writer.originals(body, labels={body[0] if target not in body else target: entry})
    return writer.instructions[begin:]
