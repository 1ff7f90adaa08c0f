"""Constants: immutable values that are known at trace time: numbers, strings, None, dtypes, devices and similar.

The idea: the first use of such a value guards that it is equal; from then on the interpreter computes with the value itself, and
the graph holds it as a literal. Methods of constants (`"a".join`, `(3).bit_length()`) are constant-folded: they are C functions
without side effects.

In: immutable live values. Out: constants. PyTorch's counterpart: `ConstantVariable` in torch/_dynamo/variables/constant.py.
"""

from __future__ import annotations

import contextlib
import operator
import sys
import types
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from dynexplore.engine.graph.constant_codegen import round_trippable_constant
from dynexplore.engine.graph_breaks import GraphBreak, SkipFrame
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import class_module, literal_text, name_in_messages
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotConstant, NotProxyable, VariableTracker
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.contract.inspection import Contents
from dynexplore.engine.variables.operators import BINARY, COMPARE, UNARY, binary_rule, unary_rule
from dynexplore.engine.variables.rules import METHODS

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

# Types whose values are immutable, compare by value and may be constants of a code object.
LITERALS: tuple[type[Any], ...] = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis))
# Immutable torch values that FX accepts as arguments. The cache entry holds them, not the code object.
TORCH_CONSTANTS: tuple[type[Any], ...] = (
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.qscheme,
    torch.finfo,
    torch.iinfo,
)


class ConstantVariable(VariableTracker):
    """A known, immutable value."""

    kind = "constant"
    text_changes = "never"
    origin: Source | None = None  # of a literal: the source of this very object; elsewhere only its value matters

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type[Any]:
        return type(self.value)

    def as_constant(self) -> Any:
        return self.value

    def is_constant(self) -> bool:
        return True

    def live_value(self) -> Any:
        return self.value

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return _truth_of_not_implemented(ctx) if self.value is NotImplemented else bool(self.value)

    def length(self, ctx: TraceContext) -> VariableTracker:
        return computed(ctx, len, self.value)

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return computed(ctx, iter, self.value)

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        try:
            return [ConstantVariable(item) for item in self.value]
        except TypeError as error:
            ctx.raise_exception(TypeError, *error.args)

    def same_object(self, other: VariableTracker) -> bool | None:
        if isinstance(other, ConstantVariable):
            if self.value is other.value:
                return True
            singleton = self.value is None or other.value is None or type(self.value) is bool or type(other.value) is bool
            if singleton or self.value is Ellipsis or type(self.value) is not type(other.value):
                return False
            return None if self.value == other.value else False
        return False

    def hash_key(self, ctx: TraceContext) -> object:
        if isinstance(self.value, float) and self.value != self.value:
            ctx.break_graph("DX320", question="hash()", type="a NaN, which is a key by identity")
        return self.value

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        return computed(ctx, operator.contains, self.value, constant_of(ctx, item, "`in`"))

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        return computed(ctx, operator.getitem, self.value, constant_of(ctx, key, "subscript"))

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "__class__":
            return ctx.build(type(self.value), None)
        try:
            if isinstance(self.value, types.CodeType) and _warns(getattr, self.value, name):
                ctx.break_graph("DX303", name=name, type="code")  # a deprecated attribute warns in each call
            value = getattr(self.value, name)
        except AttributeError as error:
            ctx.raise_exception(AttributeError, *error.args)
        if callable(value) and not isinstance(value, type):
            return ConstantMethodVariable(self, name)
        return ctx.build(value, None)

    def call_method(self, ctx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        row = METHODS.get((type(self.value), name))
        if row is not None:
            return row(ctx, self, args, kwargs)
        if not hasattr(self.value, name):
            ctx.raise_exception(AttributeError, f"{name_in_messages(type(self.value))!r} object has no attribute {name!r}")
        values = [_plain(ctx, arg, f"{self.type_name()}.{name}()") for arg in args]
        named = {key: _plain(ctx, arg, f"{self.type_name()}.{name}()") for key, arg in kwargs.items()}
        return computed(ctx, getattr(self.value, name), *values, **named)

    def as_proxy(self) -> Any:
        """FX generates its arguments as source text, which for some complex numbers evaluates to a different number."""
        value = plain_number(self.value) if is_numpy_number(self.value) else self.value
        return round_trippable_constant(value) if isinstance(value, complex) else value

    def reconstruct(self, build: Reconstruction) -> None:
        if is_literal(self.value):
            build.push_constant(self.value)
        else:
            build.push_object(self.value)

    def text(self) -> str:
        text = literal_text(self.value)
        return text if len(text) <= 60 else text[:57] + "..."

    # -- for those who watch

    def unguarded_value(self, depth: int = 8) -> Any:
        return self.value

    def contents(self, most: int | None = None) -> Contents | None:
        return Contents([], self.value) if type(self.value) in (str, bytes, tuple) else None


class ComputedNumberVariable(ConstantVariable):
    """A numpy scalar that the program computes: a new object in each call, as numpy's operators return."""

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(self.value.copy)
        build.writer.copy(1)
        build.remember(self)


def plain_number(value: Any) -> int | float:
    """The Python number for a numpy scalar. Raises NotProxyable if torch would not treat both as the same number.

    Torch treats a numpy bool as a float, and takes the real part of a complex (torch/csrc/utils/python_arg_parser.h).
    """
    number = value.item()
    if type(number) not in (int, float):
        raise NotProxyable(type(value).__name__)
    return number  # type: ignore[no-any-return]


def returns_receiver(operation: str, result: VariableTracker, content: VariableTracker) -> bool:
    """Whether a method or operator of a builtin type, applied to the content of an object whose class extends the type, returns the
    object: `list.__iadd__`, and formatting of a text without fields.
    """
    if operation in _FIELDS:
        return _is_same_text(result, content, _FIELDS[operation])
    return result is content and result.mutable


_FIELDS = {"format": "{}", "format_map": "{}", "__mod__": "%", "%": "%", "%=": "%"}
"""What replaces fields of a text, with the characters that are in each field."""


def _is_same_text(result: VariableTracker, text: VariableTracker, fields: str) -> bool:
    """Whether formatting returned the very text object, because none of the characters that begin or end `fields` is in it.

    CPython then returns the object itself, whatever its class (Objects/unicodeobject.c, _PyUnicodeWriter_Finish), but for the empty
    text, of which nothing is written.
    """
    if type(result) is not ConstantVariable or type(text) is not ConstantVariable:
        return False
    return type(result.value) is str and text.value != "" and not set(fields) & set(text.value)


class ConstantMethodVariable(VariableTracker):
    """A bound method of a constant, such as `", ".join`."""

    kind = "method"
    mutable = True

    def __init__(self, receiver: VariableTracker, name: str) -> None:
        self.receiver, self.name = receiver, name

    def python_type(self) -> type[Any]:
        raw = getattr(self.receiver.python_type(), self.name, None)
        return types.MethodWrapperType if isinstance(raw, types.WrapperDescriptorType) else types.BuiltinMethodType

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.receiver.call_method(ctx, self.name, args, kwargs)

    def reconstruct(self, build: Reconstruction) -> None:
        build.push(self.receiver)
        build.writer.load_attr(self.name)

    def text(self) -> str:
        return f"{self.receiver.type_name()}.{self.name}"


def is_literal(value: object) -> bool:
    """Whether a value can be a constant of a code object."""
    if type(value) in LITERALS:
        return True
    return type(value) in (tuple, frozenset) and all(map(is_literal, value))  # type: ignore[call-overload]


def is_constant_value(value: object) -> bool:
    """Whether a live value becomes a ConstantVariable."""
    return type(value) in LITERALS or issubclass(type(value), TORCH_CONSTANTS) or is_numpy_number(value)


def is_numpy_number(value: object) -> bool:
    """Whether a value is a numpy scalar; numpy may not be loaded."""
    return is_numpy_type(type(value))


def is_numpy_type(value_type: type[Any]) -> bool:
    """Whether values of this type are numpy scalars."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(value_type, numpy.generic)


def is_plain_value(value: object) -> bool:
    """Whether a live value is constant recursively: a dict key or set member that is compared by value."""
    return is_constant_value(value) or (type(value) in (tuple, frozenset) and all(map(is_plain_value, value)))  # type: ignore[call-overload]


def constant_of(ctx: TraceContext, value: VariableTracker, question: str) -> Any:
    """The constant of a tracker, or a graph break that names the operation."""
    value.read_items(ctx)
    try:
        return value.as_constant()
    except NotConstant:
        ctx.break_graph("DX302", question=f"{question} with a {value.type_name()}", type=value.type_name())


def _plain(ctx: TraceContext, value: VariableTracker, question: str) -> Any:
    """The arguments of a constant's method: constants, or an iterable of them (`", ".join(names)`) of the type that it has.

    The method may take a tuple and no list (`startswith`), and its messages name the type.
    """
    if value.is_constant():
        return value.as_constant()
    cls = value.python_type()
    if cls not in (list, tuple, map, filter) and value.kind not in ("iterator", "generator"):
        return constant_of(ctx, value, question)
    if cls in (list, tuple):
        return cls(constant_of(ctx, item.read(ctx), question) for item in value.unpack(ctx))
    return type(name_in_messages(cls), (_Iterator,), {"__slots__": ()})(ctx, value, question)


class _Iterator:
    """The program's iterator, advanced when the method asks for an item. Its class has the name that messages give for the type."""

    __slots__ = ("ctx", "question", "value")

    def __init__(self, ctx: TraceContext, value: VariableTracker, question: str) -> None:
        self.ctx, self.value, self.question = ctx, value, question

    def __iter__(self) -> _Iterator:
        return self

    def __next__(self) -> Any:
        item = self.value.next_item(self.ctx)
        if item is None:
            raise StopIteration
        return constant_of(self.ctx, item, self.question)


def computed(ctx: TraceContext, function: Any, *args: Any, **kwargs: Any) -> VariableTracker:
    """Run a C function on constants at trace time; the program raises what it raises.

    A result of unknown type may be mutable (a regex scanner), so each call needs its own: the graph breaks.
    """
    value = run_now(ctx, function, *args, **kwargs)
    if is_numpy_number(value):
        return ComputedNumberVariable(value)
    result = ctx.build(value, None)
    if result.kind == "object" and result.source is None:
        ctx.break_graph("DX213", method=getattr(function, "__qualname__", str(function)))
    return result


def run_now(ctx: TraceContext, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a C function that depends on nothing but its arguments; the program raises what it raises.

    The function may call back into the translator: graph breaks and exceptions of the program raised there propagate.
    """
    try:
        with _breaking_on_warnings(ctx, function, args):
            return function(*args, **kwargs)
    except (ObservedException, GraphBreak, SkipFrame):
        raise
    except Exception as error:  # a C function may raise any exception; the program gets the same one
        ctx.raise_exception(type(error), *error.args)


_MAY_WARN = frozenset({"__invert__", "decode", "str"})
"""Names of C functions that warn of some constants: `True.__invert__()`, and `decode` and `str` of bytes with an invalid escape."""


def _breaking_on_warnings(ctx: TraceContext, function: Any, args: tuple[Any, ...]) -> contextlib.AbstractContextManager[None]:
    """Break the graph if a call warns: the warning names the program's line, and is issued in each call."""
    if getattr(function, "__name__", None) in _MAY_WARN:
        return _warnings_break(ctx, function.__name__)
    return _numpy_warnings_break(ctx) if any(class_module(type(arg)) == "numpy" for arg in args) else contextlib.nullcontext()


@contextlib.contextmanager
def _warnings_break(ctx: TraceContext, name: str) -> Iterator[None]:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            if warned:
                ctx.break_graph("DX205", function=name, arguments="constants that it warns of")


@contextlib.contextmanager
def _numpy_warnings_break(ctx: TraceContext) -> Iterator[None]:
    numpy = sys.modules["numpy"]
    warned = {kind: "raise" for kind, reaction in numpy.geterr().items() if reaction == "warn"}
    try:
        with numpy.errstate(**warned):
            yield
    except FloatingPointError:
        ctx.break_graph("DX207", function="arithmetic that warns or raises (np.seterr)")


@binary_rule(ConstantVariable, ConstantVariable, rank=10)
def _constants(ctx: TraceContext, symbol: str, left: ConstantVariable, right: ConstantVariable) -> VariableTracker:
    function = BINARY.get(symbol) or COMPARE[symbol]
    return computed(ctx, function, left.value, right.value)


@binary_rule(ConstantMethodVariable, ConstantMethodVariable, "==", "!=")
def _methods(ctx: TraceContext, symbol: str, left: ConstantMethodVariable, right: ConstantMethodVariable) -> VariableTracker:
    """Two bound C methods are equal if they are the same method of the same object."""
    same = left.name == right.name and left.receiver.same_object(right.receiver)
    if same is None:
        ctx.break_graph("DX305", operator=symbol, left=left.text(), right=right.text())
    return ConstantVariable(same == (symbol == "=="))


@unary_rule(ConstantVariable, rank=10)
def _constant(ctx: TraceContext, symbol: str, operand: ConstantVariable) -> VariableTracker:
    if symbol == "invert" and type(operand.value) is bool and _warns(UNARY[symbol], operand.value):
        ctx.break_graph("DX205", function="~", arguments="bool")  # it warns in each call
    return computed(ctx, UNARY[symbol], operand.value)


def _truth_of_not_implemented(ctx: TraceContext) -> NoReturn:
    """Break the graph: Python warns in each call that evaluates it, and raises from 3.14 on."""
    try:
        _warns(bool, NotImplemented)
    except TypeError as error:
        ctx.raise_exception(TypeError, *error.args)
    ctx.break_graph("DX302", question="truth value", type="NotImplemented")


def _warns(function: Any, *args: Any) -> bool:
    """Whether Python warns about such a call, as some versions do about `~True`."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        function(*args)
    return bool(warned)
