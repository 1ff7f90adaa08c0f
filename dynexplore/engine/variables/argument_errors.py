"""Argument errors: the TypeError that CPython raises when arguments do not bind to a signature.

The idea: every call that a rule handles is first bound to the live callable's own signature (`Rule.call`), so no rule has to
validate its arguments. A Python function, or a class with a Python `__new__` or `__init__`, already has a signature; a rule for a C
function declares one (signatures.py).

The engine copies no error messages, it provokes them. For a Python function it calls a *twin*: a function with the same signature
and an empty body. A C function is called with placeholder arguments, because it counts its arguments before it uses them. The
resulting exception is used only if it is about the number or the names of the arguments.

In: a callable, the number of positional arguments, the names of the keyword arguments. Out: the TypeError, or None if the arguments
bind or this cannot be determined.

PyTorch's counterpart: `bind_args_cached` (torch/_dynamo/variables/functions.py) and `raise_args_mismatch` (utils.py), which word
the message themselves. CPython binds in Python/ceval.c (initialize_locals) and Python/getargs.c.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any

from dynexplore.engine.raw_attributes import class_dict, class_mro

_ABOUT_ARGUMENTS = re.compile(
    r"given\)|, got \d+$|keyword argument|missing required argument|missing \d+ required|takes (no|\d)|needs an argument"
    r"|at least (one|two) argument"
)


_LEFT_TO_INIT = frozenset({object, BaseException, dict, list, property, set})
"""C classes whose `__new__` accepts any arguments and leaves them to `__init__`; other classes bind arguments in `__new__`."""


class _Placeholder:
    """A placeholder argument: it does nothing, and is empty if a function iterates over it before binding the other arguments."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def argument_error(target: object, count: int, names: Sequence[str]) -> TypeError | None:
    """The TypeError with which `target(*count positional, **names)` fails to bind;
    None if it binds or this cannot be determined.
    """
    if isinstance(target, MethodType):
        return argument_error(target.__func__, count + 1, names)
    if isinstance(target, type):
        function = _constructor(target)
        return argument_error(function, count + 1, names) if function is not None else None
    if type(target) is FunctionType and not _fits(target, count, names):
        return _error_of_twin(target, count, names)
    return None


def wrapped_refuses(target: object, count: int, names: Sequence[str]) -> bool:
    """Whether a `*args, **kwargs` wrapper accepts these arguments but the function
    it wraps does not: it may pass different ones.
    """
    if isinstance(target, type):
        function = _constructor(target)
        if function is None or not hasattr(function, "__wrapped__"):
            return False
        _, initializer = _lookup(target, "__init__")  # a wrapper of object's `__new__` leaves the arguments to `__init__`
        return wrapped_refuses(function, count + 1, names) or argument_error(initializer, count + 1, names) is not None
    wrapped = getattr(target, "__wrapped__", None) if type(target) is FunctionType else None
    return wrapped is not None and argument_error(wrapped, count, names) is not None


def _fits(function: FunctionType, count: int, names: Sequence[str]) -> bool:
    """Fast path: whether positional arguments alone fill a function's parameters; False if that needs the full check."""
    code = function.__code__
    most = math.inf if code.co_flags & inspect.CO_VARARGS else code.co_argcount
    least = code.co_argcount - len(function.__defaults__ or ())
    return not names and not code.co_kwonlyargcount and least <= count <= most


def _constructor(cls: type[Any]) -> FunctionType | None:
    """The Python function that binds the arguments of a class: `__new__`, else `__init__`."""
    if type(cls).__call__ is not type.__call__:
        return None
    owner, raw = _lookup(cls, "__new__")
    if isinstance(raw, staticmethod) and isinstance(raw.__func__, FunctionType):
        return raw.__func__
    _, raw = _lookup(cls, "__init__")
    return raw if owner in _LEFT_TO_INIT and isinstance(raw, FunctionType) else None


def _lookup(cls: type[Any], name: str) -> tuple[type[Any], Any]:
    owner = next(base for base in class_mro(cls) if name in class_dict(base))
    return owner, class_dict(owner)[name]


# -- Python functions -------------------------------------------------------------------------------------------------


def _error_of_twin(function: FunctionType, count: int, names: Sequence[str]) -> TypeError | None:
    code = function.__code__
    twin = twin_of(code, len(function.__defaults__ or ()), function.__kwdefaults__ or ())
    twin.__qualname__ = function.__qualname__
    return _raised(twin, [None] * count, names)


def twin_of(code: CodeType, defaults: int, keyword_defaults: Iterable[str]) -> FunctionType:
    """A function with the same signature that does nothing. Only the number and names of the defaults matter, not their values."""
    has = inspect.CO_VARARGS, inspect.CO_VARKEYWORDS
    parameters = code.co_argcount + code.co_kwonlyargcount + sum(bool(code.co_flags & flag) for flag in has)
    names = code.co_varnames[:parameters]
    empty = _nothing.__code__.replace(
        co_argcount=code.co_argcount, co_posonlyargcount=code.co_posonlyargcount, co_kwonlyargcount=code.co_kwonlyargcount,
        co_varnames=names, co_nlocals=len(names), co_name=code.co_name, co_qualname=code.co_qualname,
        co_flags=_nothing.__code__.co_flags | code.co_flags & (has[0] | has[1]),
    )  # fmt: skip
    twin = FunctionType(empty, {}, code.co_name, (None,) * defaults)
    twin.__qualname__ = code.co_qualname
    twin.__kwdefaults__ = dict.fromkeys(keyword_defaults)
    return twin


def _nothing() -> None:
    pass


# -- functions in C ---------------------------------------------------------------------------------------------------


def argument_error_of_c(function: Any, count: int, names: Sequence[str]) -> TypeError | None:
    """The TypeError that a C function raises for these arguments, if it is about their number or names.

    The function is really called, with placeholders. Functions of torch are exempt: calling them may change process state.
    """
    if (getattr(function, "__module__", None) or "").startswith("torch"):
        return None
    error = _raised(function, [_Placeholder() for _ in range(count)], names)
    return error if error is not None and _ABOUT_ARGUMENTS.search(str(error)) else None


def _raised(function: Callable[..., Any], arguments: Sequence[Any], names: Sequence[str]) -> TypeError | None:
    try:
        function(*arguments, **{name: _Placeholder() for name in names})
    except TypeError as error:
        return error
    except Exception:  # the arguments did bind; the function rejected a placeholder's value
        return None
    return None
