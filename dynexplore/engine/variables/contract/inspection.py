"""What can be said of a tracker by looking at it: the questions of those who watch, none of which installs a guard.

The idea: a view, a snapshot before a step or a second opinion on the step must see what a value holds, and must not change what
the frame relies on. So each tracker answers these questions beside those of base.py, in its own file: nobody who looks needs a list
of tracker classes, and a new kind of value is shown, copied and compared as soon as its tracker answers. Answers are copies. The
defaults fit a value that holds nothing and of which nothing is known.

In: nothing; nobody asks unless somebody watches. Out: plain containers of trackers, live objects, FX nodes and constants. PyTorch
has no counterpart.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dynexplore.engine.records import record

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.base import VariableTracker


class Unknown(Exception):
    """Nothing is known of a value without asking it, which could install a guard."""


@record()
class Contents:
    """What a container holds, or what an iterator will still give: a shallow copy.

    items: trackers; pairs of trackers for a mapping. live: what comes before them and has no trackers yet, because the program
    has not looked at it: a real sequence, or a real dict for a mapping.
    """

    items: list[Any]
    live: Any = None

    def length(self) -> int:
        """How many there are; of a range of more than can be counted, `sys.maxsize`."""
        try:
            return len(self.live or ()) + len(self.items)
        except OverflowError:
            return sys.maxsize


class Inspection:
    """The questions; see the head of this file."""

    text_changes: ClassVar[Literal["never", "with the graph", "at any step"]] = "at any step"
    """When `text()` may become another one while a frame is interpreted."""

    container_type: ClassVar[type[Any] | None] = None
    """The type of a real Python container that behaves as the value does; None for a value that is no container."""

    def new_container(self, items: Iterable[Any]) -> Any:
        """A real container of these items (pairs for a mapping) that behaves as the value does. Raises Unknown."""
        if self.container_type is None:
            raise Unknown
        return self.container_type(items)

    def contents(self, most: int | None = None) -> Contents | None:
        """What a container holds, which can be walked again and again; None where that cannot be said without asking.

        `most`: how many of its trackers are enough, the first ones (None: all).
        """
        return None

    def remaining(self, most: int | None = None) -> Contents | None:
        """What an iterator will still give; None where that cannot be said without asking. `most`: as of `contents`."""
        return None

    def bulk(self) -> int:
        """How many items `contents` or `remaining` would give, without copying them."""
        return 0

    def content_at(self, place: Any) -> Any:
        """The item at an index, or the value under a key that is a tracker; None where that takes a walk, or asking."""
        return None

    def assigned(self) -> dict[str, VariableTracker | None] | None:
        """What the frame has stored in the value under names (None: deleted); None where nothing can be stored so."""
        return None

    def live_names(self) -> Mapping[str, Any]:
        """What stood in the live object under names when the frame began."""
        return {}

    def new_object_attributes(self) -> list[tuple[str, VariableTracker]] | None:
        """The attributes of an object that was made in this frame and holds nothing else; None for any other value."""
        return None

    def unguarded_value(self, depth: int = 8) -> Any:
        """The value as a constant, as the FX node that computes it, or as a nest of such. Raises Unknown.

        `depth`: how far down a nest is followed, which may hold itself.
        """
        raise Unknown

    def may_vary(self) -> bool:
        """Whether `unguarded_value` is of this call alone, because the frame neither relies on it nor has it as an input."""
        return False

    def identity(self) -> object | None:
        """What stands for the object itself: values with two different ones are different objects; None where it cannot be told."""
        return None

    def hashes_by_identity(self) -> bool:
        """Whether `hash()` of the value goes by `identity()`."""
        return False
