"""Mutual exclusion between a notebook cell and requests of the browser.

The idea: JupyterLab handles widget messages in a separate thread (a subshell), so that a question may arrive while a cell runs. A
question that changes the namespace, or re-runs the program, must not interleave with a cell. So there is one turn, a lock: a cell
takes it before it begins and releases it when it has ended; a question that cannot get it says so. Cells have precedence.

In: IPython's events around a cell, in display.py.
Out: `TURN.cell_begins()`, `TURN.cell_ended()`; `TURN.question(patience)`, a context manager that yields True if it has the turn.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Turn:
    """The one turn of a kernel. It is reentrant for the thread that has it: a cell may query an explorer itself.

    >>> turn = Turn()
    >>> turn.cell_begins()
    >>> with turn.question() as has_it:
    ...     print(has_it)
    True
    >>> turn.cell_ended()
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._cells = 0  # depth of nested cells; IPython also reports the end of cells that never began

    def cell_begins(self) -> None:
        """Called when a cell is about to run: wait for a question that is being answered."""
        self._lock.acquire()
        self._cells += 1

    def cell_ended(self) -> None:
        """Called when the cell has ended, however it did."""
        if self._cells:
            self._cells -= 1
            self._lock.release()

    @contextlib.contextmanager
    def question(self, patience: float = 0.0) -> Iterator[bool]:
        """Try to take the turn, waiting for at most this many seconds; yield whether it succeeded."""
        has_it = self._lock.acquire(timeout=patience)
        try:
            yield has_it
        finally:
            if has_it:
                self._lock.release()


TURN = Turn()
