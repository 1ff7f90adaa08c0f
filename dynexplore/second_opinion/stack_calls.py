"""A call on the stack: the callable and its arguments.

The idea: CALL, CALL_KW and CALL_FUNCTION_EX lay out the same call in three ways, and the position of the NULL slot next to the
callable depends on the Python version. Here the layout is decoded by CPython's rules, independently of the handlers.

In: a step. Out: the callable, positional arguments (including a method's receiver), keyword arguments. Mirrors CALL in
CPython's Python/bytecodes.c. PyTorch's counterpart: none.
"""

from __future__ import annotations

from dynexplore.engine.bytecode import FACTS
from dynexplore.engine.translate.symbolic_frame import NULL
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.inspection import Unknown
from dynexplore.second_opinion.contents import container_of
from dynexplore.second_opinion.deferred_checks import CheckedStep, Stack

Call = tuple[VariableTracker, Stack, dict[str, VariableTracker]]


def call_on_stack(step: CheckedStep) -> Call:
    """The callable, positional and keyword arguments of a call. Raises Unknown."""
    stack = list(step.before)
    if step.op == "CALL_FUNCTION_EX":
        return _with_stars(stack, bool(step.arg))
    if step.op == "CALL":
        count, names = step.arg
    else:
        count, names = step.arg, stack.pop().unguarded_value()
    begin = len(stack) - count
    function, first = _callee(stack[begin - 2], stack[begin - 1])
    named = dict(zip(names, stack[len(stack) - len(names) :], strict=True))
    return function, [*first, *stack[begin : len(stack) - len(names)]], named


def _with_stars(stack: Stack, has_keywords: bool) -> Call:
    named = container_of(stack.pop()) if has_keywords else {}
    args = [value.tracker for value in container_of(stack.pop())]
    function, first = _callee(stack[-2], stack[-1])
    by_name = {key.constant(): value.tracker for key, value in named.items()}
    if None in args or None in by_name.values():
        raise Unknown  # of a live list that was not read
    return function, [*first, *args], by_name


def _callee(lower: VariableTracker, upper: VariableTracker) -> tuple[VariableTracker, Stack]:
    """The callable and its receiver, if any: the order of the pair on the stack depends on the Python version."""
    if FACTS.null_below:
        return (upper, []) if lower is NULL else (lower, [upper])
    return (lower, []) if upper is NULL else (lower, [upper])
