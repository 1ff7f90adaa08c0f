"""Sets with a history: members that were added and discarded in turn, on which the order of a set's table depends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def grown_set(*changes: tuple[Iterable[Any], Iterable[Any]]) -> set[Any]:
    """A set to which members were added, and from which some were discarded, in turn.

    >>> grown_set(([8, 16, 0], [16]), ([24], [])) == {0, 8, 24}
    True
    """
    members: set[Any] = set()
    for added, discarded in changes:
        members.update(added)
        for member in discarded:
            members.discard(member)
    return members
