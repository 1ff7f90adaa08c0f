"""Running numbers that can be taken back: for names in modified code, and for cache entries that nobody records.

The idea: people meet these numbers (`__compiled_fn_0`), so they have no gaps. A dry run
(what would this call do?) translates as a real call does, and its numbers are used again afterwards.

In:  nothing. Out: `Numbering`. One translation at a time asks, so no lock is needed.
PyTorch's counterpart: torch/_dynamo/bytecode_transformation.py (unique_id).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class Numbering:
    """0, 1, 2, ..., or from another number on.

    >>> numbers = Numbering()
    >>> numbers.next(), numbers.next()
    (0, 1)
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._count = first

    def next(self) -> int:
        """The next number."""
        self._count += 1
        return self._count - 1

    def reset(self) -> None:
        """Start again."""
        self._count = self._first

    @contextlib.contextmanager
    def rolled_back(self) -> Iterator[None]:
        """The numbers that are given inside the block are given again after it."""
        before = self._count
        try:
            yield
        finally:
            self._count = before
