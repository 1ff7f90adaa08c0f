"""Reads of torch's objects that may fail: what cannot be read is left out, with one sentence, and everything else continues.

The idea: a watch reads objects whose layout nobody guarantees. So all reading functions are called through this class. A read with
several parts calls it for each part, with a substitute value, so that an unreadable part costs only that part. Texts are formatted
when a recording is read, outside of any such read: their parts are called through it, too.

In: functions that read objects of torch. Out: `SafeReads`, with its `notices`.

PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")

UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, AssertionError, RuntimeError)
"""The exceptions of reading an object whose layout differs from the supported torch versions."""

ABSENT = (ImportError, *UNREADABLE)
"""The same, for reads that also import a name."""


class SafeReads:
    """The reads of one watch; `notices` lists in sentences what could not be observed.

    >>> reads = SafeReads()
    >>> reads.part("unknown", lambda node: node.name, object()), len(reads.notices)
    ('unknown', 1)
    """

    def __init__(self) -> None:
        self.notices: list[str] = []

    def part(self, instead: Any, look: Callable[..., T], *args: Any) -> T:
        """The result of a read, or `instead`, of the same type, if it fails."""
        try:
            return look(*args)
        except UNREADABLE as error:
            self.unreadable(look, error)
            return cast("T", instead)

    def __call__(self, look: Callable[..., T], *args: Any) -> T | None:
        """The result of a read, or None if it fails."""
        return cast("T | None", self.part(None, look, *args))

    def notice(self, notice: str) -> None:
        """Report something that cannot be observed, once."""
        if notice not in self.notices:
            self.notices.append(notice)

    def unreadable(self, look: Callable[..., Any], error: Exception) -> None:
        """Report that a read failed."""
        reader = getattr(look, "__name__", type(look).__name__).strip("_").replace("_", " ")
        self.notice(f"Part of this capture could not be read ({reader}: {type(error).__name__}: {error}).")
