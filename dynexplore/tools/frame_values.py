"""Serialization of live values: a table of plain rows, and the tensors that they refer to.

The idea: a frame's values are a graph of objects with shared parts. Each object becomes one row of a table, and rows refer to each
other by number, so shared objects stay shared: a tensor that is passed twice, a submodule of two modules, a list that contains
itself. Tensors go to a separate dict, which torch.save writes with shared storages and strides. Objects are reduced as by `pickle`
(their class, how to create one, their state), but there is no pickle: the table is text, and reading it runs nothing. A value that
cannot be saved becomes a row with the reason; the rest is saved anyway.

In: values and their names. Out: `SavedValues`: rows, tensors, and the missing values. frame_rebuild.py is the inverse.

PyTorch's counterpart: `ExecutionRecord.dump` in torch/_dynamo/replay_record.py, which passes everything to dill.
"""

from __future__ import annotations

import base64
import copyreg
import dis
import enum
import functools
import marshal
import math
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import torch

from dynexplore.engine.display_paths import shown_file
from dynexplore.engine.native import RegionCall, TailCall, finish_call
from dynexplore.engine.raw_attributes import behind, is_heap_type
from dynexplore.engine.runtime import optimized
from dynexplore.tools.importable import import_name, is_installed, singleton_name

Reference = int | dict[str, Any]
"""The number of a row, or `{"plain": value}` for values with a JSON form."""

Row = dict[str, Any]
_READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_LEFT_OUT = ("__dict__", "__weakref__", "__annotations__", "_abc_impl", "__abstractmethods__")
_MODULE_PARTS = ("_parameters", "_buffers", "_modules")


class NotSavable(Exception):
    """This value cannot be saved as data; the message contains the reason."""


class SavedValues:
    """The table; see the module docstring.

    `rows` are the entries, `tensors` the tensors they refer to, `missing` the path of each value that could not be saved, and why;
    `modules` are values of imported modules of the program, which may have changed since the import.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.tensors: dict[str, torch.Tensor] = {}
        self.missing: list[tuple[str, str]] = []
        self.modules: dict[str, dict[str, Reference]] = {}
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []  # rows are identified by id, so objects must stay alive meanwhile

    def add(self, value: Any, path: str) -> Reference:
        """Save one value, and everything that it contains; `path` is its name for users."""
        value = optimized.original_of(value) if isinstance(value, RegionCall | optimized.OptimizedModule) else value
        if _is_plain(value):
            return {"plain": value}
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self.rows)
            self._alive.append(value)
            row: Row = {}
            self.rows.append(row)
            try:
                row.update(self._row(value, path))
            except Exception as error:  # reducing an object runs methods of the program, which may raise anything
                self._note_missing(row, value, path, error)
        return number

    def _note_missing(self, row: Row, value: Any, path: str, error: Exception) -> None:
        why = str(error) if isinstance(error, NotSavable | TypeError) else f"{type(error).__name__}: {error}"
        why = next(iter(why.splitlines()), type(error).__name__)
        self.missing.append((path, why))
        row.clear()
        row.update(kind="missing", path=path, what=type(value).__qualname__, why=why)

    # -- rows, by type of value ----------------------------------------------------------------------------------------

    def _row(self, value: Any, path: str) -> Row:
        save_known_type = _BY_TYPE.get(type(value))
        if save_known_type is not None:
            return save_known_type(self, value, path)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path)
        if isinstance(value, type):
            return self._imported(value) or self._class(value, path)
        if isinstance(value, torch.jit.ScriptModule | torch.jit.ScriptFunction):
            raise NotSavable("TorchScript is already compiled, and has its own file format (torch.jit.save)")
        row = self._imported(value) or _as_import(singleton_name(value))
        return row or self._reduce(value, path)

    def _imported(self, value: Any) -> Row | None:
        name = import_name(value)
        if name is not None and not is_installed(name[0]):
            self._module_values(value)
        return _as_import(name)

    def _many(self, values: Any, path: str) -> list[Reference]:
        return [self.add(value, f"{path}[{number}]") for number, value in enumerate(values)]

    def _named(self, values: Mapping[str, Any], path: str) -> dict[str, Reference]:
        return {name: self.add(value, f"{path}.{name}") for name, value in values.items()}

    def _sequence(self, value: Any, path: str) -> Row:
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return {"kind": type(value).__name__, "items": self._many(items, path)}

    def _dict(self, value: dict[Any, Any], path: str) -> Row:
        return {"kind": "dict", "pairs": self._pairs(value.items(), path)}

    def _pairs(self, pairs: Any, path: str) -> list[list[Reference]]:
        return [[self.add(key, f"{path} key"), self.add(value, f"{path}[{_key_text(key)}]")] for key, value in pairs]

    # -- tensors -------------------------------------------------------------------------------------------------------

    def _tensor(self, value: torch.Tensor, path: str) -> Row:
        if type(value) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) and not isinstance(value, torch.nn.Parameter):
            raise NotSavable(f"{type(value).__qualname__} is a tensor subclass")
        if torch._C._functorch.is_functorch_wrapped_tensor(value):
            raise NotSavable("a tensor inside torch.func")
        key = str(len(self.tensors))
        self.tensors[key] = value.detach()
        row: Row = {"kind": "tensor", "key": key, "class": "Parameter" if isinstance(value, torch.nn.Parameter) else "Tensor"}
        row.update(path=path, text=tensor_text(value), requires_grad=value.requires_grad, is_leaf=value.is_leaf)
        if value.is_leaf and value.grad is not None:
            row["grad"] = self.add(value.grad, f"{path}.grad")
        if value.__dict__:
            row["attributes"] = self._named(value.__dict__, path)
        return row

    # -- functions and classes without a name --------------------------------------------------------------------------

    def _function(self, value: types.FunctionType, path: str) -> Row:
        imported = self._imported(value)
        if imported is not None:
            return imported
        row: Row = {"kind": "function", "code": packed_code(value.__code__), "name": value.__name__, "qualname": value.__qualname__}
        row["module"] = value.__module__
        row["globals"] = self.add_globals(value.__globals__, value.__code__, path)
        row["defaults"] = self.add(value.__defaults__, f"{path}.__defaults__")
        row["kwdefaults"] = self.add(value.__kwdefaults__, f"{path}.__kwdefaults__")
        names = value.__code__.co_freevars
        row["closure"] = [self.add(cell, name) for name, cell in zip(names, value.__closure__ or (), strict=True)]
        own = {name: attribute for name, attribute in value.__dict__.items() if not name.startswith("__dynexplore_")}
        row["attributes"] = self._named(own, path)
        return row

    def add_globals(self, namespace: dict[str, Any], code: types.CodeType, path: str) -> Reference:
        """Save the globals that code reads; one row for all code with the same globals."""
        number = self._numbers.get(id(namespace))
        if number is None:
            number = self._numbers[id(namespace)] = len(self.rows)
            self._alive.append(namespace)
            self.rows.append({"kind": "globals", "name": str(namespace.get("__name__", "")), "values": {}})
        values = self.rows[number]["values"]
        for name in global_names(code):
            if name in namespace and name not in values:
                values[name] = {"plain": None}  # a function may read its own name
                values[name] = self.add(namespace[name], name)
        return number

    def _cell(self, value: types.CellType, path: str) -> Row:
        try:
            return {"kind": "cell", "content": self.add(value.cell_contents, path)}
        except ValueError:
            return {"kind": "cell"}  # unassigned

    def _class(self, value: type, path: str) -> Row:
        if not is_heap_type(value):
            raise NotSavable(f"{value!r} cannot be imported by name")
        own = {name: attribute for name, attribute in vars(value).items() if name not in _LEFT_OUT and not _is_slot(attribute)}
        row: Row = {"kind": "class", "name": value.__name__, "qualname": value.__qualname__}
        row["metaclass"] = self.add(type(value), f"{path}.__class__")
        row["bases"] = [self.add(base, f"{path}.__bases__") for base in value.__bases__]
        members = getattr(value, "__members__", None) if isinstance(value, enum.EnumMeta) else None
        if members is not None:
            row["members"] = [[name, self.add(member.value, f"{path}.{name}")] for name, member in members.items()]
            own = {
                name: attribute
                for name, attribute in own.items()
                if isinstance(attribute, types.FunctionType) and not name.startswith("_")
            }
        row["namespace"] = self._named(own, value.__qualname__)
        return row

    def _wrapped(self, value: Any, path: str) -> Row:
        return {"kind": "call", "function": self.add(type(value), path), "args": [self.add(value.__func__, path)]}

    def _property(self, value: Any, path: str) -> Row:
        parts = [self.add(part, path) for part in (value.fget, value.fset, value.fdel)]
        return {"kind": "call", "function": self.add(type(value), path), "args": parts}

    def _cached_property(self, value: Any, path: str) -> Row:
        args, state = [self.add(value.func, path)], self.add({"attrname": value.attrname}, path)
        return {"kind": "call", "function": self.add(type(value), path), "args": args, "state": state}

    def _mapping_proxy(self, value: Any, path: str) -> Row:
        return {"kind": "call", "function": self.add(type(value), path), "args": [self.add(behind(value), path)]}

    def _type_variable(self, value: Any, path: str) -> Row:
        return {"kind": "call", "function": self.add(TypeVar, path), "args": [{"plain": value.__name__}]}

    def _method(self, value: Any, path: str) -> Row:
        return {"kind": "method", "function": self.add(value.__func__, path), "self": self.add(value.__self__, path)}

    def _builtin(self, value: Any, path: str) -> Row:
        """A C function or method: by name, or as an attribute of the object it is bound to."""
        imported = self._imported(value)
        if imported is not None:
            return imported
        holder = getattr(value, "__self__", getattr(value, "__objclass__", None))
        if holder is None or isinstance(holder, types.ModuleType):
            raise NotSavable(f"{value!r} cannot be imported by name")
        return {"kind": "attribute", "of": self.add(holder, path), "name": value.__name__}

    def _module(self, value: types.ModuleType, path: str) -> Row:
        imported = self._imported(value)
        if imported is None:
            raise NotSavable(f"module {value.__name__} cannot be imported elsewhere")
        return imported

    def _weak(self, value: Any, path: str) -> Row:
        return {"kind": "weakref", "to": self.add(value(), path)}

    # -- everything else -----------------------------------------------------------------------------------------------

    def _reduce(self, value: Any, path: str) -> Row:
        """Reduce the object like `pickle`: how to create one, its state, its items."""
        reduce = copyreg.dispatch_table.get(type(value))
        parts: str | tuple[Any, ...] = reduce(value) if reduce is not None else value.__reduce_ex__(4)
        if isinstance(parts, str):
            module = getattr(value, "__module__", None) or type(value).__module__
            raise NotSavable(f"{module}.{parts} cannot be imported elsewhere")
        function, args, state, items, pairs = (*tuple(parts), None, None, None)[:5]
        row: Row = {"kind": "call", "function": self.add(function, f"{path}.__class__"), "args": self._many(args, path)}
        if isinstance(value, torch.nn.Module):
            row.update(module=type(value).__qualname__, path=path)
        if state is not None:
            row["state"] = self._state(value, state, path)
        if items is not None:
            row["items"] = self._many(items, path)
        if pairs is not None:
            row["pairs"] = self._pairs(pairs, path)
        return row

    def _state(self, value: Any, state: Any, path: str) -> Reference:
        """The state of an object: attribute names are appended to the path."""
        if type(state) is not dict or not all(isinstance(name, str) for name in state):
            return self.add(state, path)
        state = {name: attribute for name, attribute in state.items() if not name.startswith("__dynexplore_")}
        self._alive.append(state)
        pairs: list[list[Reference]] = []
        for name, attribute in state.items():
            if isinstance(value, torch.nn.Module) and name in _MODULE_PARTS and type(attribute) is dict:
                self._numbers[id(attribute)] = len(self.rows)
                self._alive.append(attribute)
                row: Row = {"kind": "dict", "pairs": []}
                self.rows.append(row)
                row["pairs"] += [[{"plain": part}, self.add(inner, f"{path}.{part}")] for part, inner in attribute.items()]
            pairs.append([{"plain": name}, self.add(attribute, f"{path}.{name}")])
        self.rows.append({"kind": "dict", "pairs": pairs})
        return len(self.rows) - 1

    # -- modules of the program ----------------------------------------------------------------------------------------

    def _module_values(self, value: Any) -> None:
        """The module globals that imported code of the program reads: they may have changed since the import."""
        for function in _functions_of(value):
            namespace = function.__globals__
            module = str(namespace.get("__name__"))
            if is_installed(module) or sys.modules.get(module) is None or vars(sys.modules[module]) is not namespace:
                continue
            values = self.modules.setdefault(module, {})
            for name in global_names(function.__code__):
                global_value = namespace.get(name, value)
                if name in values or global_value is value:
                    continue
                if isinstance(global_value, types.FunctionType | type):
                    self.add(global_value, name)
                elif not isinstance(global_value, types.ModuleType):
                    values[name] = {"plain": None}
                    values[name] = self.add(global_value, f"{module}.{name}")


def _functions_of(value: Any) -> Iterator[types.FunctionType]:
    if isinstance(value, types.FunctionType):
        yield value
    elif isinstance(value, type):
        for base in value.__mro__:
            if not is_installed(base.__module__):
                yield from (attribute for attribute in vars(base).values() if isinstance(attribute, types.FunctionType))


def global_names(code: types.CodeType) -> Iterator[str]:
    """The globals that code, and the functions nested in it, may read.

    >>> sorted(global_names((lambda x: [len(x), (lambda: max)]).__code__))
    ['len', 'max']
    """
    for instruction in dis.get_instructions(code):
        if instruction.opname in _READS:
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from global_names(constant)


OF_THE_ENGINE: dict[str, Any] = {"TailCall": TailCall, "finish_call": finish_call}
"""What code that resumes in a callee has among its constants, by name: C callables, which `marshal` refuses."""
ENGINE_CONSTANT = "<constant of the engine>"


def packed_code(code: types.CodeType) -> str:
    """A code object as text; only the same version of Python can use it. The file name of a notebook's cell becomes its number, `In
    [2]`: the process that runs the frame has no notebook, and could not recognize the kernel's generated name.
    """
    return base64.b85encode(marshal.dumps(_portable(code))).decode()


def _portable(code: types.CodeType) -> types.CodeType:
    constants = tuple(_portable_constant(constant) for constant in code.co_consts)
    return code.replace(co_filename=shown_file(code.co_filename), co_consts=constants)


def _portable_constant(constant: Any) -> Any:
    if isinstance(constant, types.CodeType):
        return _portable(constant)
    return next(((ENGINE_CONSTANT, name) for name, of_engine in OF_THE_ENGINE.items() if constant is of_engine), constant)


def tensor_text(value: torch.Tensor) -> str:
    """dtype, shape and device of a tensor, and its other special properties.

    >>> tensor_text(torch.ones(2, 3).t())
    'float32[3, 2] cpu, strides (1, 3)'
    """
    text = f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}] {value.device}"
    if value.layout is torch.strided and not value.is_contiguous():
        text += f", strides {tuple(value.stride())}"
    return text + (", requires grad" if value.requires_grad else "")


def _is_plain(value: Any) -> bool:
    if type(value) is int:
        return value.bit_length() < 4000  # more digits than json accepts
    return value is None or type(value) in (bool, str) or (type(value) is float and math.isfinite(value))


def _key_text(key: Any) -> str:
    return repr(key) if _is_plain(key) else type(key).__qualname__


def _is_slot(value: Any) -> bool:
    return isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType)


def _as_import(name: tuple[str, str] | None) -> Row | None:
    return None if name is None else {"kind": "import", "module": name[0], "name": name[1]}


def _text(kind: str, write: Callable[[Any], str]) -> Callable[[SavedValues, Any, str], Row]:
    return lambda saved, value, path: {"kind": kind, "text": write(value)}


_C_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)

_BY_TYPE: dict[type, Callable[[SavedValues, Any, str], Row]] = {
    int: _text("int", hex),
    float: _text("float", repr),
    complex: _text("complex", repr),
    bytes: _text("bytes", lambda value: base64.b85encode(value).decode()),
    bytearray: _text("bytearray", lambda value: base64.b85encode(value).decode()),
    **dict.fromkeys((list, tuple, set, frozenset), SavedValues._sequence),
    dict: SavedValues._dict,
    types.FunctionType: SavedValues._function,
    types.CellType: SavedValues._cell,
    types.MethodType: SavedValues._method,
    types.ModuleType: SavedValues._module,
    **dict.fromkeys(_C_FUNCTIONS, SavedValues._builtin),
    **dict.fromkeys((staticmethod, classmethod), SavedValues._wrapped),
    property: SavedValues._property,
    types.MappingProxyType: SavedValues._mapping_proxy,
    TypeVar: SavedValues._type_variable,
    functools.cached_property: SavedValues._cached_property,
    weakref.ref: SavedValues._weak,
}
"""Types with a row format of their own; anything else is a tensor, a class, importable by name, or reduced."""
