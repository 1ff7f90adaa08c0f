"""Many guards on the items of one container: each is checked for itself, which takes time in the compilation and in every call.

The idea: a program asks why a small graph takes seconds to compile. If the function reads hundreds of values of a list or dict,
each value gets a guard, and the report names the container.

In: a Recording. Out: `most_guarded(recording)`: a `GuardedItems`, or None. PyTorch's counterpart: none;
TORCH_LOGS=guards prints them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording

MANY = 1000
"""The number of guards from which they are mentioned."""

_ITEM = re.compile(r"([A-Za-z_][\w.]*)(?:\[[^\]]+\])+")  # a value of a container; not an attribute of a module in a list
_VALUES = ("EQUALS", "EQUALS_MATCH", "CONSTANT_MATCH")


@dataclass(frozen=True, slots=True)
class GuardedItems:
    """A container, and the number of guards on what it contains."""

    source: str
    guards: int

    @property
    def sentence(self) -> str:
        """What happened."""
        about = round(self.guards, -2)
        return f"About {about:,} guards check the items of `{self.source}` one by one, when it compiles and in each call."

    @property
    def remedy(self) -> str:
        """What to do."""
        return f"Compute what is needed of `{self.source}` before the call, or pass it as a tensor."


def most_guarded(recording: Recording) -> GuardedItems | None:
    """The container whose items have most guards in one frame, if they are many."""
    containers: list[GuardedItems] = []
    for frame in recording.of(ev.CacheEntryAdded):
        values = (guard for guard in recording.final_guards(frame.frame) if guard.kind in _VALUES)
        sources = (_ITEM.fullmatch(guard.source) for guard in values)
        source, guards = next(iter(Counter(match[1] for match in sources if match).most_common(1)), ("", 0))
        if guards >= MANY:
            containers.append(GuardedItems(source, guards))
    return max(containers, key=lambda items: items.guards, default=None)
