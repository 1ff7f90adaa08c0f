"""Free variables of an autograd.Function's forward and backward: a backend traces both once, so they must be constant.

The idea: `F.apply` is one node. Run eagerly, it runs the program's code in each call. A backend that traces the graph runs that
code once, with the values that globals, cells and attributes have at that time. So each free variable must be constant: modules and
functions of libraries, torch classes, and user-defined functions for which the same holds. A number that forward reads is guarded.
One that backward reads is not, because backward runs later and the number may have changed.

Even run eagerly, forward runs once more than in eager PyTorch: on fake tensors, during capture. So it must have no external effects
(`external_effect`): it calls no method of an object and passes no object on.

In: the functions of a class. Out: the name of the first free variable that is not constant, or may be mutated, or None. PyTorch's
counterpart: none; Dynamo traces both functions, and guards what they read at the time of the call.
"""

from __future__ import annotations

import builtins
import types
from typing import TYPE_CHECKING, Any, cast

import torch

from dynexplore.engine.aliasing.lowerings import OutsideReads
from dynexplore.engine.bytecode import Step, read
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.raw_attributes import class_module, is_a, module_name
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.namespace import NamespaceVariable
from dynexplore.engine.variables.objects.type_lookup import is_fixed_module, peek
from dynexplore.engine.variables.scalars.constant import is_constant_value, is_plain_value

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_MISSING = object()


def outside_reads(ctx: TraceContext, function: Any, tracker: VariableTracker | None) -> OutsideReads:
    """The free variables that a function reads.

    `tracker`: the function as it is called now, so that numbers among its globals can be guarded; None if it is called later.
    """
    reader = _FreevarReader(ctx, tracker)
    unguarded = reader.of_function(function)
    return OutsideReads(unguarded, tuple(reader.constants))


def external_effect(ctx: TraceContext, function: Any) -> str | None:
    """The name of something that outlives the call and that a function may mutate, or of
    an output that it may produce; None if there is none.
    """
    finder = _EffectReader(ctx, None)
    effect = finder.of_function(function)
    return effect if effect is not None or not finder.changes_items else finder.read_items_of


class _FreevarReader:
    """Analyzes the bytecode of a function and of the user-defined functions that it calls."""

    def __init__(self, ctx: TraceContext, tracker: VariableTracker | None) -> None:
        self.ctx, self.tracker = ctx, tracker
        self.seen: set[int] = set()
        self.constants: list[tuple[Source, Any]] = []  # constant globals, which can be guarded by value

    def of_function(self, function: Any) -> str | None:
        """The first free variable that is not constant, in the function's own code or in that of nested functions."""
        if id(function) in self.seen:
            return None
        self.seen.add(id(function))
        if not isinstance(function, types.FunctionType):
            return getattr(function, "__qualname__", None) or type(function).__qualname__
        if is_fixed_module(function.__module__):
            return None
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        if not all(map(is_plain_value, defaults)):
            return f"a default of {function.__qualname__}"
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                not_fixed = self._of_value(name, cell.cell_contents, None, is_guarded=False)
            except ValueError:  # an unbound cell
                not_fixed = name
            if not_fixed is not None:
                return not_fixed
        return self._of_code(function.__code__, function)

    def _of_code(self, code: types.CodeType, function: types.FunctionType) -> str | None:
        steps = read(code).steps
        for index, step in enumerate(steps):
            not_fixed = self._of_step(step, code)
            if not_fixed is not None:
                return not_fixed
            if step.op in ("LOAD_GLOBAL", "LOAD_NAME"):
                next_step = steps[index + 1]
                attribute = str(next_step.arg) if next_step.op in ("LOAD_ATTR", "LOAD_METHOD") else None
                value = function.__globals__.get(step.arg, vars(builtins).get(step.arg, _MISSING))
                not_fixed = self._of_value(step.arg, value, attribute, is_guarded=self._guards_global(step.arg, value, function))
            elif isinstance(step.arg, types.CodeType):
                not_fixed = self._of_code(step.arg, function)
            if not_fixed is not None:
                return not_fixed
        return None

    def _of_step(self, step: Step, code: types.CodeType) -> str | None:
        """The unwanted effect of a single step."""
        return None

    def _of_value(self, name: str, value: Any, attribute: str | None, *, is_guarded: bool) -> str | None:
        """The name, if the value, or the attribute of it that is read, may change later."""
        if is_a(value, types.ModuleType):
            return None if is_fixed_module(module_name(value)) else name
        if is_a(value, type):
            return self._of_class(name, value, attribute)
        if is_a(value, types.FunctionType):
            return self.of_function(value)
        if is_a(value, types.BuiltinFunctionType) or is_guarded or is_a(value, torch.dtype):
            return None
        return name

    def _of_class(self, name: str, cls: type[Any], attribute: str | None) -> str | None:
        if is_fixed_module(class_module(cls)):
            return None
        if attribute is None or not issubclass(cls, torch.autograd.Function):
            return name
        if attribute == "apply":
            functions = [getattr(cls, part) for part in ("forward", "backward", "setup_context")]
            return next((not_fixed for not_fixed in map(self.of_function, functions) if not_fixed is not None), None)
        raw = peek(cls, attribute)
        return self.of_function(raw.__func__) if isinstance(raw, staticmethod) else f"{name}.{attribute}"

    def _guards_global(self, name: str, value: Any, function: types.FunctionType) -> bool:
        """Whether this is a constant global of the function being called, which can be guarded."""
        tracker = self.tracker
        if tracker is None or not is_constant_value(value) or name not in function.__globals__:
            return False
        if getattr(tracker, "live_value", lambda: None)() is not function:
            return False
        namespace: NamespaceVariable = cast("Any", self.ctx).calls.namespace_of(tracker)
        source = namespace.source_of(name)
        if source is not None:  # by value, even if it is dynamic: it does not become a graph input
            self.constants.append((source, value))
        return True


OUTPUT_FUNCTIONS = frozenset({"print", "open", "logging", "logger", "warnings", "breakpoint"})


_MUTATING_METHODS = frozenset({
    "append", "appendleft", "extend", "insert", "remove", "pop", "popleft", "popitem", "clear", "update", "setdefault", "add",
    "discard", "sort", "reverse", "rotate",
})  # fmt: skip
_MAX_DEPTH = 4


class _EffectReader(_FreevarReader):
    """Looks for objects that may be mutated; values that are only read may differ between calls.

    A list or dict from outside counts as read-only if none of the code mutates the items of any object.
    """

    changes_items = False
    read_items_of: str | None = None

    def _of_step(self, step: Step, code: types.CodeType) -> str | None:
        method = step.op in ("LOAD_ATTR", "LOAD_METHOD") and step.arg in _MUTATING_METHODS
        in_place = step.op == "BINARY_OP" and str(step.arg).endswith("=")
        self.changes_items |= method or in_place or step.op in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
        rebinds = step.op in ("STORE_GLOBAL", "DELETE_GLOBAL") or (step.op == "STORE_DEREF" and step.arg in code.co_freevars)
        return str(step.arg) if rebinds else None

    def _of_value(self, name: str, value: Any, attribute: str | None, *, is_guarded: bool) -> str | None:
        if name in OUTPUT_FUNCTIONS:
            return name
        if _is_plain_data(value):
            if type(value) in (list, dict, set):
                self.read_items_of = name
            return None
        if is_a(value, types.ModuleType) and attribute is not None and not is_fixed_module(module_name(value)):
            return self._of_value(f"{name}.{attribute}", vars(value).get(attribute), None, is_guarded=False)
        return super()._of_value(name, value, attribute, is_guarded=False)


def _is_plain_data(value: Any, depth: int = 0) -> bool:
    """Whether it is a constant or a tensor, or a container of these."""
    if is_constant_value(value) or is_a(value, torch.Tensor):
        return True
    if depth > _MAX_DEPTH or type(value) not in (list, dict, set, tuple, frozenset):
        return False
    return all(_is_plain_data(item, depth + 1) for item in (*value, *(value.values() if type(value) is dict else ())))
