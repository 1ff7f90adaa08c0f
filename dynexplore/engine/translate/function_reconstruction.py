"""Reconstruction of functions that the traced frame defined and that escape it.

The idea: a function is its code object with cells, defaults and annotations; the modified code combines them with MAKE_FUNCTION.
A function that was defined in a callee has other globals than the frame: a helper is called to create it.

In: a `NestedFunctionVariable`. Out: bytecode that pushes the function. PyTorch's counterpart:
`NestedUserFunctionVariable.reconstruct` in torch/_dynamo/variables/functions.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynexplore.engine.variables.callables.function import NestedFunctionVariable
    from dynexplore.engine.variables.contract.base import VariableTracker
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


def push_function(build: Reconstruction, function: NestedFunctionVariable) -> None:
    """Push a new function."""
    flags = _push_parts(build, function)
    if function.in_frame:
        build.writer.make_function(function.code, closure=bool(function.cells), flags=flags)
    else:
        _make_with_other_globals(build, function, flags)
    for name, value in function.attributes.items():
        build.writer.copy(1)
        build.push(value)
        build.writer.swap(2)
        build.writer.store_attr(name)


def _make_with_other_globals(build: Reconstruction, function: NestedFunctionVariable, flags: int) -> None:
    """Push a function whose globals are not the frame's: MAKE_FUNCTION would use the frame's."""
    parts = [build.store_temporary() for bit in (8, 16, 4, 2, 1) if flags & bit or (bit == 8 and function.cells)]
    build.call_helper(
        function_of_parts,
        lambda: build.push_object(function.code),
        lambda: build.push_object(function.namespace),
        lambda: build.writer.load_const(flags | (8 if function.cells else 0)),
        *[partial(build.writer.load_fast, part) for part in reversed(parts)],
    )


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
    if function.annotate is not None:
        build.push(function.annotate)
        flags |= 16
    if function.cells:
        _push_all(build, function.cells)
        build.writer.build_tuple(len(function.cells))
    return flags


def _push_all(build: Reconstruction, values: Iterable[VariableTracker]) -> None:
    for value in values:
        build.push(value)


def function_of_parts(code: CodeType, namespace: dict[str, Any], flags: int, *parts: Any) -> FunctionType:
    """Create a function as MAKE_FUNCTION does, with other globals than the running frame's; `parts` in the order of its flags."""
    remaining_parts = iter(parts)
    defaults, keyword_defaults, annotations, annotate, closure = (
        next(remaining_parts) if flags & bit else None for bit in (1, 2, 4, 16, 8)
    )
    function = FunctionType(code, namespace, code.co_name, defaults, closure)
    function.__kwdefaults__ = keyword_defaults
    function.__qualname__ = code.co_qualname
    if annotations:
        function.__annotations__ = dict(zip(annotations[::2], annotations[1::2], strict=True))
    if annotate:
        vars(FunctionType)["__annotate__"].__set__(function, annotate)
    return function
