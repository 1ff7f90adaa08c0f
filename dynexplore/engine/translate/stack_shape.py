"""The shape of the stack after an instruction: which slots hold values and which are NULL.

The idea: at a graph break the original instruction runs for real, so its results have no trackers; but a resume function must know
the shape of the stack that it restores. The stack effects of the instruction's canonical steps determine it.

In: a shape and the steps of an instruction. Out: the shape after it. PyTorch's counterpart: `stack_effect` in
torch/_dynamo/bytecode_analysis.py, which only counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynexplore.engine.bytecode import Step
from dynexplore.engine.bytecode.opcodes import stack_change

Shape = tuple[bool, ...]  # bottom first; True is a value, False a NULL


class _IsValue(dict[str, bool]):
    """Whether a new stack slot is a value (True) or NULL, by its word in a stack effect."""

    def __missing__(self, word: str) -> bool:
        return True


_NEW = _IsValue(null=False)


def _nothing(arg: Any) -> int:
    return 0


def _depth(arg: Any) -> int:
    return int(arg)


# Instructions that read values below those that they pop: the container of a comprehension, the index for a re-raise.
_LOOKS_BELOW: dict[str, Callable[[Any], int]] = {
    **dict.fromkeys(("LIST_APPEND", "SET_ADD", "MAP_ADD", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "RERAISE"), _depth),
    # The error message names the callable, which is below the tuple of arguments, and from 3.13 on also below the call's NULL.
    "DICT_MERGE": lambda arg: int(arg) + 3,
}


def shape_after(shape: Shape, steps: Sequence[Step], *, jumped: bool) -> tuple[Shape, int]:
    """The shape after these steps (with the jump of the last one taken or not), and how deep they reached.

    The second number counts how many of the slots at the bottom were never touched.

    >>> from dynexplore.engine.bytecode import read
    >>> steps = read((lambda a, b: a + b).__code__).steps
    >>> shape_after((True, True, True), steps[2:3], jumped=False)
    ((True, True), 1)
    """
    stack = list(shape)
    untouched = len(stack)
    for index, step in enumerate(steps):
        last = index == len(steps) - 1
        change = stack_change(step.op, step.arg, jump=jumped and last)
        untouched = min(untouched, len(stack) - change.popped - _LOOKS_BELOW.get(step.op, _nothing)(step.arg))
        stack = change.applied(stack, _NEW)
    return tuple(stack), max(untouched, 0)
