"""Instances of the program's own classes, existing or made in this frame.

The idea: an attribute is looked up as CPython's object.__getattribute__ does it: data descriptors of the class, the
object's own dictionary, other attributes of the class, `__getattr__`. Functions found in the class become bound
methods and are inlined; properties and other descriptors are called. Special methods (`obj + 1`, `len(obj)`, `with
obj`) are looked up in the class only, as CPython does, and inlined too.

What this frame assigns stands in `stored` and in the journal. An existing object gets it when the graph has run; an object
made in this frame is made for real only if it outlives the frame: `cls.__new__(cls)` and its attributes, without
running `__init__` again.

An object of a class that extends list, dict, tuple, set, str or a number has its content in `storage`, a tracker of the base type.

In: a live object and its source, or a class. Out: what its attributes and methods give.
torch/_dynamo/variables/user_defined.py does the same job.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import class_dict
from dynexplore.engine.variables.callables.function import BoundCMethodVariable, BoundMethodVariable, BuiltinVariable
from dynexplore.engine.variables.containers.iterator import ByIndexIteratorVariable, item_or_end
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.contract.build import builds_when
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.contract.hash_keys import FieldsKey
from dynexplore.engine.variables.contract.write_back import write_attributes
from dynexplore.engine.variables.objects.descriptors import accessor, bind, binds, class_tracker
from dynexplore.engine.variables.objects.instance_attribute_guards import instance_attribute_source, read_instance_attribute
from dynexplore.engine.variables.objects.opaque import guard_identity
from dynexplore.engine.variables.objects.type_lookup import (
    ClassAttribute,
    find,
    guard_on_absence,
    guard_on_class_of,
    has_name,
    is_python_class,
    layout_of,
    peek,
    raw_lookup,
)
from dynexplore.engine.variables.objects.user_hash_key import user_hash_key
from dynexplore.engine.variables.scalars.constant import ConstantVariable, run_now
from dynexplore.engine.variables.scalars.special_results import checked_iterator, checked_result, checked_truth
from dynexplore.engine.variables.scalars.specialize import equal
from dynexplore.engine.variables.sentences import no_boolean, no_container

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

def _is_borrowed(slot: Any, name: str) -> bool:
    """Whether a special method is another one in C: `__setattr__ = dict.__setitem__`."""
    return isinstance(slot, types.WrapperDescriptorType | types.MethodDescriptorType) and slot.__name__ != name


# How an attribute is stored past a `__setattr__` of the program, when changes are replayed.
_PLAIN_SETTERS: tuple[Any, ...] = (object.__setattr__,)


def _is_written_by_hand(method: Any) -> bool:
    """Whether a method of a dataclass is the program's own, and not the one that dataclasses generate."""
    return isinstance(method, types.FunctionType) and method.__code__.co_filename != "<string>"


class UserObjectVariable(VariableTracker):
    """An instance of a class written in Python; see the head of this file."""

    kind = "object"
    mutable = True
    is_its_attributes: ClassVar[bool] = True  # whether they are all that it holds

    def __init__(self, cls: type[Any], *, value: Any = None, source: Source | None = None,
                 class_variable: VariableTracker | None = None, storage: VariableTracker | None = None) -> None:
        self.cls = cls
        self.value = value  # the live object; None for one made in this frame
        self.source = source
        self.class_variable = class_variable
        self.storage = storage
        self.stored: dict[str, VariableTracker | None] = {}  # None: deleted
        self.set_before_deleted: set[str] = set()
        self.renewed: set[str] = set()  # deleted and stored again: such an attribute goes to the end of the dictionary
        self.dictionary: VariableTracker | None = None  # what stands for its `__dict__`, once it was asked for
        self._read: dict[str, VariableTracker] = {}

    # -- what it is

    def python_type(self) -> type[Any]:
        return self.cls

    def live_value(self) -> Any:
        return self.value if self.value is not None else super().live_value()

    def text(self) -> str:
        return f"a {self.cls.__qualname__}"

    # -- for those who watch

    def assigned(self) -> dict[str, VariableTracker | None] | None:
        return dict(self.stored)

    def live_names(self) -> Mapping[str, Any]:
        return self.live_dictionary() or {}

    def new_object_attributes(self) -> list[tuple[str, VariableTracker]] | None:
        if self.value is not None or not self.is_its_attributes:
            return None
        return [(name, value) for name, value in self.stored.items() if value is not None]

    def identity(self) -> object | None:
        return self

    def hashes_by_identity(self) -> bool:
        return peek(self.cls, "__hash__") is object.__hash__ and peek(self.cls, "__eq__") is object.__eq__

    # -- attributes

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if raw_lookup(ctx, self.cls, "__getattribute__") is not object.__getattribute__:
            hook = self.special(ctx, "__getattribute__")
            if hook is not None:
                return self._get_through(ctx, name, lambda: hook.call(ctx, [ConstantVariable(name)], {}))
        return self.generic_get(ctx, name)

    def generic_get(self, ctx: TraceContext, name: str) -> VariableTracker:
        """object.__getattribute__, and `__getattr__` when that raises AttributeError."""
        return self._get_through(ctx, name, lambda: self.plain_get(ctx, name))

    def _get_through(self, ctx: TraceContext, name: str, getter: Callable[[], VariableTracker]) -> VariableTracker:
        try:
            return getter()
        except ObservedException as error:
            if not issubclass(error.exception.python_type(), AttributeError):
                raise
            raised = error
        return self._ask_fallback(ctx, name, raised)

    def _ask_fallback(self, ctx: TraceContext, name: str, raised: ObservedException) -> VariableTracker:
        """What `__getattr__` says where the lookup raised AttributeError."""
        hook = self._fallback(ctx)
        if hook is None:
            raise raised
        return hook.call(ctx, [ConstantVariable(name)], {})

    def plain_get(self, ctx: TraceContext, name: str) -> VariableTracker:
        """object.__getattribute__ alone."""
        attribute = find(ctx, self.cls, name)
        if attribute is not None and attribute.overrides_instance_dict:
            return bind(ctx, attribute, self, self.cls)
        own = self.own_attribute(ctx, name)
        if own is not None:
            return own
        if attribute is not None:
            return bind(ctx, attribute, self, self.cls)
        guard_on_absence(ctx, self.cls, name)
        return self.missing_attribute(ctx, name)

    def _fallback(self, ctx: TraceContext) -> VariableTracker | None:
        return self._attribute_hook(ctx, "__getattr__")

    def _attribute_hook(self, ctx: TraceContext, name: str) -> VariableTracker | None:
        """The program's own `__getattr__`, `__setattr__` or `__delattr__`: a function, or another slot in C under that name."""
        slot = raw_lookup(ctx, self.cls, name)
        if slot is None or not _is_borrowed(slot, name):
            return self.special(ctx, name) if slot is not None else None
        find(ctx, self.cls, name)  # guards that it is this one
        return BoundMethodVariable(ctx.build(slot, None), self)

    def missing_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        """Neither class nor object has it."""
        ctx.raise_exception(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")

    def own_attribute(self, ctx: TraceContext, name: str) -> VariableTracker | None:
        """What stands in the object's own dictionary, with what this frame stored there."""
        if name in self.stored:
            stored = self.stored[name]
            return stored.read(ctx) if stored is not None else None
        if name in self._read:
            return self._read[name]
        own = self.live_dictionary()
        if own is None:
            return None
        if name not in own:
            self.guard_on_absence(ctx, name)
            return None
        return self.attribute_at_entry(ctx, name, own[name])

    def attribute_at_entry(self, ctx: TraceContext, name: str, value: object) -> VariableTracker:
        """What stood in the live object's dictionary when the frame began."""
        tracker = self._read.get(name)
        if tracker is None:
            assert self.source is not None
            tracker = self._read[name] = read_instance_attribute(ctx, self.value, self.source, name, value)
        return tracker

    def lazy_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        """What stands in the object's own dictionary, which has the name; nothing is relied on before it is read."""
        stored = self.stored.get(name) or self._read.get(name)
        return stored if stored is not None else _LazyAttribute(self, name)

    def live_dictionary(self) -> dict[str, Any] | None:
        """The live object's own `__dict__`, if it exists and has one."""
        if self.value is None or not self.cls.__dictoffset__:
            return None
        return object.__getattribute__(self.value, "__dict__")  # type: ignore[no-any-return]

    def guard_on_absence(self, ctx: TraceContext, name: str) -> None:
        """The object itself has no attribute of this name."""
        if ctx.module_guards.has_facts_of(self.value):
            ctx.module_guards.guard_on_absence(self.value, name)
        elif self.source is not None:
            ctx.guard(self.source, "ATTRIBUTE_ABSENT", name)

    def has_own(self, ctx: TraceContext, name: str) -> bool:
        """Whether the object itself has the attribute."""
        return self.own_attribute(ctx, name) is not None

    def set_attribute(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        setter = raw_lookup(ctx, self.cls, "__setattr__")
        if setter not in _PLAIN_SETTERS and (isinstance(setter, types.FunctionType) or _is_borrowed(setter, "__setattr__")):
            hook = self._attribute_hook(ctx, "__setattr__")
            assert hook is not None
            hook.call(ctx, [ConstantVariable(name), value], {})
        else:
            self.generic_set(ctx, name, value)

    def generic_set(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        """object.__setattr__."""
        attribute = find(ctx, self.cls, name)
        if attribute is not None and attribute.is_data_descriptor:
            self._set_through(ctx, attribute, value)
        else:
            self.store_own(ctx, name, value)

    def _set_through(self, ctx: TraceContext, attribute: ClassAttribute, value: VariableTracker) -> None:
        if is_slot(attribute):
            self._store(ctx, attribute.name, value)
        elif isinstance(attribute.raw, _C_DESCRIPTORS):
            self.set_c_attribute(ctx, attribute, value)
        elif isinstance(attribute.raw, property):
            if attribute.raw.fset is None:
                ctx.raise_exception(
                    AttributeError, f"property {attribute.name!r} of {self.cls.__qualname__!r} object has no setter")
            accessor(ctx, attribute, "fset").call(ctx, [self, value], {})
        else:
            self._call_descriptor(ctx, attribute, "__set__", value)

    def _call_descriptor(self, ctx: TraceContext, attribute: ClassAttribute, method: str, *args: VariableTracker) -> None:
        setter = find(ctx, type(attribute.raw), method)
        if setter is None or not setter.is_python_function:
            ctx.break_graph("DX303", name=attribute.name, type=self.cls.__qualname__)
        descriptor = bind_raw(ctx, attribute)
        bind(ctx, setter, descriptor, type(attribute.raw)).call(ctx, [self, *args], {})

    def store_own(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        """Put a value into the object's own dictionary."""
        if not self.cls.__dictoffset__:
            ctx.break_graph("DX303", name=name, type=self.cls.__qualname__)
        self._store(ctx, name, value)

    def _store(self, ctx: TraceContext, name: str, value: VariableTracker | None) -> None:
        if self.value is not None:
            ctx.journal.must_replay(self, f"{self.describe()}.{name}")
        else:
            ctx.journal.note(self, f"{self.describe()}.{name}")
        if self.stored.get(name, self) is None:
            del self.stored[name]
            self.renewed.add(name)
        self.stored[name] = value

    def delete_attribute(self, ctx: TraceContext, name: str) -> None:
        deleter = raw_lookup(ctx, self.cls, "__delattr__")
        if isinstance(deleter, types.FunctionType) or _is_borrowed(deleter, "__delattr__"):
            hook = self._attribute_hook(ctx, "__delattr__")
            assert hook is not None
            hook.call(ctx, [ConstantVariable(name)], {})
        else:
            self.generic_delete(ctx, name)

    def generic_delete(self, ctx: TraceContext, name: str) -> None:
        """object.__delattr__."""
        attribute = find(ctx, self.cls, name)
        if attribute is not None and attribute.is_data_descriptor:
            self._delete_through(ctx, attribute)
        elif not self.has_own(ctx, name):
            ctx.raise_exception(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")
        else:
            self.forget(ctx, name)

    def _delete_through(self, ctx: TraceContext, attribute: ClassAttribute) -> None:
        if is_slot(attribute):
            self.read_slot(ctx, attribute)
            self.forget(ctx, attribute.name)
        elif isinstance(attribute.raw, property) and attribute.raw.fdel is not None:
            accessor(ctx, attribute, "fdel").call(ctx, [self], {})
        else:
            self._call_descriptor(ctx, attribute, "__delete__")

    def forget(self, ctx: TraceContext, name: str) -> None:
        if self.stored.get(name) is not None:  # whether the live object had it was never asked
            self.set_before_deleted.add(name)
        self._store(ctx, name, None)
        if self.value is None:
            del self.stored[name]

    def really_has(self, name: str) -> bool:
        """Whether the live object came with this attribute, in its dictionary or in a slot."""
        if name in (self.live_dictionary() or {}):
            return True
        slot = peek(self.cls, name)
        return isinstance(slot, types.MemberDescriptorType) and _is_filled(slot, self.value)

    def has_slot(self, name: str) -> bool:
        """Whether an attribute of this name lives in a `__slots__` place, and not in the object's dictionary."""
        return isinstance(peek(self.cls, name), types.MemberDescriptorType)

    def read_slot(self, ctx: TraceContext, slot: ClassAttribute) -> VariableTracker:
        """An attribute that lives in a `__slots__` place."""
        name = slot.name
        if name in self.stored:
            stored = self.stored[name]
            if stored is not None:
                return stored.read(ctx)
        elif name in self._read:
            return self._read[name]
        elif self.value is not None:
            try:
                value = slot.raw.__get__(self.value)
            except AttributeError:
                ctx.break_graph("DX303", name=name, type=self.cls.__qualname__)  # an empty slot has no guard
            source = self.source.attribute(name, "getattr") if self.source is not None else None
            read = self._read[name] = ctx.build(value, source)
            return read
        make: Any = layout_of(self.cls).__new__
        run_now(ctx, slot.raw.__get__, make(self.cls))  # CPython's own words: the slot is empty
        raise AssertionError(f"the new object has {name}")

    # -- what the C type below gives

    def c_attribute(self, ctx: TraceContext, attribute: ClassAttribute) -> VariableTracker:
        """An attribute that a C type computes or keeps: `__class__`, `__dict__`, `exception.args`."""
        reader = C_ATTRIBUTES.get(attribute.name)
        if reader is None:
            ctx.break_graph("DX303", name=attribute.name, type=self.cls.__qualname__)
        return reader(ctx, self)

    def set_c_attribute(self, ctx: TraceContext, attribute: ClassAttribute, value: VariableTracker) -> None:
        """Assign such an attribute."""
        ctx.break_graph("DX303", name=attribute.name, type=self.cls.__qualname__)

    def c_method(self, ctx: TraceContext, attribute: ClassAttribute) -> VariableTracker | None:
        """A method that a C type implements, bound; None if the method itself has a rule."""
        if attribute.raw is types.SimpleNamespace.__init__:
            return CMethodVariable(self, attribute.name, _fill_namespace)
        return None

    def method_of(self, ctx: TraceContext, cls: type[Any] | None, name: str) -> VariableTracker:
        if cls is None or name not in class_dict(cls):
            return self.get_attribute(ctx, name)
        return bind(ctx, ClassAttribute(cls, name, class_dict(cls)[name]), self, self.cls)

    # -- special methods

    def special(self, ctx: TraceContext, name: str) -> VariableTracker | None:
        """The bound special method that Python code of the class defines; None if it has none (or inherits a C one).

        A method that a class takes away by `__iter__ = None` is there: it is the constant None, which refuses to be called.
        """
        method = find(ctx, self.cls, name)
        if method is not None and (method.is_python_function or not isinstance(method.raw, _C_SPECIAL)):
            return bind(ctx, method, self, self.cls)
        return None

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        method = self.special(ctx, "__bool__")
        if method is not None and method.is_constant() and method.as_constant() is None:
            ctx.raise_exception(TypeError, no_boolean(self.cls.__name__))
        if method is not None:
            return checked_truth(ctx, self.cls, method.call(ctx, [], {}))
        if self.storage is not None and not self.special(ctx, "__len__"):
            return self.storage.truth(ctx)
        return self.length(ctx).truth(ctx) if has_name(ctx, self.cls, "__len__") else True

    def length(self, ctx: TraceContext) -> VariableTracker:
        length = self._ask(ctx, "__len__")
        if length is not None:
            return checked_result(ctx, len, self.cls, "__len__", length)
        return self._of_storage(ctx, "len()").length(ctx)

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        iterator = self._ask(ctx, "__iter__", refusal="is not iterable")
        if iterator is not None:
            return checked_iterator(ctx, iterator)
        if raw_lookup(ctx, self.cls, "__iter__") is None and self.special(ctx, "__getitem__") is not None:
            return ByIndexIteratorVariable(self)
        if raw_lookup(ctx, self.cls, "__iter__") is None:
            ctx.raise_exception(TypeError, f"{self.cls.__name__!r} object is not iterable")
        return self._of_storage(ctx, "iteration").iterate(ctx)

    def _is_container(self, ctx: TraceContext) -> bool:
        """Whether its class says what it contains; that of an int does not, and only items by number are left."""
        return any(raw_lookup(ctx, self.cls, name) is not None for name in ("__contains__", "__iter__"))

    def next_item(self, ctx: TraceContext) -> VariableTracker | None:
        return item_or_end(ctx, self.next_or_raise)

    def next_or_raise(self, ctx: TraceContext) -> VariableTracker:
        """What `__next__` gives, or raises: StopIteration, with what that says."""
        method = self.special(ctx, "__next__")
        if method is None:
            if self.storage is None and raw_lookup(ctx, self.cls, "__next__") is None:
                ctx.raise_exception(TypeError, f"{self.cls.__name__!r} object is not an iterator")
            ctx.break_graph("DX307", question="next()", type=self.type_name())
        return method.call(ctx, [], {})

    def own_less_than(self, ctx: TraceContext, other: VariableTracker) -> VariableTracker | None:
        answer = self._ask(ctx, "__lt__", other)
        return None if answer is None or (answer.is_constant() and answer.as_constant() is NotImplemented) else answer

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        answer = self._ask(ctx, "__contains__", item, refusal="is not a container")
        if answer is not None:
            truth = answer.truth(ctx)
            return ConstantVariable(truth) if isinstance(truth, bool) else truth
        if self.storage is not None and self.special(ctx, "__iter__") is None and self._is_container(ctx):
            return self.storage.contains(ctx, item)
        if not any(raw_lookup(ctx, self.cls, name) is not None for name in ("__iter__", "__getitem__")):
            ctx.raise_exception(TypeError, no_container(self.cls.__name__))
        try:
            iterator = self.iterate(ctx)
        except ObservedException as raised:  # CPython's Objects/abstract.c (_PySequence_IterSearch) says it in its own words
            if not issubclass(raised.exception.python_type(), TypeError):
                raise
            ctx.raise_exception(TypeError, no_container(self.cls.__name__))
        while (candidate := iterator.next_item(ctx)) is not None:
            if equal(ctx, candidate, item):
                return ConstantVariable(True)
        return ConstantVariable(False)

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        item = self._ask(ctx, "__getitem__", key)
        return item if item is not None else self._subscriptable(ctx, "__getitem__").get_item(ctx, key)

    def set_item(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        if self._ask(ctx, "__setitem__", key, value) is None:
            self._subscriptable(ctx, "__setitem__").set_item(ctx, key, value)

    def delete_item(self, ctx: TraceContext, key: VariableTracker) -> None:
        if self._ask(ctx, "__delitem__", key) is None:
            self._subscriptable(ctx, "__delitem__").delete_item(ctx, key)

    def _subscriptable(self, ctx: TraceContext, method: str) -> VariableTracker:
        if self.storage is None and raw_lookup(ctx, self.cls, method) is None:
            words = {"__getitem__": "is not subscriptable", "__setitem__": "does not support item assignment",
                     "__delitem__": "doesn't support item deletion"}
            ctx.raise_exception(TypeError, f"{self.cls.__name__!r} object {words[method]}")
        return self._of_storage(ctx, method)

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        method = self.special(ctx, "__call__")
        if method is not None:
            ctx.frames.forward_call(self, method)
            return method.call(ctx, args, kwargs)
        if not has_name(ctx, self.cls, "__call__"):
            ctx.raise_exception(TypeError, f"{self.cls.__name__!r} object is not callable")
        return super().call(ctx, args, kwargs)

    def hash_key(self, ctx: TraceContext) -> object:
        hasher = raw_lookup(ctx, self.cls, "__hash__")
        if hasher is object.__hash__:
            ctx.journal.observe_identity(self)
            return self
        if hasher is None:
            ctx.raise_exception(TypeError, f"unhashable type: {self.cls.__name__!r}")
        if self.storage is not None and not isinstance(hasher, types.FunctionType):
            own_equality = isinstance(raw_lookup(ctx, self.cls, "__eq__"), types.FunctionType)
            return user_hash_key(ctx, self) if own_equality else self.storage.hash_key(ctx)
        return self._hash_of_fields(ctx)

    def _hash_of_fields(self, ctx: TraceContext) -> object:
        """A frozen dataclass is equal to another of its class when its fields are."""
        parameters = getattr(self.cls, "__dataclass_params__", None)
        written = any(_is_written_by_hand(raw_lookup(ctx, self.cls, name)) for name in ("__hash__", "__eq__"))
        if parameters is None or written or not (parameters.eq and parameters.frozen):
            return user_hash_key(ctx, self) if self.special(ctx, "__hash__") is not None else super().hash_key(ctx)
        fields = [field for field in self.cls.__dataclass_fields__.values()
                  if (field.hash if field.hash is not None else field.compare)]
        return FieldsKey((self.cls, *(self.get_attribute(ctx, field.name).hash_key(ctx) for field in fields)))

    def _ask(self, ctx: TraceContext, name: str, *args: VariableTracker, refusal: str = "") -> VariableTracker | None:
        """What the special method says, None if there is none; `refusal` says in CPython's words that it was taken away."""
        method = self.special(ctx, name)
        if refusal and method is not None and method.is_constant() and method.as_constant() is None:
            ctx.raise_exception(TypeError, f"{self.cls.__name__!r} object {refusal}")
        return method.call(ctx, args, {}) if method is not None else None

    def _of_storage(self, ctx: TraceContext, question: str) -> VariableTracker:
        if self.storage is None:
            ctx.break_graph("DX302", question=question, type=self.cls.__qualname__)
        return self.storage

    def as_proxy(self) -> Any:
        return self.storage.as_proxy() if self.storage is not None else super().as_proxy()

    # -- out of the frame

    def reconstruct(self, build: Reconstruction) -> None:
        if self.value is not None:
            build.push_object(self.value)
            return
        self.push_empty(build)
        build.remember(self)
        self.fill(build)
        build.push(self)

    def push_empty(self, build: Reconstruction) -> None:
        """Push a new instance without attributes."""
        assert self.class_variable is not None
        build.call_object(layout_of(self.cls).__new__, self.class_variable)

    def fill(self, build: Reconstruction) -> None:
        """Give the new instance what it holds."""
        for name, value in self.stored.items():
            assert value is not None
            build.push(value)
            build.push(self)
            self.emit_store(build, name)

    def emit_store(self, build: Reconstruction, name: str) -> None:
        """Emit: value and object are popped, the attribute is set, and no code of the program runs."""
        how = self.how_to_store(name)
        if how is setattr:
            build.writer.store_attr(name)
            return
        target, value = build.store_temporary(), build.store_temporary()
        writer = build.writer
        build.call_helper(how, lambda: writer.load_fast(target), lambda: writer.load_const(name), lambda: writer.load_fast(value))
        writer.pop_top()

    def how_to_store(self, name: str) -> Any:
        """`setattr` when the plain statement does it, else the function that does, past the program's own code."""
        shadowed = peek(self.cls, name)
        if hasattr(type(shadowed), "__set__") and not isinstance(shadowed, types.MemberDescriptorType):
            return store_in_dictionary
        setter = peek(self.cls, "__setattr__")
        return setattr if setter is object.__setattr__ else object.__setattr__

    def emit_delete(self, build: Reconstruction, name: str) -> None:
        """Emit: the object is popped, the attribute is deleted, and no code of the program runs."""
        how = self.how_to_delete(name)
        if how is delattr:
            build.writer.delete_attr(name)
            return
        target = build.store_temporary()
        build.call_helper(how, lambda: build.writer.load_fast(target), lambda: build.writer.load_const(name))
        build.writer.pop_top()

    def how_to_delete(self, name: str) -> Any:
        """`delattr` when the plain statement does it, else the function that does, past the program's own code."""
        if self.how_to_store(name) is store_in_dictionary:
            return delete_from_dictionary
        return delattr if peek(self.cls, "__delattr__") is object.__delattr__ else object.__delattr__

    def _emit_stored(self, build: Reconstruction, name: str) -> None:
        """Emit: value and object are popped, the attribute is set; one that was deleted in between goes to the end."""
        if name in self.renewed and self.value is not None:
            if name in self.set_before_deleted:
                build.writer.load_const(None)
                build.push(self)
                self.emit_store(build, name)
            build.push(self)
            self.emit_delete(build, name)
        self.emit_store(build, name)

    def write_back(self, build: Reconstruction) -> None:
        write_attributes(
            build, self, self.stored, store=self._emit_stored, delete=self.emit_delete, set_first=self.set_before_deleted)


class _LazyAttribute(LazyVariable):
    """An attribute of a live object that a copy of it shares."""

    def __init__(self, owner: UserObjectVariable, name: str) -> None:
        own = owner.live_dictionary()
        assert own is not None
        assert owner.source is not None
        super().__init__(own[name], instance_attribute_source(owner.value, owner.source, name))
        self.owner, self.name = owner, name

    def read(self, ctx: TraceContext) -> VariableTracker:
        return self.owner.attribute_at_entry(ctx, self.name, self.value)


def store_in_dictionary(target: Any, name: str, value: Any) -> None:
    """`target.__dict__[name] = value`: past a data descriptor of the class."""
    object.__getattribute__(target, "__dict__")[name] = value


def delete_from_dictionary(target: Any, name: str) -> None:
    """`del target.__dict__[name]`: past a data descriptor of the class."""
    del object.__getattribute__(target, "__dict__")[name]


def _is_filled(slot: types.MemberDescriptorType, value: object) -> bool:
    try:
        slot.__get__(value)
    except AttributeError:
        return False
    return True


# C implementations of special methods.
_C_SPECIAL = (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType)


def bind_raw(ctx: TraceContext, attribute: ClassAttribute) -> VariableTracker:
    """The descriptor object itself that stands in a class."""
    source = ctx.module_guards.source_of(attribute.raw, f"{attribute.owner.__qualname__}.{attribute.name}")
    ctx.module_guards.know(source)
    return ctx.build(attribute.raw, source)


class CMethodVariable(VariableTracker):
    """A method of a C type, and the function that answers for it; without a receiver the first argument is asked."""

    kind = "method"

    def __init__(self, receiver: VariableTracker | None, name: str, answer: Any) -> None:
        self.receiver, self.name, self.answer = receiver, name, answer

    def python_type(self) -> type[Any]:
        return types.MethodWrapperType

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self.receiver is None and not args:
            ctx.break_graph("DX218", callee=self.name)
        receiver, *rest = (self.receiver, *args) if self.receiver is not None else args
        result: VariableTracker = self.answer(ctx, receiver, rest, kwargs)
        return result

    def reconstruct(self, build: Reconstruction) -> None:
        if self.receiver is None or isinstance(peek(self.receiver.python_type(), self.name), types.FunctionType):
            raise NotImplementedError(self.name)  # the class has another one under this name
        build.push(self.receiver)
        build.writer.load_attr(self.name)

    def text(self) -> str:
        return f"{self.receiver.type_name()}.{self.name}" if self.receiver is not None else self.name


def _fill_namespace(ctx: TraceContext, self: UserObjectVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    """SimpleNamespace.__init__: keywords become attributes."""
    if args:
        ctx.break_graph("DX209", type=self.cls.__qualname__)
    for name, value in kwargs.items():
        self.store_own(ctx, name, value)
    return ConstantVariable(None)


# Attributes that `object` computes in C: `__class__`; instance_dict.py adds `__dict__`.
C_ATTRIBUTES: dict[str, Callable[[TraceContext, UserObjectVariable], VariableTracker]] = {
    "__class__": lambda ctx, self: class_tracker(ctx, self.cls),
}
_C_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def is_slot(attribute: ClassAttribute) -> bool:
    """Whether a class attribute is a place that `__slots__` made."""
    return isinstance(attribute.raw, types.MemberDescriptorType) and is_python_class(attribute.owner)


@binds(*_C_DESCRIPTORS)
def _bind_c_attribute(
    ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]
) -> VariableTracker:
    """A slot, or an attribute of a C type."""
    if instance is None:
        return bind_raw(ctx, attribute)
    if not isinstance(instance, UserObjectVariable):
        ctx.break_graph("DX303", name=attribute.name, type=cls.__qualname__)
    return instance.read_slot(ctx, attribute) if is_slot(attribute) else instance.c_attribute(ctx, attribute)


@binds(types.WrapperDescriptorType, types.MethodDescriptorType)
def _bind_c_method(
    ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]
) -> VariableTracker:
    """A method of a C type."""
    if isinstance(instance, UserObjectVariable):
        method = instance.c_method(ctx, attribute)
        if method is not None:
            return method
    function = ctx.build(attribute.raw, None)
    if instance is None:
        return function
    bound = BoundCMethodVariable if isinstance(function, BuiltinVariable) else BoundMethodVariable
    return bound(function, instance)


def is_user_object(value: Any) -> bool:
    """Whether a live value is an instance of a class made of Python code, on top of nothing but `object`."""
    return layout_of(type(value)) in (object, types.SimpleNamespace) and type(value) is not object


def hold_if_fixed(ctx: TraceContext, value: Any, source: Source | None) -> bool:
    """Hold an object whose identity is known, or that lives in a variable which hardly ever changes."""
    if source is None:
        return False
    if not ctx.module_guards.knows(source):
        if source.base is not None or not ctx.specializer.is_stable(source) or type(source).__name__ not in _LASTING:
            return False
        guard_identity(ctx, value, source)
    return ctx.module_guards.hold(value, source.text(), source) is not None


_LASTING = frozenset({"GlobalSource", "ClosureSource", "ObjectSource"})


@builds_when(is_user_object, rank=100)
def build_user_object(ctx: TraceContext, value: Any, source: Source | None) -> VariableTracker:
    """An instance of a class written in Python: its type is guarded, and later what is read of it."""
    if source is None:
        source = ctx.module_guards.source_of(value, f"a {type(value).__qualname__}")
        ctx.module_guards.know(source)
    if not hold_if_fixed(ctx, value, source):
        guard_on_class_of(ctx, value, source)
    return UserObjectVariable(type(value), value=value, source=source)
