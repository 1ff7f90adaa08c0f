"""Resume functions in loops: each iteration must not nest in the one before.

The idea: a loop whose body breaks goes on in a resume function, which breaks again in the next iteration and goes on in a resume
function, and so forth. As plain calls a thousand iterations would be a thousand nested frames. So a resume function that breaks in
code with a loop *returns* what is to be called next (a `TailCall`), and the first frame of the chain runs them one after the other.

In/out: resume_call.py writes calls of `run_resumes` and `TailCall`; nothing else sees a `TailCall`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class TailCall:
    """What a resume function wants to be called in its place."""

    __slots__ = ("args", "function")

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.function = function
        self.args = args


def run_resumes(function: Callable[..., Any], *args: Any) -> Any:
    """Call a resume function, and whatever it wants to be called next, until there is a result."""
    result = function(*args)
    while type(result) is TailCall:
        function, args = result.function, result.args
        result = None  # the arguments are the callee's alone
        result = function(*args)
    return result
