"""Tiny functions, one per canonical instruction, each run by CPython and under the engine.

In: functions decorated with `shows("OPCODE", ...)`, one table per test file. Out: parameters for one pytest function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import pytest
import torch

from dynexplore.engine.bytecode import read
from engine_checks import assert_same_as_eager

X = torch.arange(6.0).reshape(2, 3)

INSTEAD = {
    "BINARY_SLICE": {"BUILD_SLICE"},
    "STORE_SLICE": {"BUILD_SLICE"},
    "BUILD_CONST_KEY_MAP": {"BUILD_MAP"},
    "LOAD_SUPER_ATTR": {"LOAD_ATTR"},
    "LOAD_FAST_AND_CLEAR": {"MAKE_FUNCTION"},
    "CALL_KW": {"CALL"},
    "SET_FUNCTION_ATTRIBUTE": {"MAKE_FUNCTION"},
    "END_SEND": {"SEND"},
    "TO_BOOL": {"POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE", "JUMP_IF_FALSE_OR_POP", "UNARY_OP"},
    "JUMP_IF_TRUE_OR_POP": {"POP_JUMP_IF_TRUE"},
    "JUMP_IF_FALSE_OR_POP": {"POP_JUMP_IF_FALSE"},
    "LIST_TO_TUPLE": {"CALL_INTRINSIC_1"},
    "PREP_RERAISE_STAR": {"CALL_INTRINSIC_2"},
    "CALL_INTRINSIC_2": {"PREP_RERAISE_STAR"},
    "CLEANUP_THROW": {"SEND"},
    "CALL_INTRINSIC_1": {"RETURN_GENERATOR"},
}
"""What another Python has in the place of an instruction that it lacks."""


def operations(code: CodeType) -> set[str]:
    """The canonical instructions of a code object and of those in its constants."""
    found = {step.op for step in read(code).steps}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= operations(constant)
    return found


class OpcodeTable:
    """The functions of one test file."""

    shown: set[str] = set()

    def __init__(self) -> None:
        self._rows: list[tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

    def shows(self, opcode: str, *args: Any, **expected: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare a function whose code holds this instruction; `expected` as for assert_same_as_eager, no breaks is the rule."""

        def declare(fn: Callable[..., Any]) -> Callable[..., Any]:
            self._rows.append((opcode, fn, args or (X,), {"breaks": 0, **expected}))
            OpcodeTable.shown |= operations(fn.__code__)
            return fn

        return declare

    def parameters(self) -> Any:
        """A decorator for the test function, whose parameter `run` runs one function."""
        return pytest.mark.parametrize("run", [pytest.param(_runner(*row), id=f"{row[0]}-{row[1].__name__}") for row in self._rows])

    def __iter__(self) -> Iterator[str]:
        return (row[0] for row in self._rows)


def _runner(opcode: str, fn: Callable[..., Any], args: tuple[Any, ...], expected: dict[str, Any]) -> Callable[[], None]:
    def run() -> None:
        found = operations(fn.__code__)
        assert opcode in found or INSTEAD.get(opcode, set()) & found, f"{opcode} is not among {sorted(found)}"
        assert_same_as_eager(fn, *args, **expected)

    return run
