"""Records: dataclasses whose methods are generated on first use, and frozen ones that are created quickly.

The idea: a frozen dataclass costs a millisecond to define, because `dataclasses` compiles the source of six methods. The engine
has about seventy, most of them events, which are only created if somebody watches: that was half the import time of the engine.
`record` declares the same class, but starts with stubs for `__init__`, `__eq__` and `__hash__`. The first call of one compiles all
three and replaces the stubs. `__repr__` and the methods that keep a record frozen need no generated source.

Records are frozen, so that nobody modifies them later, and the `__init__` of a frozen class pays for that with one call per field.
`quick` creates the same records in a sixth of the time: the object is created in a twin class that has the same slots and is not
frozen, and its `__class__` is set when it is complete. Python allows that between classes of the same layout. The twin is never
visible.

In: a class with annotated fields; for `quick`, a frozen record. Out: `record()`, a decorator like
`dataclasses.dataclass(frozen=True, slots=True)` (also for `dataclasses.fields`, `replace` and pattern matching); `quick(cls)`,
which event_emitter.py uses for the most frequent records of a recording. PyTorch's counterpart: none.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast, dataclass_transform

T = TypeVar("T")
_Field = dataclasses.Field[Any]


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(
    *, frozen: bool = True, kw_only: bool = False, eq: bool = True, weakref_slot: bool = False
) -> Callable[[type[T]], type[T]]:
    """Make a class a dataclass with slots, frozen by default, without compiling anything yet.

    >>> @record()
    ... class Place:
    ...     file: str
    ...     line: int = 0
    >>> Place("model.py"), Place("model.py") == Place("model.py", 0)
    (Place(file='model.py', line=0), True)
    """

    def declare(cls: type[T]) -> type[T]:
        slot_class: list[type[Any]] = []
        for name, method in _first_methods(cls, slot_class, frozen, eq).items():
            setattr(cls, name, method)
        # without generated methods nothing is compiled
        shape = dataclasses.dataclass(
            init=False, repr=False, eq=False, slots=True, kw_only=kw_only, weakref_slot=weakref_slot
        )
        slot_class.append(shape(cls))
        return slot_class[0]

    return declare


def quick(cls: type[T]) -> Callable[..., T]:
    """A function that creates records of `cls`, from positional or keyword arguments in the order of the fields.

    >>> from dynexplore.engine.events import ValueView
    >>> quick(ValueView)(3, "TensorVariable", "float32[10] cpu", node="a")
    ValueView(id=3, kind='TensorVariable', text='float32[10] cpu', source='', node='a')
    """
    quick_class: list[type[Any]] = []
    # `object`'s own methods, or storing a field would call those of the frozen class
    own = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    own["__init__"] = _written_when_called(quick_class, "__init__", lambda: _write_quick(quick_class[0], cls))
    quick_class.append(type(cls.__name__, cls.__bases__, {"__slots__": cls.__slots__, **own}))  # type: ignore[attr-defined]
    return cast(Callable[..., T], quick_class[0])


# -- initial methods of a record ---------------------------------------------------------------------------------------


def _first_methods(cls: type[Any], slot_class: list[type[Any]], frozen: bool, eq: bool) -> dict[str, Any]:
    """The methods that a new record gets besides its own. `slot_class` will hold the class with slots, a different one."""
    methods: dict[str, Any] = {"__repr__": _repr}
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    written = ("__init__", "__eq__", "__hash__") if eq and frozen else ("__init__", "__eq__") if eq else ("__init__",)
    missing = tuple(name for name in written if vars(cls).get(name) is None)
    if eq and not frozen:
        methods["__hash__"] = None
    methods |= {name: _written_when_called(slot_class, name, lambda: _write(slot_class[0], missing, frozen)) for name in missing}
    return {name: method for name, method in methods.items() if vars(cls).get(name) is None}


def _written_when_called(slot_class: list[type[Any]], name: str, write: Callable[[], None]) -> Callable[..., Any]:
    """A stub that generates all methods, and then calls the real one."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        write()
        return getattr(slot_class[0], name)(self, *args, **kwargs)

    return method


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


# -- generated on first use -------------------------------------------------------------------------------------------


def _write(cls: type[Any], names: tuple[str, ...], frozen: bool) -> None:
    """Replace the stubs by methods that name the fields. If two threads do so at once, both generate the same."""
    fields = dataclasses.fields(cls)
    # a slot's own `__set__` is the fastest way to bypass `__setattr__`
    store = "put_{0}(self, {1})" if frozen else "self.{0} = {1}"
    puts = {f"put_{field.name}": getattr(cls, field.name).__set__ for field in fields} if frozen else {}
    compared = [field.name for field in fields if field.compare]
    own_fields, other_fields = ("".join(f"{instance}.{name}, " for name in compared) for instance in ("self", "other"))
    equal = f"({own_fields}) == ({other_fields}) if other.__class__ is self.__class__ else NotImplemented"
    lines = {
        "__init__": _init([field for field in fields if not field.kw_only], [field for field in fields if field.kw_only], store),
        "__eq__": ["def __eq__(self, other):", f"    return {equal}"],
        "__hash__": ["def __hash__(self):", f"    return hash(({own_fields}))"],
    }
    space = _run([line for name in names for line in lines[name]], fields, **puts)
    for name in names:
        space[name].__qualname__ = f"{cls.__qualname__}.{name}"
        space[name].__module__ = cls.__module__
        setattr(cls, name, space[name])


def _write_quick(twin: type[Any], cls: type[Any]) -> None:
    # those without a default first, as Python requires
    fields = sorted(dataclasses.fields(cls), key=_has_default)
    lines = [*_init(fields, [], "self.{0} = {1}"), "    self.__class__ = cls"]
    setattr(twin, "__init__", _run(lines, fields, cls=cls)["__init__"])  # noqa: B010


def _init(positional: Sequence[_Field], named: Sequence[_Field], store: str) -> list[str]:
    """The lines of an `__init__` with these parameters."""
    parameters = [f"{field.name}=default_{field.name}" if _has_default(field) else field.name for field in (*positional, *named)]
    if named:
        parameters.insert(len(positional), "*")
    values = {field.name: _factory_or_value(field) if _has_factory(field) else field.name for field in (*positional, *named)}
    return [f"def __init__({', '.join(['self', *parameters])}):", *(f"    {store.format(*item)}" for item in values.items())]


def _factory_or_value(field: _Field) -> str:
    return f"make_{field.name}() if {field.name} is default_{field.name} else {field.name}"


def _has_factory(field: _Field) -> bool:
    return field.default_factory is not dataclasses.MISSING


def _has_default(field: _Field) -> bool:
    return field.default is not dataclasses.MISSING or _has_factory(field)


def _run(lines: Sequence[str], fields: Sequence[_Field], **names: Any) -> dict[str, Any]:
    """Execute these lines; returns the definitions. `default_x` is MISSING if a factory creates the value."""
    space = {**names, **{f"default_{field.name}": field.default for field in fields if _has_default(field)}}
    space |= {f"make_{field.name}": field.default_factory for field in fields if _has_factory(field)}
    exec("\n".join(lines), space)
    return space
