"""Deserialization of a saved frame's values: the inverse of frame_values.py.

The idea: each row is created once, so that shared objects stay shared; containers and objects are registered before their contents
are created, so that cycles are possible. Creating objects calls their classes and imports modules: only trusted files get here. A
value that could not be saved becomes `Missing`, which raises an explanation on any use.

In: rows, tensors, values of modules. Out: `Rebuilt.value(reference)`.

PyTorch's counterpart: `ExecutionRecord.load` in torch/_dynamo/replay_record.py (dill.load).
"""

from __future__ import annotations

import base64
import builtins
import enum
import importlib
import marshal
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from dynexplore.engine.errors import ReplayError
from dynexplore.tools.frame_values import ENGINE_CONSTANT, OF_THE_ENGINE

Row = Mapping[str, Any]


class Missing:
    """Stands for a value that could not be saved."""

    def __init__(self, path: str, kind: str, why: str) -> None:
        self.__dict__["_message"] = f"{path} ({kind}) was not saved with the frame: {why}"

    def __repr__(self) -> str:
        return f"<{self.__dict__['_message']}>"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(self.__dict__["_message"])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(self.__dict__["_message"])


class _AttachGradFn(torch.autograd.Function):
    """Gives a tensor a grad_fn in place: it was not a leaf in the recorded frame."""

    @staticmethod
    def forward(ctx: Any, source: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, None]:
        return None, None


class Rebuilt:
    """The values of one file; see the module docstring.

    Raises ReplayError, in one sentence, for values that cannot be imported or are inconsistent.
    """

    def __init__(self, rows: Sequence[Row], tensors: Mapping[str, torch.Tensor]) -> None:
        self._rows = rows
        self._tensors = tensors
        self._rebuilt: dict[int, Any] = {}
        self._later: list[Callable[[], None]] = []
        self._open: set[int] = set()  # classes under construction

    def value(self, reference: Any) -> Any:
        """The value of a reference."""
        if isinstance(reference, Mapping):
            return reference["plain"]
        if reference not in self._rebuilt:
            row = self._rows[reference]
            make = getattr(self, f"_make_{row['kind']}", None) or self._make_plainly
            value = make(reference, row)
            self._rebuilt.setdefault(reference, value)
        return self._rebuilt[reference]

    def set_modules(self, modules: Mapping[str, Mapping[str, Any]]) -> None:
        """Set the globals of imported program modules to their saved values."""
        for name, values in modules.items():
            namespace = vars(_imported(name))
            namespace.update({key: self.value(reference) for key, reference in values.items()})

    def _keep(self, number: int, value: Any) -> Any:
        self._rebuilt[number] = value
        return value

    def _values(self, references: Sequence[Any]) -> list[Any]:
        return [self.value(reference) for reference in references]

    # -- plain values and containers -----------------------------------------------------------------------------------

    def _make_plainly(self, number: int, row: Row) -> Any:
        read = _READ.get(row["kind"])
        if read is None:
            raise ReplayError(f"the file contains a value of an unknown kind {row['kind']!r}: it is damaged")
        return read(row["text"])

    def _make_list(self, number: int, row: Row) -> Any:
        items: list[Any] = self._keep(number, [])
        items.extend(self._values(row["items"]))
        return items

    def _make_tuple(self, number: int, row: Row) -> Any:
        return tuple(self._values(row["items"]))

    def _make_set(self, number: int, row: Row) -> Any:
        return set(self._values(row["items"]))

    def _make_frozenset(self, number: int, row: Row) -> Any:
        return frozenset(self._values(row["items"]))

    def _make_dict(self, number: int, row: Row) -> Any:
        entries: dict[Any, Any] = self._keep(number, {})
        for key, value in row["pairs"]:
            entries[self.value(key)] = self.value(value)
        return entries

    def _make_missing(self, number: int, row: Row) -> Any:
        return Missing(row["path"], row["what"], row["why"])

    # -- tensors -------------------------------------------------------------------------------------------------------

    def _make_tensor(self, number: int, row: Row) -> Any:
        tensor = self._tensors[row["key"]]
        if row["class"] == "Parameter":
            tensor = torch.nn.Parameter(tensor, requires_grad=row["requires_grad"])
        elif row["requires_grad"] and row["is_leaf"]:
            tensor.requires_grad_()
        elif row["requires_grad"]:
            tensor = _AttachGradFn.apply(torch.ones((), requires_grad=True), tensor)  # type: ignore[no-untyped-call]
        self._keep(number, tensor)
        if "grad" in row:
            tensor.grad = self.value(row["grad"])
        for name, reference in row.get("attributes", {}).items():
            setattr(tensor, name, self.value(reference))
        return tensor

    # -- code ----------------------------------------------------------------------------------------------------------

    def _make_import(self, number: int, row: Row) -> Any:
        value = _imported(row["module"])
        for part in filter(None, row["name"].split(".")):
            if not hasattr(value, part):
                raise ReplayError(f"the frame needs {row['module']}.{row['name']}, which no longer exists")
            value = getattr(value, part)
        return value

    def _make_function(self, number: int, row: Row) -> Any:
        namespace, closure = self.value(row["globals"]), tuple(self._values(row["closure"]))
        function = self._keep(number, types.FunctionType(unpacked_code(row["code"]), namespace, row["name"], None, closure))
        function.__qualname__, function.__module__ = row["qualname"], row["module"]
        function.__defaults__, function.__kwdefaults__ = self.value(row["defaults"]), self.value(row["kwdefaults"])
        for name, reference in row["attributes"].items():
            setattr(function, name, self.value(reference))
        return function

    def _make_globals(self, number: int, row: Row) -> Any:
        namespace: dict[str, Any] = self._keep(number, {"__name__": row["name"], "__builtins__": builtins})

        def fill() -> None:
            namespace.update({name: self.value(reference) for name, reference in row["values"].items()})

        self._when_classes_exist(fill)
        return namespace

    def _make_cell(self, number: int, row: Row) -> Any:
        cell: types.CellType = self._keep(number, types.CellType())

        def fill() -> None:
            cell.cell_contents = self.value(row["content"])

        if "content" in row:
            self._when_classes_exist(fill)
        return cell

    def _make_class(self, number: int, row: Row) -> Any:
        if number in self._open:
            raise ReplayError(f"the class {row['qualname']} contains a reference to itself, and cannot be rebuilt")
        self._open.add(number)
        metaclass, bases = self.value(row["metaclass"]), tuple(self._values(row["bases"]))
        namespace = {name: self.value(reference) for name, reference in row["namespace"].items()}
        if issubclass(metaclass, enum.EnumMeta):
            cls: Any = bases[-1](row["name"], [(name, self.value(reference)) for name, reference in row["members"]])
            for name, reference in namespace.items():
                setattr(cls, name, reference)
        else:
            cls = metaclass(row["name"], bases, namespace)
        cls.__qualname__ = row["qualname"]
        self._keep(number, cls)
        self._open.discard(number)
        self._when_classes_exist(lambda: None)
        return cls

    def _when_classes_exist(self, fill: Callable[[], None]) -> None:
        """Defer until classes exist: a method's cell may hold its class, and its globals an instance of it."""
        self._later.append(fill)
        while self._later and not self._open:
            self._later.pop(0)()

    def _make_method(self, number: int, row: Row) -> Any:
        return types.MethodType(self.value(row["function"]), self.value(row["self"]))

    def _make_attribute(self, number: int, row: Row) -> Any:
        return getattr(self.value(row["of"]), row["name"])

    def _make_weakref(self, number: int, row: Row) -> Any:
        target = self.value(row["to"])
        return weakref.ref(target if target is not None else _DeadReferent())

    # -- objects -------------------------------------------------------------------------------------------------------

    def _make_call(self, number: int, row: Row) -> Any:
        function, args = self.value(row["function"]), self._values(row["args"])
        instance = self._keep(number, function(*args))
        if "state" in row:
            _set_state(instance, self.value(row["state"]))
        for item in row.get("items", ()):
            instance.append(self.value(item))
        for key, value in row.get("pairs", ()):
            instance[self.value(key)] = self.value(value)
        return instance


class _DeadReferent:
    """The referent of a dead weak reference."""


def _set_state(instance: Any, state: Any) -> None:
    """Set the state like `pickle`: with `__setstate__`, or attributes and slots."""
    setter = getattr(instance, "__setstate__", None)
    if setter is not None:
        setter(state)
        return
    own, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if own:
        instance.__dict__.update(own)
    for name, value in (slots or {}).items():
        setattr(instance, name, value)


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ReplayError(f"the frame needs the module {name!r}, which cannot be imported here: {error}") from None


def unpacked_code(text: str) -> types.CodeType:
    """The code object of a text from `packed_code`."""
    return _own_constants(marshal.loads(base64.b85decode(text)))


def _own_constants(code: types.CodeType) -> types.CodeType:
    return code.replace(co_consts=tuple(_own_constant(constant) for constant in code.co_consts))


def _own_constant(constant: Any) -> Any:
    if isinstance(constant, types.CodeType):
        return _own_constants(constant)
    if isinstance(constant, tuple) and len(constant) == 2 and constant[0] == ENGINE_CONSTANT:
        return OF_THE_ENGINE[constant[1]]
    return constant


_READ: dict[str, Callable[[str], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "complex": complex,
    "bytes": base64.b85decode,
    "bytearray": lambda text: bytearray(base64.b85decode(text)),
}
"""Values that are written as text."""
