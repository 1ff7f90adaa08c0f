"""What a log says of a graph break, taken apart."""

from __future__ import annotations

import pytest

from dynexplore.traces.log_to_recording import break_of, without_consequences
from dynexplore.traces.torch_words import FIXES_OF_LOGGING

pytestmark = pytest.mark.plain("reads a text of torch's; no engine is asked")

ENTRY = """Graph break in user code at model.py:5
Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):

Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print`.
  Hint: Avoid calling builtin `print`.

User code traceback:
  File "train.py", line 8, in <module>
    step(x)
  File "model.py", line 5, in step
    print("hello")

Traceback (most recent call last):
  File "torch/_dynamo/symbolic_convert.py", line 1076, in wrapper
    return inner_fn(self, inst)
  File "torch/_dynamo/exc.py", line 727, in unimplemented
    raise Unsupported(msg, gb_type, skip_frame)
"""


def test_the_cause_is_told_before_the_opcode_and_the_stack_is_the_users() -> None:
    """torch says first which opcode it was at, and prints its own stack below the user's."""
    cause = break_of(ENTRY, "step")
    assert (cause.title, cause.fix) == ("Failed to trace builtin operator", FIXES_OF_LOGGING["print"])
    assert [(frame.file, frame.line, frame.code) for frame in cause.user_stack] == [("model.py", 5, 'print("hello")')]


FILTERS = """Graph break in user code at /usr/lib/python3.12/warnings.py:193
Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):

Attempted to call function marked as skipped
  Explanation: Dynamo does not know how to trace the Python builtin `_warnings._filters_mutated`.
  Hint: Please file an issue on GitHub so the PyTorch team can add support for it.

  Developer debug context: module: _warnings, qualname: _filters_mutated, skip reason: a C extension

User code traceback:
  File "model.py", line 5, in step
    warnings.simplefilter("ignore")
  File "/usr/lib/python3.12/warnings.py", line 193, in simplefilter
    _filters_mutated()
"""
NOT_RESUMED = """Graph break in user code at model.py:5
Graph Break Reason: Failed to handle graph break gracefully. Skipping the function. Graph break encountered:

Reconstruction failure
  Explanation: Dynamo has no bytecode reconstruction implemented for sourceless variable WithExitFunctionVariable().
  Hint: This graph break may have been caused by an earlier graph break. Resolving the earlier graph break may resolve this one.

User code traceback:
  File "model.py", line 5, in step
    warnings.simplefilter("ignore")
"""


def test_a_graph_that_cannot_end_at_a_break_is_part_of_that_break() -> None:
    """torch logs both; a program has one to fix, the first, and can change only the call that it makes itself."""
    (cause,) = without_consequences([break_of(FILTERS, "step"), break_of(NOT_RESUMED, "step")])
    assert cause.title == "Attempted to call function marked as skipped (Reconstruction failure)"
    assert cause.fix == "Move the call to `warnings.simplefilter` out of the compiled function."
    assert cause.user_stack == break_of(FILTERS, "step").user_stack


def test_a_value_that_cannot_be_returned_is_a_break_of_its_own() -> None:
    """Another line broke before it, or none."""
    elsewhere = break_of(NOT_RESUMED.replace("line 5", "line 9"), "step")
    assert len(without_consequences([break_of(FILTERS, "step"), elsewhere])) == 2
    assert without_consequences([elsewhere]) == [elsewhere]
