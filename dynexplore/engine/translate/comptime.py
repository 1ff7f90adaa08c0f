"""comptime: user code that runs while a function is captured, and inspects the translator's state.

The idea: `comptime(fn)` in the middle of a function calls `fn(ctx)` when the translator interprets the call, once in each attempt,
and adds nothing to the graph. `ctx` shows locals, stack, graph and guards at this point; it can break the graph there, or
specialize a size. The short forms (`comptime.print_graph()`) are such functions, ready to use. In plain Python, and on a cache hit,
comptime does nothing.

torch's own `comptime` has the same effect here: rows of this file handle what programs import from `torch._dynamo.comptime`.

In: calls of `comptime`. Out: what `fn` prints; None. PyTorch's counterpart: `ComptimeContext` in torch/_dynamo/comptime.py, and
torch/_dynamo/variables/functions.py.
"""

from __future__ import annotations

import dis
import sys
import time
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

import torch.fx

from dynexplore.engine.errors import ComptimeError, DynexploreError
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.specialization.shape_env import specialized_size
from dynexplore.engine.variables.callables.function import FunctionVariable, NestedFunctionVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotConstant, NotProxyable, VariableTracker
from dynexplore.engine.variables.contract.context import ObservedException, TraceContext
from dynexplore.engine.variables.objects.builtin_value import NONE
from dynexplore.engine.variables.rules import Handler, late_rule, rule
from dynexplore.engine.variables.scalars.symint import SymbolicNumberVariable
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame


class ComptimeVar:
    """What is known about one value at capture time: of a tensor, everything but its data."""

    def __init__(self, ctx: Interpreter, value: VariableTracker) -> None:
        self._ctx = ctx
        self._value = value

    def _read(self) -> VariableTracker:
        return self._value.read(self._ctx)

    def as_proxy(self) -> Any:
        """The graph node that computes it; nested nodes for a list or tuple. Raises NotProxyable."""
        return self._read().as_proxy()

    def is_proxy(self) -> bool:
        """Whether `as_proxy` returns a node."""
        try:
            self.as_proxy()
        except NotProxyable:
            return False
        return True

    def as_fake(self) -> Any:
        """The fake tensor or symbolic number that represents it. Do not mutate it."""
        return self.as_proxy().meta["example_value"]

    def size(self, dim: int | None = None) -> Any:
        """The size of a tensor, or of one of its dimensions; a torch.SymInt if it is dynamic."""
        fake = self.as_fake()
        return fake.size() if dim is None else fake.size(dim)

    def python_type(self) -> type[Any]:
        """The result of `type(value)`."""
        return self._value.python_type()

    def as_python_constant(self) -> Any:
        """The value, if it is known. Raises NotConstant. Do not mutate it."""
        return self._read().as_constant()

    def is_python_constant(self) -> bool:
        """Whether `as_python_constant` returns a value."""
        return self._read().is_constant()

    def is_dynamic(self) -> bool:
        """Whether it is a symbolic number, which may differ in another call of the same graph."""
        value = self._read()
        return isinstance(value, SymbolicNumberVariable) and (
            not isinstance(value.value, torch.SymInt) or specialized_size(value.value) is None
        )

    def force_static(self) -> None:
        """Specialize a number to its current value, with a guard. Raises AssertionError if it is not a number."""
        value = self._read()
        if isinstance(value, SymbolicNumberVariable):
            value.specialize()
        elif not value.is_constant():
            raise AssertionError(f"cannot force {self!r} static")

    def __repr__(self) -> str:
        return repr(self._value)


class ComptimeContext:
    """The current point of the capture, as passed to the function that is given to `comptime`.

    `stacklevel`: 0 is the frame that calls `comptime`, 1 its caller, if both are in the same capture.
    """

    def __init__(self, ctx: Interpreter, level: int = 0) -> None:
        self._ctx = ctx
        self._level = level

    def _frame(self, stacklevel: int) -> SymbolicFrame:
        return self._ctx.frames.running[-1 - self._level - stacklevel]

    def get_local(self, name: str, *, stacklevel: int = 0) -> ComptimeVar:
        """A local variable. Raises KeyError if there is none of this name."""
        return ComptimeVar(self._ctx, self._locals(stacklevel)[name])

    def _locals(self, stacklevel: int) -> dict[str, VariableTracker]:
        frame = self._frame(stacklevel)
        cells = {name: cell.content for name, cell in frame.cells.items() if cell.content is not None}
        return {**frame.locals, **cells}

    def graph(self) -> torch.fx.Graph:
        """The graph so far. Do not mutate it."""
        return self._ctx.graph.graph

    def parent(self) -> ComptimeContext:
        """The context of the caller."""
        return ComptimeContext(self._ctx, self._level + 1)

    def graph_break(self, msg: str = "ComptimeContext.graph_break") -> None:
        """End the graph here."""
        self._ctx.break_graph("DX208", message=msg)

    def assert_static(self, val: ComptimeVar) -> None:
        """Raise AssertionError if the number is symbolic."""
        if val.is_dynamic():
            raise AssertionError(f"expected a number that does not vary, but {val!r} does")

    def sleep(self, sec: float) -> None:
        """Wait."""
        time.sleep(sec)

    # -- printing

    def print(self, val: Any, *, file: TextIO | None = None) -> None:
        """Print what is known about a value."""
        print(repr(val), file=file)

    def print_graph(self, *, verbose: bool = True, file: TextIO | None = None) -> None:
        """Print the graph so far, as Python."""
        print(self.graph().python_code("self", verbose=verbose).src, file=file)

    def print_locals(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """Print what is known about each local variable."""
        for name, value in self._locals(stacklevel).items():
            print(f"{name} = {value!r}", file=file)

    def print_value_stack(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """Print the values on the frame's stack, the top last."""
        for value in self._frame(stacklevel).stack:
            print(f"- {value!r}", file=file)

    def print_bt(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """Print the frames of this capture, outermost first, as a traceback."""
        frames = self._ctx.frames.user_stack()
        for frame in frames[: len(frames) - self._level - stacklevel]:
            print(f'  File "{frame.file}", line {frame.line}, in {frame.function}\n    {frame.code.strip()}', file=file)

    def print_disas(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """Print the bytecode of the frame, with a mark at the current instruction."""
        frame = self._frame(stacklevel)
        print(dis.Bytecode(frame.parsed.code, current_offset=frame.current.offset).dis(), file=file)

    def print_guards(self, *, file: TextIO | None = None) -> None:
        """Print the guards so far."""
        for guard in self._ctx.guards.guards:
            print(guard.text(), file=file)


AtCompileTime = Callable[[ComptimeContext], Any]


def _nothing() -> None:
    """The default `fallback_fn`, which runs outside of a capture."""


class Comptime:
    """Run code while a function is captured: `comptime(fn)` calls `fn(ctx)` then, and `fallback_fn()` in plain Python.

    Also a decorator of a function that is defined in the middle of another. `fn` sees its free variables as they are known at
    capture time: constants as they are, tensors and symbolic numbers as ComptimeVar.

    >>> comptime(lambda ctx: ctx.print_graph())
    >>> comptime.print_locals()
    """

    @staticmethod
    def __call__(fn: AtCompileTime, fallback_fn: Callable[[], Any] = _nothing) -> None:
        """Call `fn` with a ComptimeContext while capturing; `fallback_fn` otherwise."""
        fallback_fn()

    @staticmethod
    def print(e: Any) -> None:
        """Print what is known about a value; in plain Python, the value."""
        print(e)

    @staticmethod
    def print_graph() -> None:
        """See ComptimeContext.print_graph."""

    @staticmethod
    def print_locals(*, stacklevel: int = 0) -> None:
        """See ComptimeContext.print_locals."""

    @staticmethod
    def print_value_stack(*, stacklevel: int = 0) -> None:
        """See ComptimeContext.print_value_stack."""

    @staticmethod
    def print_value_stack_and_return(e: Any, *, stacklevel: int = 0) -> Any:
        """Print the value stack in the middle of an expression; return `e`."""
        return e

    @staticmethod
    def print_bt(*, stacklevel: int = 0) -> None:
        """See ComptimeContext.print_bt."""

    @staticmethod
    def print_disas(*, stacklevel: int = 0) -> None:
        """See ComptimeContext.print_disas."""

    @staticmethod
    def print_guards() -> None:
        """See ComptimeContext.print_guards."""

    @staticmethod
    def graph_break() -> None:
        """End the graph here."""

    @staticmethod
    def assert_static(val: Any) -> None:
        """Raise if the number is symbolic."""

    @staticmethod
    def force_static(val: Any) -> None:
        """Specialize a number to its current value."""

    @staticmethod
    def breakpoint() -> None:
        """Stop in the debugger, in a function with a variable `ctx`, the ComptimeContext."""

    @staticmethod
    def sleep(sec: float) -> None:
        """Wait."""


comptime = Comptime()


# -- how the translator handles the calls ---------------------------------------------------------------------------


def _run(ctx: Any, fn: Callable[..., Any], *args: Any) -> VariableTracker:
    """Call a user function, or a short form, at this point. Its exceptions propagate to the program as ComptimeError."""
    try:
        fn(ComptimeContext(ctx), *args)
    except (GraphBreak, ObservedException, DynexploreError):
        raise
    except Exception as error:
        raise ComptimeError(f"{type(error).__name__}: {error}") from error
    return NONE


def _call(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Handle `comptime(fn, fallback_fn)`; `fallback_fn` is for plain Python."""
    function = (args[0] if args else kwargs["fn"]).read(ctx)
    if isinstance(function, FunctionVariable):
        return _run(ctx, function.live_value())
    if isinstance(function, NestedFunctionVariable):
        return _run(ctx, _capture_time_copy(ctx, function))
    ctx.break_graph("DX212", callee=function.describe())


def _capture_time_copy(ctx: Any, function: NestedFunctionVariable) -> types.FunctionType:
    """A copy of a function that the frame has defined, whose closure holds what is known about its free variables."""
    cells = tuple(types.CellType(_capture_time_value(ctx, cell.load(ctx))) for cell in function.cells)
    defaults = tuple(_capture_time_value(ctx, value.read(ctx)) for value in function.defaults)
    copy = types.FunctionType(function.code, function.namespace, function.code.co_name, defaults, cells)
    copy.__kwdefaults__ = {name: _capture_time_value(ctx, value.read(ctx)) for name, value in function.keyword_defaults.items()}
    return copy


def _capture_time_value(ctx: Any, value: VariableTracker) -> Any:
    if isinstance(value, TensorVariable | SymbolicNumberVariable):
        return ComptimeVar(ctx, value)
    try:
        return value.as_constant() if value.is_constant() else value.live_value()
    except NotConstant:
        return ComptimeVar(ctx, value)


def _debug(ctx: ComptimeContext) -> None:
    sys.breakpointhook()


_SHORT: dict[str, Callable[..., Any]] = {
    **{name: getattr(ComptimeContext, name) for name in (
        "print", "print_graph", "print_locals", "print_value_stack", "print_bt", "print_disas", "print_guards", "assert_static",
    )},
    "print_value_stack_and_return": lambda ctx, value, **level: ctx.print_value_stack(**level),
    "graph_break": lambda ctx: ctx.graph_break("comptime.graph_break"),
    "force_static": lambda ctx, value: value.force_static(),
    "breakpoint": _debug,
    "sleep": lambda ctx, seconds: ctx.sleep(seconds.as_python_constant()),
}  # fmt: skip
"""What each short form does, given the context and its arguments as ComptimeVar; keywords are constants."""


def _handler_for(name: str) -> Handler:
    def handler(ctx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        level = {key: value.as_constant() for key, value in kwargs.items() if key == "stacklevel"}
        arguments = [*args, *(value for key, value in kwargs.items() if key != "stacklevel")]
        _run(ctx, lambda at: _SHORT[name](at, *(ComptimeVar(ctx, value) for value in arguments), **level))
        return arguments[0] if name == "print_value_stack_and_return" else NONE

    return handler


def _declare(name: str, handler: Handler) -> None:
    """Declare the handler of our `comptime`, and of torch's once that is imported."""
    rule(getattr(Comptime, name))(handler)
    late_rule("torch._dynamo.comptime", f"_Comptime.{name}")(handler)


for _name in _SHORT:
    _declare(_name, _handler_for(_name))
_declare("__call__", _call)
