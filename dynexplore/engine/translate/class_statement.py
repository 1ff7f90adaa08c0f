"""Classes made inside the frame: the body is interpreted, and a class created for this attempt represents the new one.

The idea: each call of the frame creates a new class. One that does not escape need not be created in the modified code: its body
is interpreted like a callee with a namespace, and `type(name, bases, namespace)` creates a *trace-time class* once, in which
attribute lookups give the same results as in the real class. A function of the body is replaced by a twin with the same code,
whose cells refer to the frame's trackers; any other value that is not constant is in `stored`, as if the frame had assigned it. A
trace-time class must not escape the frame: the code generator refuses to push it (TraceTimeClassEscapes), and the next attempt
stops before the statement, which Python then runs.

A class whose creation runs user code (`__new__` of a metaclass, `__init_subclass__`, `__set_name__`) breaks the graph.

In: calls of `builtins.__build_class__`, `type`, `namedtuple`. Out: a `FrameClassVariable`.
PyTorch's counterpart: `call___build_class__` in torch/_dynamo/variables/builtin.py, which runs the statement once, at compile
time, and uses that class in every call.
"""

from __future__ import annotations

import builtins
import collections
import enum
import types
from abc import ABCMeta
from typing import TYPE_CHECKING, Any

from dynexplore.engine.bytecode import read
from dynexplore.engine.translate.enum_statement import (
    RecordedNamespace,
    is_auto,
    is_enumeration,
    new_enumeration,
    plain_value,
    runs_code_of_program,
)
from dynexplore.engine.translate.inlining import run, set_up_cells
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.callables.function import (
    CellVariable,
    DefaultOfFrame,
    FunctionVariable,
    LiveCallableVariable,
    NestedFunctionVariable,
)
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotConstant, VariableTracker
from dynexplore.engine.variables.contract.frame_effects import TraceTimeClass
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.objects.frame_class import FrameClassVariable
from dynexplore.engine.variables.objects.new_descriptor import NewDescriptorVariable
from dynexplore.engine.variables.objects.type_lookup import peek, raw_lookup
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.rules import rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.scalars.enumeration import EnumClassVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


@rule(builtins.__build_class__)
def _build_class(ctx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Trace a class statement."""
    if len(args) < 2:
        ctx.raise_exception(TypeError, "__build_class__: not enough arguments")
    body, name, *bases = args
    statement: type[ClassStatement] = EnumStatement if is_enumeration(bases) else ClassStatement
    if not isinstance(body, NestedFunctionVariable) or not statement.can_derive(ctx, bases, kwargs):
        ctx.break_graph("DX315")
    assert isinstance(body, NestedFunctionVariable)
    return statement(ctx, name.as_constant(), bases, kwargs, _interpret_body(ctx, body)).make()


def _is_plain_base(ctx: Any, base: VariableTracker) -> bool:
    """Whether deriving from a class runs no user code."""
    if not isinstance(base, ClassVariable) or not _is_plain_metaclass(ctx, type(base.value)):
        return False
    return peek(base.value, "__init_subclass__") is vars(object)["__init_subclass__"]


def _is_plain_metaclass(ctx: Any, metaclass: type[Any]) -> bool:
    """Whether a metaclass leaves the creation of a class to `type` or ABCMeta."""
    if metaclass is type or metaclass is ABCMeta:
        return True
    if type(metaclass) is not type or not issubclass(metaclass, type):
        return False
    made_by = ABCMeta if issubclass(metaclass, ABCMeta) else type
    return all(raw_lookup(ctx, metaclass, name) is peek(made_by, name) for name in _CALLED_OF_METACLASSES)


#: the methods of a metaclass that a class statement calls
_CALLED_OF_METACLASSES = ("__prepare__", "__new__", "__init__", "mro")


def _interpret_body(ctx: Interpreter, body: NestedFunctionVariable) -> RecordedNamespace:
    """Interpret the body of a class; return its namespace."""
    frame = SymbolicFrame(read(body.code), ctx.calls.namespace_of(body), body, ctx.frames.innermost)
    set_up_cells(ctx, frame, body)
    frame.namespace = namespace = RecordedNamespace()
    run(ctx, frame)
    return namespace


class ClassStatement:
    """Creates one trace-time class."""

    def __init__(self, ctx: Interpreter, name: str, bases: list[Any], keywords: Kwargs, namespace: RecordedNamespace) -> None:
        self.ctx, self.name, self.bases, self.keywords, self.namespace = ctx, name, bases, keywords, namespace
        self.stored: dict[str, VariableTracker | None] = {}
        self.parts: list[object] = []

    def make(self) -> VariableTracker:
        """The tracker of the new class."""
        ctx = self.ctx
        classcell = self.namespace.get("__classcell__")
        members = dict(self.namespace)
        if isinstance(classcell, CellVariable):  # anything else is for `type` to refuse
            del members["__classcell__"]
        real = {name: self._class_attribute(name, value) for name, value in members.items()}
        for base in self.bases:
            ctx.module_guards.guard_on_bases(base.value)
        try:
            cls = self._new(tuple(base.value for base in self.bases), real)
        except (TypeError, ValueError) as error:
            ctx.raise_exception(type(error), *error.args)
        tracker = self._tracker(cls)
        ctx.journal.remember(cls, tracker)
        if isinstance(classcell, CellVariable):
            classcell.content = tracker
        _note_trace_time_class(ctx, tracker, cls, *self.parts)
        return tracker

    @staticmethod
    def can_derive(ctx: Interpreter, bases: list[Any], keywords: Kwargs) -> bool:
        """Whether such a class can have a trace-time class, by its bases and its metaclass."""
        metaclass = keywords.get("metaclass")
        if metaclass is not None and not (isinstance(metaclass, ClassVariable) and _is_plain_metaclass(ctx, metaclass.value)):
            return False
        return not keywords.keys() - {"metaclass"} and all(_is_plain_base(ctx, base) for base in bases)

    def _new(self, bases: tuple[type[Any], ...], namespace: dict[str, object]) -> type[Any]:
        """Create the class; raises what Python raises."""
        keywords = {name: value.live_value() for name, value in self.keywords.items()}
        return types.new_class(self.name, bases, keywords, lambda new: new.update(namespace))

    def _tracker(self, cls: type[Any]) -> ClassVariable:
        return FrameClassVariable(cls, self.stored)

    def _class_attribute(self, name: str, value: VariableTracker) -> object:
        """The object in the trace-time class's `__dict__` that represents a value of the body."""
        if isinstance(value, NestedFunctionVariable | NewDescriptorVariable):
            return self._twin(value)
        if isinstance(value, LiveCallableVariable | ClassVariable):
            return value.live_value()
        if value.is_constant() and type(value.as_constant()).__hash__ is not None:
            return value.as_constant()
        kind = value.python_type()
        if name in _READ_BY_TYPE:
            self.stored[name] = value  # the program gets the object that the body made
            return self._plain(value)
        if name.startswith("__") or hasattr(kind, "__get__") or peek(kind, "__set_name__") is not None:
            self.ctx.break_graph("DX315")
        self.stored[name] = value
        return object()

    def _twin(self, value: VariableTracker) -> Any:
        if isinstance(value, NewDescriptorVariable):
            return self._part(value.descriptor(*map(self._part_of_descriptor, value.parts)))
        assert isinstance(value, NestedFunctionVariable)
        function: Any = types.FunctionType(
            value.code, value.namespace, value.code.co_name, tuple(map(_default_of_twin, value.defaults)) or None,
            tuple(map(self._twin_of_cell, value.cells)),
        )  # fmt: skip
        if value.keyword_defaults:
            function.__kwdefaults__ = {name: _default_of_twin(part) for name, part in value.keyword_defaults.items()}
        if value.annotate is not None:  # Python 3.14 and later: code that computes them when they are read
            function.__annotate__ = self._part_of_descriptor(value.annotate)
        if value.annotations is not None:
            names_and_types = map(self._plain, value.annotations.unpack(self.ctx))
            function.__annotations__ = dict(zip(names_and_types, names_and_types, strict=True))
        for name, attribute in value.attributes.items():
            if not attribute.is_constant():
                self.ctx.break_graph("DX315")
            setattr(function, name, attribute.as_constant())
        return self._part(function)

    def _plain(self, value: VariableTracker) -> Any:
        try:
            return plain_value(value)
        except NotConstant:
            self.ctx.break_graph("DX315")

    def _part_of_descriptor(self, value: VariableTracker) -> Any:
        if isinstance(value, NestedFunctionVariable | NewDescriptorVariable):
            return self._twin(value)
        if isinstance(value, FunctionVariable | ConstantVariable):
            return value.as_constant()
        self.ctx.break_graph("DX315")

    def _twin_of_cell(self, tracker: CellVariable) -> types.CellType:
        cell = types.CellType()
        self.ctx.journal.remember(cell, tracker)
        return cell

    def _part(self, part: Any) -> Any:
        self.parts.append(part)
        return part


#: attributes of the body that are containers, and that `type.__new__` reads
_READ_BY_TYPE = frozenset({"__slots__", "__annotations__"})


def _default_of_twin(value: VariableTracker) -> object:
    """The default in the twin of a function: what the frame makes has its tracker in a placeholder."""
    if isinstance(value, LiveCallableVariable | ClassVariable):
        return value.live_value()
    return value.as_constant() if value.is_constant() else DefaultOfFrame(value)


class EnumStatement(ClassStatement):
    """Creates the trace-time class of an enumeration."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._automatic: dict[UserObjectVariable, enum.auto] = {}

    @staticmethod
    def can_derive(ctx: Interpreter, bases: list[Any], keywords: Kwargs) -> bool:
        """Whether such a class can have a trace-time class, by its bases."""
        return all(value.is_constant() for value in keywords.values()) and not runs_code_of_program(bases, {})

    def _new(self, bases: tuple[type[Any], ...], namespace: dict[str, object]) -> type[Any]:
        if self.stored or not self.namespace.is_in_order or runs_code_of_program([], self.namespace):
            self.ctx.break_graph("DX315")
        return new_enumeration(self.name, bases, namespace, {name: value.as_constant() for name, value in self.keywords.items()})

    def _tracker(self, cls: type[Any]) -> ClassVariable:
        for tracker, automatic in self._automatic.items():
            tracker.store_own(self.ctx, "value", ConstantVariable(automatic.value))
        return EnumClassVariable(cls, None)

    def _class_attribute(self, name: str, value: VariableTracker) -> object:
        if not is_auto(value):
            return super()._class_attribute(name, value)
        assert isinstance(value, UserObjectVariable)
        if value not in self._automatic:  # `first = second = auto()` is one object: the second is an alias
            initial = value.own_attribute(self.ctx, "value")
            assert initial is not None
            try:
                live = initial.as_constant() if initial.is_constant() else initial.live_value()
            except NotConstant:
                self.ctx.break_graph("DX315")
            self._automatic[value] = enum.auto(live)  # type: ignore[call-arg]
        return self._automatic[value]

    def _twin_of_cell(self, tracker: CellVariable) -> types.CellType:
        self.ctx.break_graph("DX315")


def make_enumeration(ctx: Interpreter, base: EnumClassVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Create an enumeration by a call, from constants, if `enum` runs no user code for it."""
    if runs_code_of_program([base, *(value for value in kwargs.values() if isinstance(value, ClassVariable))], {}):
        ctx.break_graph("DX315")
    names, keywords = _constants(ctx, args, kwargs)
    keywords.setdefault("module", ctx.frames.innermost.globals.values.get("__name__"))  # enum would read it from the calling frame
    make: Any = base.value
    try:
        cls = make(*names, **keywords)
    except (TypeError, ValueError) as error:
        ctx.raise_exception(type(error), *error.args)
    tracker = EnumClassVariable(cls, None)
    ctx.journal.remember(cls, tracker)
    _note_trace_time_class(ctx, tracker, cls)
    return tracker


def make_class(ctx: Interpreter, name: str, bases: list[VariableTracker], namespace: VariableTracker) -> VariableTracker:
    """`type(name, bases, namespace)`: the class that the equivalent class statement would create."""
    members = RecordedNamespace()
    for key in namespace.unpack(ctx):
        value = namespace.get_item(ctx, key).read(ctx)
        if not isinstance(key.as_constant(), str) or isinstance(value, NestedFunctionVariable | NewDescriptorVariable):
            ctx.break_graph("DX315", function="type() with three arguments")  # the program may hold the function itself
        members[key.as_constant()] = value
    if is_enumeration(bases) or not ClassStatement.can_derive(ctx, bases, {}):
        ctx.break_graph("DX315", function="type() with three arguments")
    members.setdefault("__module__", ConstantVariable(ctx.frames.innermost.globals.values.get("__name__")))
    return ClassStatement(ctx, name, bases, {}, members).make()


def _constants(ctx: Interpreter, args: Args, kwargs: Kwargs) -> tuple[list[Any], dict[str, Any]]:
    """The values of arguments that are constants."""
    try:
        return [plain_value(value) for value in args], {name: plain_value(value) for name, value in kwargs.items()}
    except NotConstant:
        ctx.break_graph("DX315")


@rule(collections.namedtuple)
def _named_tuple(ctx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Create a class of named tuples from constants."""
    names, keywords = _constants(ctx, args, kwargs)
    if keywords.get("module") is None:  # the function would read it from the calling frame
        keywords["module"] = ctx.frames.innermost.globals.values.get("__name__", "__main__")
    make: Any = collections.namedtuple
    cls: Any = None
    try:
        cls = make(*names, **keywords)
    except (TypeError, ValueError) as error:
        ctx.raise_exception(type(error), *error.args)
    tracker = FrameClassVariable(cls, {})
    ctx.journal.remember(cls, tracker)
    _note_trace_time_class(ctx, tracker, cls)
    return tracker


def _note_trace_time_class(ctx: Interpreter, tracker: VariableTracker, *parts: object) -> None:
    """Register a trace-time class and its parts, none of which may escape the frame."""
    for part in parts:
        ctx.effects.trace_time_classes[id(part)] = TraceTimeClass(part, tracker.created_at_step, ctx.frames.user_stack())
