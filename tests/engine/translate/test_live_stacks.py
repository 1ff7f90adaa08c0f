"""A program that looks at the stack while it runs sees the frames that eager has.

Theme: live stacks (native/tail_call.c): `warnings.warn(stacklevel=...)`, `traceback.extract_stack`, `sys._getframe`, `inspect`,
logging's file and line, in frames that break, in loops, in callees. What is compared is what the programs return.
"""

from __future__ import annotations

import inspect
import logging
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager

X = torch.ones(3)
LOGGER = logging.getLogger("test_live_stacks")
LOGGER.propagate = False


def stack_here() -> list[tuple[str, int | None]]:
    return [(entry.name, entry.lineno) for entry in traceback.extract_stack()]


def caller_of_this() -> tuple[str, int]:
    frame = sys._getframe(1)
    return frame.f_code.co_name, frame.f_lineno


def plus_one(x):
    return x + 1


def old_way(x):
    warnings.warn("the old way", DeprecationWarning, stacklevel=2)
    return x + 1


def chain_of_callers() -> list[str]:
    frame: Any = inspect.currentframe()
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


# -- programs -----------------------------------------------------------------------------------------------------


def extracts(x):
    x = x + 1
    first = traceback.extract_stack()[-1].lineno
    x = x * 2
    second = stack_here()
    return x, first, second


def extracts_in_a_loop(x):
    stacks = []
    for round in range(3):
        x = x + round
        stacks.append(stack_here())
    return x, stacks


def extracts_in_a_callee(x):
    def inner(x):
        x = x + 1
        dynexplore.graph_break()
        return x, stack_here()

    x, stack = inner(x * 2)
    dynexplore.graph_break()
    return x, stack, stack_here()


def own_frame(x):
    x = plus_one(x)
    before = sys._getframe().f_lineno
    x = x * 2
    dynexplore.graph_break()
    return x + 1, before, sys._getframe().f_lineno, sys._getframe().f_code.co_name


def current_frame(x):
    x = plus_one(x)
    dynexplore.graph_break()
    frame = inspect.currentframe()
    assert frame is not None
    return x * 2, frame.f_code.co_name, frame.f_lineno


def a_frame_kept(x):
    frame = sys._getframe()
    x = plus_one(x)
    dynexplore.graph_break()
    x = x * 2
    dynexplore.graph_break()
    return x, frame.f_lineno, frame is sys._getframe()


def asked_by_a_callee(x):
    x = x + 1
    where = caller_of_this()
    x = x * 2
    dynexplore.graph_break()
    return x + 1, where, caller_of_this()


def asked_in_a_comprehension(x):
    x = x + 1
    return x * 2, [caller_of_this() for _ in range(2)]


def whole_chain(x):
    x = x + 1
    dynexplore.graph_break()
    names = chain_of_callers()
    return x * 2, names


def inspected(x):
    x = x + 1
    dynexplore.graph_break()
    return x * 2, [(entry.function, entry.lineno) for entry in inspect.stack()]


def warns_of_its_caller(x):
    x = x * 2
    x = old_way(x)
    x = x + 1
    dynexplore.graph_break()
    return old_way(x) * 2


def warns_in_a_loop(x):
    for _ in range(3):
        x = old_way(x)
    return x


def warns_itself(x):
    x = x + 1
    warnings.warn("here", UserWarning, stacklevel=1)
    x = x * 2
    warnings.warn("and here", UserWarning)
    return x + 1


def logs(x):
    x = x + 1
    LOGGER.warning("first")
    x = x * 2
    dynexplore.graph_break()
    LOGGER.warning("second", stacklevel=1)
    return x + 1


def recursive(x, depth=3):
    x = x + 1
    dynexplore.graph_break()
    if depth == 0:
        return x, stack_here()
    return recursive(x * 2, depth - 1)


PROGRAMS = [
    extracts,
    extracts_in_a_loop,
    extracts_in_a_callee,
    own_frame,
    current_frame,
    a_frame_kept,
    asked_by_a_callee,
    asked_in_a_comprehension,
    whole_chain,
    inspected,
    warns_of_its_caller,
    warns_in_a_loop,
    warns_itself,
    recursive,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_sees_the_frames_of_eager(program: Callable[..., Any]) -> None:
    """What a compiled program finds when it looks at the stack, or has `warnings` look, is what eager finds."""
    report = assert_same_as_eager(program, X, calls=3)
    assert report.graphs


class Lines(logging.Handler):
    """Keeps where each record was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.funcName, record.lineno, record.getMessage()))


def test_a_log_record_tells_the_line_that_logged() -> None:
    """`logging` finds the function and line of the call in a compiled frame, before and after breaks."""
    handler = Lines()
    LOGGER.addHandler(handler)
    try:
        report = assert_same_as_eager(logs, X, calls=2, setup=handler.lines.clear, observe=lambda: list(handler.lines))
    finally:
        LOGGER.removeHandler(handler)
    assert report.graphs and handler.lines
