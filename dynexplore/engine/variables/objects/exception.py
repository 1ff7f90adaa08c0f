"""Exceptions: created by the program, raised by it or by a rule, caught, and propagated.

The idea: an exception is a user-defined object whose class extends a C type that stores `args`. Raising one at trace time unwinds
symbolic frames (`ObservedException`) until a handler of the traced program catches it. If it leaves the root frame, nothing is
captured there: the graph ends before the raising instruction, and Python raises it for real, from the same line.

An exception that existed before the frame (a resume function inside an `except` block gets it as an argument) is read from its
source. One created here is reconstructed: `cls.__new__(cls, *args)`, the C type's own `__init__`, then the attributes; a
user-defined `__init__` does not run twice.

In: calls of exception classes, live exceptions, `ctx.raise_exception`. Out: matching for `except`, causes and contexts for `raise`.
PyTorch's counterpart: `ExceptionVariable` in torch/_dynamo/variables/misc.py, `UserDefinedExceptionObjectVariable` in
user_defined.py.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import class_mro
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotConstant, VariableTracker, type_tracker
from dynexplore.engine.variables.contract.build import builds_when
from dynexplore.engine.variables.objects.class_ import ClassVariable, initialize, makes
from dynexplore.engine.variables.objects.type_lookup import ClassAttribute, guard_on_class_of, is_created_in_c, layout_of
from dynexplore.engine.variables.objects.user_object import CMethodVariable, UserObjectVariable
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.specialize import live_nest
from dynexplore.engine.variables.signatures import builtin

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

NONE = ConstantVariable(None)


class ExceptionVariable(UserObjectVariable):
    """An exception; see the head of this file."""

    kind = "exception"
    is_its_attributes = False

    def __init__(self, cls: type[Any], args: Args = (), *, value: Any = None,
                 source: Source | None = None, class_variable: VariableTracker | None = None) -> None:
        super().__init__(cls, value=value, source=source, class_variable=class_variable)
        self.args = list(args)
        self.made_of = _construction_arguments(cls, args)
        self.cause: VariableTracker | None = None
        self.context: VariableTracker | None = None
        self.suppress_context = False
        self.traceback: VariableTracker = NONE

    def record_traceback(self) -> None:
        """It was raised in this frame, or in an inlined one, and caught: from now on it has a traceback."""
        if self.traceback is NONE:
            self.traceback = TracebackVariable()

    def has_other_args(self) -> bool:
        """Whether `args` differs from the arguments of its construction."""
        return len(self.args) != len(self.made_of) or not all(map(_is_unchanged_argument, self.args, self.made_of))

    @property
    def exception_type(self) -> type[Any]:
        """Its class."""
        return self.cls

    def load_args(self, ctx: TraceContext) -> list[VariableTracker]:
        """Its arguments, including those of a live exception."""
        if self.value is not None:
            self.args = self.get_attribute(ctx, "args").unpack(ctx)
        return self.args

    # -- attributes that the C type keeps

    def c_attribute(self, ctx: TraceContext, attribute: ClassAttribute) -> VariableTracker:
        if attribute.name in ("__class__", "__dict__"):
            return super().c_attribute(ctx, attribute)
        if attribute.name == "__traceback__" and self.traceback is not NONE:
            return self.traceback
        if self.value is not None:
            assert self.source is not None
            return ctx.build(getattr(self.value, attribute.name), self.source.attribute(attribute.name, "getattr"))
        reader = _C_ATTRIBUTES.get(attribute.name)
        if reader is None or (attribute.name in _OF_FIRST_ARGUMENT and not issubclass(self.cls, (StopIteration, SystemExit))):
            return super().c_attribute(ctx, attribute)
        return reader(self)

    def set_c_attribute(self, ctx: TraceContext, attribute: ClassAttribute, value: VariableTracker) -> None:
        setter = _C_SETTERS.get(attribute.name)
        if setter is None:
            super().set_c_attribute(ctx, attribute, value)
            return
        self.before_change(ctx, attribute.name)
        setter(ctx, self, value.read(ctx))

    def before_change(self, ctx: TraceContext, name: str) -> None:
        """Break the graph: changes to C fields of an existing exception are not replayed."""
        if self.value is not None:
            ctx.break_graph("DX310", attribute=name, type=self.cls.__qualname__)

    def set_cause(self, ctx: TraceContext, cause: VariableTracker) -> None:
        """`raise self from cause`."""
        self.before_change(ctx, "__cause__")
        self.cause = None if _is_none(cause) else cause
        self.suppress_context = True

    def set_context(self, ctx: TraceContext, handled: VariableTracker | None) -> None:
        """It is raised while `handled` is being handled; None: while any exception of the frame's caller is being handled."""
        if handled is self:
            return
        self.before_change(ctx, "__context__")
        if handled is None and isinstance(self.context, ExceptionVariable):
            ctx.break_graph("DX310", because="it is raised again", type=self.cls.__qualname__)  # it may keep its context
        _break_context_cycle(handled, self)
        self.context = handled or CallersExceptionVariable(sys.exception)

    # -- methods of the C type

    def c_method(self, ctx: TraceContext, attribute: ClassAttribute) -> VariableTracker | None:
        handler = _C_METHODS.get(attribute.name) if attribute.owner is not object else None
        return CMethodVariable(self, attribute.name, handler) if handler is not None else None

    # -- out of the frame

    def push_empty(self, build: Reconstruction) -> None:
        if self.traceback is not NONE:
            raise NotImplementedError("it has a traceback")
        assert self.class_variable is not None
        build.call_object(remade, self.class_variable, TupleVariable(self.made_of if self.has_other_args() else self.args))

    def fill(self, build: Reconstruction) -> None:
        super().fill(build)
        if self.has_other_args():
            build.push(TupleVariable(self.args))
            build.push(self)
            build.writer.store_attr("args")
        for name, value in (("__context__", self.context), ("__cause__", self.cause)):
            if value is not None:
                build.push(value)
                build.push(self)
                build.writer.store_attr(name)
        if self.suppress_context != (self.cause is not None):
            build.writer.load_const(self.suppress_context)
            build.push(self)
            build.writer.store_attr("__suppress_context__")

    def text(self) -> str:
        return f"{self.cls.__qualname__}({', '.join(arg.text() for arg in self.args)})"


def _break_context_cycle(handled: VariableTracker | None, raised: ExceptionVariable) -> None:
    """Remove `raised` from the context chain of the handled exception; a chain that is already cyclic is traversed once and
    kept.

    Python/errors.c, _PyErr_SetObject.
    """
    seen: set[int] = set()
    while isinstance(handled, ExceptionVariable) and id(handled) not in seen:
        seen.add(id(handled))
        if handled.context is raised:
            handled.context = None
            return
        handled = handled.context


class TracebackVariable(VariableTracker):
    """A traceback object: traced code may pass it on, but only a real one has content."""

    kind = "traceback"
    text_changes = "never"

    def python_type(self) -> type[Any]:
        return types.TracebackType

    def truth(self, ctx: TraceContext) -> bool:
        return True

    def same_object(self, other: VariableTracker) -> bool | None:
        return self is other

    def reconstruct(self, build: Reconstruction) -> None:
        raise NotImplementedError("the exception was not raised for real")

    def text(self) -> str:
        return "a traceback"


def _construction_arguments(cls: type[Any], args: Args) -> list[VariableTracker]:
    """The arguments from which the C type computes its own fields, which do not change
    when `args` is set; a group copies its list.
    """
    return [
        ListVariable(arg.items) if issubclass(cls, BaseExceptionGroup) and isinstance(arg, ListVariable) else arg for arg in args
    ]


def _is_unchanged_argument(arg: VariableTracker, made_of: VariableTracker) -> bool:
    if isinstance(arg, ListVariable) and isinstance(made_of, ListVariable):
        return [*map(id, arg.items)] == [*map(id, made_of.items)]
    return arg is made_of


def remade(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """An exception of this class with these `args`; no user-defined `__init__` runs."""
    layout: Any = layout_of(cls)
    exception: BaseException = layout.__new__(cls, *args)
    layout.__init__(exception, *args)
    return exception


def _is_none(value: VariableTracker) -> bool:
    return value.is_constant() and value.as_constant() is None


_OF_FIRST_ARGUMENT = frozenset({"value", "code"})
_C_ATTRIBUTES: dict[str, Callable[[ExceptionVariable], VariableTracker]] = {
    "args": lambda self: TupleVariable(self.args),
    "__cause__": lambda self: self.cause or NONE,
    "__context__": lambda self: self.context or NONE,
    "__suppress_context__": lambda self: ConstantVariable(self.suppress_context),
    "__traceback__": lambda self: self.traceback,
    "value": lambda self: self.made_of[0] if self.made_of else NONE,
    "code": lambda self: self.made_of[0] if self.made_of else NONE,
}


def _set_args(ctx: TraceContext, self: ExceptionVariable, value: VariableTracker) -> None:
    self.args = value.unpack(ctx)


def _set_exception(ctx: TraceContext, value: VariableTracker, name: str) -> VariableTracker | None:
    """The new value of an attribute that holds another exception; CPython rejects anything but an exception and None."""
    if _is_none(value):
        return None
    if not isinstance(value, ExceptionVariable | CallersExceptionVariable):
        ctx.raise_exception(TypeError, f"exception {name} must be None or derive from BaseException")
    return value


def _set_context(ctx: TraceContext, self: ExceptionVariable, value: VariableTracker) -> None:
    self.context = _set_exception(ctx, value, "context")


def _set_cause(ctx: TraceContext, self: ExceptionVariable, value: VariableTracker) -> None:
    self.cause = _set_exception(ctx, value, "cause")
    self.suppress_context = True


def _set_suppress_context(ctx: TraceContext, self: ExceptionVariable, value: VariableTracker) -> None:
    truth = value.as_constant() if value.is_constant() else None
    if not isinstance(truth, bool):
        ctx.raise_exception(TypeError, "attribute value type must be bool")
    self.suppress_context = truth


def _set_traceback(ctx: TraceContext, self: ExceptionVariable, value: VariableTracker) -> None:
    if not _is_none(value) and not isinstance(value, TracebackVariable):
        if issubclass(value.python_type(), types.TracebackType):
            ctx.break_graph("DX310", attribute="__traceback__")
        ctx.raise_exception(TypeError, "__traceback__ must be a traceback or None")
    self.traceback = value


_C_SETTERS: dict[str, Callable[[Any, ExceptionVariable, VariableTracker], None]] = {
    "args": _set_args, "__context__": _set_context, "__suppress_context__": _set_suppress_context,
    "__traceback__": _set_traceback, "__cause__": _set_cause,
}


def _init(ctx: TraceContext, self: ExceptionVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    """BaseException.__init__ stores the arguments."""
    if kwargs:
        ctx.break_graph("DX310", type=self.cls.__qualname__)
    self.before_change(ctx, "args")
    self.args = list(args)
    self.made_of = _construction_arguments(self.cls, args)
    return NONE


def _with_traceback(ctx: TraceContext, self: ExceptionVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    if len(args) != 1:
        ctx.break_graph("DX310", method="with_traceback")
    self.before_change(ctx, "__traceback__")
    _set_traceback(ctx, self, args[0])
    return self


def _str(ctx: TraceContext, self: ExceptionVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    if not is_worded_by_its_arguments(self):
        ctx.break_graph("DX310", method="__str__", type=self.cls.__qualname__)  # computed from fields that may have changed
    try:
        values = tuple([arg.read(ctx).as_constant() for arg in self.load_args(ctx)])
    except NotConstant:
        ctx.break_graph("DX310", method="__str__")
    return ConstantVariable(str(remade(layout_of(self.cls), values)))


def is_worded_by_its_arguments(value: ExceptionVariable) -> bool:
    """Whether the text of an exception depends on `args` alone: that of an OSError is computed from fields set at construction."""
    return not issubclass(value.cls, _SAY_THEIR_ATTRIBUTES) or (value.value is None and not value.has_other_args())


_SAY_THEIR_ATTRIBUTES = (OSError, ImportError, SyntaxError, UnicodeError, BaseExceptionGroup)
_C_METHODS: dict[str, Any] = {"__init__": _init, "with_traceback": _with_traceback, "__str__": _str}


# -- interface of the translator --------------------------------------------------------------------------------------


def exception_from_python(ctx: TraceContext, exception_type: type[BaseException], args: Sequence[object]) -> VariableTracker:
    """The tracker of an exception that a rule raises; its arguments are values or trackers."""
    trackers = [arg if isinstance(arg, VariableTracker) else ctx.build(arg, None) for arg in args]
    return ExceptionVariable(exception_type, trackers, class_variable=ctx.build(exception_type, None))


def instantiate(ctx: TraceContext, value: VariableTracker) -> VariableTracker:
    """The exception that `raise value` raises: an instance; a class is called."""
    if isinstance(value, ExceptionVariable):
        return value
    if isinstance(value, CallersExceptionVariable):
        ctx.break_graph("DX310", type=value.text())
    if isinstance(value, ClassVariable) and issubclass(value.value, BaseException):
        instance = value.call(ctx, [], {})
        if isinstance(instance, ExceptionVariable):
            return instance
    ctx.raise_exception(TypeError, "exceptions must derive from BaseException")


def set_cause(ctx: TraceContext, exception: VariableTracker, cause: VariableTracker) -> None:
    """`raise ... from cause`."""
    if not isinstance(exception, ExceptionVariable):
        ctx.break_graph("DX310", type=exception.type_name())
    exception.set_cause(ctx, cause if _is_none(cause) else instantiate(ctx, cause))


def set_context(ctx: TraceContext, exception: VariableTracker) -> None:
    """Set the exception that is being handled as the context of a raised one (Python/errors.c, _PyErr_SetObject)."""
    if isinstance(exception, ExceptionVariable):
        exception.set_context(ctx, ctx.frames.handled_exception())


def matches(ctx: TraceContext, exception: VariableTracker, handled: VariableTracker) -> bool:
    """Whether an `except` clause for `handled` catches the exception: by its bases alone
    (Python/errors.c, PyErr_GivenExceptionMatches).
    """
    try:
        classes = live_nest(handled)
    except NotConstant:
        ctx.break_graph("DX310", type=handled.type_name())
    for cls in classes if isinstance(classes, tuple) else (classes,):
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            ctx.raise_exception(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    ctx.module_guards.guard_on_bases(exception.python_type())
    wanted_ids = set(map(id, classes if isinstance(classes, tuple) else (classes,)))  # `==` could be user-defined
    return any(id(base) in wanted_ids for base in class_mro(exception.python_type()))


class CallersExceptionVariable(VariableTracker):
    """Type, value or traceback of the exception that the caller of the frame is handling: opaque to traced code.

    It can be passed on (contextlib.ExitStack keeps it in case a callback raises), but not inspected.
    """

    kind = "exception"

    def __init__(self, fetch: Callable[[], Any]) -> None:
        self.fetch = fetch

    def same_object(self, other: VariableTracker) -> bool | None:
        return True if self is other else None

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(self.fetch)

    def text(self) -> str:
        return "what the caller is handling"


def _callers_type() -> Any:
    return sys.exc_info()[0]


def _callers_traceback() -> Any:
    return sys.exc_info()[2]


@builtin(sys.exc_info)
def _exc_info(ctx: TraceContext) -> VariableTracker:
    """Type, value and traceback of the exception being handled."""
    handled = ctx.frames.handled_exception()
    if handled is not None:
        return TupleVariable([type_tracker(ctx, handled), handled, handled.get_attribute(ctx, "__traceback__")])
    return TupleVariable([CallersExceptionVariable(fetch) for fetch in (_callers_type, sys.exception, _callers_traceback)])


@builtin(sys.exception)
def _exception(ctx: TraceContext) -> VariableTracker:
    """The exception being handled."""
    return ctx.frames.handled_exception() or CallersExceptionVariable(sys.exception)


# -- building ---------------------------------------------------------------------------------------------------------


#: C classes that inspect their arguments at construction: a group copies its list and chooses its own class, others check types.
#: (An OSError with an errno chooses its class by that, too.)
_READ_THEIR_ARGUMENTS = (BaseExceptionGroup, SyntaxError, UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError)


@makes(BaseException)
def _make_exception(ctx: TraceContext, cls: ClassVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    """BaseException.__new__ stores the arguments; then `__init__` runs, the user-defined one or the C type's."""
    layout = layout_of(cls.value)
    if not is_created_in_c(ctx, cls.value):
        return cls.make_instance(ctx, args, kwargs)
    if issubclass(layout, _READ_THEIR_ARGUMENTS) or (issubclass(layout, OSError) and len(args) > 1):
        ctx.break_graph("DX310", type=cls.value.__qualname__)
    exception = ExceptionVariable(cls.value, args, class_variable=cls)
    initialize(ctx, exception, args, kwargs)
    return exception


@builds_when(lambda value: issubclass(type(value), BaseException), rank=50)
def build_exception(ctx: TraceContext, value: BaseException, source: Source | None) -> VariableTracker:
    """A live exception: its type is guarded."""
    if source is None:
        source = ctx.module_guards.fixed_source_of(value, f"a {type(value).__qualname__}")
    guard_on_class_of(ctx, value, source)
    return ExceptionVariable(type(value), value=value, source=source)
