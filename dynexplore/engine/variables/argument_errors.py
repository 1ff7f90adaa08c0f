"""Argument errors: what CPython says when arguments do not bind to a signature.

The idea: a row of the tables answers calls of a live callable, and that callable declares its signature already where it is
written in Python: the code of a function, `__new__` or `__init__` of a class. So a call is checked against the callable before its
row is asked (`Rule.call`), and no row takes arguments apart that do not fit. A row for a function in C declares the signature
itself (signatures.py).

The engine copies no messages. What CPython would say, it says: a Python function's *twin* of the same signature, whose body is
empty, is called in its place; a function in C is called with placeholders, since it counts its arguments before it looks at them.
What such a call raises is believed only if it speaks of the arguments' number or names.

In: a callable, how many arguments are positional, the names of the others. Out: the TypeError, or None where they fit or nobody
can say.
Mirrors CPython's Python/ceval.c (initialize_locals) and Python/getargs.c.
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
"""Classes in C whose `__new__` takes anything and leaves it to `__init__`; others bind arguments themselves."""


class _Placeholder:
    """Stands for an argument: an object that does nothing, and holds nothing where a function walks it before it binds the rest."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def argument_error(target: object, count: int, names: Sequence[str]) -> TypeError | None:
    """What the call `target(*count positional ones, **names)` raises before it begins; None where it binds, or nobody can say."""
    if isinstance(target, MethodType):
        return argument_error(target.__func__, count + 1, names)
    if isinstance(target, type):
        function = _constructor(target)
        return argument_error(function, count + 1, names) if function is not None else None
    if type(target) is FunctionType and not _fits(target, count, names):
        return _error_of_twin(target, count, names)
    return None


def wrapped_refuses(target: object, count: int, names: Sequence[str]) -> bool:
    """Whether a wrapper takes these arguments (`*args, **kwargs`), and what it wraps does not: it may still be given others."""
    if isinstance(target, type):
        function = _constructor(target)
        if function is None or not hasattr(function, "__wrapped__"):
            return False
        _, initializer = _lookup(target, "__init__")  # a wrapper of object's `__new__` leaves them to that
        return wrapped_refuses(function, count + 1, names) or argument_error(initializer, count + 1, names) is not None
    wrapped = getattr(target, "__wrapped__", None) if type(target) is FunctionType else None
    return wrapped is not None and argument_error(wrapped, count, names) is not None


def _fits(function: FunctionType, count: int, names: Sequence[str]) -> bool:
    """Whether positional arguments alone are as many as a function takes; False where that takes a closer look."""
    code = function.__code__
    most = math.inf if code.co_flags & inspect.CO_VARARGS else code.co_argcount
    least = code.co_argcount - len(function.__defaults__ or ())
    return not names and not code.co_kwonlyargcount and least <= count <= most


def _constructor(cls: type[Any]) -> FunctionType | None:
    """The Python function that binds what a class is called with: `__new__`, or else `__init__`."""
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
    """A function of the same signature that does nothing: which defaults there are counts, not what they are."""
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
    """What a function in C says of these arguments, if that is about their number or names.

    It is really called, with placeholders: so none of torch, whose functions may change what the process does.
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
    except Exception:  # it bound them, and did not like what it got
        return None
    return None
