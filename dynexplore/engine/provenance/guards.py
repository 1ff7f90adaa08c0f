"""Guards: what must still be true for a cache entry to serve a call, and which instruction required it.

The idea: while a frame is interpreted, the translator relies on facts about values from outside the frame ("`a` is a float32
tensor of shape (10,)", "`torch` is this module"). Each fact is a `Guard(source, kind, expected, because)`: `because` is the offset
of the original instruction that needed it. A kind is one row of `GUARD_KINDS` with two implementations: `condition`, Python text
for the generated check, and `holds`, used to report which guard failed, with the expected and actual values.

In: sources and live values, when a tracker first relies on them. Out: guards, which guard_codegen.py compiles into one function.
PyTorch's counterpart: `GuardBuilder` in torch/_dynamo/guards.py.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import field
from enum import Enum
from types import ModuleType
from typing import Any

from dynexplore.engine.native import no_instance_override
from dynexplore.engine.provenance.attribute_dicts import no_attribute_alias, no_dict_alias
from dynexplore.engine.provenance.sources import Namer, Source
from dynexplore.engine.raw_attributes import class_module, instance_dict, is_heap_type, keys_of, literal_text, module_name
from dynexplore.engine.records import record


@record(eq=False)
class Guard:
    """One fact: `kind` relates the value at `source` to `expected`; the instruction at offset `because` required it."""

    source: Source
    kind: str
    expected: Any
    because: int

    def text(self) -> str:
        """The guard as displayed: `a TENSOR_MATCH float32[10] cpu`."""
        return f"{self.source.text()} {self.kind} {GUARD_KINDS[self.kind].describe(self.expected)}"


@record()
class GuardKind:
    """A row of the table: what is checked, as a description, as generated code and as a function."""

    name: str
    meaning: str
    condition: Callable[[str, Any, Namer], str]
    holds: Callable[[Any, Any], bool]
    describe: Callable[[Any], str]


def _short(value: object) -> str:
    """A value as text, without running a user's `__repr__`."""
    if not _is_plain(value):
        return _qualified(value)
    text = literal_text(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _describe_keys(keys: Any) -> str:
    """The keys of a dict as text; their number and types if some are not constants."""
    if all(map(_is_plain, keys)):
        return _short(keys)
    types = {type(key).__qualname__ for key in keys}
    of_type = f" of type {types.pop()}" if len(types) == 1 else ""
    return f"{len(keys)} key{'' if len(keys) == 1 else 's'}{of_type}"


_CLASS_NAME: Any = type.__dict__["__qualname__"]
_CLASS_DICT: Any = type.__dict__["__dict__"]


def _is_plain(value: object, depth: int = 0) -> bool:
    if type(value) in (tuple, list, set, frozenset) and depth < 3:
        return all(_is_plain(item, depth + 1) for item in value)  # type: ignore[attr-defined]
    module = class_module(type(value))
    return type(value) in (int, float, complex, bool, str, bytes, type(None), slice, range) or module == "torch"


def names_of(value: Any) -> tuple[Any, Any]:
    """`__qualname__` (or `__name__`) and `__module__` of a class, function or module, read without running user code."""
    cls = type(value)
    if issubclass(cls, type):
        return _CLASS_NAME.__get__(value), _CLASS_DICT.__get__(value).get("__module__")
    if issubclass(cls, ModuleType):  # it, or its class, may have a `__getattr__`
        return module_name(value), None
    if is_heap_type(cls) and not str(_CLASS_DICT.__get__(cls).get("__module__")).startswith("torch"):
        return None, None
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return name, getattr(value, "__module__", None)


def _qualified(value: Any) -> str:
    name, module = names_of(value)
    if isinstance(name, str):
        return f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name
    if issubclass(type(value), Enum):
        return f"{type(value).__qualname__}.{object.__getattribute__(value, '_name_')}"
    return f"{type(value).__qualname__} object"


def _equals_condition(value: str, expected: Any, namer: Namer) -> str:
    if expected is None or expected is Ellipsis or type(expected) is bool:
        return f"{value} is {expected!r}"
    if type(expected) in (int, str, bytes):
        return f"type({value}) is {type(expected).__name__} and {value} == {literal_text(expected)}"
    if type(expected) is float and expected == expected and expected != 0.0 and math.isfinite(expected):
        return f"type({value}) is float and {value} == {expected!r}"
    return f"{namer.name(same_constant)}({value}, {namer.name(expected)})"


_INT64 = range(-(2**63), 2**63)


def is_float_or_int64(value: object) -> bool:
    """Whether a number is a float, or an int so small that no operation with a float overflows."""
    return type(value) is float or (type(value) is int and value in _INT64)


def same_constant(value: Any, expected: Any) -> bool:
    """Equal and of the same type, recursively; NaN equals NaN, and the signs of zeros and NaNs must match (`math.copysign`)."""
    if type(value) is not type(expected):
        return False
    if isinstance(expected, float):
        both_nan = value != value and expected != expected
        return (value == expected or both_nan) and math.copysign(1.0, value) == math.copysign(1.0, expected)
    if isinstance(expected, complex):
        return same_constant(value.real, expected.real) and same_constant(value.imag, expected.imag)
    if isinstance(expected, (tuple, list)):
        return len(value) == len(expected) and all(map(same_constant, value, expected))
    if isinstance(expected, slice):
        return same_constant((value.start, value.stop, value.step), (expected.start, expected.stop, expected.step))
    return bool(value == expected)


class Identity:
    """The object that an identity guard expects: by id, with a weak reference if the object allows one.

    A cache entry must not keep a user's objects alive. While the weak reference is alive the id cannot be reused.
    """

    __slots__ = ("id", "strong", "text", "weak")

    def __init__(self, value: object, *, keep: bool) -> None:
        import weakref

        self.id = id(value)
        self.text = _qualified(value)
        self.strong: object = None
        self.weak: weakref.ref[Any] | None = None
        if not keep:
            try:
                self.weak = weakref.ref(value)
                return
            except TypeError:
                pass
        self.strong = value

    def matches(self, value: object) -> bool:
        """Whether `value` is the expected object (and that object is still alive)."""
        return value is (self.weak() if self.weak is not None else self.strong)


def _identity_condition(value: str, expected: Identity, namer: Namer) -> str:
    if expected.weak is None:
        return f"{value} is {namer.name(expected.strong)}"
    return f"{value} is {namer.name(expected.weak)}()"


def _keys_condition(value: str, expected: tuple[Any, ...], namer: Namer) -> str:
    if len(expected) == 0:
        return f"len({value}) == 0"  # a subclass may override `__bool__`
    return f"{namer.name(same_keys)}({value}, {namer.name(expected)})"


def same_keys(value: Any, expected: tuple[Any, ...]) -> bool:
    """The same keys in the same order, of the same types (1 is not True here). Calls no `__eq__` of a user's key."""
    keys = keys_of(value)
    if len(keys) != len(expected):
        return False
    return all(map(operator.is_, keys, expected)) or all(map(same_constant, keys, expected))


def _content_condition(value: str, expected: frozenset[Any], namer: Namer) -> str:
    return f"{namer.name(same_members)}({value}, {namer.name(expected)})"


def same_members(value: Any, expected: frozenset[Any]) -> bool:
    """The same members, of the same types; `__eq__` of other types is not called."""
    members = keys_of(value)
    types = {id(type(member)) for member in expected}  # a metaclass may define `__hash__`
    if len(members) != len(expected) or not all(id(type(member)) in types for member in members):
        return False
    return {(type(m), m) for m in members} == {(type(m), m) for m in expected}


def is_empty(cell: Any) -> bool:
    """Whether a cell is empty.

    >>> import types
    >>> is_empty(types.CellType()), is_empty(types.CellType(None))
    (True, False)
    """
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def same_metadata(value: Any, expected: Any) -> bool:
    """Whether a tensor subclass has the same metadata, compared with the class's `__metadata_guard__` or `==`."""
    metadata = value.__tensor_flatten__()[1]
    compare = getattr(type(value), "__metadata_guard__", None)
    return bool(metadata == expected if compare is None else compare(expected, metadata))


def all_different(*values: object) -> bool:
    """Whether no two of these are the same object."""
    return len({id(value) for value in values}) == len(values)


def _tensor_words(expected: Any) -> str:
    return str(expected)


GUARD_KINDS: dict[str, GuardKind] = {}


def _kind(
    name: str,
    meaning: str,
    condition: Callable[[str, Any, Namer], str],
    holds: Callable[[Any, Any], bool],
    describe: Callable[[Any], str] = _short,
) -> None:
    GUARD_KINDS[name] = GuardKind(name, meaning, condition, holds, describe)


_kind(
    "TYPE_MATCH", "the value's type is exactly this class",
    lambda v, e, n: f"type({v}) is {n.name(e)}", lambda v, e: type(v) is e, _qualified,
)
_kind(
    "ID_MATCH", "the value is the same object",
    _identity_condition, lambda v, e: e.matches(v), lambda e: str(e.text),
)
_kind(
    "FUNCTION_MATCH", "the value is the same function",
    _identity_condition, lambda v, e: e.matches(v), lambda e: str(e.text),
)
_kind(
    "NN_MODULE", "the value is the same nn.Module",
    _identity_condition, lambda v, e: e.matches(v), lambda e: str(e.text),
)
_kind(
    "CODE_MATCH", "the function has the same code object (a different closure of the same `def` passes)",
    lambda v, e, n: f"{v} is {n.name(e)}", lambda v, e: v is e, lambda e: e.co_qualname,
)
_kind("EQUALS", "the value equals this constant", _equals_condition, same_constant)
_kind(
    "NUMBER", "the value is a float, or an int of at most 64 bits",  # a float operation cannot overflow with such an int
    lambda v, e, n: f"(type({v}) is float or type({v}) is int and {_INT64.start} <= {v} < {_INT64.stop})",
    lambda v, e: is_float_or_int64(v), lambda e: "a number",
)
_kind(
    "LIST_LENGTH", "the sequence has this many items",
    lambda v, e, n: f"len({v}) == {e}", lambda v, e: len(v) == e,
)
_kind(
    "DICT_KEYS", "the dict has these keys in this order",
    _keys_condition, same_keys, _describe_keys,
)
_kind(
    "SET_CONTENT", "the set has exactly these members",
    _content_condition, same_members,
)
_kind(
    "NAME_ABSENT", "this name is not in the namespace",
    lambda v, e, n: f"{literal_text(e)} not in {v}", lambda v, e: e not in v,
)
_kind(
    "NAME_PRESENT", "this key is in the dict, with any value",
    lambda v, e, n: f"{literal_text(e)} in {v}", lambda v, e: e in v,
)
_kind(
    "CELL_EMPTY", "the closure's variable is unbound",
    lambda v, e, n: f"{n.name(is_empty)}({v})", lambda v, e: is_empty(v), lambda e: "not bound",
)
_kind(
    "ATTRIBUTE_ABSENT", "the object's `__dict__` does not contain this name",
    lambda v, e, n: f"{e!r} not in {n.name(instance_dict)}({v})", lambda v, e: e not in instance_dict(v),
)
_kind(
    "NO_INSTANCE_OVERRIDE", "no instance attribute overrides a method of the tensor",
    lambda v, e, n: f"{n.name(no_instance_override)}({v})", lambda v, e: no_instance_override(v), lambda e: "no method",
)
_kind(
    "ALIAS", "the value is the same object as another one",
    lambda v, e, n: f"{v} is {e}", lambda v, e: v is e, lambda e: f"is {e.text()}" if isinstance(e, Source) else str(e),
)
_kind(
    "DISTINCT", "the value and the others are different objects",
    lambda v, e, n: f"{n.name(all_different)}({v}, {', '.join(e)})", lambda v, e: all_different(v, *e),
    lambda e: f"another object than {', '.join(source.text() for source in e)}",
)
_kind(
    "NO_ATTRIBUTE_ALIAS", "the value and the others are distinct objects with distinct attribute dictionaries",
    lambda v, e, n: f"{n.name(no_attribute_alias)}({v}, {', '.join(e)})", lambda v, e: no_attribute_alias(v, *e),
    lambda e: f"other attributes than {', '.join(source.text() for source in e)}",
)
_kind(
    "NO_DICT_ALIAS", "none of these dicts is the `__dict__` of another value",
    lambda v, e, n: f"{n.name(no_dict_alias)}({v}, {', '.join(e)})", lambda v, e: no_dict_alias(v, *e),
    lambda e: f"not one dictionary with {', '.join(source.text() for source in e)}",
)
_kind(
    "NOT_INSTANCE_DICT", "the value is not the `__dict__` of a known object",
    lambda v, e, n: f"id({v}) not in {n.name(e)}", lambda v, e: id(v) not in e, lambda e: "a dictionary by itself",
)
_kind(
    "ITERATOR_REMAINING", "the iterator has this many items left",
    lambda v, e, n: f"{v}.__length_hint__() == {e}", lambda v, e: v.__length_hint__() == e,
)
_kind(
    "ITERATOR_HAS_MORE", "the iterator has more than this many items left",
    lambda v, e, n: f"{v}.__length_hint__() > {e}", lambda v, e: v.__length_hint__() > e,
)
_kind(
    "SUBCLASS_METADATA", "the metadata of the tensor subclass (`__tensor_flatten__`)",
    lambda v, e, n: f"{n.name(same_metadata)}({v}, {n.name(e)})", lambda v, e: same_metadata(v, e),
)
# The kinds below are checked all at once, by torch's own primitives or by ShapeEnv's expressions (torch_guards.py).
_kind(
    "TENSOR_MATCH", "class, dtype, device, requires_grad, dispatch keys, ndim, sizes and strides of the tensor",
    lambda v, e, n: "True", lambda v, e: True, _tensor_words,
)
_kind(
    "STORAGE_OVERLAP", "whether inputs overlap in memory: the graph writes to some of them",
    lambda v, e, n: str(e.expression()), lambda v, e: True, str,
)
_kind("SHAPE_ENV", "relations between symbolic sizes", lambda v, e, n: "True", lambda v, e: True, str)
_kind(
    "GLOBAL_STATE", "grad mode, inference mode, autocast, default dtype, deterministic flags, threads",
    lambda v, e, n: "True", lambda v, e: True, str,
)
_kind(
    "MODULE_STATE", "flags, parameters, buffers, submodules, hooks and attributes that a module, an object in it or its class has",
    lambda v, e, n: "True", lambda v, e: True, str,
)


OF_SEVERAL_SOURCES = ("DISTINCT", "NO_ATTRIBUTE_ALIAS", "NO_DICT_ALIAS")
"""Kinds whose `expected` consists of sources of other values."""
_SEVERAL_FACTS = (
    "NAME_ABSENT", "NAME_PRESENT", "ATTRIBUTE_ABSENT", "ALIAS", "NOT_INSTANCE_DICT", "ITERATOR_HAS_MORE", *OF_SEVERAL_SOURCES,
)  # fmt: skip
_IDENTITIES = ("ID_MATCH", "FUNCTION_MATCH", "NN_MODULE")


@record(frozen=False)
class GuardSet:
    """The guards of one attempt, without duplicates, in the order in which they were first needed."""

    guards: list[Guard] = field(default_factory=list)
    _seen: dict[tuple[int, str], list[Any]] = field(default_factory=dict)

    def fix_object(self, source: Source | None) -> bool:
        """Whether a guard fixes the identity of the object at a source."""
        return any(self._seen.get((id(source), kind)) for kind in _IDENTITIES)

    def add(self, source: Source, kind: str, expected: Any, because: int) -> Guard | None:
        """Add the guard; returns None if it is already present."""
        expectations = self._seen.setdefault((id(source), kind), [])
        if expectations and (kind not in _SEVERAL_FACTS or expected in expectations):
            return None
        expectations.append(expected)
        guard = Guard(source, kind, expected, because)
        self.guards.append(guard)
        return guard
