"""From the table back to live values: the inverse of frame_values.py.

The idea: each row is made once, so that shared objects stay shared; containers and objects are registered before their
contents are made, so that cycles close. Making objects calls their classes and imports modules: only trusted files get here. A
value that could not be saved comes back as `Missing`, which raises an explanation on any use.

In: rows, tensors, values of modules. Out: `Rebuilt.value(reference)`.

PyTorch's counterpart: torch/_dynamo/replay_record.py (dill.load).
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

Row = Mapping[str, Any]


class Missing:
    """Stands for a value that could not be saved."""

    def __init__(self, path: str, what: str, why: str) -> None:
        self.__dict__["_said"] = f"{path} ({what}) was not saved with the frame: {why}"

    def __repr__(self) -> str:
        return f"<{self.__dict__['_said']}>"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(self.__dict__["_said"])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(self.__dict__["_said"])


class _MadeByAutograd(torch.autograd.Function):
    """Gives a tensor a history in place: it was no leaf in the recorded frame."""

    @staticmethod
    def forward(ctx: Any, source: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, None]:
        return None, None


class Rebuilt:
    """The values of one file; see the head of this file.

    Raises ReplayError, in one sentence, for what cannot be imported or does not fit together.
    """

    def __init__(self, rows: Sequence[Row], tensors: Mapping[str, torch.Tensor]) -> None:
        self._rows = rows
        self._tensors = tensors
        self._made: dict[int, Any] = {}
        self._later: list[Callable[[], None]] = []
        self._open: set[int] = set()  # classes that are being made

    def value(self, reference: Any) -> Any:
        """The value that a reference names."""
        if isinstance(reference, Mapping):
            return reference["plain"]
        if reference not in self._made:
            row = self._rows[reference]
            make = getattr(self, f"_make_{row['kind']}", None) or self._make_plainly
            value = make(reference, row)
            self._made.setdefault(reference, value)
        return self._made[reference]

    def set_modules(self, modules: Mapping[str, Mapping[str, Any]]) -> None:
        """Set the globals of imported program modules to their saved values."""
        for name, values in modules.items():
            namespace = vars(_imported(name))
            namespace.update({key: self.value(reference) for key, reference in values.items()})

    def _keep(self, number: int, made: Any) -> Any:
        self._made[number] = made
        return made

    def _values(self, references: Sequence[Any]) -> list[Any]:
        return [self.value(reference) for reference in references]

    # -- plain values and containers -----------------------------------------------------------------------------------

    def _make_plainly(self, number: int, row: Row) -> Any:
        read = _READ.get(row["kind"])
        if read is None:
            raise ReplayError(f"the file holds a value of an unknown kind {row['kind']!r}: it is damaged")
        return read(row["text"])

    def _make_list(self, number: int, row: Row) -> Any:
        made: list[Any] = self._keep(number, [])
        made.extend(self._values(row["items"]))
        return made

    def _make_tuple(self, number: int, row: Row) -> Any:
        return tuple(self._values(row["items"]))

    def _make_set(self, number: int, row: Row) -> Any:
        return set(self._values(row["items"]))

    def _make_frozenset(self, number: int, row: Row) -> Any:
        return frozenset(self._values(row["items"]))

    def _make_dict(self, number: int, row: Row) -> Any:
        made: dict[Any, Any] = self._keep(number, {})
        for key, value in row["pairs"]:
            made[self.value(key)] = self.value(value)
        return made

    def _make_missing(self, number: int, row: Row) -> Any:
        return Missing(row["path"], row["what"], row["why"])

    # -- tensors -------------------------------------------------------------------------------------------------------

    def _make_tensor(self, number: int, row: Row) -> Any:
        made = self._tensors[row["key"]]
        if row["class"] == "Parameter":
            made = torch.nn.Parameter(made, requires_grad=row["requires_grad"])
        elif row["requires_grad"] and row["is_leaf"]:
            made.requires_grad_()
        elif row["requires_grad"]:
            made = _MadeByAutograd.apply(torch.ones((), requires_grad=True), made)  # type: ignore[no-untyped-call]
        self._keep(number, made)
        if "grad" in row:
            made.grad = self.value(row["grad"])
        for name, reference in row.get("attributes", {}).items():
            setattr(made, name, self.value(reference))
        return made

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
        made = self._keep(number, types.FunctionType(unpacked_code(row["code"]), namespace, row["name"], None, closure))
        made.__qualname__, made.__module__ = row["qualname"], row["module"]
        made.__defaults__, made.__kwdefaults__ = self.value(row["defaults"]), self.value(row["kwdefaults"])
        for name, reference in row["attributes"].items():
            setattr(made, name, self.value(reference))
        return made

    def _make_globals(self, number: int, row: Row) -> Any:
        made: dict[str, Any] = self._keep(number, {"__name__": row["name"], "__builtins__": builtins})
        self._when_classes_exist(lambda: made.update({name: self.value(held) for name, held in row["values"].items()}))
        return made

    def _make_cell(self, number: int, row: Row) -> Any:
        made: types.CellType = self._keep(number, types.CellType())

        def fill() -> None:
            made.cell_contents = self.value(row["content"])

        if "content" in row:
            self._when_classes_exist(fill)
        return made

    def _make_class(self, number: int, row: Row) -> Any:
        if number in self._open:
            raise ReplayError(f"the class {row['qualname']} holds an object of itself, and so cannot be rebuilt")
        self._open.add(number)
        metaclass, bases = self.value(row["metaclass"]), tuple(self._values(row["bases"]))
        namespace = {name: self.value(held) for name, held in row["namespace"].items()}
        if issubclass(metaclass, enum.EnumMeta):
            made: Any = bases[-1](row["name"], [(name, self.value(held)) for name, held in row["members"]])
            for name, held in namespace.items():
                setattr(made, name, held)
        else:
            made = metaclass(row["name"], bases, namespace)
        made.__qualname__ = row["qualname"]
        self._keep(number, made)
        self._open.discard(number)
        self._when_classes_exist(lambda: None)
        return made

    def _when_classes_exist(self, fill: Callable[[], None]) -> None:
        """A method's cell may hold its class, and its globals an object of it: both wait for the class."""
        self._later.append(fill)
        while self._later and not self._open:
            self._later.pop(0)()

    def _make_method(self, number: int, row: Row) -> Any:
        return types.MethodType(self.value(row["function"]), self.value(row["self"]))

    def _make_attribute(self, number: int, row: Row) -> Any:
        return getattr(self.value(row["of"]), row["name"])

    def _make_weakref(self, number: int, row: Row) -> Any:
        target = self.value(row["to"])
        return weakref.ref(target if target is not None else _Gone())

    # -- objects -------------------------------------------------------------------------------------------------------

    def _make_call(self, number: int, row: Row) -> Any:
        function, args = self.value(row["function"]), self._values(row["args"])
        made = self._keep(number, function(*args))
        if "state" in row:
            _set_state(made, self.value(row["state"]))
        for item in row.get("items", ()):
            made.append(self.value(item))
        for key, value in row.get("pairs", ()):
            made[self.value(key)] = self.value(value)
        return made


class _Gone:
    """What a dead weak reference pointed to."""


def _set_state(made: Any, state: Any) -> None:
    """As `pickle` does it: `__setstate__`, or attributes and slots."""
    setter = getattr(made, "__setstate__", None)
    if setter is not None:
        setter(state)
        return
    own, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if own:
        made.__dict__.update(own)
    for name, value in (slots or {}).items():
        setattr(made, name, value)


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ReplayError(f"the frame needs the module {name!r}, which cannot be imported here: {error}") from None


def unpacked_code(text: str) -> types.CodeType:
    """The code object of a text from `packed_code`."""
    code: types.CodeType = marshal.loads(base64.b85decode(text))
    return code


_READ: dict[str, Callable[[str], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "complex": complex,
    "bytes": base64.b85decode,
    "bytearray": lambda text: bytearray(base64.b85decode(text)),
}
"""Values that are written as text."""
