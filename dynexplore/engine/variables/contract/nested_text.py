"""Bounded display of nested containers.

The idea: each container displays its first items, and these display theirs. A list that holds one list four times, twenty levels
deep, is small in memory but has 4 ** 20 items to display. Below the third level, and where a container contains itself, the text is
`...`.

In: the `text` method of a container's tracker. Out: `nested_text(text)`, the same method with the bound. PyTorch's counterpart:
none; the repr of its trackers has one level.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TypeVar

MOST_LEVELS = 3


class _Open(threading.local):
    """The containers whose text this thread is producing, outermost first."""

    def __init__(self) -> None:
        self.containers: list[object] = []


_open = _Open()


T = TypeVar("T")


def nested_text(text: Callable[[T], str]) -> Callable[[T], str]:
    """Decorate a container's `text` method so that it returns `...` inside itself and below the third level."""

    @functools.wraps(text)
    def bounded(container: T) -> str:
        open_containers = _open.containers
        if len(open_containers) >= MOST_LEVELS or any(container is other for other in open_containers):
            return "..."
        open_containers.append(container)
        try:
            return text(container)
        finally:
            open_containers.pop()

    return bounded
