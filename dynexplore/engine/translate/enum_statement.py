"""Class statements of enumerations: `enum.EnumType` itself creates the trace-time class, if that runs no user code.

The idea: members are constants, so a body of constants, `auto()` and plain methods contains all that `enum` needs. The trace-time
class is created at once, and its members are constants of the attempt. The graph breaks if the program defines a method that
`enum` calls during creation (`__new__`, `__init__`, `_generate_next_value_`, `_missing_`), or a method with free variables,
because methods of enumerations may run for real.

In: the bases, the namespace in the order in which it was filled, keywords. Out: the class, for class_statement.py.
PyTorch's counterpart: none; `call___build_class__` (torch/_dynamo/variables/builtin.py) handles all classes alike.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from types import FunctionType
from typing import Any

from dynexplore.engine.variables.contract.base import NotConstant, VariableTracker
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.objects.type_lookup import peek
from dynexplore.engine.variables.objects.user_object import UserObjectVariable
from dynexplore.engine.variables.scalars.enumeration import EnumClassVariable

_CALLED_WHILE_MADE = ("__new__", "__init__", "__init_subclass__", "_generate_next_value_", "_missing_", "__eq__", "__hash__")


class RecordedNamespace(dict[str, VariableTracker]):
    """The namespace of a class body, which records whether a name was bound twice: an error in an enumeration."""

    def __init__(self) -> None:
        super().__init__()
        self.is_in_order = True

    def __setitem__(self, name: str, value: VariableTracker) -> None:
        self.is_in_order &= name not in self
        super().__setitem__(name, value)

    def pop(self, *args: Any) -> Any:
        """Unbind a name."""
        self.is_in_order = False
        return super().pop(*args)


def is_enumeration(bases: list[Any]) -> bool:
    """Whether the metaclass is `enum.EnumType` itself."""
    return any(isinstance(base, EnumClassVariable) for base in bases) and all(
        isinstance(base, ClassVariable) and type(base.value) in (type, enum.EnumMeta) for base in bases
    )


def runs_code_of_program(bases: list[Any], namespace: dict[str, VariableTracker]) -> bool:
    """Whether `enum` would call user code."""
    inherited = [peek(base.value, name) for base in bases for name in _CALLED_WHILE_MADE]
    functions = [getattr(raw, "__func__", raw) for raw in inherited]
    own = any(isinstance(function, FunctionType) and function.__module__ != "enum" for function in functions)
    return own or any(name in namespace for name in _CALLED_WHILE_MADE)


def is_auto(value: VariableTracker) -> bool:
    """Whether a value of the body is `enum.auto()`."""
    return isinstance(value, UserObjectVariable) and value.cls is enum.auto


def new_enumeration(name: str, bases: tuple[Any, ...], namespace: dict[str, object], keywords: dict[str, Any]) -> type[Any]:
    """The class that the class statement creates; raises what it raises."""
    members: Any = enum.EnumMeta.__prepare__(name, bases, **keywords)
    for key, value in namespace.items():
        members[key] = value
    return enum.EnumMeta(name, bases, members, **keywords)


def plain_value(value: VariableTracker) -> Any:
    """The value of a constant, a class, or a list, tuple or dict of these. Raises NotConstant."""
    if isinstance(value, ClassVariable):
        return value.live_value()
    contents = None if value.is_constant() else value.contents()
    if contents is None:
        return value.as_constant()
    kind = value.python_type()
    if contents.live is not None or kind not in (list, tuple, dict, OrderedDict):
        raise NotConstant(value)
    if issubclass(kind, dict):
        return kind((plain_value(key), plain_value(item)) for key, item in contents.items)
    return kind(map(plain_value, contents.items))
