"""Calls with effects outside the program: the clock, files, the system, random numbers, numpy's memory.

The idea: such a call breaks the graph like any other untraceable call, but the advice to the user differs. So the kind of break
depends on the module of the callee. Some functions of these modules only compute (`os.fspath`): they merely lack a rule, and the
caller's own kind applies.

In: live callables, classes and values. Out: the id of a kind of graph break, or the caller's own one. PyTorch's counterpart: the
lists of names in torch/_dynamo/trace_rules.py.
"""

from __future__ import annotations

from typing import Any

from dynexplore.engine.raw_attributes import has_python_getattribute

_KINDS = {
    **dict.fromkeys(("numpy",), "DX207"),
    **dict.fromkeys(
        ("time", "os", "posix", "nt", "posixpath", "io", "_io", "pathlib", "glob", "shutil", "tempfile",
         "socket", "_socket", "subprocess", "select", "signal", "platform", "getpass"),
        "DX215",
    ),
    **dict.fromkeys(("logging",), "DX206"),
    **dict.fromkeys(("random", "_random", "secrets", "uuid"), "DX219"),
}  # fmt: skip
_ONLY_COMPUTES = frozenset(
    {"fspath", "fsencode", "fsdecode", "StringIO", "BytesIO", "UUID"}
    | {"PurePath", "PurePathBase", "PurePosixPath", "PureWindowsPath"}
)
_CLOCK = frozenset({"now", "utcnow", "today"})  # the rest of datetime is arithmetic


def kind_of_break(value: Any, otherwise: str) -> str:
    """The kind of graph break for calling `value` or reading an attribute of it.

    >>> import os, time
    >>> kind_of_break(time.time, "DX201"), kind_of_break(len, "DX204")
    ('DX215', 'DX204')
    >>> kind_of_break(os.fspath, "DX201")
    'DX201'
    """
    if has_python_getattribute(type(value)):  # the program's own object, which may return anything
        return otherwise
    if isinstance(value, property):  # since Python 3.13 its name is read from the program's function
        return otherwise
    for owner in (value, getattr(value, "__self__", None), getattr(value, "__objclass__", None), type(value)):
        module = getattr(owner, "__module__", None)
        name = getattr(owner, "__name__", None) if module is None else module  # `value` is a module
        if name == "datetime" and getattr(value, "__name__", "") in _CLOCK:
            return "DX215"
        if isinstance(name, str) and name.partition(".")[0] in _KINDS:
            return otherwise if _only_computes(owner) else _KINDS[name.partition(".")[0]]
    return otherwise


def _only_computes(owner: Any) -> bool:
    """Whether this is a function, class, method or instance that affects nothing but its arguments and itself."""
    name = getattr(owner, "__qualname__", type(owner).__qualname__)
    return isinstance(name, str) and name.partition(".")[0] in _ONLY_COMPUTES
