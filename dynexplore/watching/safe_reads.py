"""A look at torch, which may fail: what could not be read is left out, in one sentence, and all else goes on.

Which idea lives here: a watch reads objects that nobody promised to keep as they are. So whatever reads one is called through here.
A look that is made of parts asks for each part by itself, with what stands in its place, so that one that is unreadable costs that
part and no more. Words are put together when a recording is read, outside of any look at torch: their parts come this way, too.

In:  functions that read objects of torch. Out: `SafeReads`, with its `notices`.

PyTorch has no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")

UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, AssertionError, RuntimeError)
"""What reading an object raises that is not as it was in the torch that this was written for."""

ABSENT = (ImportError, *UNREADABLE)
"""The same, where a name is asked for as well."""


class SafeReads:
    """The looks of one watch; `notices` says in sentences what could not be seen.

    >>> reads = SafeReads()
    >>> reads.part("unknown", lambda node: node.name, object()), len(reads.notices)
    ('unknown', 1)
    """

    def __init__(self) -> None:
        self.notices: list[str] = []

    def part(self, instead: Any, look: Callable[..., T], *args: Any) -> T:
        """What a look gives; `instead`, which is of the same type, where it cannot be made."""
        try:
            return look(*args)
        except UNREADABLE as error:
            self.unreadable(look, error)
            return cast("T", instead)

    def __call__(self, look: Callable[..., T], *args: Any) -> T | None:
        """What a look gives; None where it cannot be made."""
        return cast("T | None", self.part(None, look, *args))

    def notice(self, notice: str) -> None:
        """Say something that cannot be seen, once."""
        if notice not in self.notices:
            self.notices.append(notice)

    def unreadable(self, look: Callable[..., Any], error: Exception) -> None:
        """Say that a look could not be made."""
        reader = getattr(look, "__name__", type(look).__name__).strip("_").replace("_", " ")
        self.notice(f"Part of this capture could not be read ({reader}: {type(error).__name__}: {error}).")
