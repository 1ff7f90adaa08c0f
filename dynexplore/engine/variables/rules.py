"""Tables of rules: what the engine does instead of running a callable or a method of a type.

The idea: builtins, torch functions and methods are an open set, so each supported one has an entry in a table: a callable (or a
type and a method name) and the function that handles its calls. A rule knows its file and line, so the explorer can name it.

    @rule(len)
    def _len(ctx, args, kwargs): ...

    @method(str, "join")
    def _join(ctx, receiver, args, kwargs): ...

    @attribute(torch.Tensor, "data")
    def _data(ctx, receiver): ...

In: a callable met while tracing. Out: its rule, if there is one. PyTorch's counterpart: the tables of torch/_dynamo/trace_rules.py
and the handlers that torch/_dynamo/variables/torch.py registers for torch functions.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from dynexplore.engine.records import record
from dynexplore.engine.variables.argument_errors import argument_error, wrapped_refuses

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
    from dynexplore.engine.variables.contract.context import TraceContext

Handler = Callable[["TraceContext", "Args", "Kwargs"], "VariableTracker"]
MethodHandler = Callable[["TraceContext", Any, "Args", "Kwargs"], "VariableTracker"]
AttributeHandler = Callable[["TraceContext", Any], "VariableTracker"]
SetterHandler = Callable[["TraceContext", Any, "VariableTracker"], None]


@record()
class Rule:
    """One rule: the function that handles the calls, and where it is defined."""

    handler: Handler

    def call(self, ctx: TraceContext, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Handle a call of `target`; raises the program's TypeError if `target` does not accept these arguments."""
        error = argument_error(target, len(args), tuple(kwargs))
        if error is not None:
            ctx.raise_exception(TypeError, *error.args)
        if wrapped_refuses(target, len(args), tuple(kwargs)):
            ctx.break_graph("DX218", callee=target.__qualname__)
        return self.handler(ctx, args, kwargs)

    @property
    def file(self) -> str:
        """The file that declares the rule."""
        return self._code.co_filename

    @property
    def line(self) -> int:
        """The line in that file."""
        return self._code.co_firstlineno

    @property
    def _code(self) -> CodeType:
        code: CodeType = inspect.unwrap(self.handler).__code__
        return code


_RULES: dict[int, Rule] = {}
_CODES: dict[int, CodeType] = {}  # for Python functions: the code object for which the rule was written
_KEEP: list[object] = []  # keys go by identity, since a callable may be unhashable, so the table keeps its callables alive
_LATE: dict[str, list[tuple[str, str, Rule]]] = {}  # by function name: the module, the qualified name in it, and the rule
METHODS: dict[tuple[type[Any], str], MethodHandler] = {}
ATTRIBUTES: dict[tuple[type[Any], str], AttributeHandler] = {}
SETTERS: dict[tuple[type[Any], str], SetterHandler] = {}


def rule(*targets: Any) -> Callable[[Handler], Handler]:
    """Declare that the decorated function handles calls of these live callables."""

    def declare(handler: Handler) -> Handler:
        row = Rule(handler)
        for target in targets:
            _RULES[id(target)] = row
            if type(target) is FunctionType:
                _CODES[id(target)] = target.__code__
            _KEEP.append(target)
        return handler

    return declare


def late_rule(module: str, name: str) -> Callable[[Handler], Handler]:
    """Like `rule`, for a Python function or method of a module that is slow to import:
    it is resolved once that module is imported.
    """

    def declare(handler: Handler) -> Handler:
        _LATE.setdefault(name.rpartition(".")[2], []).append((module, name, Rule(handler)))
        return handler

    return declare


def _late_rule_for(function: FunctionType) -> Rule | None:
    for module, name, row in _LATE[function.__name__]:
        target: Any = sys.modules.get(module)
        for part in name.split("."):
            target = getattr(target, part, None)
        if getattr(target, "__func__", target) is function:
            return row
    return None


def rule_for(target: object) -> Rule | None:
    """The rule of a live callable, if there is one and the program has not replaced the callable's `__code__`."""
    row = _RULES.get(id(target))
    if row is None and type(target) is FunctionType and target.__name__ in _LATE:
        return _late_rule_for(target)
    if row is not None and type(target) is FunctionType and _CODES.get(id(target)) is not target.__code__:
        return None
    return row


def method(python_type: type[Any], *names: str) -> Callable[[MethodHandler], MethodHandler]:
    """Declare that the decorated function handles `value.name(...)` for trackers whose rules are registered under `python_type`."""

    def declare(handler: MethodHandler) -> MethodHandler:
        for name in names:
            METHODS[python_type, name] = _checked(vars(python_type).get(name), handler)
        return handler

    return declare


def _checked(target: object, handler: MethodHandler) -> MethodHandler:
    """The handler of a method; if the method is written in Python, its signature is checked before each call."""
    if not isinstance(target, FunctionType):
        return handler

    @functools.wraps(handler)
    def call(ctx: TraceContext, receiver: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        error = argument_error(target, len(args) + 1, tuple(kwargs))
        if error is not None:
            ctx.raise_exception(TypeError, *error.args)
        return handler(ctx, receiver, args, kwargs)

    return call


def attribute(python_type: type[Any], *names: str) -> Callable[[AttributeHandler], AttributeHandler]:
    """Declare that the decorated function handles `value.name` for trackers whose rules are registered under `python_type`."""

    def declare(handler: AttributeHandler) -> AttributeHandler:
        for name in names:
            ATTRIBUTES[python_type, name] = handler
        return handler

    return declare


def setter(python_type: type[Any], name: str) -> Callable[[SetterHandler], SetterHandler]:
    """Declare that the decorated function handles `value.name = other` for trackers
    whose rules are registered under `python_type`.
    """

    def declare(handler: SetterHandler) -> SetterHandler:
        SETTERS[python_type, name] = handler
        return handler

    return declare
