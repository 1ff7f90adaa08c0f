"""error_on_graph_break: in a block or function of the program a graph break is an error, or, inside such a one, is none.

The idea: `nopython=True` asks for one graph of the whole function. Who wants to be sure of one part alone marks it; what the graph
meets inside raises `exc.Unsupported` while it is captured. Under `nopython=True` the mark changes nothing. What is captured
already runs as it is: the setting is asked where something is captured, and is no part of a guard.

In: `with error_on_graph_break(True):`, or the same as a decorator; nested, the innermost counts. Out: `breaks_are_errors()`, of
this thread, set for real by plain Python and by the translator alike (variables/modes/error_on_graph_break.py).

torch/_dynamo/decorators.py (error_on_graph_break) does the same job.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any


class _Setting(threading.local):
    now: bool | None = None  # None: nobody has set it here, and torch's own counts


_setting = _Setting()


def breaks_are_errors() -> bool:
    """Whether a graph break raises here."""
    if _setting.now is not None:
        return _setting.now
    of_torch: Any = sys.modules.get("torch._dynamo.decorators")  # importing it takes seconds, and whoever sets it has done so
    return of_torch is not None and bool(of_torch._get_error_on_graph_break())


def set_breaks_are_errors(is_error: bool | None) -> bool | None:
    """Set it for this thread; what it was before."""
    before, _setting.now = _setting.now, is_error
    return before


class error_on_graph_break(contextlib.ContextDecorator):  # called like a function, as torch's is
    """Let graph breaks raise `exc.Unsupported` in a block, or during each call of a decorated function; with False, let them be.

    Args: error_on_graph_break: True or False; of nested ones the innermost counts.

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
