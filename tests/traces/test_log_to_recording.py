"""What a log says of a graph break, taken apart."""

from __future__ import annotations

import pytest

from dynexplore.traces.log_to_recording import break_of
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
