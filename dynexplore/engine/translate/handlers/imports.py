"""Imports inside the frame of modules that are already loaded.

The idea: such an import only reads `sys.modules`, and runs no code. The module is guarded, since programs replace entries.

In: IMPORT_NAME, IMPORT_FROM. Out: module trackers. PyTorch's counterpart: `IMPORT_NAME` in torch/_dynamo/symbolic_convert.py.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dynexplore.engine.bytecode import Step
from dynexplore.engine.provenance.sources import BuiltinSource, ModuleSource, Source
from dynexplore.engine.raw_attributes import is_a, module_name
from dynexplore.engine.translate.dispatch import handles
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.context import TraceContext
from dynexplore.engine.variables.objects.object_rules import attribute_or_none
from dynexplore.engine.variables.objects.opaque import guard_identity

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

_IMPORT = builtins.__import__


@handles("IMPORT_NAME")
def import_name(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """import name; a module that is not loaded yet breaks the graph, since loading runs its code."""
    names = frame.pop().as_constant()
    level = frame.pop().as_constant()
    full = importlib.util.resolve_name("." * level + step.arg, frame.globals.values.get("__package__")) if level else step.arg
    if builtins.__import__ is not _IMPORT:
        ctx.break_graph("DX312", module=full)
    guard_identity(ctx, _IMPORT, _modules(ctx).child("__import__", lambda: BuiltinSource("__import__")))
    module = _loaded(ctx, full)
    _load_submodules(ctx, module, full, names or ())
    pushed_name = full if names or level else full.partition(".")[0]
    frame.push(module if pushed_name == full else _loaded(ctx, pushed_name))


def _load_submodules(ctx: Interpreter, module: VariableTracker, package: str, names: Sequence[str]) -> None:
    """What CPython does for `from package import name`: a name that the package does not have may be a submodule, to be loaded."""
    live = module.live_value() if names else None
    if not is_a(live, types.ModuleType):
        return
    if "__path__" not in vars(live) and ("__getattr__" not in vars(live) or attribute_or_none(ctx, module, "__path__") is None):
        return
    for name in names:
        if attribute_or_none(ctx, module, name) is None:
            _loaded(ctx, f"{package}.{name}")


@handles("IMPORT_FROM")
def import_from(frame: SymbolicFrame, step: Step, ctx: Interpreter) -> None:
    """from module import name: an attribute, or else a loaded submodule."""
    module = frame.stack[-1]
    live = module.live_value()
    package = module_name(live) if is_a(live, types.ModuleType) else None
    if package is None:  # sys.modules may hold any object
        ctx.break_graph("DX312", module=step.arg)
    attribute = attribute_or_none(ctx, module, step.arg)
    submodule = f"{package}.{step.arg}"
    if attribute is None and submodule not in sys.modules:
        ctx.break_graph("DX312", module=submodule)
    frame.push(_loaded(ctx, submodule) if attribute is None else attribute)


def _loaded(ctx: Interpreter, name: str) -> VariableTracker:
    """The module in `sys.modules`, with a guard. Its absence is guarded too: a later call may find it loaded."""
    if name not in sys.modules:
        ctx.effects.transient_break_guards.append(lambda inner: inner.guard(_modules(inner), "NAME_ABSENT", name))
        ctx.break_graph("DX312", module=name)
    module: Any = sys.modules[name]
    if module is None:  # None in `sys.modules` forbids the import: Python raises the error
        ctx.effects.transient_break_guards.append(lambda inner: guard_identity(inner, None, _modules(inner).item(name)))
        ctx.break_graph("DX312", module=name)
    guard_identity(ctx, module, _modules(ctx).item(name))
    return ctx.build(module, ModuleSource(name))


def _modules(ctx: TraceContext) -> Source:
    """The single source of `sys.modules` in this translation, so that a module is guarded once however often it is imported."""
    return ctx.module_guards.source_of(sys.modules, "sys.modules")
