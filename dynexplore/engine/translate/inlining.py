"""Inlining: a callee as a nested symbolic frame.

The idea: a call of a Python function binds the arguments as CPython does, makes a new `SymbolicFrame` and interprets
it with the same graph, guards and journal. Whatever happens in there (a break, an exception) reaches the caller's
CALL instruction.

In: a function tracker (live or made in this frame) and argument trackers. Out: what the function returns; for a generator function,
a generator tracker whose body runs piece by piece.

torch/_dynamo/symbolic_convert.py (InliningInstructionTranslator) does the same job.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

from dynexplore.engine.bytecode import read
from dynexplore.engine.config import config
from dynexplore.engine.errors import EngineError
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.context import UserRaised
from dynexplore.engine.variables.objects.exception import exception_from_python, set_cause
from dynexplore.engine.variables.objects.function import CellVariable
from dynexplore.engine.variables.objects.generator import GeneratorVariable
from dynexplore.engine.variables.scalars.constant import ConstantVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

_UNTRACEABLE = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def inline(
    ctx: Interpreter, function: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """Call a Python function by interpreting it."""
    code = function.code
    if code.co_flags & _UNTRACEABLE or not code.co_flags & inspect.CO_OPTIMIZED:
        ctx.break_graph("DX211", function=code.co_qualname)
    if ctx.innermost.depth >= config.inline_depth_limit:
        ctx.break_graph("DX501", function=code.co_qualname, depth=ctx.innermost.depth)
    caller = ctx.innermost
    function.rely_on_code(ctx)
    frame = SymbolicFrame(read(code), ctx.namespace_of(function), function, caller)
    _bind(ctx, frame, function, args, kwargs)
    _make_cells(ctx, frame, function)
    if code.co_flags & inspect.CO_GENERATOR:
        generator = GeneratorVariable(frame)
        generator.holder = ctx.innermost
        ctx.generators.append(generator)
        ctx.let_go.append(generator.forget)
        return generator
    return run(ctx, frame)


def run(ctx: Interpreter, frame: SymbolicFrame) -> VariableTracker:
    """Interpret a nested frame to its end."""
    caller = ctx.innermost
    if ctx.narrator is not None:
        ctx.narrator.inline_entered(frame, caller)
    try:
        ctx.interpret(frame)
    except UserRaised:
        if ctx.narrator is not None:
            ctx.narrator.inline_left(frame, "raised")
        raise
    if ctx.narrator is not None:
        ctx.narrator.inline_left(frame)
    assert frame.returned is not None
    return frame.returned


def resume_generator(
    ctx: Interpreter, generator: Any, sent: VariableTracker, thrown: VariableTracker | None = None
) -> VariableTracker | None:
    """Run a generator's body to its next `yield`: the value, or None when it returned."""
    frame: SymbolicFrame = generator.frame
    if thrown is not None and not generator.started and frame.returned is None:
        if issubclass(thrown.python_type(), StopIteration):  # a RuntimeError on 3.11, itself on 3.13
            ctx.break_graph("DX210", operation="throw() of StopIteration into a generator that has not begun")
        frame.returned = ConstantVariable(None)  # it is raised where the body begins
        raise UserRaised(ctx, thrown)
    if frame.returned is not None:
        if thrown is not None:
            raise UserRaised(ctx, thrown)
        return None
    caller = ctx.innermost
    frame.parent, frame.depth = caller, caller.depth + 1
    if ctx.innermost.depth >= config.inline_depth_limit:
        ctx.break_graph("DX501", function=frame.parsed.code.co_qualname, depth=ctx.innermost.depth)
    if thrown is not None and frame.steps[frame.pc].op == "JUMP" and frame.steps[frame.pc - 2].op == "SEND":
        ctx.break_graph("DX210", operation="throw() into `yield from`")
    if generator.started and thrown is None:
        frame.push(sent)
    if ctx.narrator is not None and not generator.started:  # its later pieces belong to the same callee
        ctx.narrator.inline_entered(frame, caller)
    generator.started = True
    try:
        ctx.interpret(frame, thrown)
    except UserRaised as raised:
        frame.returned = ConstantVariable(None)
        if ctx.narrator is not None:
            ctx.narrator.inline_left(frame, "raised")
        raise UserRaised(ctx, leaving_generator(ctx, raised.exception)) from raised
    if ctx.narrator is not None and frame.returned is not None:
        ctx.narrator.inline_left(frame)
    value, frame.yielded = frame.yielded, None
    return value


def leaving_generator(ctx: Interpreter, exception: VariableTracker) -> VariableTracker:
    """What leaves a generator whose body raised: StopIteration would mean its end, so it becomes a RuntimeError (PEP 479)."""
    if not issubclass(exception.python_type(), StopIteration):
        return exception
    error = exception_from_python(ctx, RuntimeError, ("generator raised StopIteration",))
    set_cause(ctx, error, exception)
    error.context = exception  # type: ignore[attr-defined]
    return error


def _bind(
    ctx: Interpreter, frame: SymbolicFrame, function: Any, args: Sequence[VariableTracker],
    kwargs: Mapping[str, VariableTracker],
) -> None:
    """Put arguments into locals as CPython does (Python/ceval.c, initialize_locals)."""
    code = function.code
    count = code.co_argcount
    names = code.co_varnames
    slots = frame.locals
    for name, value in zip(names[:count], args, strict=False):
        slots[name] = value
    extra = list(args[count:])
    if extra and not code.co_flags & inspect.CO_VARARGS:
        _refuse(ctx, function, args, kwargs)
    unknown = _bind_keywords(code, slots, kwargs)
    if unknown is None or not _bind_defaults(ctx, code, function, slots):
        _refuse(ctx, function, args, kwargs)
    rest = count + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        slots[names[rest]] = TupleVariable(extra)
        rest += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        slots[names[rest]] = DictVariable({name: (ConstantVariable(name), value) for name, value in unknown.items()})


def _bind_keywords(
    code: Any, slots: dict[str, VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> dict[str, VariableTracker] | None:
    """Bind keyword arguments to parameters; what is left for **kwargs, or None where they do not fit."""
    named = set(code.co_varnames[code.co_posonlyargcount:code.co_argcount + code.co_kwonlyargcount])
    unknown = {}
    for name, value in kwargs.items():
        if name not in named:
            unknown[name] = value
        elif name in slots:
            return None
        else:
            slots[name] = value
    return None if unknown and not code.co_flags & inspect.CO_VARKEYWORDS else unknown


def _bind_defaults(ctx: Interpreter, code: Any, function: Any, slots: dict[str, VariableTracker]) -> bool:
    """Fill what was not passed; False where a parameter has no default."""
    first_default = code.co_argcount - function.default_count()
    for index in range(code.co_argcount):
        name = code.co_varnames[index]
        if name not in slots:
            if index < first_default:
                return False
            slots[name] = function.default(ctx, index - first_default)
    for name in _keyword_only(code):
        if name not in slots:
            default = function.keyword_default(ctx, name)
            if default is None:
                return False
            slots[name] = default
    return True


def _keyword_only(code: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = code.co_varnames[code.co_argcount:code.co_argcount + code.co_kwonlyargcount]
    return names


def _refuse(
    ctx: Interpreter, function: Any, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> NoReturn:
    """The program raises the TypeError with which Python refuses these arguments: asked of a function of the same signature."""
    code = function.code
    parameters = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
                                  + bool(code.co_flags & inspect.CO_VARKEYWORDS)]
    empty = _nothing.__code__.replace(
        co_argcount=code.co_argcount, co_posonlyargcount=code.co_posonlyargcount, co_kwonlyargcount=code.co_kwonlyargcount,
        co_varnames=parameters, co_nlocals=len(parameters), co_name=code.co_name, co_qualname=code.co_qualname,
        co_flags=_nothing.__code__.co_flags | code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
    )
    twin = FunctionType(empty, {}, code.co_name, (None,) * function.default_count())
    twin.__qualname__ = code.co_qualname
    twin.__kwdefaults__ = {name: None for name in _keyword_only(code) if function.keyword_default(ctx, name) is not None}
    try:
        twin(*[None] * len(args), **dict.fromkeys(kwargs))
    except TypeError as error:
        ctx.raise_exception(TypeError, *error.args)
    raise EngineError(f"{code.co_qualname}: arguments that Python accepts were refused")


def _nothing() -> None:
    pass


def _make_cells(ctx: Interpreter, frame: SymbolicFrame, function: Any) -> None:
    """New cells for the callee's cell variables (arguments move in), the closure's cells for its free ones."""
    code = function.code
    for name in code.co_cellvars:
        frame.cells[name] = CellVariable(name, frame.locals.pop(name, None))
    for index, name in enumerate(code.co_freevars):
        frame.cells[name] = function.cell(ctx, index)
