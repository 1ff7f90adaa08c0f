"""Marks that users put on functions: skip it, make it one graph node, treat its result as a constant.

The idea: a mark belongs to one object, so it is stored in a table by identity and not as an attribute: `functools.wraps` would
copy an attribute to the wrapper, and C functions have none. Torch's own marks (torch.compiler.disable,
torch._dynamo.allow_in_graph, ...) count as well, since existing programs use them. They are looked up only if torch._dynamo has
been imported; otherwise no program can have used them.

In: `mark(function, Mark.SKIP)`. Out: `mark_of(function)`, which skip.py consults first. PyTorch's counterpart:
torch/_dynamo/decorators.py and the `FunctionIdSet`s of torch/_dynamo/trace_rules.py.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
import weakref
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from torch._compile import _disable_dynamo

from dynexplore.engine.native import RegionCall
from dynexplore.engine.raw_attributes import is_c_type

T = TypeVar("T")


RUNS = "__dynexplore_runs__"
"""The attribute of a wrapper made by `run`: the wrapped function, which traced code inlines instead."""


REASON = "_torchdynamo_disable_msg"
"""The attribute with the reason given to `disable`, dynexplore's or torch's."""


class Mark(Enum):
    """The marks of a function."""

    DISABLE = "disable"
    """The function and everything that it calls run as plain Python."""
    SKIP = "skip"
    """The function runs as plain Python; its callees are captured as usual."""
    ALLOW_IN_GRAPH = "allow_in_graph"
    """A call of the function is one node of the graph."""
    DISALLOW_IN_GRAPH = "disallow_in_graph"
    """A call of the function breaks the graph."""
    CONSTANT_RESULT = "assume_constant_result"
    """The function is called once, while tracing, and its result is a constant of the graph."""
    GRAPH_BREAK = "graph_break"
    """The function does nothing but break the graph."""


_MARKS: dict[int, tuple[Callable[[], object], Mark]] = {}
"""id -> (how to get the object, mark). An entry is removed when its object dies."""


def mark(function: T, marking: Mark) -> T:
    """Mark a callable, replacing an earlier mark, and return it. A bound method marks its function."""
    target: Any = function.__func__ if isinstance(function, types.MethodType) else function
    key = id(target)
    try:
        _MARKS[key] = (weakref.ref(target, functools.partial(_MARKS.pop, key)), marking)
    except TypeError:  # some C callables cannot be weakly referenced; they live as long as their module
        _MARKS[key] = (lambda: target, marking)
    return function


def unmark(function: object) -> None:
    """Remove our mark."""
    _MARKS.pop(id(getattr(function, "__func__", function)), None)


def mark_of(function: object) -> Mark | None:
    """The mark of a callable: dynexplore's, else that of torch's own markers.

    >>> mark_of(len) is None
    True
    """
    marked = _MARKS.get(id(function))
    if marked is not None and marked[0]() is function:
        return marked[1]
    if isinstance(function, types.MethodType):
        return mark_of(function.__func__)
    if type(function) is RegionCall and function.region is None:
        return Mark.DISABLE
    return _torch_mark(function)


def words_of(function: object, mark: Mark) -> str:
    """The description of a marked callable for reports, with the program's reason if given."""
    reason = getattr(function, REASON, None)
    return f"marked with {mark.value}" + (f": {reason}" if isinstance(reason, str) else "")


_DISABLING_WRAPPER = _disable_dynamo(lambda: None).__code__
"""The code object shared by all functions decorated with torch._disable_dynamo."""


def _attributes(function: object) -> Any:
    """The `__dict__` of a callable, if it has one. Reading it on a C object would create one, and that has effects: a nested
    `partial` is flattened only if it has no `__dict__`.
    """
    if is_c_type(type(function)) and not isinstance(function, types.FunctionType | types.MethodType | type):
        parts = gc.get_referents(function) if type(function).__dictoffset__ else []
        return next((part for part in parts if type(part) is dict and any(mark in part for mark in _TORCH_MARKS)), None)
    return getattr(function, "__dict__", None)


_TORCH_MARKS = frozenset({"_dynamo_marked_constant", "_dynamo_forbidden", "_torchdynamo_disable"})


def _torch_mark(function: object) -> Mark | None:
    if isinstance(function, types.FunctionType) and function.__code__ is _DISABLING_WRAPPER:
        return Mark.DISABLE
    own = _attributes(function)
    if own and isinstance(own, dict | types.MappingProxyType):
        mark = _torch_attribute(function, own)
        if mark is not None:
            return mark
    # another thread may be importing it: a package gets its submodule as an attribute when the import is complete
    decorators = getattr(sys.modules.get("torch._dynamo"), "decorators", None)
    return None if decorators is None else _torch_listed(decorators, function)


def _torch_attribute(function: object, own: Any) -> Mark | None:
    if own.get("_dynamo_marked_constant"):
        return Mark.CONSTANT_RESULT
    if own.get("_dynamo_forbidden"):
        return Mark.DISALLOW_IN_GRAPH
    if not own.get("_torchdynamo_disable"):
        return None
    # functools.wraps copies attributes: a wrapper around a disabled function is not disabled itself
    if own.get("_torchdynamo_wrapper_id", id(function)) != id(function):
        return None
    # skip() and disable(recursive=False) leave callees alone; only disable() sets this attribute to True
    return Mark.DISABLE if own.get("_torchdynamo_disable_recursive") else Mark.SKIP


def _torch_listed(decorators: Any, function: object) -> Mark | None:
    """The marks that torch keeps in sets of ids: graph_break, disallow_in_graph, allow_in_graph."""
    if function is decorators.graph_break:
        return Mark.GRAPH_BREAK
    if decorators.trace_rules.is_callable_disallowed(function):
        return Mark.DISALLOW_IN_GRAPH
    if decorators.trace_rules.is_callable_allowed(function):
        return Mark.ALLOW_IN_GRAPH
    return None


def graph_break(message: str = "") -> None:
    """Break the graph here during capture; do nothing otherwise. `message` appears in the report."""


mark(graph_break, Mark.GRAPH_BREAK)


def assume_constant_result(function: T) -> T:
    """Declare that `function` always returns the same result, so that it needs to be called only once, during capture.

    This is not checked.
    """
    return mark(function, Mark.CONSTANT_RESULT)
