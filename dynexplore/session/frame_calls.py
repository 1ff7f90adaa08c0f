"""The call behind each recorded frame: which function, and with which arguments.

The idea: a notebook cell calls functions, and users ask about these calls. A recording holds no live objects, so functions and
arguments are saved while the calls are made. They live as long as the store that they belong to, and only those of the first frames
are kept, because arguments may be large.

In: frames that are about to be translated. Out: `FrameCalls`, used by session.py.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dynexplore.engine.bytecode import argument_slots
from dynexplore.engine.native import UNBOUND
from dynexplore.engine.translate.resume import resume_point

MOST = 20
"""The maximum number of frames whose calls are kept."""


@dataclass(frozen=True, slots=True)
class FrameCall:
    """A function, and the arguments with which one of its frames began."""

    function: types.FunctionType
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class FrameCalls:
    """Frame number -> its call, for the first frames; resume functions are not calls of the program."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.by_frame: dict[int, FrameCall] = {}

    def note(self, frame: int, function: types.FunctionType, values: Sequence[Any]) -> None:
        """Save the call that a frame begins with; `values` are the contents of its argument slots."""
        code = function.__code__
        is_whole = not any(value is UNBOUND for value in values)
        if is_whole and len(self.by_frame) < self.most and resume_point(code) is None:
            self.by_frame[frame] = FrameCall(function, *arguments_of(code, values))


def arguments_of(code: types.CodeType, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with which a function of this code was called if its argument slots hold these values.

    >>> arguments_of((lambda x, *rest, k, **more: 0).__code__, (1, 4, (2, 3), {"z": 5}))
    ((1, 2, 3), {'k': 4, 'z': 5})
    """
    names = argument_slots(code)
    positional, keyword = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    args, rest = tuple(values[:positional]), keyword
    kwargs = dict(zip(names[positional:keyword], values[positional:keyword], strict=True))
    if code.co_flags & inspect.CO_VARARGS:
        args, rest = (*args, *values[rest]), rest + 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs |= values[rest]
    return args, kwargs
