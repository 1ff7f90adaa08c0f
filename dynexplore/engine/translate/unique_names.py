"""Names for what the modified code calls: `__compiled_fn_0`, `__resume_at_30_1`. One count for the process, as people know it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_count = 0


def unique_number() -> int:
    """The next number."""
    global _count
    _count += 1
    return _count - 1


def reset() -> None:
    """Start from 0 again."""
    global _count
    _count = 0


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """The numbers that are given inside the block are given again after it."""
    global _count
    before = _count
    try:
        yield
    finally:
        _count = before
