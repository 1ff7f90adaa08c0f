"""Consecutive numbers that can be rolled back: for names in modified code, and for unrecorded cache entries.

The idea: users see these numbers (`__compiled_fn_0`), so they have no gaps. A dry run (what would this call do?) translates like a
real call, and its numbers are reused afterwards.

In: nothing. Out: `Numbering`. Only one translation at a time uses it, so no lock is needed. PyTorch's counterpart: `unique_id` in
torch/_dynamo/bytecode_transformation.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class Numbering:
    """0, 1, 2, ..., or from another first number on.

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
        """Start again from the first number."""
        self._count = self._first

    @contextlib.contextmanager
    def rolled_back(self) -> Iterator[None]:
        """Reuse the numbers that are assigned inside the block after it."""
        before = self._count
        try:
            yield
        finally:
            self._count = before
