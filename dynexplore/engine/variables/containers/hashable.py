"""The hash key of a dict key or set member, and the TypeError for an unhashable one.

The idea: from Python 3.14 on, the TypeError names the container (dict or set) for which the value was meant, and wraps the message
that its hash raised. Hence one function for each.

In: a tracker. Out: its hash key, or the program's TypeError in the running Python's words. PyTorch's counterpart:
`raise_unhashable` in torch/_dynamo/variables/hashable.py, with one message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynexplore.engine.raw_attributes import class_dict
from dynexplore.engine.variables.contract.context import ObservedException
from dynexplore.engine.variables.error_messages import NAMES_CONTAINER, no_key, no_member
from dynexplore.engine.variables.type_errors import type_of

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.base import VariableTracker
    from dynexplore.engine.variables.contract.context import TraceContext


def dict_hash_key(ctx: TraceContext, key: VariableTracker) -> object:
    """The hash key of a value for use with a dict."""
    return _hash_key(ctx, key, no_key)


def set_hash_key(ctx: TraceContext, item: VariableTracker) -> object:
    """The hash key of a value for use with a set."""
    return _hash_key(ctx, item, no_member)


def _hash_key(ctx: TraceContext, value: VariableTracker, sentence: Callable[[str, str], str]) -> object:
    try:
        return value.hash_key(ctx)
    except ObservedException as raised:
        exception: Any = raised.exception
        cls = type_of(value)
        if not NAMES_CONTAINER or cls is None or exception.python_type() is not TypeError:
            raise
        reason = exception.load_args(ctx)
        if len(reason) != 1 or not reason[0].is_constant():
            ctx.break_graph("DX310", exception="a TypeError of a hash")
        ctx.raise_exception(TypeError, sentence(_full_name(cls), str(reason[0].as_constant())))


def _full_name(cls: type[Any]) -> str:
    """A class's name as `%T` formats it in CPython's messages (PyType_GetFullyQualifiedName)."""
    module, name = (class_dict(type)[attribute].__get__(cls) for attribute in ("__module__", "__qualname__"))
    return str(name) if module in ("builtins", "__main__") else f"{module}.{name}"
