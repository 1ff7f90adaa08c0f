"""Ctrl-C and SIGTERM while the command line starts: one sentence, and the end that the signal gives to any process.

The idea: importing this package, and then torch, takes seconds in which there is nothing to report and no traceback that is about
the user's program. So the package imports this file before anything else, and where the process is the command line, the two
signals are handled from then on, until the program begins (cli/program.py handles them while it runs), or until a command that runs
no program begins.

In: the arguments of the process. Out: `hand_over`, which restores the handlers of before; `end_process`, the end by a signal.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import types
from collections.abc import Sequence
from typing import Any

THAT_END = (signal.SIGINT, signal.SIGTERM)
"""The signals that end a program."""

_before: dict[signal.Signals, Any] = {}


def end_process(numbers: Sequence[int]) -> None:
    """End this process by the signal, if there is one, so that whoever waits for it sees that."""
    for number in numbers:
        sys.stdout.flush()
        sys.stderr.flush()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


def hand_over() -> None:
    """Restore the handlers of before, where those of this file are in place."""
    for number, handler in _before.items():
        if signal.getsignal(number) is _end_before_anything:
            signal.signal(number, handler)


def _end_before_anything(number: int, frame: types.FrameType | None) -> None:
    print("dynexplore: interrupted before anything was recorded", file=sys.stderr)
    end_process([number])


def _is_command_line() -> bool:
    """Whether this process is `dynexplore ...` or `python -m dynexplore ...`, whose sys.argv[0] is still -m at this time."""
    if sys.argv[:1] == ["-m"]:
        return ("-m", "dynexplore") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    return os.path.basename(sys.argv[0] if sys.argv else "") == "dynexplore"


if _is_command_line() and threading.current_thread() is threading.main_thread():
    _before.update((number, signal.signal(number, _end_before_anything)) for number in THAT_END)
