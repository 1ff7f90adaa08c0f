"""Decision tables: how sizes, strides, numbers and objects are specialized, and why.

The idea: a value is specialized as one of these kinds:

- STATIC: specialized to its current value, which is guarded. Another size, number or object recompiles.
- DYNAMIC: a symbol in ShapeEnv, with this call's value as its hint; the relations on which ShapeEnv relied are guarded.
- UNBACKED: a symbol without a hint (`mark_unbacked`). A branch on it breaks the graph.
- SIZE_OBLIVIOUS: a symbol with a hint; operators are told that it is neither 0 nor 1 (size_oblivious.py).
- UNSPECIALIZED: a number or string that is passed on without a guard on its value, and computed with in the modified code. If a
  graph needs it, it is decided again.
- UNSTABLE: an object that is not guarded by identity, because it changes from call to call. All other objects are STATIC.

Each sort of value has a table of rows: the kind, the reason in words, and a predicate over the facts. The first row that applies
decides. The facts are the program's marks, the options, the profile of earlier calls, and how the frame is entered: what a loop
changes, which values are arguments of a resume function.

In: the facts about one value. Out: a `Specialization`. PyTorch's counterpart: `_automatic_dynamic`, `wrap_symint` and
`wrap_symfloat` in torch/_dynamo/variables/builder.py.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dynexplore.engine.records import record
from dynexplore.engine.specialization.profile import NO_OTHER, Comparison


class Kind(enum.StrEnum):
    """How a value is specialized; see the head of this file."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    UNBACKED = "unbacked"
    SIZE_OBLIVIOUS = "size-oblivious"
    UNSPECIALIZED = "unspecialized"
    UNSTABLE = "unstable"


@record()
class Row:
    """One row of a table: if `applies` to the facts, the value is specialized as `kind`, for the reason `because`."""

    reason: str
    kind: Kind
    because: str
    applies: Callable[[Any], bool] = lambda facts: True


class Specialization:
    """The decision about one value: its kind, the id of the reason, and the reason in words."""

    __slots__ = ("_facts", "_row")

    def __init__(self, row: Row, facts: Any = None) -> None:
        self._row, self._facts = row, facts

    @property
    def kind(self) -> Kind:
        """How the value is specialized."""
        return self._row.kind

    @property
    def reason(self) -> str:
        """The id of the row that decided."""
        return self._row.reason

    @property
    def because(self) -> str:
        """Why, in words."""
        return self._row.because.format(it=self._facts)

    @property
    def is_symbol(self) -> bool:
        """Whether the value is a symbol of ShapeEnv."""
        return self.kind in _SYMBOLS

    def __repr__(self) -> str:
        return f"<{self.kind}: {self.because}>"


_SYMBOLS = (Kind.DYNAMIC, Kind.UNBACKED, Kind.SIZE_OBLIVIOUS)


@record()
class TensorSpecialization:
    """The decisions about a tensor: one for each size, and one for each stride."""

    sizes: Sequence[Specialization]
    strides: Sequence[Specialization]

    @property
    def dynamic_sizes(self) -> frozenset[int]:
        """The dimensions whose sizes are symbols."""
        return frozenset(dim for dim, size in enumerate(self.sizes) if size.is_symbol)

    @property
    def dynamic_strides(self) -> frozenset[int]:
        """The dimensions whose strides are symbols of their own."""
        return frozenset(dim for dim, stride in enumerate(self.strides) if stride.is_symbol)


def first(rows: Iterable[Row], facts: Any) -> Specialization:
    """The decision of the first row that applies."""
    return Specialization(next(row for row in rows if row.applies(facts)), facts)


# -- sizes and strides ------------------------------------------------------------------------------------------------


@record()
class SizeFacts:
    """The facts about one size or one stride."""

    size: int
    dim: int = 0
    seen: Comparison = NO_OTHER
    option: bool | None = None
    """`dynamic=` of `optimize`, or else `config.dynamic_shapes`."""
    mark: str = ""
    """The program's mark on the dimension: "static", "dynamic", "maybe" or "unbacked"."""
    fixed_layout: str = ""
    """Why no size may be a symbol: "view", "wrapper" or "written view"; "" if sizes may be symbols."""
    depends_on_data: bool = False
    """The tensor is the result of an operator with a dynamic output shape."""
    is_oblivious: bool = False
    """The size may be size-oblivious."""
    serves_zero_and_one: bool = False
    """The backend is known not to guard on such a size, so that 0 and 1 may be symbols, too."""

    @property
    def others_seen(self) -> str:
        """Which other sizes were seen, in words."""
        return _others_seen("size", self.size, self.seen)


def _others_seen(noun: str, now: object, seen: Comparison) -> str:
    if seen.before in (None, now):
        return f"several {noun}s have been seen here"
    return f"it changed from {seen.before} to {now}"


def _is_zero_or_one(it: SizeFacts) -> bool:
    if it.size not in (0, 1):
        return False
    if it.option is None and it.depends_on_data:
        return not it.serves_zero_and_one
    return it.option is True or it.mark == "maybe" or it.seen.differs or it.depends_on_data


SIZE_ROWS = (
    Row("view", Kind.STATIC, "the tensor is a view of one whose sizes no guard can read", lambda it: it.fixed_layout == "view"),
    Row("wrapper", Kind.STATIC, "a tensor subclass wraps tensors whose sizes would have to change with it",
        lambda it: it.fixed_layout == "wrapper"),
    Row("written view", Kind.STATIC, "the tensor is a view of one that the graph writes to",
        lambda it: it.fixed_layout == "written view"),
    Row("option static", Kind.STATIC, "dynamic=False was set", lambda it: it.option is False),
    Row("marked unbacked", Kind.UNBACKED, "mark_unbacked marked this dimension", lambda it: it.mark == "unbacked"),
    Row("marked dynamic", Kind.DYNAMIC, "mark_dynamic marked this dimension", lambda it: it.mark == "dynamic"),
    Row("marked static", Kind.STATIC, "mark_static marked this dimension", lambda it: it.mark == "static"),
    Row("zero or one", Kind.STATIC, "sizes 0 and 1 are specialized, because operators treat them differently",
        _is_zero_or_one),
    Row("maybe dynamic", Kind.DYNAMIC, "maybe_mark_dynamic marked this dimension", lambda it: it.mark == "maybe"),
    Row("dynamic output shape", Kind.SIZE_OBLIVIOUS, "an operator computed this size from data, so each call may have another",
        lambda it: it.depends_on_data and it.is_oblivious),
    Row("dynamic output shape", Kind.DYNAMIC, "an operator computed this size from data, so each call may have another",
        lambda it: it.depends_on_data),
    Row("option dynamic", Kind.DYNAMIC, "dynamic=True was set", lambda it: it.option is True),
    Row("another size", Kind.DYNAMIC, "{it.others_seen}", lambda it: it.seen.differs),
    Row("only size", Kind.STATIC, "no other size has been seen here"),
)  # fmt: skip
"""How a size is specialized: the first row that applies."""

STRIDE_ROWS = (
    Row("another stride", Kind.DYNAMIC, "it changed from {it.seen.before} to {it.size}, with the same sizes",
        lambda it: it.seen.differs and it.size not in (0, 1) and not it.fixed_layout),
    Row("follows", Kind.STATIC, "it follows from the sizes, or no other stride has been seen here"),
)  # fmt: skip
"""How a stride is specialized."""


PARAMETER = Specialization(Row("identity", Kind.STATIC, "the tensor is guarded by identity"))
NO_SYMBOLS = TensorSpecialization((), ())


# -- numbers ----------------------------------------------------------------------------------------------------------


@record()
class NumberFacts:
    """The facts about a number or string that the frame reads."""

    value: Any
    in_graph: bool = False
    """A graph needs it as an input; it was left unspecialized when it was read."""
    seen: Comparison = NO_OTHER
    is_dynamic: bool = False
    """The profile has recorded that it varies."""
    changes: str = ""
    """Why it changes in each call, a key of `CHANGES`; "" if that is not known."""
    is_resume_argument: bool = False
    is_of_unstable: bool = False
    """It is an attribute of one of several instances."""
    option: bool | None = None
    """`dynamic=` of `optimize`."""
    specializes: bool = False
    """`config.specialize_int` or `config.specialize_float` is set."""
    takes_symbols: bool = True
    """The backend accepts numbers as graph inputs."""

    @property
    def type(self) -> type[Any]:
        """The class of the number."""
        return type(self.value)

    @property
    def is_number(self) -> bool:
        """Whether it is an int or a float, but not a bool."""
        return type(self.value) in (int, float)

    @property
    def others_seen(self) -> str:
        """Which other numbers were seen, in words."""
        return _others_seen("number", self.value, self.seen)

    @property
    def why_it_changes(self) -> str:
        """Why it changes, in words."""
        return CHANGES[self.changes or "resume argument"]


CHANGES: Mapping[str, str] = {
    "loop": "a loop increments it or takes it from an iterator",
    "stack": "a resume function gets it from the stack",
    "iterator": "an iterator that the caller made yields it",
    "key": "it is the number of an entry in a dict",
    "drawn": "a random generator draws it",
    "index": "the program indexes with it",
    "guard failed": "a guard on it failed before, for a frame that was skipped",
    "number": "its value has changed",
    "numpy": "the caller passes it as a numpy number",
    "resume argument": "a resume function gets it",
}
"""Why a number changes in each call: id -> words."""


def _changes_each_call(it: NumberFacts) -> bool:
    return not it.in_graph and bool(it.changes or it.is_resume_argument) and not (it.type is int and it.is_dynamic)


def _is_irregular_float(it: NumberFacts) -> bool:
    """Whether ShapeEnv would reason incorrectly: it has no signed zero, infinity or nan."""
    return it.in_graph and it.type is float and (not math.isfinite(it.value) or it.value == 0)


def _varies(it: NumberFacts) -> bool:
    return bool(it.changes) or it.is_dynamic or it.seen.differs


NUMBER_ROWS = (
    Row("changes", Kind.UNSPECIALIZED, "{it.why_it_changes}", _changes_each_call),
    Row("attribute of several", Kind.UNSPECIALIZED, "it is an attribute of one of several objects",
        lambda it: not it.in_graph and it.type is int and it.is_of_unstable and not it.is_dynamic),
    Row("no number", Kind.STATIC, "only numbers can be symbols", lambda it: not it.is_number),
    Row("irregular float", Kind.STATIC, "a symbol cannot represent 0.0, inf or nan", _is_irregular_float),
    Row("backend takes no floats", Kind.STATIC, "the backend does not accept numbers as inputs",
        lambda it: it.in_graph and it.type is float and not it.takes_symbols),
    Row("option static", Kind.STATIC, "dynamic=False was set", lambda it: it.option is False),
    Row("config static", Kind.STATIC, "config.specialize_{it.type.__name__} is set", lambda it: it.specializes),
    Row("another float", Kind.UNSPECIALIZED, "{it.others_seen}",
        lambda it: not it.in_graph and it.type is float and _varies(it)),
    Row("backend takes no numbers", Kind.STATIC, "the backend does not accept numbers as inputs",
        lambda it: _varies(it) and not it.takes_symbols),
    Row("changes in graph", Kind.DYNAMIC, "{it.why_it_changes}, and the graph computes with it",
        lambda it: bool(it.changes) and (it.in_graph or it.type is int)),
    Row("another number", Kind.DYNAMIC, "{it.others_seen}", _varies),
    Row("only number", Kind.STATIC, "no other number has been seen here"),
)  # fmt: skip
"""How a number is specialized: the first row that applies."""

COMPARED = frozenset({
    "another float", "backend takes no numbers", "another number", "only number", "changes in graph",
})  # fmt: skip
"""The reasons that used the profile, which then records the number."""

OF_GUARDED_OBJECT = Row("guarded object", Kind.STATIC, "it is an attribute of an object that is guarded by identity")
DRAWN = Specialization(Row("drawn", Kind.UNBACKED, "a random generator draws it while the frame runs"))
VALUE_NEEDED = Row("value needed", Kind.STATIC, "Python needs its value, as a size, an index, a key or a condition")
SPECIALIZED_SYMBOL = Row(
    "specialized", Kind.STATIC, "it was dynamic, but the function or an operator requires the value {it}"
)
"""A symbol that was specialized by the end of the frame, because something required it."""


# -- objects ----------------------------------------------------------------------------------------------------------


@record()
class ObjectFacts:
    """The facts about an object that might be guarded by identity."""

    has_guard_filter: bool = False
    has_dynamic_index: bool = False
    other_seen_at: str = ""
    """The source on its path at which a different object was seen."""
    changes_at: str = ""
    """The variable on its path that refers to a different object in each call, and why (`UNSTABLE_VARIABLES`)."""
    why: str = ""

    @property
    def words(self) -> str:
        """Why the variable refers to a different object in each call."""
        return UNSTABLE_VARIABLES[self.why]


UNSTABLE_VARIABLES: Mapping[str, str] = {
    "block": "the model has several modules of its class",
    "loop": "a loop around the resume function stores it",
    "beside block": "a resume function receives it together with one of several modules",
}
"""Why a variable refers to a different object in each call: id -> words."""

OBJECT_ROWS = (
    Row("guard filter", Kind.UNSTABLE, "guard_filter_fn may leave out the guard on its identity", lambda it: it.has_guard_filter),
    Row("dynamic index", Kind.UNSTABLE, "the program selects it by an index that changes", lambda it: it.has_dynamic_index),
    Row("another object", Kind.UNSTABLE, "another object was seen at `{it.other_seen_at}`", lambda it: bool(it.other_seen_at)),
    Row("variable", Kind.UNSTABLE, "`{it.changes_at}` holds a different object in each call, because {it.words}",
        lambda it: bool(it.changes_at)),
    Row("identity", Kind.STATIC, "no other object has been seen here"),
)  # fmt: skip
"""Whether an object is guarded by identity."""

STABLE = Specialization(OBJECT_ROWS[-1], ObjectFacts())
