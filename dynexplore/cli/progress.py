"""The progress line on a terminal: shows that a long capture is still running.

The idea: a capture that takes seconds prints nothing, which looks like a hang. After two seconds inside one call of a target, a
line on standard error shows how many functions and steps were captured and how long the call has taken; it is erased when the call
ends. Nothing is printed if standard error is not a terminal.

In: a running `TargetSearch`. Out: a line that appears and is erased.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynexplore.session.target_search import TargetSearch

PATIENCE = 2.0
"""The delay in seconds before the line appears."""


class Progress:
    """Shows the progress line: `with Progress(capture):` while the program runs."""

    def __init__(self, search: TargetSearch, every: float = 0.5) -> None:
        self._search = search
        self._every = every
        self._is_over = threading.Event()
        self._is_drawn = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._run, daemon=True, name="dynexplore progress")
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
            self._erase()

    def _run(self) -> None:
        while not self._is_over.wait(self._every):
            line = self.line()
            if line:
                print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
                self._is_drawn = True
            else:
                self._erase()

    def _erase(self) -> None:
        if self._is_drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._is_drawn = False

    def line(self) -> str:
        """The current text; "" if nothing takes long."""
        search = self._search
        name, seconds = search.capturing, time.monotonic() - search.since
        if not name or seconds < PATIENCE:
            return ""
        functions = len(search.chosen)
        return (
            f"dynexplore: capturing {name}: {functions} function{'' if functions == 1 else 's'}, "
            f"{len(search.recording):,} events, {seconds:.0f} s"
        )
