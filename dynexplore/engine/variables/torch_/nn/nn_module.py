"""NNModuleVariable: parameters, buffers, submodules, calls and hooks of an nn.Module.

The idea: a module is a user-defined object (objects/user_object.py) whose `__getattr__` and `__setattr__` are known: they read and
write three dicts, `_parameters`, `_buffers` and `_modules`, the *registries*. So they are modeled here instead of being inlined. A
call of a module without hooks inlines its `forward`; with hooks, `Module._call_impl`.

Guards: the root module is guarded by identity once. Everything below it is reached through dicts, which one walk in C checks
(provenance/module_guards.py): `training`, the items of the registries, empty hook dicts. Parameters and buffers become graph
inputs; while their identity is guarded, modified code and tensor guards refer to them directly (`PinnedSource`), without
attribute reads.

When another instance of the same class is called (`Specializer.specializes` is false), the module is reached through ordinary
sources and guarded by type and content, so that one more cache entry serves every instance.

In: live modules. Out: attributes, graph inputs, inlined calls. PyTorch's counterpart: torch/_dynamo/variables/nn_module.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.modules.module as torch_module
from torch import nn

from dynexplore.engine.native import ENTRY_FILE
from dynexplore.engine.provenance.attribute_dicts import REGISTRIES
from dynexplore.engine.provenance.sources import PinnedSource, Source
from dynexplore.engine.raw_attributes import has_python_getattribute, instance_dict, is_a
from dynexplore.engine.variables.containers.dynamic_index import dynamic_item
from dynexplore.engine.variables.containers.mapping import DictVariable, OrderedDictVariable
from dynexplore.engine.variables.containers.set_ import SetVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.build import builds_when
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.objects.class_ import ClassVariable, initialize, makes
from dynexplore.engine.variables.objects.descriptors import KNOWN_METHODS
from dynexplore.engine.variables.objects.opaque import guard_identity
from dynexplore.engine.variables.objects.type_lookup import ClassAttribute, peek, raw_lookup
from dynexplore.engine.variables.objects.user_object import CMethodVariable, UserObjectVariable
from dynexplore.engine.variables.rules import Handler, rule
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable
from dynexplore.engine.variables.torch_.nn.parameter_instancecheck import instancecheck

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

PARAMETERS, BUFFERS, MODULES = REGISTRIES
# A module with an entry in one of these dicts runs Python code around its forward.
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
GLOBAL_HOOKS = (
    "_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks", "_global_backward_pre_hooks",
)
_EMPTY_AFTER_INIT = frozenset({*HOOKS, "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
                             "_forward_pre_hooks_with_kwargs"})
_NON_PERSISTENT = "_non_persistent_buffers_set"
ModuleRule = Callable[
    ["TraceContext", "NNModuleVariable", "Sequence[VariableTracker]", "Mapping[str, VariableTracker]"], "VariableTracker"
]
WAITS_FOR_LAZY_INIT = "for its first input, to make its weights"
UNTRACED = (torch.jit.ScriptModule, torch.jit.ScriptFunction)
_NOT_CONSTRUCTED = (*UNTRACED, nn.modules.lazy.LazyModuleMixin)


# torch's own methods, with their original code, which are handled here instead of inlined: a program may replace them.
_CALL_IMPL = nn.Module._call_impl
_CALL, _GETATTR, _SETATTR, _DELATTR = nn.Module.__call__, nn.Module.__getattr__, nn.Module.__setattr__, nn.Module.__delattr__
_METHODS_OF_CALL: tuple[Any, ...] = (_CALL, _CALL_IMPL)  # through which a module call passes
_ITERATIONS = (nn.ModuleList.__iter__, nn.Sequential.__iter__)
_LENGTHS = (nn.ModuleList.__len__, nn.Sequential.__len__, nn.ModuleDict.__len__)
_CODES = {function: function.__code__ for function in (_CALL, _CALL_IMPL, _GETATTR, _SETATTR, _DELATTR, *_ITERATIONS, *_LENGTHS)}


class NNModuleVariable(UserObjectVariable):
    """An nn.Module; see the head of this file."""

    kind = "nn.Module"
    text_changes = "never"
    is_its_attributes = False

    def __init__(self, cls: type[Any], *, value: Any = None, source: Source | None = None,
                 class_variable: VariableTracker | None = None) -> None:
        super().__init__(cls, value=value, source=source, class_variable=class_variable)
        self.registered: dict[str, str] = {}  # name stored by this frame -> its registry
        self.stored_directly: set[str] = set()  # those of them that bypassed Module.__setattr__
        # Module.__init__ creates them
        self.has_registries = value is not None and all(registry in instance_dict(value) for registry in REGISTRIES)

    def text(self) -> str:
        return self.cls.__qualname__

    # -- attributes

    def plain_get(self, ctx: TraceContext, name: str) -> VariableTracker:
        answers = self._guard_on_original(ctx, "__getattr__", _GETATTR) and self.uses_default_getattribute(ctx)
        if answers and raw_lookup(ctx, self.cls, name) is None and not self._is_in_own_dict(name):
            registered = self.find_registered(ctx, name)
            if registered is not None:
                if self.value is not None and name not in self.stored:
                    self.guard_on_absence(ctx, name)  # Module.__getattr__ only handles names that the normal lookup does not find
                return registered
        return super().plain_get(ctx, name)

    def _guard_on_original(self, ctx: TraceContext, name: str, *functions: Any) -> bool:
        """Whether the class has one of these functions under a name, with its original code; guarded."""
        function = raw_lookup(ctx, self.cls, name)
        if not any(function is original for original in functions):
            return False
        ctx.module_guards.guard_on_function(function)
        return function.__code__ is _CODES[function]

    def _is_in_own_dict(self, name: str) -> bool:
        """Whether the name is in the module's own `__dict__` and not in a registry."""
        if name in self.stored:
            return name not in self.registered
        return self.value is not None and name in instance_dict(self.value)

    def missing_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        for registry in REGISTRIES if self.value is not None and self.source is not None else ():
            if registry in instance_dict(self.value):
                self.guard_on_names(ctx, registry)
        return super().missing_attribute(ctx, name)

    def _ask_fallback(self, ctx: TraceContext, name: str, raised: ObservedException) -> VariableTracker:
        """Module.__getattr__ searches the registries, even if a property of this name raised, and raises its own AttributeError."""
        if not (self._guard_on_original(ctx, "__getattr__", _GETATTR) and self.uses_default_getattribute(ctx)):
            return super()._ask_fallback(ctx, name, raised)
        registered = self.find_registered(ctx, name)
        return registered if registered is not None else self.missing_attribute(ctx, name)

    def init_module(self, ctx: TraceContext) -> None:
        """Module.__init__ of a new module."""
        self.has_registries = True
        self.stored["training"] = ConstantVariable(True)

    def own_attribute(self, ctx: TraceContext, name: str) -> VariableTracker | None:
        in_registry = name in self._read and self.registry_of(name) is not None and not self._is_in_own_dict(name)
        if name in self.registered or in_registry:
            return None
        if self.value is None and self.has_registries and name in _EMPTY_AFTER_INIT and name not in self.stored:
            self.stored[name] = OrderedDictVariable()
        if self.value is None and self.has_registries and name == _NON_PERSISTENT and name not in self.stored:
            self.stored[name] = SetVariable()
        if name in REGISTRIES and (self.value is None or name in instance_dict(self.value)):
            self._require_registries(ctx)
            return RegistryVariable(self, name)
        return super().own_attribute(ctx, name)

    def _require_registries(self, ctx: TraceContext) -> None:
        """Break the graph if Module.__init__ has not run for this module."""
        if not self.has_registries:
            ctx.break_graph("DX414", type=self.cls.__qualname__)

    def lazy_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        attribute = self.own_attribute(ctx, name)
        assert attribute is not None
        return attribute

    def registry_of(self, name: str) -> str | None:
        """The registry that contains a name, with the mutations of this frame."""
        if name in self.stored:
            return self.registered.get(name) if self.stored[name] is not None else None
        if self.value is None:
            return None
        return live_registry(self.value, name)

    def find_registered(self, ctx: TraceContext, name: str) -> VariableTracker | None:
        """The result of Module.__getattr__: a parameter, buffer or submodule; None if there is none."""
        registry = self.registry_of(name)
        return None if registry is None else self.entry(ctx, registry, name)

    def entry(self, ctx: TraceContext, registry: str, name: str) -> VariableTracker:
        """An entry of a registry: `self._parameters[name]`."""
        if name in self.stored:
            stored = self.stored[name]
            assert stored is not None
            return stored.read(ctx)
        entry = self._read.get(name)
        if entry is None:
            entry = self._read[name] = self._read_entry(ctx, registry, name)
        return entry

    def _read_entry(self, ctx: TraceContext, registry: str, name: str) -> VariableTracker:
        assert self.source is not None
        value = instance_dict(self.value)[registry][name]
        source: Source = self.source.attribute(registry).item(name)
        if not ctx.module_guards.has_facts_of(self.value) or not ctx.specializer.specializes(source):
            self.guard_on_names(ctx, registry)
            return ctx.build(value, source)
        ctx.module_guards.guard_on_item(self.value, registry, name)
        ctx.module_guards.note_identity(source)
        if isinstance(value, torch.Tensor):
            pinned = source.child("pinned", lambda: PinnedSource(value, source))
            ctx.effects.cleanup_callbacks.append(pinned.release)
            ctx.module_guards.note_identity(pinned)
            return ctx.build(value, pinned)
        return ctx.build(value, source)

    def names(self, ctx: TraceContext, registry: str) -> list[str]:
        """The names in a registry, in order, with the mutations of this frame."""
        names: list[str] = []
        if self.value is not None:
            self.guard_on_names(ctx, registry)
            names = [name for name in instance_dict(self.value)[registry] if self.registry_of(name) == registry]
        return names + [name for name, own_registry in self.registered.items()
                        if own_registry == registry and name not in names and self.stored.get(name) is not None]

    def guard_on_names(self, ctx: TraceContext, registry: str) -> None:
        """Guard the registry's names."""
        if ctx.module_guards.has_facts_of(self.value):
            ctx.module_guards.guard_on_keys(self.value, registry)
        elif self.source is not None:
            ctx.guard(self.source.attribute(registry), "DICT_KEYS", tuple(instance_dict(self.value)[registry]))

    def module_setattr(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        """Module.__setattr__: parameters and submodules are registered, a registered name keeps its registry."""
        if not self.uses_default_getattribute(ctx):
            ctx.break_graph("DX303", name=name, type=self.cls.__qualname__)
        registry = self._registry_for(ctx, name, value)
        if registry is None:
            self.generic_set(ctx, name, value)
        else:
            self.register(ctx, registry, name, value)

    def _registry_for(self, ctx: TraceContext, name: str, value: VariableTracker) -> str | None:
        kind = value.python_type()
        if issubclass(kind, nn.Parameter):
            return PARAMETERS
        if issubclass(kind, torch.Tensor) and any(instancecheck(ctx, value, cls) for cls in (nn.Parameter, nn.Buffer)):
            ctx.break_graph("DX303", name=name, type=self.cls.__qualname__)  # Python registers it: a buffer may set `persistent`
        registry = self.registry_of(name)
        if issubclass(kind, nn.Module):
            if registry == PARAMETERS:
                ctx.break_graph("DX303", name=name, type=self.cls.__qualname__)  # Python raises its TypeError
            return MODULES
        if registry in (None, BUFFERS) and issubclass(kind, nn.Buffer):
            return BUFFERS
        if registry is not None and kind is not type(None) and (registry != BUFFERS or not issubclass(kind, torch.Tensor)):
            ctx.break_graph("DX303", name=name, type=self.cls.__qualname__)
        return registry

    def register(self, ctx: TraceContext, registry: str, name: str, value: VariableTracker) -> None:
        """Register a value as Module.__setattr__ does."""
        self._require_registries(ctx)
        other = name in self.stored_directly and self.registered.get(name) != registry
        if other or has_python_getattribute(self.cls):  # replaying it with Module.__setattr__ would run that code
            ctx.break_graph("DX303", name=name, type=self.cls.__qualname__)
        self._store(ctx, name, value)
        self.registered[name] = registry

    def store_in_registry(self, ctx: TraceContext, registry: str, name: str, value: VariableTracker) -> None:
        """`module._buffers[name] = value`: no other attribute of the module is read or removed."""
        stands = self.registry_of(name)
        if stands != registry and (stands is not None or self.has_own(ctx, name)):  # the lookup still finds the other one
            ctx.break_graph("DX303", name=name, type=self.cls.__qualname__)
        self.stored_directly.add(name)
        self._store(ctx, name, value)
        self.registered[name] = registry

    def generic_set(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        self.registered.pop(name, None)
        self.stored_directly.discard(name)
        super().generic_set(ctx, name, value)

    def store_own(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        if name in REGISTRIES:  # then another dict replaces the registry, whose entries are no longer the module's
            ctx.break_graph("DX303", name=name, type=self.cls.__qualname__)
        super().store_own(ctx, name, value)

    def generic_delete(self, ctx: TraceContext, name: str) -> None:
        if self.value is not None:
            self._guard_on_attribute_location(ctx, name)
        if self.registry_of(name) is not None:
            self.forget(ctx, name)
            self.registered.pop(name, None)
            self.stored_directly.discard(name)
        else:
            super().generic_delete(ctx, name)

    def _guard_on_attribute_location(self, ctx: TraceContext, name: str) -> None:
        """Guard whether and where the live module has the attribute, which determines how it is deleted."""
        own = instance_dict(self.value)
        if not all(registry in own for registry in REGISTRIES):
            ctx.break_graph("DX414", type=self.cls.__qualname__)
        for registry in REGISTRIES:
            self.guard_on_names(ctx, registry)
        if name in own:
            self.attribute_at_entry(ctx, name, own[name])
        else:
            self.guard_on_absence(ctx, name)

    def is_outside_dict(self, name: str) -> bool:
        return super().is_outside_dict(name) or self.registry_of(name) is not None

    def tells_its_dict(self) -> bool:
        return self.value is not None  # the registries of a new module are tracked apart

    def forget(self, ctx: TraceContext, name: str) -> None:
        super().forget(ctx, name)
        if not self.had_at_entry(name):
            self.stored.pop(name, None)

    def had_at_entry(self, name: str) -> bool:
        return super().had_at_entry(name) or (self.value is not None and live_registry(self.value, name) is not None)

    def how_to_delete(self, name: str) -> Any:
        return super().how_to_delete(name) if live_registry(self.value, name) is None else delete_registered

    def set_attribute(self, ctx: TraceContext, name: str, value: VariableTracker) -> None:
        if self._guard_on_original(ctx, "__setattr__", _SETATTR) and self.uses_default_getattribute(ctx):
            self.module_setattr(ctx, name, value)
        else:
            super().set_attribute(ctx, name, value)

    def delete_attribute(self, ctx: TraceContext, name: str) -> None:
        if self._guard_on_original(ctx, "__delattr__", _DELATTR) and self.uses_default_getattribute(ctx):
            self.generic_delete(ctx, name)
        else:
            super().delete_attribute(ctx, name)

    def how_to_store(self, name: str) -> Any:
        if name in self.registered and (self.value is None or name in self.stored_directly):
            return _STORES[self.registered[name]]
        how = super().how_to_store(name)
        if how is not object.__setattr__ or has_python_getattribute(self.cls):
            return how
        return setattr if peek(self.cls, "__setattr__") is _SETATTR else nn.Module.__setattr__

    # -- containers of modules

    def uses_default_getattribute(self, ctx: TraceContext) -> bool:
        """Whether attribute reads use object.__getattribute__, so that `self._modules` is the registry; guarded."""
        return raw_lookup(ctx, self.cls, "__getattribute__") is object.__getattribute__

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        if self.uses_default_getattribute(ctx) and self._guard_on_original(ctx, "__iter__", *_ITERATIONS):
            return ctx.values.iterator_over([self.entry(ctx, MODULES, name) for name in self.names(ctx, MODULES)])
        return super().iterate(ctx)

    def length(self, ctx: TraceContext) -> VariableTracker:
        if self.uses_default_getattribute(ctx) and self._guard_on_original(ctx, "__len__", *_LENGTHS):
            return ConstantVariable(len(self.names(ctx, MODULES)))
        return super().length(ctx)

    def length_hint(self, ctx: TraceContext) -> None:
        if not self._guard_on_original(ctx, "__len__", *_LENGTHS):
            super().length_hint(ctx)

    # -- calls

    def call(
        self, ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        if not self._guard_on_original(ctx, "__call__", _CALL) or not self.uses_default_getattribute(ctx):
            return super().call(ctx, args, kwargs)
        return self.run(ctx, args, kwargs)

    def run(
        self, ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        """Module.__call__: inline forward, with the hooks around it if there are any."""
        if is_a(self.value, *UNTRACED):
            ctx.break_graph("DX414", type=self.cls.__qualname__)
        if is_uninitialized_lazy_module(self.value):
            ctx.effects.transient_break_guards.append(self.guard_on_lazy_init)
            ctx.break_graph("DX414", type=self.cls.__qualname__, waits=WAITS_FOR_LAZY_INIT)
        if not self.guard_on_no_hooks(ctx) or self._overrides_call_impl(ctx):
            called = self.get_attribute(ctx, "_call_impl")
            ctx.frames.forward_call(self, called, through=_METHODS_OF_CALL[:1])
        else:
            called = self.get_attribute(ctx, "forward")
            ctx.frames.forward_call(self, called, through=_METHODS_OF_CALL)
        ctx.calls.module_path.append((self.source.text() if self.source is not None else self.text(), self.cls.__qualname__))
        try:
            return called.call(ctx, args, kwargs)
        finally:
            ctx.calls.module_path.pop()

    def _overrides_call_impl(self, ctx: TraceContext) -> bool:
        """Whether the program replaced `_call_impl`; a later replacement on the instance is not guarded."""
        own = self.value is not None and "_call_impl" in instance_dict(self.value)
        return own or not self._guard_on_original(ctx, "_call_impl", _CALL_IMPL)

    def guard_on_lazy_init(self, ctx: TraceContext) -> None:
        """Guard that the lazy module has no weights yet, so that this break's entry misses once it has."""
        if ctx.module_guards.track(self.value, self.text(), self.source) is not None:
            ctx.module_guards.guard_on_keys(self.value, "_forward_pre_hooks")

    def guard_on_no_hooks(self, ctx: TraceContext) -> bool:
        """Guard that neither the module nor the global registries have hooks.

        False if there are some; or if a registry is absent because `Module.__init__` never ran: then the call raises.
        """
        _guard_on_no_global_hooks(ctx)
        if self.value is None:
            registries = [self.own_attribute(ctx, name) for name in HOOKS if name in self.stored or not self.has_registries]
            return not any(registry is None or registry.truth(ctx) for registry in registries)
        own = instance_dict(self.value)
        if any(own.get(name, True) for name in HOOKS):
            return False
        for name in HOOKS:
            if ctx.module_guards.has_facts_of(self.value):
                ctx.module_guards.guard_on_emptiness(self.value, name)
            elif self.source is not None:
                ctx.guard(self.source.attribute(name), "DICT_KEYS", ())
        return True

    # -- out of the frame

    def push_empty(self, build: Reconstruction) -> None:
        assert self.class_variable is not None
        build.call_object(_empty_module, self.class_variable, ConstantVariable(self.has_registries))


def live_registry(module: nn.Module, name: str) -> str | None:
    """The registry of a live module that contains a name."""
    own = instance_dict(module)  # without registries if its `__init__` has not created them yet
    return next((registry for registry in REGISTRIES if name in own.get(registry, ())), None)


def delete_registered(module: nn.Module, name: str) -> None:
    """Module.__delattr__ of a parameter, buffer or submodule; runs no user code."""
    registry = live_registry(module, name)
    assert registry is not None
    del instance_dict(module)[registry][name]
    if registry == BUFFERS:
        instance_dict(module)[_NON_PERSISTENT].discard(name)


def _store_in(registry: str) -> Callable[[nn.Module, str, Any], None]:
    """A function that stores an item in a registry, as `module._buffers[name] = value` does; runs no user code."""

    def store(module: nn.Module, name: str, value: Any) -> None:
        instance_dict(module)[registry][name] = value

    return store


_STORES = {registry: _store_in(registry) for registry in REGISTRIES}


def is_uninitialized_lazy_module(value: object) -> bool:
    """Whether it is a lazy module without weights; `_infer_parameters` (torch/nn/modules/lazy.py) removes the flag."""
    return is_a(value, nn.modules.lazy.LazyModuleMixin) and "_initialize_hook" in instance_dict(value)


def is_module_frame(code: CodeType, first: object) -> bool:
    """Whether a frame with this code and first argument is a module's `forward`, or the wrapper of an optimized module."""
    forward = peek(type(first), "forward") if is_a(first, nn.Module) else None
    return forward is not None and (code.co_filename == ENTRY_FILE or code is getattr(forward, "__code__", None))


def _empty_module(cls: type[nn.Module], has_registries: bool) -> nn.Module:
    """A module with empty registries; the `__init__` of its class has been traced and does not run again."""
    module = cls.__new__(cls)
    if has_registries:
        nn.Module.__init__(module)
    return module


def _guard_on_no_global_hooks(ctx: TraceContext) -> None:
    if ctx.module_guards.track(torch_module, "torch.nn.modules.module") is None:
        return
    for name in GLOBAL_HOOKS:
        if getattr(torch_module, name):
            ctx.break_graph("DX404", hooks=f"torch.nn.modules.module.{name}")
        ctx.module_guards.guard_on_emptiness(torch_module, name)


class RegistryVariable(VariableTracker):
    """`module._modules` or another registry: a dict whose operations are forwarded to the module."""

    kind = "dict"

    def __init__(self, module: NNModuleVariable, registry: str) -> None:
        self.module, self.registry = module, registry
        self.source = module.source.attribute(registry) if module.source is not None else None

    def python_type(self) -> type[Any]:
        return dict

    def same_object(self, other: VariableTracker) -> bool | None:
        if not isinstance(other, RegistryVariable):
            return False
        if (other.module, other.registry) == (self.module, self.registry):
            return True
        registry, others = self._live(), other._live()  # `copy.copy` of a module shares its registries
        return None if registry is not None and registry is others else False

    def _live(self) -> object:
        """The real dict of a module that existed before the frame."""
        return instance_dict(self.module.value).get(self.registry) if self.module.value is not None else None

    def names(self, ctx: TraceContext) -> list[str]:
        """Its keys."""
        return self.module.names(ctx, self.registry)

    def truth(self, ctx: TraceContext) -> bool | VariableTracker:
        return bool(self.names(ctx))

    def length(self, ctx: TraceContext) -> VariableTracker:
        return ConstantVariable(len(self.names(ctx)))

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return ctx.values.iterator_over(self.unpack(ctx))

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        return [ConstantVariable(name) for name in self.names(ctx)]

    def contains(self, ctx: TraceContext, item: VariableTracker) -> VariableTracker:
        return ConstantVariable(item.is_constant() and item.as_constant() in self.names(ctx))

    def values(self, ctx: TraceContext) -> list[VariableTracker]:
        """Its values."""
        return [self.module.entry(ctx, self.registry, name) for name in self.names(ctx)]

    def find(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker | None:
        """The value under a key."""
        if not self.module.stored and self.module.value is not None:
            chosen = dynamic_item(ctx, instance_dict(self.module.value)[self.registry], self.source, key)
            if chosen is not None:
                return chosen
        if not key.is_constant() or (not self._is_unchanged_key(key.as_constant()) and key.as_constant() not in self.names(ctx)):
            return None
        return self.module.entry(ctx, self.registry, key.as_constant())

    def _is_unchanged_key(self, key: object) -> bool:
        """Whether a name exists and the frame has not changed it: then only its value is guarded, and no other name."""
        live = self._live()
        return type(key) is str and type(live) is dict and key in live and key not in self.module.stored

    def get_item(self, ctx: TraceContext, key: VariableTracker) -> VariableTracker:
        value = self.find(ctx, key)
        if value is None:
            ctx.raise_exception(KeyError, key.as_constant() if key.is_constant() else key.text())
        return value

    def set_item(self, ctx: TraceContext, key: VariableTracker, value: VariableTracker) -> None:
        if not key.is_constant() or type(key.as_constant()) is not str:
            super().set_item(ctx, key, value)
        self.module.store_in_registry(ctx, self.registry, key.as_constant(), value)

    def delete_item(self, ctx: TraceContext, key: VariableTracker) -> None:
        self.get_item(ctx, key)
        self.module.generic_delete(ctx, key.as_constant())

    def call_method(
        self, ctx: TraceContext, name: str, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        if name not in _READING_METHODS:
            ctx.break_graph("DX213", method=f"{self.registry}.{name}")
        return self.as_dict(ctx, values=name != "keys").call_method(ctx, name, args, kwargs)

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        return ConstantMethodVariable(self, name) if name in _READING_METHODS else super().get_attribute(ctx, name)

    def as_dict(self, ctx: TraceContext, values: bool = True) -> DictVariable:
        """A dict with the same items."""
        return DictVariable({
            name: (ConstantVariable(name), self.module.entry(ctx, self.registry, name) if values else ConstantVariable(None))
            for name in self.names(ctx)
        })

    def text(self) -> str:
        return f"{self.registry} of {self.module.text()}"


_READING_METHODS = frozenset({"items", "keys", "values", "get", "copy", "__len__", "__contains__", "__getitem__", "__iter__"})


# -- Module's own methods ----------------------------------------------------------------------------------------------


def _module_rule(*functions: Any) -> Callable[[ModuleRule], ModuleRule]:
    """Declare the rule of one of Module's own functions, for classes with Module's attribute lookup; else it is inlined."""

    def declare(handler: ModuleRule) -> ModuleRule:
        for function in functions:
            rule(function)(_apply_or_inline(function, handler))
        return handler

    return declare


def _apply_or_inline(function: Any, handler: ModuleRule) -> Handler:
    @functools.wraps(handler)
    def apply_rule(
        ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
    ) -> VariableTracker:
        if not args or not isinstance(args[0], NNModuleVariable):
            ctx.break_graph("DX414", type=args[0].type_name() if args else "nothing")
        if not args[0].uses_default_getattribute(ctx):  # each `self.name` in the method runs user code
            return ctx.calls.inline(ctx.build(function, None), args, kwargs)
        return handler(ctx, args[0], args[1:], kwargs)

    return apply_rule


@_module_rule(nn.Module.__call__, nn.Module._wrapped_call_impl)
def _call(
    ctx: TraceContext, module: NNModuleVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """super().__call__(...) in a class that overrides it."""
    return module.run(ctx, args, kwargs)


def _init(
    ctx: TraceContext, module: VariableTracker, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    plain = isinstance(module, NNModuleVariable) and module.value is None and module.uses_default_getattribute(ctx)
    if args or kwargs or not plain:
        ctx.break_graph("DX414", type=module.type_name())
    module.init_module(ctx)  # type: ignore[attr-defined]
    return ConstantVariable(None)


def _bind_init(ctx: TraceContext, attribute: ClassAttribute, instance: VariableTracker | None, cls: type[Any]) -> VariableTracker:
    return CMethodVariable(instance, attribute.name, _init)


KNOWN_METHODS[nn.Module, "__init__"] = _bind_init


@_module_rule(nn.Module.__setattr__)
def _setattr(
    ctx: TraceContext, module: NNModuleVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    module.module_setattr(ctx, args[0].as_constant(), args[1])
    return ConstantVariable(None)


@_module_rule(nn.Module.__delattr__)
def _delattr(
    ctx: TraceContext, module: NNModuleVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    module.generic_delete(ctx, args[0].as_constant())
    return ConstantVariable(None)


@_module_rule(nn.Module.__getattr__)
def _getattr(
    ctx: TraceContext, module: NNModuleVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """super().__getattr__(name) in a class that overrides it: only the registries are searched."""
    name = args[0].as_constant()
    attribute = module.find_registered(ctx, name)
    return attribute if attribute is not None else module.missing_attribute(ctx, name)


# -- building ---------------------------------------------------------------------------------------------------------


@makes(nn.Module)
def _construct_module(
    ctx: TraceContext, cls: ClassVariable, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> VariableTracker:
    """A module created at trace time: its `__init__` is inlined, and it becomes real only if it outlives the frame."""
    if issubclass(cls.value, _NOT_CONSTRUCTED) or raw_lookup(ctx, cls.value, "__new__") is not object.__new__:
        ctx.break_graph("DX414", type=cls.value.__qualname__)
    module = NNModuleVariable(cls.value, class_variable=cls)
    if cls.value is nn.Sequential and not kwargs and all(isinstance(arg, NNModuleVariable) for arg in args):
        _register_children(ctx, module, args)
    elif cls.value is nn.ModuleList and len(args) == 1 and not kwargs:  # also for a slice of a ModuleList
        _register_children(ctx, module, args[0].unpack(ctx))
    else:
        initialize(ctx, module, args, kwargs)
    return module


def _register_children(ctx: TraceContext, parent: NNModuleVariable, children: Sequence[VariableTracker]) -> None:
    parent.init_module(ctx)
    for index, child in enumerate(children):
        parent.register(ctx, MODULES, str(index), child)


@builds_when(lambda value: issubclass(type(value), nn.Module), rank=40)
def build_module(ctx: TraceContext, value: nn.Module, source: Source | None) -> VariableTracker:
    """A module: guarded by identity, and tracked as a fact; or by type, if the instance changes between calls."""
    if source is None:
        source = ctx.module_guards.fixed_source_of(value, type(value).__qualname__)
    if ctx.module_guards.fixes_identity(source) or ctx.specializer.specializes(source):
        guard_identity(ctx, value, source, "NN_MODULE")
        ctx.module_guards.track(value, source.text(), source)
    else:
        ctx.guard(source, "TYPE_MATCH", type(value))
    return NNModuleVariable(type(value), value=value, source=source)


