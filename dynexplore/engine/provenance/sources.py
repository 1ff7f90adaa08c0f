"""Sources: how a value is reached, and how to display, fetch and load it.

The idea: every value that exists before the frame starts is reached by a path: a local, an attribute of it, an item of that. A
`Source` is one step of such a path, linked to its `base`. It has four forms that must agree:

- `text()`      the Python expression that is displayed, `self.layers[0].weight`;
- `fetch(scope)` the current value, to explain a failed guard;
- `expression(base)` the same step as Python text inside the generated guard function;
- `load(writer)` bytecode of the modified code that pushes the value.

Sources are interned (a base memoizes its children), so equal paths are one object and sets of sources are cheap. Fetching for a
guard runs no user code: attributes are read from the instance's own `__dict__` or through C descriptors, after a type guard on the
base.

In: names, keys and indices. Out: guards and reconstruction. PyTorch's counterpart: torch/_dynamo/source.py; ShapeEnv requires
subclasses of `torch._guards.Source`.
"""

from __future__ import annotations

import builtins
import functools
import sys
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch._guards

from dynexplore.engine import native
from dynexplore.engine.provenance.attribute_dicts import REGISTRIES
from dynexplore.engine.raw_attributes import (
    ABSENT,
    instance_dict,
    item_of,
    keys_of,
    literal_text,
    own_attribute,
    plain_attribute,
    values_of,
)
from dynexplore.engine.records import record

if TYPE_CHECKING:
    from dynexplore.engine.bytecode import Writer


@record(frozen=False)
class Scope:
    """What a guard is checked against: the argument slots, the closure and the globals of one call."""

    arguments: Mapping[str, object]
    closure: tuple[Any, ...] | None
    globals: dict[str, Any]


class Namer:
    """Assigns names to objects that generated code uses but cannot express as literals: guard constants, injected locals."""

    def name(self, value: object) -> str:
        """A name for `value` in the generated code."""
        raise NotImplementedError


class Source(torch._guards.Source):
    """One step of a path to a value; see the four forms above."""

    base: Source | None = None
    guardable = True  # whether it can be fetched before the frame runs
    change = ""  # why the number here differs in each call, if sources of this class always do: a row of `CHANGES`
    has_dynamic_index = False  # whether the path goes through an index that changes (`DynamicItemSource`)
    # torch's class is a dataclass without fields: with its `__eq__`, all sources of a class would be equal
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    runs_code: bool = False
    """Whether the class of this value defines `__getattribute__` in Python: attributes are then read without it."""

    def __init__(self) -> None:
        self._children: dict[object, Source] = {}

    def dictionary(self, base: str, namer: Namer) -> str:
        """Python text of the value's `__dict__`; `base` is the name of the value."""
        return f"{namer.name(instance_dict)}({base})" if self.runs_code else f"{base}.__dict__"

    # -- the four forms

    def text(self) -> str:
        """The displayed expression."""
        raise NotImplementedError

    def step(self, base: Any, scope: Scope) -> Any:
        """The value, given the value of the base."""
        raise NotImplementedError

    def expression(self, base: str, namer: Namer) -> str:
        """Python text of this step inside the guard function; `base` is the name of the base's value."""
        raise NotImplementedError

    def load(self, writer: Writer, namer: Namer) -> None:
        """Emit bytecode that pushes the value."""
        raise NotImplementedError

    def fetch(self, scope: Scope) -> Any:
        """The current value. Raises whatever the path raises (the caller counts that as a cache miss)."""
        return self.step(self.base.fetch(scope) if self.base is not None else None, scope)

    # -- interning

    def child(self, key: object, make: Callable[[], Source]) -> Any:
        """The unique child of this source under `key`."""
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = make()
        return child

    def attribute(self, name: str, how: str = "dict") -> AttributeSource:
        """`base.name`; how: "dict" reads the instance's `__dict__`, and so does "hidden", where a class descriptor shadows the
        entry; "getattr" reads a C-level attribute.
        """
        return self.child(("attr", name, how), lambda: AttributeSource(self, name, how))  # type: ignore[no-any-return]

    def item(self, key: object) -> ItemSource:
        """`base[key]` of an exact list, tuple or dict (or a subclass that does not override the access)."""
        return self.child(("item", type(key), key), lambda: ItemSource(self, key))  # type: ignore[no-any-return]

    def dynamic_item(self, key: Source) -> DynamicItemSource:
        """`base[key]` with a key that changes from call to call."""
        return self.child(("dynamic item", key), lambda: DynamicItemSource(self, key))  # type: ignore[no-any-return]

    def key(self, index: int) -> KeySource:
        """The index-th key of a dict."""
        return self.child(("key", index), lambda: KeySource(self, index))  # type: ignore[no-any-return]

    def numbered_key(self, index: int) -> NumberedKeySource:
        """The index-th key of a dict whose keys are numbers from a counter."""
        return self.child(("numbered key", index), lambda: NumberedKeySource(self, index))  # type: ignore[no-any-return]

    def numbered_value(self, index: int) -> NumberedValueSource:
        """The index-th value of such a dict."""
        return self.child(("numbered value", index), lambda: NumberedValueSource(self, index))  # type: ignore[no-any-return]

    def type(self) -> TypeSource:
        """`type(base)`."""
        return self.child("type", lambda: TypeSource(self))  # type: ignore[no-any-return]

    def path(self) -> list[Source]:
        """The steps from the first one to this one."""
        return [*(self.base.path() if self.base is not None else ()), self]

    def root(self) -> Source:
        """The first step of the path."""
        source = self
        while source.base is not None:
            source = source.base
        return source

    # -- what torch's ShapeEnv calls

    @property
    def name(self) -> str:
        return self.text()

    @property
    def guard_source(self) -> torch._guards.GuardSource:
        return torch._guards.GuardSource.LOCAL

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text()})"


class LocalSource(Source):
    """An argument of the frame, by name and by slot."""

    def __init__(self, local: str, slot: int, is_cell: bool = False) -> None:
        super().__init__()
        self.local, self.slot, self.is_cell = local, slot, is_cell

    def text(self) -> str:
        return self.local

    def step(self, base: Any, scope: Scope) -> Any:
        return scope.arguments[self.local]

    def expression(self, base: str, namer: Namer) -> str:
        return f"L{self.slot}"

    def load(self, writer: Writer, namer: Namer) -> None:
        if self.is_cell:  # after MAKE_CELL the slot contains the cell
            writer.load_deref(self.local)
        else:
            writer.load_fast(self.local)


class ClosureSource(Source):
    """The content of a free variable's cell, by name and by index in the closure."""

    def __init__(self, variable: str, index: int) -> None:
        super().__init__()
        self.variable, self.index = variable, index

    def text(self) -> str:
        return self.variable

    def step(self, base: Any, scope: Scope) -> Any:
        assert scope.closure is not None
        return scope.closure[self.index].cell_contents

    def expression(self, base: str, namer: Namer) -> str:
        return f"F[{self.index}].cell_contents"

    def load(self, writer: Writer, namer: Namer) -> None:
        writer.load_deref(self.variable)


class ResumedCellSource(ClosureSource):
    """The content of a resume function's cell that was a cell variable of the frame: a local variable, new in each call."""


class CellSource(ClosureSource):
    """A cell of the frame's closure itself, which may be empty."""

    def step(self, base: Any, scope: Scope) -> Any:
        assert scope.closure is not None
        return scope.closure[self.index]

    def expression(self, base: str, namer: Namer) -> str:
        return f"F[{self.index}]"

    def load(self, writer: Writer, namer: Namer) -> None:
        writer.load_closure(self.variable)


class GlobalSource(Source):
    """A global variable of the frame."""

    def __init__(self, variable: str) -> None:
        super().__init__()
        self.variable = variable

    def text(self) -> str:
        return self.variable

    def step(self, base: Any, scope: Scope) -> Any:
        return scope.globals[self.variable]

    def expression(self, base: str, namer: Namer) -> str:
        return f"G[{self.variable!r}]"

    def load(self, writer: Writer, namer: Namer) -> None:
        writer.load_global(self.variable)


class GlobalsSource(Source):
    """The frame's globals dict itself (for guards on absent names)."""

    def text(self) -> str:
        return "globals()"

    def step(self, base: Any, scope: Scope) -> Any:
        return scope.globals

    def expression(self, base: str, namer: Namer) -> str:
        return "G"

    def load(self, writer: Writer, namer: Namer) -> None:
        writer.call_helper(lambda: writer.load_global("globals"))


class BuiltinSource(Source):
    """A name of the builtins module."""

    def __init__(self, variable: str) -> None:
        super().__init__()
        self.variable = variable

    def text(self) -> str:
        return self.variable

    def step(self, base: Any, scope: Scope) -> Any:
        return builtins.__dict__[self.variable]

    def expression(self, base: str, namer: Namer) -> str:
        return f"{namer.name(builtins.__dict__)}[{self.variable!r}]"

    def load(self, writer: Writer, namer: Namer) -> None:
        writer.load_fast(namer.name(builtins.__dict__[self.variable]))


class ModuleSource(Source):
    """A module by its name in `sys.modules`: the one found there when the frame was translated."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self.module = module

    def text(self) -> str:
        return self.module

    def step(self, base: Any, scope: Scope) -> Any:
        return sys.modules[self.module]

    def expression(self, base: str, namer: Namer) -> str:
        return namer.name(sys.modules[self.module])

    def load(self, writer: Writer, namer: Namer) -> None:
        writer.load_fast(namer.name(sys.modules[self.module]))


class ObjectSource(Source):
    """An object that the cache entry itself holds: created or found while tracing, the same in every call."""

    def __init__(self, value: object, label: str) -> None:
        super().__init__()
        self.value, self.label = value, label

    def text(self) -> str:
        return self.label

    def step(self, base: Any, scope: Scope) -> Any:
        return self.value

    def expression(self, base: str, namer: Namer) -> str:
        return namer.name(self.value)

    def load(self, writer: Writer, namer: Namer) -> None:
        writer.load_fast(namer.name(self.value))


class NamedSource(Source):
    """An object of which only the name is kept, for display: a class, a module of the program."""

    def __init__(self, label: str) -> None:
        super().__init__()
        self.label = label

    def text(self) -> str:
        return self.label


class PinnedSource(ObjectSource):
    """An object that the cache entry holds because its path (`origin`) is guarded by identity: a module's parameter.

    Guards and modified code use the object directly instead of fetching its path. The source holds it only weakly, and only during
    translation: the sources of a frame form reference cycles, and a weight must be freed with its module and entry, without
    waiting for the garbage collector. `torch.utils.swap_tensors` refuses tensors that have weak references.
    """

    def __init__(self, value: object, origin: Source) -> None:
        super().__init__(None, origin.text())
        self.origin = origin
        self.reference: weakref.ref[Any] | None = weakref.ref(value)

    def release(self) -> None:
        """Drop the object after translation: from now on it is fetched through its path."""
        self.reference = None

    def step(self, base: Any, scope: Scope) -> Any:
        return self.origin.fetch(scope) if self.reference is None else self._alive()

    def expression(self, base: str, namer: Namer) -> str:
        return namer.name(self._alive())

    def load(self, writer: Writer, namer: Namer) -> None:
        writer.load_fast(namer.name(self._alive()))

    def _alive(self) -> object:
        value = self.reference() if self.reference is not None else None
        if value is None:
            raise ReferenceError(f"{self.label} is gone")
        return value


class ChainedSource(Source):
    """A step from a base."""

    base: Source

    def __init__(self, base: Source) -> None:
        super().__init__()
        self.base = base
        self.has_dynamic_index = base.has_dynamic_index

    def _call_on_base(self, writer: Writer, namer: Namer, function: Callable[..., Any], *loads: Callable[[], object]) -> None:
        """Emit `function(base, ...)`."""
        load_function = functools.partial(writer.load_fast, namer.name(function))
        writer.call_helper(load_function, functools.partial(self.base.load, writer, namer), *loads)


class AttributeSource(ChainedSource):
    """`base.name`."""

    def __init__(self, base: Source, attr: str, how: str) -> None:
        super().__init__(base)
        self.attr, self.how = attr, how

    def text(self) -> str:
        return f"{self.base.text()}.{self.attr}"

    def step(self, base: Any, scope: Scope) -> Any:
        return instance_dict(base)[self.attr] if self.in_dictionary else plain_attribute(base, self.attr)

    @property
    def in_dictionary(self) -> bool:
        """Whether it is read from the `__dict__`."""
        return self.how != "getattr"

    def expression(self, base: str, namer: Namer) -> str:
        if self.in_dictionary:
            return f"{self.base.dictionary(base, namer)}[{self.attr!r}]"
        return f"{namer.name(plain_attribute)}({base}, {self.attr!r})" if self.base.runs_code else f"{base}.{self.attr}"

    def load(self, writer: Writer, namer: Namer) -> None:
        if self.how != "hidden" and not self.base.runs_code:
            self.base.load(writer, namer)
            writer.load_attr(self.attr)
            return
        function = own_attribute if self.in_dictionary else plain_attribute
        self._call_on_base(writer, namer, function, lambda: writer.load_const(self.attr))


PLAIN_CONTAINERS: tuple[Any, ...] = (dict, list, tuple)
"""For exactly these types a subscript runs no user code and no `__missing__`."""


class ItemSource(ChainedSource):
    """`base[key]`."""

    def __init__(self, base: Source, index: object) -> None:
        super().__init__(base)
        self.index = index

    def text(self) -> str:
        module_attr = self._registered_name()
        return module_attr if module_attr is not None else f"{self.base.text()}[{literal_text(self.index)}]"

    def _registered_name(self) -> str | None:
        """`m._parameters['weight']` is displayed as `m.weight`."""
        base = self.base
        if isinstance(base, AttributeSource) and base.attr in REGISTRIES:
            name = str(self.index)
            return f"{base.base.text()}.{name}" if name.isidentifier() else f"{base.base.text()}[{name}]"
        return None

    def step(self, base: Any, scope: Scope) -> Any:
        return item_of(base, self.index)

    def expression(self, base: str, namer: Namer) -> str:
        return f"{namer.name(item_of)}({base}, {self._key(namer)})"

    def expression_of(self, base: str, namer: Namer, cls: type[Any] | None) -> str:
        """The same for a base known to be of this class: a subscript of an exact list, tuple or dict runs no user code."""
        if cls in PLAIN_CONTAINERS:
            return f"{base}[{self._key(namer)}]"
        if cls in (OrderedDict, defaultdict):  # in C alone: `item_of` is a Python function
            return f"{namer.name(dict.get)}({base}, {self._key(namer)}, {namer.name(ABSENT)})"
        return self.expression(base, namer)

    def _key(self, namer: Namer) -> str:
        return repr(self.index) if type(self.index) in (str, int, bool, bytes, type(None)) else namer.name(self.index)

    def load(self, writer: Writer, namer: Namer) -> None:
        self.base.load(writer, namer)
        if type(self.index) in (str, int, bool, bytes, type(None), float):
            writer.load_const(self.index)
        else:
            writer.load_fast(namer.name(self.index))
        writer.binary_subscr()


class DictItemSource(ChainedSource):
    """`dict.__getitem__(base, key)`: an item of a dict subclass that overrides the access; `__missing__` is not called."""

    def __init__(self, base: Source, index: object) -> None:
        super().__init__(base)
        self.index = index

    def text(self) -> str:
        return f"dict.__getitem__({self.base.text()}, {literal_text(self.index)})"

    def step(self, base: Any, scope: Scope) -> Any:
        return item_of(base, self.index)

    def expression(self, base: str, namer: Namer) -> str:
        return f"{namer.name(item_of)}({base}, {namer.name(self.index)})"

    def load(self, writer: Writer, namer: Namer) -> None:
        self._call_on_base(writer, namer, item_of, lambda: writer.load_fast(namer.name(self.index)))


def nth_key(mapping: Any, index: int) -> Any:
    """The index-th key of a dict, or member of a set, in its order; for a plain dict without listing the others."""
    return native.nth_key(mapping, index) if type(mapping) is dict else keys_of(mapping)[index]


class KeySource(ChainedSource):
    """The index-th key of a dict (for keys that are not plain constants: tensors, modules, user objects)."""

    def __init__(self, base: Source, index: int) -> None:
        super().__init__(base)
        self.index = index

    def text(self) -> str:
        return f"list({self.base.text()})[{self.index}]"

    def step(self, base: Any, scope: Scope) -> Any:
        return nth_key(base, self.index)

    def expression(self, base: str, namer: Namer) -> str:
        return f"{namer.name(nth_key)}({base}, {self.index})"

    def load(self, writer: Writer, namer: Namer) -> None:
        self._call_on_base(writer, namer, nth_key, lambda: writer.load_const(self.index))


class NumberedKeySource(ChainedSource):
    """The index-th key of an OrderedDict with numbers from a counter as keys: it differs in each run of the program."""

    change = "key"
    words, nth, list_all = "key", staticmethod(native.nth_key), staticmethod(keys_of)

    def __init__(self, base: Source, index: int) -> None:
        super().__init__(base)
        self.index = index

    def text(self) -> str:
        return f"{self.words} {self.index} of ({self.base.text()})"

    def step(self, base: Any, scope: Scope) -> Any:
        return self.nth(base, self.index, self.list_all)

    def expression(self, base: str, namer: Namer) -> str:
        return f"{namer.name(self.nth)}({base}, {self.index}, {namer.name(self.list_all)})"

    def load(self, writer: Writer, namer: Namer) -> None:
        index, list_all = (lambda: writer.load_const(self.index)), (lambda: writer.load_fast(namer.name(self.list_all)))
        self._call_on_base(writer, namer, self.nth, index, list_all)


class NumberedValueSource(NumberedKeySource):
    """The index-th value of such a dict, whatever its key is."""

    change = ""
    words, nth, list_all = "value", staticmethod(native.nth_value), staticmethod(values_of)


class TypeSource(ChainedSource):
    """`type(base)`."""

    def text(self) -> str:
        return f"type({self.base.text()})"

    def step(self, base: Any, scope: Scope) -> Any:
        return type(base)

    def expression(self, base: str, namer: Namer) -> str:
        return f"type({base})"

    def load(self, writer: Writer, namer: Namer) -> None:
        self._call_on_base(writer, namer, type)


class CallSource(ChainedSource):
    """`function(base)` for a C function without side effects, such as reading a weak reference."""

    def __init__(self, base: Source, function: Callable[[Any], Any], label: str) -> None:
        super().__init__(base)
        self.function, self.label = function, label

    def text(self) -> str:
        return f"{self.label}({self.base.text()})"

    def step(self, base: Any, scope: Scope) -> Any:
        return self.function(base)

    def expression(self, base: str, namer: Namer) -> str:
        return f"{namer.name(self.function)}({base})"

    def load(self, writer: Writer, namer: Namer) -> None:
        self._call_on_base(writer, namer, self.function)


class IteratorSource(CallSource):
    """The next item of an iterator that the caller created: it differs in each call."""

    change = "iterator"


class OwnLocalSource(Source):
    """A value that the modified code computes first, into a local variable that it adds; no guard is on it."""

    guardable = False

    def __init__(self, local: str, words: str) -> None:
        super().__init__()
        self.local, self.words = local, words

    def text(self) -> str:
        return self.words

    def load(self, writer: Writer, namer: Namer) -> None:
        writer.load_fast(self.local)


class DrawnSource(OwnLocalSource):
    """A random number, which differs in each call."""

    change = "drawn"


class LiteralSource(Source):
    """A number, string or None that is a literal in the program's code."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value

    def text(self) -> str:
        return repr(self.value)

    def step(self, base: Any, scope: Scope) -> Any:
        return self.value

    def expression(self, base: str, namer: Namer) -> str:
        return repr(self.value) if type(self.value) in (int, str, bool) else namer.name(self.value)

    def load(self, writer: Writer, namer: Namer) -> None:
        writer.load_const(self.value)


class ComputedSource(ChainedSource):
    """`function(base, *others)`: a C function without side effects, applied to numbers and strings."""

    def __init__(self, base: Source, function: Callable[..., Any], others: tuple[Source, ...], words: str) -> None:
        super().__init__(base)
        self.function, self.others, self.words = function, others, words
        self.guardable = base.guardable and all(other.guardable for other in others)
        self.depth: int = 1 + max(getattr(operand, "depth", 0) for operand in (base, *others))

    def text(self) -> str:
        return self.words.format(self.base.text(), *[other.text() for other in self.others])

    def step(self, base: Any, scope: Scope) -> Any:
        return self.function(base, *[other.fetch(scope) for other in self.others])

    def expression(self, base: str, namer: Namer) -> str:
        operands = [base, *[_whole_expression(other, namer) for other in self.others]]
        return f"{namer.name(self.function)}({', '.join(operands)})"

    def load(self, writer: Writer, namer: Namer) -> None:
        loads = [functools.partial(other.load, writer, namer) for other in self.others]
        self._call_on_base(writer, namer, self.function, *loads)


class DynamicItemSource(ComputedSource):
    """`base[key]` of an exact list, tuple or dict with a changing key: the item that a loop iteration selects."""

    def __init__(self, base: Source, key: Source) -> None:
        super().__init__(base, item_of, (key,), "{}[{}]")
        self.has_dynamic_index = True

    def expression_of(self, base: str, namer: Namer, cls: type[Any] | None) -> str:
        """The same for a base known to be of this class."""
        return f"{base}[{_whole_expression(self.others[0], namer)}]" if cls in PLAIN_CONTAINERS else self.expression(base, namer)

    def load(self, writer: Writer, namer: Namer) -> None:
        self.base.load(writer, namer)
        self.others[0].load(writer, namer)
        writer.binary_subscr()


def _whole_expression(source: Source, namer: Namer) -> str:
    return source.expression("" if source.base is None else _whole_expression(source.base, namer), namer)
