"""Inlining: a callee is interpreted as a nested symbolic frame.

The idea: a call of a Python function binds the arguments as CPython does, creates a new `SymbolicFrame` and interprets it with the
same graph, guards and journal. Whatever happens in the callee (a break, an exception) reaches the caller's CALL instruction.

In: a function tracker (live or defined in this frame) and argument trackers. Out: what the function returns; for a generator
function, a generator tracker whose body is interpreted up to one `yield` at a time.
PyTorch's counterpart: `InliningInstructionTranslator` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NoReturn

from dynexplore.engine.bytecode import read
from dynexplore.engine.config import config
from dynexplore.engine.errors import EngineError
from dynexplore.engine.policy.skip import AMBIGUOUS_NAMES, has_ambiguous_names
from dynexplore.engine.translate.nested_frames import allows_nested_break, allows_partial_graph
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.argument_errors import twin_of
from dynexplore.engine.variables.callables.function import CellVariable
from dynexplore.engine.variables.callables.generator import GeneratorVariable
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.sequence import TupleVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.objects.exception import ExceptionVariable, exception_from_python, set_cause
from dynexplore.engine.variables.scalars.constant import ConstantVariable, constant_of

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

_UNTRACEABLE = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def inline(ctx: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Call a Python function by interpreting it."""
    code = function.code
    if code.co_flags & _UNTRACEABLE or not code.co_flags & inspect.CO_OPTIMIZED:
        ctx.break_graph("DX211", function=code.co_qualname)
    if has_ambiguous_names(code):
        ctx.break_graph("DX202", function=code.co_qualname, because=AMBIGUOUS_NAMES)
    if ctx.frames.innermost.depth >= config.inline_depth_limit:
        ctx.break_graph("DX501", function=code.co_qualname, depth=ctx.frames.innermost.depth)
    caller = ctx.frames.innermost
    is_whole_instruction, caller.only_calls = caller.only_calls is function, None
    function.guard_on_code(ctx)
    frame = SymbolicFrame(read(code), ctx.calls.namespace_of(function), function, caller)
    frame.allows_nested_break = (
        is_whole_instruction and ctx.request.nested_breaks and allows_nested_break(frame, ctx.frames.chain)
    )
    if frame.allows_nested_break:
        frame.allows_partial_graph = allows_partial_graph(frame)
        frame.called_through = caller.calls_through
    _bind(ctx, frame, function, args, kwargs)
    set_up_cells(ctx, frame, function)
    if code.co_flags & inspect.CO_GENERATOR:
        generator = GeneratorVariable(frame)
        generator.holder = ctx.frames.innermost
        ctx.calls.generators.append(generator)
        ctx.effects.cleanup_callbacks.append(generator.forget)
        return generator
    return run(ctx, frame)


def run(ctx: Interpreter, frame: SymbolicFrame) -> VariableTracker:
    """Interpret a nested frame to its end."""
    caller = ctx.frames.innermost
    if ctx.emitter is not None:
        ctx.emitter.inline_entered(frame, caller)
    try:
        ctx.interpret(frame)
    except ObservedException:
        if ctx.emitter is not None:
            ctx.emitter.inline_left(frame, "raised")
        raise
    if ctx.emitter is not None:
        ctx.emitter.inline_left(frame)
    assert frame.returned is not None
    return frame.returned


def resume_generator(
    ctx: Interpreter, generator: Any, sent: VariableTracker, thrown: VariableTracker | None = None
) -> VariableTracker | None:
    """Run a generator's body to its next `yield`; return the value, or None if the body returned."""
    frame: SymbolicFrame = generator.frame
    if thrown is not None and not generator.started and frame.returned is None:
        if issubclass(thrown.python_type(), StopIteration):  # a RuntimeError on 3.11, itself on 3.13
            ctx.break_graph("DX210", operation="throw() of StopIteration into a generator that has not begun")
        frame.returned = ConstantVariable(None)  # raised at the start of the body
        raise ObservedException(ctx, thrown)
    if frame.returned is not None:
        if thrown is not None:
            raise ObservedException(ctx, thrown)
        return None
    caller = ctx.frames.innermost
    frame.parent, frame.depth = caller, caller.depth + 1
    if ctx.frames.innermost.depth >= config.inline_depth_limit:
        ctx.break_graph("DX501", function=frame.parsed.code.co_qualname, depth=ctx.frames.innermost.depth)
    if thrown is not None and frame.steps[frame.pc].op == "JUMP" and frame.steps[frame.pc - 2].op == "SEND":
        ctx.break_graph("DX210", operation="throw() into `yield from`")
    if generator.started and thrown is None:
        frame.push(sent)
    if ctx.emitter is not None and not generator.started:  # later resumptions belong to the same callee
        ctx.emitter.inline_entered(frame, caller)
    generator.started = True
    if isinstance(thrown, ExceptionVariable) and frame.exceptions:  # Objects/genobject.c: the context is what the generator handles
        thrown.set_context(ctx, frame.exceptions[-1])
    try:
        ctx.interpret(frame, thrown)
    except ObservedException as raised:
        frame.returned = ConstantVariable(None)
        if ctx.emitter is not None:
            ctx.emitter.inline_left(frame, "raised")
        raise ObservedException(ctx, convert_stop_iteration(ctx, raised.exception)) from raised
    if ctx.emitter is not None and frame.returned is not None:
        ctx.emitter.inline_left(frame)
    value, frame.yielded = frame.yielded, None
    return value


def convert_stop_iteration(ctx: Interpreter, exception: VariableTracker) -> VariableTracker:
    """The exception that leaves a generator: a StopIteration of the body becomes a RuntimeError (PEP 479)."""
    if not issubclass(exception.python_type(), StopIteration):
        return exception
    error = exception_from_python(ctx, RuntimeError, ("generator raised StopIteration",))
    set_cause(ctx, error, exception)
    error.context = exception  # type: ignore[attr-defined]
    return error


def _bind(
    ctx: Interpreter, frame: SymbolicFrame, function: Any, args: Args,
    kwargs: Kwargs,
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


def _bind_keywords(code: Any, slots: dict[str, VariableTracker], kwargs: Kwargs) -> dict[str, VariableTracker] | None:
    """Bind keyword arguments to parameters; return the rest for **kwargs, or None if they do not fit."""
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
    """Fill in the defaults; False if a missing parameter has no default."""
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


def _refuse(ctx: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> NoReturn:
    """Raise the TypeError of CPython for these arguments, found by calling a function of the same signature."""
    code = function.code
    keyword_defaults = [name for name in _keyword_only(code) if function.keyword_default(ctx, name) is not None]
    twin = twin_of(code, function.default_count(), keyword_defaults)
    twin.__qualname__ = constant_of(ctx, function.get_attribute(ctx, "__qualname__"), "a call with wrong arguments")
    try:
        twin(*[None] * len(args), **dict.fromkeys(kwargs))
    except TypeError as error:
        ctx.raise_exception(TypeError, *error.args)
    raise EngineError(f"{code.co_qualname}: arguments that Python accepts were rejected")


def set_up_cells(ctx: Interpreter, frame: SymbolicFrame, function: Any) -> None:
    """Create cells for the callee's cell variables (arguments move into them); use the closure's cells for its free variables."""
    code = function.code
    for name in code.co_cellvars:
        frame.cells[name] = CellVariable(name, frame.locals.pop(name, None))
    for index, name in enumerate(code.co_freevars):
        frame.cells[name] = function.cell(ctx, index)
