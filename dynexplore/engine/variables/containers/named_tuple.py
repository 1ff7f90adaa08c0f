"""Named tuples: namedtuples of the program, and the structseqs that torch functions such as `torch.max` return.

The idea: a tuple with a class. Field names are read from the class (`_fields`, or `__match_args__` of C structseqs); its other
attributes (methods, properties, `_replace`) are looked up as in any class.

In: live named tuples, calls of their classes. Out: items. PyTorch's counterpart: `NamedTupleVariable` and `StructSequenceVariable`
in torch/_dynamo/variables/user_defined.py.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import class_qualname, instance_dict
from dynexplore.engine.variables.containers.builtin_subclass import NAMED_ITEM, make_subclass_instance, new_subclass_instance
from dynexplore.engine.variables.containers.list_items import tuple_items
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.sequence import TupleVariable, existing_items
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.contract.build import builds_when
from dynexplore.engine.variables.contract.inspection import Unknown
from dynexplore.engine.variables.contract.nested_text import nested_text
from dynexplore.engine.variables.objects import descriptors, type_lookup
from dynexplore.engine.variables.objects.builtin_value import method_row
from dynexplore.engine.variables.objects.class_ import ClassVariable, makes
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable
from dynexplore.engine.variables.signatures import builtin, builtin_method
from dynexplore.engine.variables.type_errors import type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


def is_named_tuple_class(cls: Any) -> bool:
    """Whether a class is a namedtuple that does not override `__new__`, or a C structseq."""
    if not isinstance(cls, type) or not issubclass(cls, tuple):
        return False
    named = isinstance(getattr(cls, "_fields", None), tuple) and hasattr(cls, "_make")
    return is_structure(cls) or (named and not any(_is_user_defined(type_lookup.peek(cls, name), name) for name in _OF_TUPLES))


def _is_user_defined(special: Any, name: str) -> bool:
    """Whether a special method was defined by the program, or removed by it."""
    return isinstance(special, types.FunctionType) or (special is None and type_lookup.peek(tuple, name) is not None)


def is_structure(cls: type[Any]) -> bool:
    """Whether a class is a C structseq: `torch.return_types.max`."""
    return hasattr(cls, "n_sequence_fields")


def has_other_fields(cls: Any) -> bool:
    """Whether instances of a structseq class have fields that are not items: `time.localtime().tm_zone`."""
    return bool(cls.n_fields != cls.n_sequence_fields)


def field_names(cls: type[Any]) -> tuple[str, ...]:
    """The names of the items, in order."""
    names: tuple[str, ...] = getattr(cls, "__match_args__" if is_structure(cls) else "_fields")
    return names


class NamedTupleVariable(TupleVariable):
    """A tuple with a class of its own."""

    kind = "named tuple"

    def __init__(
        self, cls: type[Any], items: Iterable[VariableTracker], source: Source | None = None, value: Any = None
    ) -> None:
        super().__init__(items, source)
        self.cls = cls
        self.value = value
        """The live one, where its class gives instances a `__dict__`."""

    def python_type(self) -> type[Any]:
        return self.cls

    def as_constant(self) -> Any:
        return make(self.cls, super().as_constant())

    def unguarded_value(self, depth: int = 8) -> Any:
        raise Unknown  # constructing one could run user code

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        type_lookup.guard_on_plain_access(ctx, self.cls, name)
        names = field_names(self.cls)
        if name in names and isinstance(type_lookup.peek(self.cls, name), _FIELDS):
            return self.items[names.index(name)].read(ctx)
        own = self._own_attribute(ctx, name)
        if own is not None:
            return own
        if name in _OWN_METHODS and self.has_own(ctx, name):
            return ConstantMethodVariable(self, name)
        if method_row(self.cls, name) is not None or is_structure(self.cls) or hasattr(tuple, name):
            return super().get_attribute(ctx, name)
        attribute = type_lookup.find(ctx, self.cls, name)
        if attribute is None:
            type_lookup.refuse_missing(ctx, self.cls, name)
            return super().get_attribute(ctx, name)
        return descriptors.bind(ctx, attribute, self, self.cls)

    def _own_attribute(self, ctx: TraceContext, name: str) -> VariableTracker | None:
        """An attribute of a live instance whose class has no data descriptor of that name."""
        if self.value is None or name.startswith("__") or hasattr(type_lookup.peek(self.cls, name), "__set__"):
            return None
        if self.source is None:
            ctx.break_graph("DX303", name=name, type=self.type_name())
        if name in instance_dict(self.value):
            return ctx.build(instance_dict(self.value)[name], self.source.attribute(name))
        ctx.guard(self.source, "ATTRIBUTE_ABSENT", name)
        return None

    def call_method(self, ctx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self.value is not None and self._own_attribute(ctx, name) is not None:
            return self.get_attribute(ctx, name).call(ctx, args, kwargs)
        if name in _OWN_METHODS and self.has_own(ctx, name):
            return _OWN_METHODS[name](ctx, self, args, kwargs)
        if inspect.isfunction(type_lookup.raw_lookup(ctx, self.cls, name)):
            return self.get_attribute(ctx, name).call(ctx, args, kwargs)
        return super().call_method(ctx, name, args, kwargs)

    def has_own(self, ctx: TraceContext, name: str) -> bool:
        """Whether a method is the one generated by `collections.namedtuple`."""
        return getattr(type_lookup.raw_lookup(ctx, self.cls, name), "__module__", None) == "collections"

    def as_proxy(self) -> Any:
        return make(self.cls, super().as_proxy())

    def reconstruct(self, build: Reconstruction) -> None:
        if is_structure(self.cls):
            build.call_object(self.cls, TupleVariable(self.items))
        else:
            # through `_make`, which the program may have overridden
            build.call_object(tuple.__new__, ClassVariable(self.cls, None), TupleVariable(self.items))

    @nested_text
    def text(self) -> str:
        pairs = zip(field_names(self.cls), self.items, strict=False)
        return f"{self.cls.__name__}({', '.join(f'{name}={item.text()}' for name, item in pairs)})"


_FIELDS = (NAMED_ITEM, types.MemberDescriptorType)
# Names that the tracker handles like tuple: a class that overrides one is a user-defined object that extends tuple.
_OF_TUPLES = tuple(name for name in type_lookup.SPECIAL_NAMES if name not in ("__repr__", "__str__", "__format__", "__getattr__"))


def make(cls: type[Any], items: tuple[Any, ...]) -> Any:
    """A real named tuple of these items."""
    return cls(items) if is_structure(cls) else tuple.__new__(cls, items)


def namedtuple_of(cls: type[Any], items: Iterable[VariableTracker]) -> TupleVariable:
    """The tracker of a named tuple, or of any other tuple class that torch may return."""
    return NamedTupleVariable(cls, items) if is_named_tuple_class(cls) else TupleVariable(items)


def construct(ctx: TraceContext, cls: type[Any], args: Args, kwargs: Kwargs) -> VariableTracker:
    """`cls(*args, **kwargs)` of a namedtuple class."""
    if is_structure(cls):
        items = tuple_items(ctx, args[0]) if len(args) == 1 and type_of(args[0]) in (tuple, list) and not kwargs else ()
        if len(items) != cls.n_sequence_fields or has_other_fields(cls):
            ctx.break_graph("DX209", type=class_qualname(cls))
        return NamedTupleVariable(cls, items)
    type_lookup.guard_on_names(ctx, cls, *type_lookup.SPECIAL_NAMES)
    names = field_names(cls)
    fields = dict(zip(names, args, strict=False))
    if len(args) > len(names) or not set(kwargs) <= set(names) - set(fields):
        ctx.break_graph("DX218", callee=cls.__qualname__)
    fields.update(kwargs)
    defaults = _defaults(ctx, cls, names)
    if not set(names) <= set(fields) | set(defaults):
        ctx.break_graph("DX218", callee=cls.__qualname__)
    return NamedTupleVariable(cls, [fields[n] if n in fields else ctx.build(*defaults[n]) for n in names])


def _defaults(ctx: TraceContext, cls: type[Any], names: Sequence[str]) -> dict[str, tuple[Any, Source]]:
    """The values of omitted fields: the current defaults of the class's `__new__`; `_field_defaults` is only documentation."""
    new = type_lookup.peek(cls, "__new__")
    maker: Any = new.__func__ if isinstance(new, staticmethod) else new
    ctx.module_guards.guard_on_function(maker)
    defaults_source = ctx.module_guards.source_of(maker, f"{cls.__qualname__}.__new__").attribute("__defaults__", "getattr")
    values = []
    for index, value in enumerate(maker.__defaults__ or ()):
        ctx.module_guards.note_identity(defaults_source.item(index))
        values.append((value, defaults_source.item(index)))
    return dict(zip(names[len(names) - len(values) :], values, strict=True))


@makes(tuple)
def _make_tuple(ctx: TraceContext, cls: ClassVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    """A call of a class that extends tuple."""
    maker, initializer = (type_lookup.raw_lookup(ctx, cls.value, name) for name in ("__new__", "__init__"))
    if not is_named_tuple_class(cls.value):
        return make_subclass_instance(ctx, cls, args, kwargs)
    if not is_structure(cls.value) and (not _is_generated_new(maker) or initializer is not object.__init__):
        return cls.make_instance(ctx, args, kwargs)
    return construct(ctx, cls.value, args, kwargs)


def _is_generated_new(maker: Any) -> bool:
    """Whether `collections.namedtuple` generated this `__new__`, in a namespace of its own (Lib/collections/__init__.py)."""
    function = maker.__func__ if isinstance(maker, staticmethod) else maker
    return isinstance(function, types.FunctionType) and "_tuple_new" in function.__globals__


@builtin(tuple.__new__)
def _new(ctx: TraceContext, cls: VariableTracker, items: VariableTracker | None = None, /) -> VariableTracker:
    """`tuple.__new__(cls, items)`, which the `__new__` of each namedtuple calls."""
    if not isinstance(cls, ClassVariable) or not issubclass(cls.value, tuple):
        ctx.break_graph("DX209", type=cls.describe())
    if cls.value is not tuple and not is_named_tuple_class(cls.value):
        return new_subclass_instance(ctx, cls, [items] if items is not None else [])
    content = [] if items is None else tuple_items(ctx, items)
    return TupleVariable(content) if cls.value is tuple else NamedTupleVariable(cls.value, content)


@builds_when(lambda value: is_named_tuple_class(type(value)), rank=40)
def build_named_tuple(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """A named tuple: its class and length are guarded, items when they are read."""
    type_lookup.guard_on_names(ctx, type(value), *type_lookup.SPECIAL_NAMES)
    with_attributes = value if type(value).__dictoffset__ and not is_structure(type(value)) else None
    return NamedTupleVariable(type(value), existing_items(ctx, value, source), source, with_attributes)


def _replace(ctx: TraceContext, self: NamedTupleVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    names = field_names(self.cls)
    if args or not set(kwargs) <= set(names):
        ctx.break_graph("DX218", callee=f"{self.cls.__qualname__}._replace")
    return NamedTupleVariable(self.cls, [kwargs.get(n, item) for n, item in zip(names, self.items, strict=True)])


def _asdict(ctx: TraceContext, self: NamedTupleVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    if args or kwargs:
        ctx.break_graph("DX218", callee=f"{self.cls.__qualname__}._asdict")
    fields = DictVariable()
    for name, item in zip(field_names(self.cls), self.unpack(ctx), strict=True):
        fields.store(ctx, ConstantVariable(name), item)
    return fields


_OWN_METHODS = {"_replace": _replace, "_asdict": _asdict}
builtin_method(tuple, "__getnewargs__")(lambda ctx, self, /: TupleVariable([TupleVariable(self.items)]))
