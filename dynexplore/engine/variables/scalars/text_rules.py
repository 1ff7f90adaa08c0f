"""Rules for text: str, repr, format, `%` and str.format, of values that are known at trace time.

The idea: Python itself formats a real object that formats like the value: constants are used as they are, containers are rebuilt,
and any other value is replaced by a `Shown`, which computes the tracker's text when Python's formatting calls its special method.
So every format string means what it means in Python. A tensor has no text before the graph runs.

In: calls that produce text. Out: string constants. PyTorch's counterpart: `generic_str` and `generic_repr` in
torch/_dynamo/variables/object_protocol.py, `StringFormatVariable` in misc.py.
"""

from __future__ import annotations

import operator
import re
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.native import set_in_table
from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import name_in_messages
from dynexplore.engine.variables.callables.function import BuiltinVariable, FunctionVariable
from dynexplore.engine.variables.containers.deque import DequeVariable
from dynexplore.engine.variables.containers.list_items import fast_items
from dynexplore.engine.variables.containers.mapping import DictVariable, MappingProxyVariable
from dynexplore.engine.variables.containers.named_tuple import NamedTupleVariable, make
from dynexplore.engine.variables.containers.ranges import StartStopStepVariable
from dynexplore.engine.variables.containers.sequence import SequenceVariable
from dynexplore.engine.variables.containers.set_ import SetVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, NotConstant, VariableTracker
from dynexplore.engine.variables.contract.build import builds
from dynexplore.engine.variables.objects.exception import ExceptionVariable, is_worded_by_its_arguments, remade
from dynexplore.engine.variables.objects.type_lookup import defines, guard_on_name_of, guard_on_names, peek
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.operators import BINARY, binary_rule
from dynexplore.engine.variables.rules import method, rule, rule_for
from dynexplore.engine.variables.scalars.constant import ConstantVariable, computed, run_now
from dynexplore.engine.variables.scalars.enumeration import EnumVariable
from dynexplore.engine.variables.scalars.number_rules import plain, runs_on_constants
from dynexplore.engine.variables.scalars.special_results import checked_result
from dynexplore.engine.variables.scalars.specialize import is_specializable, is_tensor, specialize
from dynexplore.engine.variables.signatures import builtin, builtin_method
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable
from dynexplore.engine.variables.type_errors import type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext


class Shown:
    """A value as passed to Python's formatting, which computes its text only on demand.

    All its attributes, including `__class__`, are the value's; its own fields are read past `__getattribute__`. A container that
    it is an item of is a copy: if the value's method mutates the real container, the graph breaks.
    """

    __slots__ = ("around", "behind")

    def __init__(self, ctx: TraceContext, value: VariableTracker, around: Sequence[Watched] = ()) -> None:
        self.behind = ctx, value
        self.around = around

    def __str__(self) -> str:
        return _text_of_shown(self, "__str__")

    def __repr__(self) -> str:
        return _text_of_shown(self, "__repr__")

    def __format__(self, spec: str) -> str:
        return _text_of_shown(self, "__format__", spec)

    def __getattribute__(self, name: str) -> Any:
        ctx, value = _behind(self)
        return shape_of(ctx, value.get_attribute(ctx, name))


class ShownItems(Shown):
    """A `Shown` with items: only such an object may be the right operand of `%` for a text without `%s`."""

    __slots__ = ()

    def __getitem__(self, key: object) -> Any:
        ctx, value = _behind(self)
        return shape_of(ctx, value.get_item(ctx, ConstantVariable(key)))


class Watched:
    """A container whose copy is being formatted."""

    def __init__(self, container: VariableTracker) -> None:
        self.container = container
        self.items: list[VariableTracker] = []

    def begin(self, ctx: TraceContext) -> None:
        """The copy is complete."""
        self.items = self._items(ctx)

    def check(self, ctx: TraceContext, name: str) -> None:
        """Break the graph if the container was mutated meanwhile."""
        items = self._items(ctx)
        if len(items) != len(self.items) or any(item is not earlier for item, earlier in zip(items, self.items, strict=True)):
            ctx.break_graph("DX205", function=name, arguments=f"an item that changes its {self.container.type_name()}")

    def _items(self, ctx: TraceContext) -> list[VariableTracker]:
        contents = self.container.contents()
        items = [] if contents is None else contents.items
        return [part.read(ctx) for item in items for part in (item if isinstance(item, tuple) else (item,))]


def _text_of_shown(shown: Shown, name: str, *spec: str) -> str:
    ctx, value = _behind(shown)
    text = text_of(ctx, value, name, *spec)
    for watched in object.__getattribute__(shown, "around"):
        watched.check(ctx, name)
    return text


def _behind(shown: Shown) -> tuple[TraceContext, VariableTracker]:
    return object.__getattribute__(shown, "behind")  # type: ignore[no-any-return]


def _shown(ctx: TraceContext, value: VariableTracker, around: Sequence[Watched] = ()) -> Shown:
    cls = type_of(value)
    shown: type[Shown] = ShownItems if isinstance(cls, type) and defines(cls, "__getitem__") else Shown
    if isinstance(cls, type):
        shown = type(cls.__name__, (shown,), {"__slots__": ()})  # Python's error messages name the class
    return shown(ctx, value, around)


def text_of(ctx: TraceContext, value: VariableTracker, name: str, *spec: str) -> str:
    """The result of a value's own `__str__`, `__repr__` or `__format__`."""
    if is_tensor(value):
        ctx.break_graph("DX103", operation=name)
    python_type: Any = type_of(value)
    if python_type is None:
        ctx.break_graph("DX205", function=name, arguments=value.kind)
    guard_on_names(ctx, python_type, "__getattribute__", "__format__", "__str__", "__repr__")
    if issubclass(python_type, type):
        own = any(isinstance(peek(python_type, part), types.FunctionType) for part in ("__str__", "__format__"))
        if own:
            ctx.break_graph("DX205", function=name, arguments=value.type_name())
        words = _class_text(ctx, value)
        return _own_format(ctx, python_type, words, *spec) if name == "__format__" else words
    if isinstance(value, BuiltinVariable) and not _is_python(python_type, "__repr__"):  # guarded to be the same object
        return run_now(ctx, _TEXT_FUNCTIONS[name], value.live_value(), *spec)  # type: ignore[no-any-return]
    if isinstance(value, FunctionVariable) and not value.by_code:
        value.get_attribute(ctx, "__qualname__")  # guards it
        return run_now(ctx, _TEXT_FUNCTIONS[name], value.live_value(), *spec)  # type: ignore[no-any-return]
    requested = name
    if name == "__str__" and python_type.__str__ is object.__str__:
        name = "__repr__"
    if name == "__format__" and python_type.__format__ is object.__format__:
        return _own_format(ctx, python_type, text_of(ctx, value, "__str__"), *spec)
    if getattr(python_type, name) is getattr(object, name) or not _is_python(python_type, name):
        ctx.break_graph("DX205", function=name, arguments=value.type_name())  # contains the object's address
    arguments = [ConstantVariable(part) for part in spec]
    special = value.special(ctx, name) if isinstance(value, UserObjectVariable) else None  # never the object's own attribute
    text = value.call_method(ctx, name, arguments, {}) if special is None else special.call(ctx, arguments, {})
    if type_of(text) is not str:
        text = checked_result(ctx, _TEXT_FUNCTIONS[requested], python_type, name, text, *spec)
    if not is_specializable(text):
        ctx.break_graph("DX205", function=name, arguments=value.type_name())
    return specialize(text)  # type: ignore[no-any-return]


def _own_format(ctx: TraceContext, cls: type[Any], text: str, spec: str = "") -> str:
    """object.__format__, which takes no format specification."""
    if spec:
        ctx.raise_exception(TypeError, f"unsupported format string passed to {name_in_messages(cls)}.__format__")
    return text


_TEXT_FUNCTIONS: dict[str, Any] = {"__str__": str, "__repr__": repr, "__format__": format}


def _is_python(python_type: type[Any], name: str) -> bool:
    return hasattr(getattr(python_type, name), "__code__")


def _class_text(ctx: TraceContext, value: VariableTracker) -> str:
    cls = value.live_value()
    metaclass: Any = type(cls)
    if metaclass.__repr__ is not type.__repr__:
        ctx.break_graph("DX205", function="repr", arguments=value.type_name())
    return repr(cls)


def shape_of(ctx: TraceContext, value: VariableTracker, around: Sequence[Watched] = ()) -> Any:
    """A real object that formats like the value; `around`: the containers that contain it."""
    value = value.read(ctx)
    if isinstance(value, EnumVariable):  # its text contains the class name
        guard_on_name_of(ctx, type(value.value))
    if is_specializable(value):
        return specialize(value)
    for tracker, rebuild in _REBUILT:
        if isinstance(value, tracker):
            watched = Watched(value)
            shape = rebuild(ctx, value, (*around, watched))
            watched.begin(ctx)
            return shape
    return _shown(ctx, value, around)


def _pairs(ctx: TraceContext, value: DictVariable, around: Sequence[Watched]) -> Any:
    if isinstance(value, MappingProxyVariable):
        return MappingProxyType(_pairs(ctx, value.behind, around))
    pairs = [(shape_of(ctx, key, around), shape_of(ctx, item, around)) for key, item in value.pairs(ctx)]
    if value.value_type is OrderedDict:
        return OrderedDict(pairs)
    if value.value_type is defaultdict:
        return defaultdict(None, pairs) if getattr(value, "factory", None) is None else _with_factory(ctx, value, pairs, around)
    return dict(pairs)


def _with_factory(ctx: TraceContext, value: Any, pairs: list[Any], around: Sequence[Watched]) -> Any:
    try:
        factory = value.factory.read(ctx)
        live = factory.as_constant() if factory.is_constant() else factory.live_value()
    except NotConstant:
        return _shown(ctx, value, around)
    return defaultdict(live, pairs)


def _named(ctx: TraceContext, value: NamedTupleVariable, around: Sequence[Watched]) -> Any:
    guard_on_names(ctx, value.cls, "__str__", "__repr__", "__format__")
    guard_on_name_of(ctx, value.cls)
    if not _generated_repr(value.cls) or _is_python(value.cls, "__format__") or _is_python(value.cls, "__str__"):
        return _shown(ctx, value, around)
    return make(value.cls, tuple(shape_of(ctx, item, around) for item in value.items))


def _generated_repr(cls: type[Any]) -> bool:
    """Whether a named tuple's class has the `__repr__` that `collections.namedtuple` generates."""
    return getattr(cls.__repr__, "__module__", "") in ("collections", None) or not hasattr(cls.__repr__, "__code__")


def _exception(ctx: TraceContext, value: ExceptionVariable, around: Sequence[Watched]) -> Any:
    guard_on_names(ctx, value.cls, "__str__", "__repr__", "__format__")
    guard_on_name_of(ctx, value.cls)
    if any(_is_python(value.cls, name) for name in ("__new__", "__str__", "__repr__", "__format__")):
        return _shown(ctx, value, around)
    if not is_worded_by_its_arguments(value):
        ctx.break_graph("DX310", method="__str__", type=value.cls.__qualname__)  # computed from fields that may have changed
    return remade(value.cls, tuple(shape_of(ctx, arg, around) for arg in value.load_args(ctx)))


def _sequence(ctx: TraceContext, value: SequenceVariable, around: Sequence[Watched]) -> Any:
    items = [shape_of(ctx, item, around) for item in value.items]
    if value.value_type is torch.Size:
        return torch.Size(items)
    return value.value_type(items)


def _set(ctx: TraceContext, value: SetVariable, around: Sequence[Watched]) -> Any:
    value.ordered(ctx)  # which guards the order
    items, table = value.building()
    shapes = [shape_of(ctx, item, around) for item in items]
    if table is None:
        return value.value_type(shapes)
    return set_in_table(set() if value.value_type is set else None, tuple(shapes), table)


_REBUILT: tuple[tuple[type[VariableTracker], Callable[[Any, Any, Any], Any]], ...] = (
    (NamedTupleVariable, _named),
    (DequeVariable, lambda ctx, value, around: deque([shape_of(ctx, item, around) for item in value.items], value.maxlen)),
    (SequenceVariable, _sequence),
    (DictVariable, _pairs),
    (SetVariable, _set),
    (StartStopStepVariable, lambda ctx, value, around: value.value_type(*(shape_of(ctx, part, around) for part in value.parts))),
    (ExceptionVariable, _exception),
)


# -- rules ------------------------------------------------------------------------------------------------------------


@rule(str)
def _str(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    if len(args) == 1 and isinstance(args[0], ConstantVariable) and type(args[0].value) is str and not kwargs:
        return args[0]
    shapes = [shape_of(ctx, arg) for arg in args]
    return computed(ctx, str, *shapes, **{name: shape_of(ctx, arg) for name, arg in kwargs.items()})


@builtin(repr)
def _repr(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
    return computed(ctx, repr, shape_of(ctx, value))


@builtin(ascii)
def _ascii(ctx: TraceContext, value: VariableTracker, /) -> VariableTracker:
    return computed(ctx, ascii, shape_of(ctx, value))


@builtin(format)
def _format(ctx: TraceContext, value: VariableTracker, spec: VariableTracker | None = None, /) -> VariableTracker:
    return computed(ctx, format, shape_of(ctx, value), "" if spec is None else shape_of(ctx, spec))


@method(str, "format")
def _str_format(ctx: TraceContext, self: ConstantVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    shapes = [shape_of(ctx, arg) for arg in args]
    return computed(ctx, self.value.format, *shapes, **{name: shape_of(ctx, arg) for name, arg in kwargs.items()})


@builtin_method(str, "format_map")
def _format_map(ctx: TraceContext, self: ConstantVariable, mapping: VariableTracker, /) -> VariableTracker:
    return computed(ctx, self.value.format_map, shape_of(ctx, mapping))


@builtin_method(str, "join")
def _join(ctx: TraceContext, self: ConstantVariable, iterable: VariableTracker, /) -> VariableTracker:
    items = fast_items(ctx, iterable)
    for item in items:
        if not is_specializable(item):
            ctx.break_graph("DX205", function="str.join", arguments=item.type_name())
    return computed(ctx, self.value.join, [specialize(item) for item in items])


@binary_rule(ConstantVariable, TensorVariable, "%", "%=", rank=19)
def _percent_tensor(ctx: TraceContext, symbol: str, left: ConstantVariable, right: TensorVariable) -> VariableTracker:
    if isinstance(left.value, (str, bytes)):
        ctx.break_graph("DX103", operation="%")
    return ctx.operation("call_function", operator.mod, [left, right], {})


@binary_rule(ConstantVariable, VariableTracker, "%", "%=", rank=60)
def percent(ctx: TraceContext, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    """`text % values`: the items of any tuple, including subclasses; a str is a single value and never a mapping, including
    subclasses (unicodeobject.c, PyUnicode_Format). Bytes formatting reads a value's buffer, so no substitute can be used.
    """
    storage, cls, text = getattr(right, "storage", None), right.python_type(), left.as_constant()
    if isinstance(text, bytes) and not is_specializable(right):
        ctx.break_graph("DX304", operator=symbol, left="bytes", right=right.type_name())
    values = storage if storage is not None and issubclass(cls, tuple) else right
    shape = shape_of(ctx, values)
    return computed(ctx, BINARY[symbol], text, (shape,) if issubclass(cls, str) else shape)


# -- regular expressions ----------------------------------------------------------------------------------------------


@builds(re.Pattern, re.Match)
def build_regular_expression(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A compiled pattern or a match object: both are immutable, so every result is known at trace time."""
    if source is not None:
        ctx.guard(source, "ID_MATCH", Identity(value, keep=False))
    return ConstantVariable(value, source)


def _refuse_callables(ctx: TraceContext, function: str, args: Args, kwargs: Kwargs) -> None:
    """Break the graph for a replacement that is called with each match: it would run now, and not in later calls."""
    for value in (*args, *kwargs.values()):
        kind = type_of(value)
        if kind is not None and defines(kind, "__call__"):
            ctx.break_graph("DX205", function=function, arguments=value.type_name())


def _declare_substitution(name: str) -> None:
    @method(re.Pattern, name)
    def row(ctx: TraceContext, self: ConstantVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
        _refuse_callables(ctx, f"re.Pattern.{name}", args, kwargs)
        values = [plain(ctx, arg, name) for arg in args]
        return computed(ctx, getattr(self.value, name), *values, **{key: plain(ctx, arg, name) for key, arg in kwargs.items()})


for _name in ("sub", "subn"):
    _declare_substitution(_name)


def _declare_regular(function: Any) -> None:
    runs_on_constants(function)
    constant_row = rule_for(function)
    assert constant_row is not None

    @rule(function)
    def row(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        _refuse_callables(ctx, f"re.{function.__name__}", args, kwargs)
        for flags in (*args, *kwargs.values()):
            if flags.is_constant() and isinstance(flags.as_constant(), int) and flags.as_constant() & re.DEBUG:
                ctx.break_graph("DX205", function=f"re.{function.__name__}", arguments="re.DEBUG")  # it prints
        return constant_row.handler(ctx, args, kwargs)


for _function in (re.compile, re.match, re.search, re.fullmatch, re.findall, re.split, re.sub, re.subn, re.escape):
    _declare_regular(_function)
