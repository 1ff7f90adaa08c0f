"""Whose turn it is: a cell of the notebook, or what the browser asks to be run.

Which idea lives here: JupyterLab sends what a widget asks to a thread of its own (a subshell), so that a question may arrive while
a cell runs. A question that sets names back, or runs the program again, must not meet a cell half way. So there is one turn: a cell
takes it before it begins and gives it back when it has ended; a question that finds it taken says so. What runs is never two at
once, and a running cell has precedence.

In:  IPython's events around a cell, in display.py.
Out: `TURN.cell_begins()`, `TURN.cell_ended()`; `TURN.question(patience)`, a context that is True where it has the turn.

PyTorch has no counterpart.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Turn:
    """The one turn of a kernel. The thread that has it may take it again: a cell may ask an explorer itself.

    >>> turn = Turn()
    >>> turn.cell_begins()
    >>> with turn.question() as has_it:
    ...     print(has_it)
    True
    >>> turn.cell_ended()
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._cells = 0  # cells that run one inside the other; IPython also tells of the end of cells that never began

    def cell_begins(self) -> None:
        """A cell is about to run: it waits for a question that is being answered."""
        self._lock.acquire()
        self._cells += 1

    def cell_ended(self) -> None:
        """The cell has ended, however it did."""
        if self._cells:
            self._cells -= 1
            self._lock.release()

    @contextlib.contextmanager
    def question(self, patience: float = 0.0) -> Iterator[bool]:
        """Whether a question has the turn, after so many seconds of waiting at most."""
        has_it = self._lock.acquire(timeout=patience)
        try:
            yield has_it
        finally:
            if has_it:
                self._lock.release()


TURN = Turn()
