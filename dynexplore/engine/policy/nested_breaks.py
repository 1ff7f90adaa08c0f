"""disable_nested_graph_breaks: each frame ends its own graph at a break, in a block or function of the program.

The idea: with `config.nested_graph_breaks` a graph break in an inlined callee ends the graph there, with resume functions for all
frames around it (translate/nested_break.py). Where that causes trouble, or where the parts of a helper should be compiled once for
all callers, this turns it off for a block and everything called in it. Code that is already compiled is unaffected: the setting is
read during capture and is not guarded.

A function that runs once, such as the code of a notebook cell, ends its own graphs, too: what it calls is called again by other
code, and its graphs should be found then.

In: `with disable_nested_graph_breaks():`, or the same as a decorator. Out: `nested_breaks_enabled()` of this thread, set both by
plain Python and by the translator (variables/modes/nested_breaks.py); `note_runs_once`, `runs_once`. PyTorch's counterpart:
`disable_nested_graph_breaks` in torch/_dynamo/decorators.py.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, TypeVar, overload

from dynexplore.engine.config import config

F = TypeVar("F", bound=Callable[..., Any])


class _Setting(threading.local):
    disabled: bool = False


_setting = _Setting()
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")  # frames of their own before 3.12
_RUN_ONCE: weakref.WeakValueDictionary[int, CodeType] = weakref.WeakValueDictionary()  # by id: equal codes are distinct


def nested_breaks_enabled() -> bool:
    """Whether a graph captured now may end in an inlined callee, with resume functions for all frames around it."""
    return config.nested_graph_breaks and not _setting.disabled


def note_runs_once(code: CodeType) -> None:
    """Declare that a function with this code runs once: breaks in what it calls do not nest in it, nor in its comprehensions."""
    _RUN_ONCE[id(code)] = code
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and constant.co_name in _COMPREHENSIONS:
            note_runs_once(constant)


def runs_once(code: CodeType) -> bool:
    """Whether `note_runs_once` was called for this code."""
    return _RUN_ONCE.get(id(code)) is code


def disabled_by_torch() -> bool:
    """Whether a function on the stack is decorated with torch's own `disable_nested_graph_breaks`.

    Torch's decorator patches an option that is off by default, so the option's value tells nothing; the stack is searched instead.
    """
    decorators = sys.modules.get("torch._dynamo.decorators")  # slow to import; imported if its decorator is used
    make = vars(getattr(decorators, "DynamoConfigPatchProxy", object)).get("__call__")
    constants = make.__code__.co_consts if isinstance(make, FunctionType) else ()
    codes = [constant for constant in constants if isinstance(constant, CodeType)]  # the code of the decorator's wrapper function
    frame = sys._getframe(1) if codes else None
    while frame is not None:
        if frame.f_code in codes and getattr(frame.f_locals.get("self"), "changes", None) == CHANGES_OF_TORCHS:
            return True
        frame = frame.f_back
    return False


CHANGES_OF_TORCHS = {"nested_graph_breaks": False}


def set_disabled(disabled: bool) -> bool:
    """Set it for this thread; returns the previous value."""
    before, _setting.disabled = _setting.disabled, disabled
    return before


class Disabled(contextlib.ContextDecorator):
    """The result of `disable_nested_graph_breaks()`."""

    def __init__(self) -> None:
        self.before: list[bool] = []

    def __enter__(self) -> None:
        self.before.append(set_disabled(True))

    def __exit__(self, *exc: object) -> None:
        set_disabled(self.before.pop())


@overload
def disable_nested_graph_breaks(fn: None = None) -> Disabled: ...
@overload
def disable_nested_graph_breaks(fn: F) -> F: ...
def disable_nested_graph_breaks(fn: Any = None) -> Any:
    """Disable nested graph breaks in a block or a decorated function: a break in a called function ends the callers' graphs, too.

    >>> with config.patch(nested_graph_breaks=True):
    ...     with disable_nested_graph_breaks():
    ...         inside = nested_breaks_enabled()
    ...     inside, nested_breaks_enabled()
    (False, True)
    """
    return Disabled() if fn is None else Disabled()(fn)
