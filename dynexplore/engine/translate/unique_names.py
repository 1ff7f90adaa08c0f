"""Names for what the modified code calls: `__compiled_fn_0`, `__resume_at_30_1`. One count for the process, as people know it."""

from __future__ import annotations

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
