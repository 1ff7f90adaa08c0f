"""Functions that the traced frame defined and that outlive it: made again by the modified code.

The idea: a function is its code, and the cells, defaults and annotations that it was given; MAKE_FUNCTION puts them together once
more. One that was defined in a callee has other globals than the frame, and is put together by a call instead.

In: a `NestedFunctionVariable`. Out: bytecode that pushes the function.
torch/_dynamo/variables/functions.py (NestedUserFunctionVariable.reconstruct) does the same job.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.base import VariableTracker
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction
    from dynexplore.engine.variables.objects.function import NestedFunctionVariable


def push_function(build: Reconstruction, function: NestedFunctionVariable) -> None:
    """Push a new function."""
    flags = _push_parts(build, function)
    if function.in_frame:
        build.writer.make_function(function.code, closure=bool(function.cells), flags=flags)
    else:
        _make_elsewhere(build, function, flags)
    for name, value in function.attributes.items():
        build.writer.copy(1)
        build.push(value)
        build.writer.swap(2)
        build.writer.store_attr(name)


def _make_elsewhere(build: Reconstruction, function: NestedFunctionVariable, flags: int) -> None:
    """A function whose globals are not the frame's: MAKE_FUNCTION would give it the wrong ones."""
    parts = [build.store_temporary() for bit in (8, 4, 2, 1) if flags & bit or (bit == 8 and function.cells)]
    build.writer.begin_call()
    build.push_object(function_of_parts)
    build.writer.callable_ready()
    build.push_object(function.code)
    build.push_object(function.namespace)
    build.writer.load_const(flags | (8 if function.cells else 0))
    for part in reversed(parts):
        build.writer.load_fast(part)
    build.writer.call(3 + len(parts))


def _push_parts(build: Reconstruction, function: NestedFunctionVariable) -> int:
    flags = 0
    if function.defaults:
        _push_all(build, function.defaults)
        build.writer.build_tuple(len(function.defaults))
        flags |= 1
    if function.keyword_defaults:
        for name, value in function.keyword_defaults.items():
            build.writer.load_const(name)
            build.push(value)
        build.writer.build_map(len(function.keyword_defaults))
        flags |= 2
    if function.annotations is not None:
        build.push(function.annotations)
        flags |= 4
    if function.cells:
        _push_all(build, function.cells)
        build.writer.build_tuple(len(function.cells))
    return flags


def _push_all(build: Reconstruction, values: Iterable[VariableTracker]) -> None:
    for value in values:
        build.push(value)


def function_of_parts(code: CodeType, namespace: dict[str, Any], flags: int, *parts: Any) -> FunctionType:
    """What MAKE_FUNCTION does, with other globals than the running frame's; `parts` in the order of its flags."""
    given = iter(parts)
    defaults, keyword_defaults, annotations, closure = (next(given) if flags & bit else None for bit in (1, 2, 4, 8))
    made = FunctionType(code, namespace, code.co_name, defaults, closure)
    made.__kwdefaults__ = keyword_defaults
    made.__qualname__ = code.co_qualname
    if annotations:
        made.__annotations__ = dict(zip(annotations[::2], annotations[1::2], strict=True))
    return made
