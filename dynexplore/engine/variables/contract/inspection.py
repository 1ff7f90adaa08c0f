"""Inspection: read-only queries about a tracker, none of which installs a guard.

The idea: a view, a snapshot before a step, or a second opinion on a step must see a value's content without changing what the frame
is specialized on. Each tracker class answers these queries next to its base.py operations, so an observer needs no list of tracker
classes and a new kind of value is displayed, copied and compared as soon as its tracker answers. Results are copies. The defaults
fit a value without content about which nothing is known.

In: queries, only while there are observers. Out: plain containers of trackers, live objects, FX nodes and constants. PyTorch's
counterpart: none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dynexplore.engine.records import record

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.base import VariableTracker


class Unknown(Exception):
    """The value cannot be determined without a query that could install a guard."""


@record()
class Contents:
    """The content of a container, or the remaining items of an iterator: a shallow copy.

    items: trackers, or pairs of trackers for a mapping. live: the content before them that has no trackers yet, because the
    program has not read it: a real sequence, or a real dict for a mapping.
    """

    items: list[Any]
    live: Any = None

    def length(self) -> int:
        """The number of items; `sys.maxsize` for a longer range."""
        try:
            return len(self.live or ()) + len(self.items)
        except OverflowError:
            return sys.maxsize


class Inspection:
    """The read-only queries; see the head of this file."""

    text_changes: ClassVar[Literal["never", "with the graph", "at any step"]] = "at any step"
    """When `text()` may change while a frame is interpreted."""

    container_type: ClassVar[type[Any] | None] = None
    """The type of a real Python container that behaves like the value; None if the value is no container."""

    def new_container(self, items: Iterable[Any]) -> Any:
        """A real container of these items (pairs for a mapping) that behaves like the value. Raises Unknown."""
        if self.container_type is None:
            raise Unknown
        return self.container_type(items)

    def contents(self, most: int | None = None) -> Contents | None:
        """The content of a container, which can be iterated repeatedly; None if it cannot be read without installing a guard.

        `most`: return at most the first so many trackers (None: all).
        """
        return None

    def remaining(self, most: int | None = None) -> Contents | None:
        """The remaining items of an iterator; None if they cannot be read without installing a guard. `most`: as in `contents`."""
        return None

    def bulk(self) -> int:
        """The number of items that `contents` or `remaining` would return, without copying them."""
        return 0

    def content_at(self, key: Any) -> Any:
        """The item at an index, or the value under a tracker key; None if that requires iteration or a guard."""
        return None

    def assigned(self) -> dict[str, VariableTracker | None] | None:
        """The attributes stored by the frame (None: deleted); None if the value takes no attributes."""
        return None

    def live_names(self) -> Mapping[str, Any]:
        """The attributes of the live object when the frame began."""
        return {}

    def new_object_attributes(self) -> list[tuple[str, VariableTracker]] | None:
        """The attributes of an object made in this frame that has no other content; None for any other value."""
        return None

    def unguarded_value(self, depth: int = 8) -> Any:
        """The value as a constant, as the FX node that computes it, or as a nested container of these. Raises Unknown.

        `depth`: the nesting level down to which containers are followed, since one may contain itself.
        """
        raise Unknown

    def may_vary(self) -> bool:
        """Whether `unguarded_value` holds for this call only, because the value is neither guarded nor a graph input."""
        return False

    def identity(self) -> object | None:
        """A token for the object's identity: different tokens mean different objects; None if identity is not known."""
        return None

    def hashes_by_identity(self) -> bool:
        """Whether `hash()` of the value depends on `identity()`."""
        return False
