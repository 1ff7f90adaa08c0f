"""Global namespaces: the globals dict of the frame, or of an inlined function's module.

The idea: a global's tracker has a source: a global of the frame, an attribute of a module in `sys.modules`, or an item of the
function's `__globals__`. Assignments are recorded in the journal and replayed with STORE_GLOBAL.

Globals of libraries, as read by an inlined library function, are guarded as process-wide facts (provenance/module_guards.py).

In: a globals dict and a name. Out: the tracker of its value. PyTorch's counterpart: `NewGlobalVariable` in
torch/_dynamo/variables/misc.py, and LOAD_GLOBAL in symbolic_convert.py.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.guards import Identity
from dynexplore.engine.provenance.identity_facts import ABSENT
from dynexplore.engine.provenance.sources import BuiltinSource, GlobalSource, GlobalsSource, ModuleSource, Source
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.instance_attribute_guards import needs_no_source

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


class NamespaceVariable(VariableTracker):
    """A globals dict, by name."""

    kind = "globals"

    def __init__(self, values: dict[str, Any], *, of_frame: bool, owner: Source | None = None) -> None:
        self.values = values
        self.of_frame = of_frame
        self.owner = owner  # source of the function whose globals these are
        self.stored: dict[str, VariableTracker | None] = {}
        self.set_before_deleted: set[str] = set()
        self._read: dict[str, VariableTracker] = {}
        self._fixed = not of_frame and _is_library(values)
        module = values.get("__name__")
        self._module = module if isinstance(module, str) and _is_module_dict(module, values) else None
        self.source = GlobalsSource() if of_frame else None

    def python_type(self) -> type[Any]:
        return dict

    def names_used(self) -> set[str]:
        """The names that the frame has read or assigned."""
        return {*self._read, *self.stored}

    def assigned(self) -> dict[str, VariableTracker | None] | None:
        return dict(self.stored)

    def live_names(self) -> Mapping[str, Any]:
        return self.values

    def load(self, ctx: TraceContext, name: str) -> VariableTracker:
        """The value of a global, or of a builtin; NameError as in Python."""
        if name in self.stored:
            stored = self.stored[name]
            if stored is not None:
                return stored
        elif name in self.values:
            return self._global(ctx, name)
        if name in vars(builtins):
            return self._builtin(ctx, name)
        self._guard_on_absence(ctx, name)
        ctx.module_guards.guard_on_process(builtins, "builtins", name, ABSENT)
        ctx.raise_exception(NameError, f"name {name!r} is not defined")

    def _global(self, ctx: TraceContext, name: str) -> VariableTracker:
        tracker = self._read.get(name)
        if tracker is None:
            value = self.values[name]
            tracker = self._fixed_global(ctx, name, value) if self._fixed else ctx.build(value, self.source_of(name))
            self._read[name] = tracker
        return tracker

    def _fixed_global(self, ctx: TraceContext, name: str, value: Any) -> VariableTracker:
        """A global of a library."""
        assert self._module is not None
        return read_fixed(ctx, sys.modules[self._module], ModuleSource(self._module).attribute(name), name, value)

    def _guard_on_absence(self, ctx: TraceContext, name: str) -> None:
        """Guard that these globals have no such name."""
        if name in self.stored:
            return
        if self.of_frame:
            ctx.guard(ctx_root(self), "NAME_ABSENT", name)
        elif self._module is not None:
            ctx.module_guards.guard_on_process(sys.modules[self._module], self._module, name, ABSENT)
        elif self.owner is not None:
            ctx.guard(self.owner.attribute("__globals__", "getattr"), "NAME_ABSENT", name)

    def source_of(self, name: str) -> Source | None:
        """The source of a global; None if it is fixed."""
        if self.of_frame:
            return ctx_root(self).child(name, lambda: GlobalSource(name))  # type: ignore[no-any-return]
        if self._fixed:
            return None
        if self._module is not None:
            return ModuleSource(self._module).attribute(name)
        return self.owner.attribute("__globals__", "getattr").item(name) if self.owner is not None else None

    def _builtin(self, ctx: TraceContext, name: str) -> VariableTracker:
        tracker = self._read.get(name)
        if tracker is None:
            value = vars(builtins)[name]
            self._guard_on_absence(ctx, name)
            if self.of_frame:
                ctx.guard(BuiltinSource(name), "ID_MATCH", Identity(value, keep=True))
            else:
                ctx.module_guards.guard_on_process(builtins, "builtins", name, value)
            tracker = self._read[name] = ctx.build(value, None)
        return tracker

    def store(self, ctx: TraceContext, name: str, value: VariableTracker | None) -> None:
        """Assign a global (None: delete it)."""
        if value is None and name not in self.values and self.stored.get(name) is None:
            ctx.raise_exception(NameError, f"name {name!r} is not defined")
        if not self.of_frame and self._module is None:
            ctx.break_graph("DX314", what=f"global {name} of another namespace")
        ctx.journal.must_replay(self, f"global {name}")
        if value is None and name in self.stored:
            self.set_before_deleted.add(name)
        self.stored[name] = value

    def write_back(self, build: Reconstruction) -> None:
        for name, value in self.stored.items():
            if value is not None:
                build.push(value)
                temporary = build.store_temporary()
                build.later(lambda name=name, temporary=temporary: self._write(build, name, temporary))  # type: ignore[misc]
            else:
                build.later(lambda name=name: self._delete(build, name))  # type: ignore[misc]

    def _write(self, build: Reconstruction, name: str, temporary: str) -> None:
        build.writer.load_fast(temporary)
        self._emit_store(build, name)

    def _emit_store(self, build: Reconstruction, name: str) -> None:
        """Emit: pop the value and assign it."""
        if self.of_frame:
            build.writer.store_global(name)
        else:
            build.push_object(self.values)
            build.writer.load_const(name)
            build.writer.store_subscr()

    def _delete(self, build: Reconstruction, name: str) -> None:
        if name in self.set_before_deleted:  # it may or may not exist in a given call
            build.writer.load_const(None)
            self._emit_store(build, name)
        if self.of_frame:
            build.writer.delete_global(name)
        else:
            build.push_object(self.values)
            build.writer.load_const(name)
            build.writer.delete_subscr()

    def reconstruct(self, build: Reconstruction) -> None:
        build.push_object(self.values)


def read_fixed(ctx: TraceContext, module: ModuleType, source: Source, name: str, value: Any) -> VariableTracker:
    """A global of a library: its identity is a process-wide fact, its content may change."""
    if not ctx.specializer.specializes(source):
        return ctx.build(value, source)
    ctx.module_guards.guard_on_process(module, module.__name__, name, value)
    ctx.module_guards.note_identity(source)
    return ctx.build(value, None if needs_no_source(value) else source)


def ctx_root(namespace: NamespaceVariable) -> Source:
    """The source of the frame's globals dict."""
    assert namespace.source is not None
    return namespace.source


def _is_module_dict(name: str, values: dict[str, Any]) -> bool:
    module = sys.modules.get(name)
    return module is not None and getattr(module, "__dict__", None) is values


def _is_library(values: dict[str, Any]) -> bool:
    """Whether these globals belong to a module of torch or of the standard library."""
    name = values.get("__name__")
    if not isinstance(name, str) or name == "__main__" or not _is_module_dict(name, values):
        return False
    top = name.partition(".")[0]
    return top == "torch" or top in sys.stdlib_module_names
