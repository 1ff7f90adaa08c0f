"""error_on_graph_break: make graph breaks errors in a block or function of the program, or allow them again inside one.

The idea: `nopython=True` requires one graph for the whole function. This setting requires it for a part only: a graph break inside
raises `exc.Unsupported` during capture. Under `nopython=True` it has no effect. Code that is already compiled is unaffected: the
setting is read during capture and is not guarded.

In: `with error_on_graph_break(True):`, or the same as a decorator; if nested, the innermost counts. Out: `breaks_are_errors()` of
this thread, set both by plain Python and by the translator (variables/modes/error_on_graph_break.py). PyTorch's counterpart:
`error_on_graph_break` in torch/_dynamo/decorators.py.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any


class _Setting(threading.local):
    now: bool | None = None  # None: not set here, so torch's own setting counts


_setting = _Setting()


def breaks_are_errors() -> bool:
    """Whether a graph break raises here."""
    if _setting.now is not None:
        return _setting.now
    of_torch: Any = sys.modules.get("torch._dynamo.decorators")  # slow to import; imported if its setting is used
    return of_torch is not None and bool(of_torch._get_error_on_graph_break())


def set_breaks_are_errors(is_error: bool | None) -> bool | None:
    """Set it for this thread; returns the previous value."""
    before, _setting.now = _setting.now, is_error
    return before


class error_on_graph_break(contextlib.ContextDecorator):  # lower case, like torch's
    """Make graph breaks raise `exc.Unsupported` in a block or in each call of a decorated function; with False, allow them.

    Args: error_on_graph_break: True or False; if nested, the innermost counts.

    >>> with error_on_graph_break(True):
    ...     breaks_are_errors()
    True
    >>> breaks_are_errors()
    False
    """

    def __init__(self, error_on_graph_break: bool) -> None:
        if not isinstance(error_on_graph_break, bool):
            raise TypeError(f"error_on_graph_break takes True or False, not {error_on_graph_break!r}")
        self.is_error = error_on_graph_break
        self.before: list[bool | None] = []

    def __enter__(self) -> None:
        self.before.append(set_breaks_are_errors(self.is_error))

    def __exit__(self, *exc: object) -> None:
        set_breaks_are_errors(self.before.pop())
