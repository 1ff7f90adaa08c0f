"""disable_nested_graph_breaks: in a block or function of the program a graph break ends one graph a frame.

The idea: `config.nested_graph_breaks` says how graphs end in callees (translate/nested_break.py). Whoever has trouble with that in
one part, or wants the parts of a helper compiled once for all its callers, turns it off there and in all that is called there. What
is captured already runs as it is: the setting is asked where something is captured, and is no part of a guard.

In: `with disable_nested_graph_breaks():`, or the same as a decorator. Out: `breaks_nest()`, of this thread, set for real by plain
Python and by the translator alike (variables/modes/nested_breaks.py).
torch/_dynamo/decorators.py (disable_nested_graph_breaks) does the same job.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, TypeVar, overload

from dynexplore.engine.config import config

F = TypeVar("F", bound=Callable[..., Any])


class _Setting(threading.local):
    disabled: bool = False


_setting = _Setting()


def breaks_nest() -> bool:
    """Whether a graph that is captured now may end in a callee, for all frames around it."""
    return config.nested_graph_breaks and not _setting.disabled


def disabled_by_torch() -> bool:
    """Whether a function around this call is decorated with torch's own `disable_nested_graph_breaks`.

    That patches an option of torch's, which is off by default: so its decorator is looked for on the stack.
    """
    decorators = sys.modules.get("torch._dynamo.decorators")  # importing it takes seconds, and whoever decorates has done so
    make = vars(getattr(decorators, "DynamoConfigPatchProxy", object)).get("__call__")
    constants = make.__code__.co_consts if isinstance(make, FunctionType) else ()
    codes = [constant for constant in constants if isinstance(constant, CodeType)]  # of the function around the decorated one
    frame = sys._getframe(1) if codes else None
    while frame is not None:
        if frame.f_code in codes and getattr(frame.f_locals.get("self"), "changes", None) == CHANGES_OF_TORCHS:
            return True
        frame = frame.f_back
    return False


CHANGES_OF_TORCHS = {"nested_graph_breaks": False}


def set_disabled(disabled: bool) -> bool:
    """Set it for this thread; what it was before."""
    before, _setting.disabled = _setting.disabled, disabled
    return before


class Disabled(contextlib.ContextDecorator):
    """What `disable_nested_graph_breaks()` gives."""

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
    """Let a graph break in a block, or in a decorated function, end one graph a frame, as without `config.nested_graph_breaks`.

    >>> with config.patch(nested_graph_breaks=True):
    ...     with disable_nested_graph_breaks():
    ...         inside = breaks_nest()
    ...     inside, breaks_nest()
    (False, True)
    """
    return Disabled() if fn is None else Disabled()(fn)
