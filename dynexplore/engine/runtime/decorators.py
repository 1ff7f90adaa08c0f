"""Decorators: what the engine does with one function, wherever captured code calls it.

The idea: a function is marked (policy/markers.py), and trackers read the mark during capture. `disable` also wraps the function, so
that it runs as plain Python wherever it is called.

In: functions, methods and modules. Out: the same, marked or wrapped. PyTorch's counterpart: torch/_dynamo/decorators.py.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

from dynexplore.engine import native
from dynexplore.engine.policy.markers import REASON, Mark, mark, unmark
from dynexplore.engine.runtime import optimized
from dynexplore.engine.variables.rules import rule

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Run as plain Python, including everything that it calls: `disable(fn)`, `@disable`, `@disable()`, `with disable():`.
    `recursive=False` is the same as `skip`. If captured code calls the function, the report shows the `reason`.
    """
    if not recursive:
        return functools.partial(_skip_because, reason) if fn is None else _skip_because(reason, fn)
    region = _DisabledRegion(None, reason)
    return region if fn is None else region(fn)


class _DisabledRegion(native.RegionBlock):
    """The result of `disable()`."""

    def __init__(self, region: None, reason: str | None) -> None:
        self.reason = reason

    def __call__(self, target: T) -> T:
        """Return the same function, method or module, which runs as plain Python."""
        return cast(T, _with_reason(optimized.wrap(target, None, entry=False), self.reason))


def _skip_because(reason: str | None, fn: T) -> T:
    _with_reason(getattr(fn, "__func__", fn), reason)
    return skip(fn)


def _with_reason(marked: T, reason: str | None) -> T:
    if reason is not None and not isinstance(marked, torch.nn.Module):  # a module's attributes are the program's state
        setattr(marked, REASON, reason)
    return marked


def skip(fn: T) -> T:
    """Run this function as plain Python; its callees are captured as usual. Returns the function itself.

    Raises TypeError for a callable without Python code.
    """
    function: Any = optimized.original_of(fn)
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        raise TypeError(f"only a Python function can be skipped, not {type(fn).__qualname__}")
    native.skip_code(code)
    mark(function, Mark.SKIP)
    return fn


def allow_in_graph(fn: Any) -> Any:
    """Put calls of this function into the graph as one node, without tracing it. For a list, marks each of its items.

    The function must map tensors to tensors, and depend on nothing but its arguments.
    """
    return _marked(fn, Mark.ALLOW_IN_GRAPH)


def disallow_in_graph(fn: Any) -> Any:
    """Break the graph at calls of this function (a torch operator, for example). For a list, marks each of its items."""
    return _marked(fn, Mark.DISALLOW_IN_GRAPH)


def substitute_in_graph(original: Callable[..., Any]) -> Callable[[F], F]:
    """Decorate a Python function that is traced wherever `original` is called; `original` itself is unchanged.

    For C functions that break the graph but can be expressed in Python. Code that is already compiled is unaffected. Raises
    TypeError if `original` is not callable.

    >>> import zlib
    >>> @substitute_in_graph(zlib.adler32)
    ... def always_one(data):
    ...     return 1
    >>> import dynexplore
    >>> dynexplore.optimize("eager", nopython=True)(lambda x: x + zlib.adler32(b"abc"))(torch.ones(2))
    tensor([2., 2.])
    """
    if not callable(original):
        raise TypeError(f"substitute_in_graph takes a callable, not {type(original).__qualname__}")

    def declare(replacement: F) -> F:
        @rule(original)
        def traced(ctx: Any, args: Any, kwargs: Any) -> Any:
            return ctx.build(replacement, None).call(ctx, args, kwargs)

        return replacement

    return declare


def _marked(fn: Any, marking: Mark) -> Any:
    if isinstance(fn, list | tuple):
        return [_marked(item, marking) for item in fn]
    if not callable(fn):
        raise TypeError(f"{marking.value} takes a callable, not {type(fn).__qualname__}")
    unmark(fn)
    return mark(fn, marking)
