"""Python modules: `math.pi`, `torch.nn.functional.relu`, `helpers.scale`.

The idea: a module is one object, guarded by identity, and its attributes are read from its own `__dict__`. They are guarded as
facts about dicts (provenance/module_guards.py), because programs do assign to modules: their own and, in tests, torch's and the
standard library's. Attributes of libraries are facts about the process, and are not listed among the guards of a frame.

In: a live module. Out: trackers of its attributes. PyTorch's counterpart: `PythonModuleVariable` in
torch/_dynamo/variables/misc.py.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from dynexplore.engine.policy.skip import how_to_call
from dynexplore.engine.provenance.identity_facts import ABSENT
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import module_name
from dynexplore.engine.variables.contract.base import VariableTracker, type_tracker
from dynexplore.engine.variables.contract.build import builds, builds_when
from dynexplore.engine.variables.contract.write_back import write_attributes
from dynexplore.engine.variables.objects.instance_attribute_guards import read_instance_attribute
from dynexplore.engine.variables.objects.namespace import read_fixed
from dynexplore.engine.variables.objects.opaque import guard_identity
from dynexplore.engine.variables.objects.type_lookup import guard_on_names, guard_on_plain_access, is_fixed_module, peek

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


_COMPUTED = frozenset({"__dict__", "__annotations__", "__annotate__"})
"""Attributes that `types.ModuleType` computes; reading or assigning one may put an item into the module's dict, or remove one."""


class PythonModuleVariable(VariableTracker):
    """A live module and the attributes that the frame assigned in it."""

    kind = "module"
    mutable = True
    text_changes = "never"

    def __init__(self, value: types.ModuleType, source: Source) -> None:
        self.value = value
        self.source: Source = source
        self.stored: dict[str, VariableTracker | None] = {}
        self.set_before_deleted: set[str] = set()
        self.fixed = is_fixed_module(module_name(value))
        self._read: dict[str, VariableTracker] = {}

    def python_type(self) -> type[Any]:
        return type(self.value)

    def live_value(self) -> Any:
        return self.value

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return True

    def hash_key(self, ctx: TraceContext) -> object:
        ctx.journal.observe_identity(self)
        return self

    def names_used(self) -> set[str]:
        """The names that the frame has read or assigned."""
        return {*self._read, *self.stored}

    def assigned(self) -> dict[str, VariableTracker | None] | None:
        return dict(self.stored)

    def live_names(self) -> Mapping[str, Any]:
        return vars(self.value)

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if type(self.value) is not types.ModuleType and not self.fixed:
            guard_on_plain_access(ctx, type(self.value), name)
            guard_on_names(ctx, type(self.value), "__getattr__")
            own = peek(type(self.value), name) is not peek(types.ModuleType, name)
            if own or peek(type(self.value), "__getattr__") is not None:
                ctx.break_graph("DX303", name=name, type=type(self.value).__qualname__)
        if name in self.stored:
            stored = self.stored[name]
            if stored is not None:
                return stored
        elif name in self._read:
            return self._read[name]
        elif name in self.value.__dict__:
            tracker = self._read[name] = self._own(ctx, name)
            return tracker
        return self._not_in_dictionary(ctx, name)

    def _own(self, ctx: TraceContext, name: str) -> VariableTracker:
        value = self.value.__dict__[name]
        if not self.fixed:
            return read_instance_attribute(ctx, self.value, self.source, name, value)
        return read_fixed(ctx, self.value, self.source.attribute(name), name, value)

    def _not_in_dictionary(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "__class__":
            return type_tracker(ctx, self)
        if name in _COMPUTED or (not self.fixed and peek(types.ModuleType, name) is not None):
            ctx.break_graph("DX303", name=name, type="module")
        answers = self._holds("__getattr__")
        reads_now = self.fixed and (not answers or self._is_submodule(name) or not self._traces_fallback())
        value = getattr(self.value, name, _MISSING) if reads_now else _MISSING  # torch and numpy load some submodules lazily
        if value is not _MISSING and name in self.value.__dict__:  # the read has imported it
            tracker = self._read[name] = self._own(ctx, name)
            return tracker
        if self.fixed and name not in self.stored and name not in self.value.__dict__:
            ctx.module_guards.guard_on_process(self.value, self._label(), name, ABSENT)
        if value is not _MISSING:
            source = self.source.attribute(name, "getattr")
            if not hasattr(type(self.value), name):  # `torch.backends.cudnn.benchmark` is computed at each read
                ctx.module_guards.note_identity(source)
            return ctx.build(value, source)
        if not self.fixed and name not in self.stored:
            ctx.module_guards.guard_on_absence(self.value, name)
        if answers and not reads_now:
            return self.get_attribute(ctx, "__getattr__").call(ctx, [ctx.build(name, None)], {})
        if not answers and "__getattr__" not in self.stored:
            if self.fixed:
                ctx.module_guards.guard_on_process(self.value, self._label(), "__getattr__", ABSENT)
            else:
                ctx.module_guards.guard_on_absence(self.value, "__getattr__")
        own_name = module_name(self.value)
        described = "module" if own_name is None else f"module {own_name!r}"
        ctx.raise_exception(AttributeError, f"{described} has no attribute {name!r}")

    def _holds(self, name: str) -> bool:
        """Whether the module's dict has a name, with what the frame has assigned and deleted."""
        return self.stored[name] is not None if name in self.stored else name in self.value.__dict__

    def _traces_fallback(self) -> bool:
        """Whether a call to its `__getattr__` is traced; what that of a library returns (torch, numpy) is a fact of the process."""
        fallback = self.value.__dict__.get("__getattr__")
        return "__getattr__" in self.stored or not isinstance(fallback, types.FunctionType) or how_to_call(fallback) == "inline"

    def _is_submodule(self, name: str) -> bool:
        """Whether a name that is not in its dict is a submodule, which its `__getattr__` would only import."""
        package, path = module_name(self.value), self.value.__dict__.get("__path__")
        if package is None or path is None:
            return False
        return f"{package}.{name}" in sys.modules or PathFinder.find_spec(f"{package}.{name}", path) is not None

    def _refuse_computed(self, ctx: TraceContext, name: str) -> None:
        if name in _COMPUTED:
            ctx.break_graph("DX303", name=name, type="module")

    def _label(self) -> str:
        return module_name(self.value) or "a module without a name"

    def _note_change(self, ctx: TraceContext, name: str) -> None:
        """Record that an attribute is about to change."""
        if self.fixed or type(self.value) is not types.ModuleType or name == "__class__":  # a subclass may have a `__setattr__`
            ctx.break_graph("DX314", what=f"attribute {name} of module {self._label()}")
        ctx.journal.note(self, f"{self._label()}.{name}")

    def set_attribute(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        self._refuse_computed(ctx, name)
        self._note_change(ctx, name)
        self.stored[name] = value

    def delete_attribute(self, ctx: TraceContext, name: str) -> None:
        self._refuse_computed(ctx, name)
        self._note_change(ctx, name)
        self.get_attribute(ctx, name)
        if name in self.stored:
            self.set_before_deleted.add(name)
        self.stored[name] = None

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_object(self.value)

    def write_back(self, build: Reconstruction) -> None:
        write_attributes(build, self, self.stored, set_first=self.set_before_deleted)

    def text(self) -> str:
        return f"module {self._label()}"


_MISSING = object()


@builds(types.ModuleType)
@builds_when(lambda value: issubclass(type(value), types.ModuleType), rank=30)
def build_python_module(ctx: TraceContext, value: types.ModuleType, source: Source | None) -> VariableTracker:
    """A module, guarded by identity; attributes read later are guarded if they can change."""
    label = module_name(value) or "module"
    if source is None:
        source = ctx.module_guards.fixed_source_of(value, label)
    guard_identity(ctx, value, source)
    ctx.module_guards.track(value, label)
    return PythonModuleVariable(value, source)
