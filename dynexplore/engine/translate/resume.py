"""Resume functions: functions that resume another function in the middle.

The idea: after a graph break the rest of the frame must run, and be captured too. So it becomes a function: a prefix that
restores the stack and jumps, then the *whole original body*. When a resume function breaks, the next one is also made from the
original code, keyed on (code, instruction, shape of the stack), so their number stays small. Five rules make this exact:

- Exception regions stay valid, because the stack is restored from its bottom. A `for` loop's iterator and a `with`
  block's `__exit__` are ordinary stack values.
- The original argument slots come first, because zero-argument `super()` reads slot 0.
- It has the name and the line numbers of the original, so tracebacks and live stacks show the original function. Views of modified
  code show another name, `__resume_at_30_1` (`name_of_code`).
- A local that is bound in some iterations of a loop and not in others is always passed, as `NOT_BOUND` if it is unbound: so one
  resume function, and one graph, serves the first iteration and the later ones.
- The cell and free variables of the frame become free variables of the resume function, the cells its closure. A former
  cell variable is then moved to a local: if it is unbound, CPython's error must still name a local variable.

In: a parsed code object, an instruction of it, the shape of the stack and which locals are bound. Out: `ResumeCode`.
PyTorch's counterpart: `ContinueExecutionCache` in torch/_dynamo/resume_execution.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from types import CodeType

from dynexplore.engine.bytecode import FACTS, Instruction, Label, ParsedCode, Writer, argument_slots, assemble, name_of_code, read
from dynexplore.engine.bytecode.reader import remember_name
from dynexplore.engine.records import record
from dynexplore.engine.translate.nested_resume import callee_name, callee_parameters, parameter_at, write_callee_call

_VARARGS, _VARKEYWORDS, _NESTED = 0x04, 0x08, 0x10
_GENERATOR_FLAGS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


class NotBound:
    """The type of `NOT_BOUND`, the argument that a resume function receives for an unbound local variable."""

    def __repr__(self) -> str:
        return "NOT_BOUND"

    def __reduce__(self) -> str:
        return "NOT_BOUND"  # copying and unpickling return this very object


NOT_BOUND = NotBound()


@record(eq=False, weakref_slot=True)
class ResumeCode:
    """The code of a resume function and how to call it.

    Call it with one positional argument for each of `parameters`: first the frame's argument slots (`arguments` are their original
    names; pass None for one that is not in `bound_args`, it becomes unbound), then `locals` (pass `NOT_BOUND` for one of
    `maybe_unbound` that is not bound), then `shadowed`, then the stack values from the bottom. Its closure consists of the cells
    of `freevars`, in that order. It does not keep the original code object alive.
    """

    code: CodeType
    parameters: tuple[str, ...]
    freevars: tuple[str, ...]
    #: the original names of the argument slots; parameters[i] differs where the argument is a cell
    arguments: tuple[str, ...]
    bound_args: frozenset[str]
    locals: tuple[str, ...]
    maybe_unbound: frozenset[str]
    shadowed: tuple[str, ...]
    cleared: tuple[str, ...]
    #: the stack slots from the bottom: a value (True) or a NULL, and the parameter of each value
    stack: tuple[bool, ...]
    stack_parameters: tuple[str | None, ...]
    #: the free variables that were cell variables of the frame
    own_cells: tuple[str, ...]
    #: the original instruction at which it resumes
    target: Instruction
    _original: weakref.ref[CodeType] = field(repr=False)
    _offsets: dict[Instruction, int] = field(repr=False)
    #: if the frame is at a call, whose result is pushed at `target`: the call, and the rest of the callee (nested_resume.py)
    call: Instruction | None = None
    inner: ResumeCode | None = None
    #: its name in the parameters of a caller's resume function
    callee_name: str = ""

    @property
    def parsed(self) -> ParsedCode | None:
        """The parsed original code, to be interpreted from `target` on. None if the original code object is gone."""
        original = self._original()
        return None if original is None else read(original)

    @property
    def own_parameters(self) -> tuple[str, ...]:
        """The parameters that do not belong to a callee."""
        return self.parameters if self.inner is None else self.parameters[: -len(self.inner.parameters_in_caller)]

    @property
    def parameters_in_caller(self) -> tuple[str, ...]:
        """The parameters for it in a caller's resume function."""
        own = self.own_parameters
        return callee_parameters(self.callee_name, own, self.parameters[len(own) :])

    @property
    def stack_parameters_of_all(self) -> tuple[str, ...]:
        """The parameters of stack values: its own, and those of the callees in which it resumes."""
        names = [name for name in self.stack_parameters if name is not None]
        callee = self.inner
        while callee is not None:
            names += [parameter_at(callee.callee_name, name) for name in callee.stack_parameters if name is not None]
            callee = callee.inner
        return tuple(names)

    @property
    def callee_names(self) -> tuple[str, ...]:
        """The names of it and of the callees in which it resumes, in those parameters."""
        return (self.callee_name, *(self.inner.callee_names if self.inner is not None else ()))

    def lasti_of(self, instruction: Instruction) -> int:
        """The index of an original instruction in this code, as a handler with `lasti` expects it on the stack."""
        return self._offsets[instruction] // 2


@record()
class _Shape:
    """What distinguishes the resume functions of one code object; see `make_resume_code`."""

    target: Instruction
    stack: tuple[bool, ...]
    locals: tuple[str, ...]
    maybe_unbound: frozenset[str]
    bound_args: frozenset[str]
    shadowed: tuple[str, ...]
    cleared: tuple[str, ...]
    call: Instruction | None
    inner: ResumeCode | None


#: id of a resume function's code object -> its ResumeCode (which holds the code object, so the id is not reused)
_resume_codes: weakref.WeakValueDictionary[int, ResumeCode] = weakref.WeakValueDictionary()


def resume_point(code: CodeType) -> ResumeCode | None:
    """The ResumeCode of `code`, if it is a resume function and its original still exists."""
    resume = _resume_codes.get(id(code))
    return resume if resume is not None and resume.code is code else None


def original_of(code: CodeType) -> CodeType | None:
    """The code that a resume function resumes; None if `code` is not a resume function."""
    resume = resume_point(code)
    return resume.parsed.code if resume is not None and resume.parsed is not None else None


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
    maybe_unbound: frozenset[str] = frozenset(),
    call: Instruction | None = None,
    inner: ResumeCode | None = None,
    globals_key: int = 0,
) -> ResumeCode:
    """The code that resumes at `target`, created once for each shape.

    `stack` distinguishes values (True) from NULLs, bottom first. `locals` are the fast locals to pass, arguments and cells
    excluded, `maybe_unbound` those of them that may be passed unbound; `bound_args` the arguments that are bound.
    `prefix` may write instructions that run before the stack is restored (to re-enter context managers); two prefixes that
    write the same instructions have the same `prefix_key`.
    If the variable of an inlined comprehension shadows a cell of the frame, the cell's slot holds a plain value
    (`shadowed`: passed as an argument) or nothing (`cleared`); the cell that is passed for it is saved elsewhere.
    `inner`: the resume code of the callee that the frame is calling, `call` the instruction that called it; `stack` excludes its
    result. `globals_key` distinguishes callees with the same code and different globals: each needs its own resume function.

    ValueError: for a generator, for the code of a resume function (use its `parsed`), for ambiguous variables.
    """
    target = parsed.unit_start(target)  # a step's origin is the CALL; the instructions that prepare it must run too
    shape = _Shape(target, stack, locals, maybe_unbound, bound_args, shadowed, cleared, call, inner)
    key = (shape, prefix_key, globals_key)
    cache: dict[Hashable, ResumeCode] = parsed.memo.setdefault("resume", {})
    if prefix is not None and prefix_key is None:
        cache = {}  # no key tells whether another prefix writes the same
    if key not in cache:
        _refuse(parsed)
        resume = _make(parsed, shape, name, prefix)
        _resume_codes[id(resume.code)] = cache[key] = resume
    return cache[key]


def _refuse(parsed: ParsedCode) -> None:
    code = parsed.code
    if code.co_flags & _GENERATOR_FLAGS:
        raise ValueError(f"{code.co_qualname} is a generator or coroutine: it cannot be resumed as a function")
    if resume_point(code) is not None:
        raise ValueError(f"{name_of_code(code)} is a resume function: make others from the original, resume_point().parsed")
    if parsed.ambiguous_names:
        raise ValueError(f"{code.co_qualname}: {sorted(parsed.ambiguous_names)} name both a cell and a free variable")


def _make(parsed: ParsedCode, shape: _Shape, name: str, prefix: Callable[[Writer], None] | None) -> ResumeCode:
    original, inner = parsed.code, shape.inner
    freevars = (*original.co_cellvars, *original.co_freevars)
    arguments = argument_slots(original)
    argument_parameters = tuple(f"___argument_{name}" if name in freevars else name for name in arguments)
    stack_parameters = tuple(f"___stack{depth}" if value else None for depth, value in enumerate(shape.stack))
    parameters = (
        *argument_parameters,
        *shape.locals,
        *(f"___slot_{name}" for name in shape.shadowed),
        *(parameter for parameter in stack_parameters if parameter is not None),
        *(inner.parameters_in_caller if inner is not None else ()),
    )
    writer, entry = Writer(original), Label("resume")
    with writer.role("resume"):
        writer.prologue((), freevars, original.co_cellvars)
    with writer.at(shape.target):
        _write_unbound(writer, shape, arguments, argument_parameters)
        if prefix is not None:
            prefix(writer)
        write_stack(writer, stack_parameters)
        labels = _write_call_of(writer, parsed, shape.call, inner) if inner is not None else {}
        with writer.role("resume"):
            writer.jump(entry)
    body = _write_body(writer, parsed, shape.target, entry, labels)
    code = _assemble(writer, original, parameters, freevars)
    remember_name(code, name)
    return ResumeCode(
        code, parameters, freevars, arguments, shape.bound_args, shape.locals, shape.maybe_unbound, shape.shadowed, shape.cleared,
        shape.stack, stack_parameters, original.co_cellvars, shape.target,
        weakref.ref(original), {copied.origin: copied.final_offset for copied in body if copied.origin is not None},
        shape.call, inner, callee_name(original, inner.callee_names if inner is not None else ()),
    )  # fmt: skip


def _assemble(writer: Writer, original: CodeType, parameters: tuple[str, ...], freevars: tuple[str, ...]) -> CodeType:
    """Code with these positional parameters, in which the cells of the original are free variables."""
    entry_names = {*parameters, *freevars}
    unbound = [name for name in original.co_varnames if name not in entry_names]
    return assemble(
        writer,
        original,
        argcount=len(parameters),
        posonlyargcount=0,
        kwonlyargcount=0,
        flags=original.co_flags & ~(_VARARGS | _VARKEYWORDS) | (_NESTED if freevars else 0),
        varnames=(*parameters, *unbound, *original.co_cellvars),
        cellvars=(),
        freevars=freevars,
        moved=original.co_cellvars,
    )


def _write_call_of(
    writer: Writer, parsed: ParsedCode, call: Instruction | None, inner: ResumeCode
) -> dict[Instruction, Label]:
    """Call the resume function of the callee where the frame called the callee; returns the label of the handler around it."""
    assert call is not None
    handler = call.handler
    label = Label("handler") if handler is not None else None
    depth, lasti = (handler.depth, handler.lasti) if handler is not None else (0, False)
    with writer.at(call, parsed.nearest_with_line(call).position), writer.covered_by(label, depth, lasti):
        write_callee_call(writer, inner.parameters_in_caller)
    return {handler.target: label} if handler is not None and label is not None else {}


def _write_unbound(
    writer: Writer, shape: _Shape, arguments: tuple[str, ...], argument_parameters: tuple[str, ...]
) -> None:
    """Unbind the locals that are unbound in the frame; move values that replace a cell into the cell's slot."""
    with writer.role("resume"):
        for argument, parameter in zip(arguments, argument_parameters, strict=True):
            if argument == parameter and argument not in shape.bound_args:
                writer.delete_fast(argument)
        for variable in shape.shadowed:
            writer.load_fast(f"___slot_{variable}")
            writer.store_fast(variable)
        for variable in shape.cleared:
            writer.emit("LOAD_FAST_AND_CLEAR", None, variable)
            writer.pop_top()
        for name in sorted(shape.maybe_unbound):
            _unbind_if_marked(writer, name)


def _unbind_if_marked(writer: Writer, name: str) -> None:
    """Unbind a local that was passed as `NOT_BOUND`."""
    bound = Label("bound")
    writer.load_fast(name)
    writer.load_const(NOT_BOUND)
    writer.is_op()
    writer.pop_jump_if_false(bound)
    writer.delete_fast(name)
    writer.mark(bound)


def write_stack(writer: Writer, stack_parameters: Sequence[str | None]) -> None:
    """Move the values of these parameters to the stack, bottom first; None for a NULL. As in eager, only the stack holds them."""
    with writer.role("restore stack"):
        for parameter in stack_parameters:
            if parameter is None:
                writer.push_null()
            else:
                writer.load_fast_and_clear(parameter)


def _write_body(
    writer: Writer, parsed: ParsedCode, target: Instruction, entry: Label, labels: dict[Instruction, Label]
) -> list[Instruction]:
    """The original instructions after the prologue (whose cells exist already), with `entry` at the target."""
    opnames = [instruction.opname for instruction in parsed.instructions]
    body = parsed.instructions[opnames.index("RESUME") + 1 :]
    begin = len(writer.instructions)
    with writer.role("original"):
        writer.originals(body, labels={**labels, body[0] if target not in body else target: entry})
    if FACTS.lasti_is_tagged:
        for instruction in writer.instructions[begin:]:
            if instruction.opname == "RERAISE":  # in a handler entered by its resume function, an object replaces the index
                instruction.arg = instruction.argval = 0
    return writer.instructions[begin:]
