"""The user's line that led to the frame being converted, from the Python stack.

The idea: a compiled function may be a library's, so that neither it nor what it inlines is in the program. Events, log lines and
exceptions name the program's line first. So the stack is searched for it: the engine's own frames and libraries are skipped.

In: the current stack. Out: `calling_line()`; `caller_of(stack)`, the same for a break whose own stack has no line of the program;
`callers()`. PyTorch's counterpart: `user_stack` in torch/_dynamo/exc.py, from `TracingContext.extract_stack`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import FrameType

from dynexplore.engine import native
from dynexplore.engine.display_paths import shown_line
from dynexplore.engine.events import UserFrame
from dynexplore.engine.policy.trace_rules import OWN_FOLDER, is_of_the_program, rule_of


def callers() -> Iterator[FrameType]:
    """The user's frames that called the frame being converted, innermost first; the engine's wrapper of a callable is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
        frame = frame.f_back
    while frame is not None:
        if frame.f_code.co_filename != native.ENTRY_FILE and not rule_of(frame.f_code.co_filename).library:
            yield frame
        frame = frame.f_back


def calling_line() -> UserFrame | None:
    """The innermost line of user code on the stack; else that of a package that is traced like user code."""
    frames = list(callers())
    own = next((frame for frame in frames if is_of_the_program(frame.f_code.co_filename)), None)
    return next((shown_line(frame, frame.f_lineno) for frame in (own, *frames[:1]) if frame is not None), None)


def caller_of(stack: Sequence[UserFrame]) -> UserFrame | None:
    """The line that led to a break with this stack; None if the stack has a line of the program itself."""
    return None if any(map(is_own_line, stack)) else calling_line()


def is_own_line(frame: UserFrame) -> bool:
    """Whether a line is the program's. The engine's wrapper around a module is not."""
    return is_of_the_program(frame.file) and frame.file != native.ENTRY_FILE
