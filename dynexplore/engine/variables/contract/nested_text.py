"""The text of a container that holds containers: a few levels of it, so that what is shown is short, however much there is.

Which idea lives here: each container shows its first items, and these show theirs. A list that holds one list four times, and so on
for twenty levels, is small in memory and has 4 ** 20 items to show. Below the third level a container is `...`, as one that holds
itself is.

In:  the method `text` of a tracker of a container. Out: `nested_text(text)`, the same method with a bound.

PyTorch has no counterpart: its trackers have a repr of one level.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TypeVar

MOST_LEVELS = 3


class _Open(threading.local):
    """The containers whose text is being made in this thread, the outermost first."""

    def __init__(self) -> None:
        self.containers: list[object] = []


_open = _Open()


T = TypeVar("T")


def nested_text(text: Callable[[T], str]) -> Callable[[T], str]:
    """A method `text` of a container, which is `...` inside itself and below the third level."""

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
