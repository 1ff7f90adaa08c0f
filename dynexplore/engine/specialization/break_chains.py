"""Through which calls a graph broke in a callee: a helper that many functions call is not captured anew for each of them.

The idea: where a break in a callee ends one graph for all frames around it, what is captured belongs to that chain of calls. A
helper that breaks and is called in twenty places would be compiled in each of them, and as a frame of its own it is
compiled once. So a place has a limit: after `MOST` chains, a further one breaks where the outermost frame calls.

In: the frame in which a graph ends, and the calls that led there. Out: `BreakChains`, one per store, given to each translation.
PyTorch has no such limit: there a resume function is made for each chain.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from types import CodeType

MOST = 4
"""How many chains end at one place."""
_Place = tuple[int, int]


class BreakChains:
    """The chains of each place; code objects are held weakly."""

    def __init__(self) -> None:
        self._alive: weakref.WeakValueDictionary[int, CodeType] = weakref.WeakValueDictionary()
        self._chains: dict[_Place, set[tuple[_Place, ...]]] = {}

    def forget(self) -> None:
        """What was learned belongs to what was compiled, and goes with it."""
        self._alive.clear()
        self._chains.clear()

    def admit(self, chain: Sequence[tuple[CodeType, int]]) -> bool:
        """Whether a graph may end at the last of these places, each a code object and an offset; if so, the chain is noted."""
        code, offset = chain[-1]
        if self._alive.get(id(code)) is not code:
            self._alive[id(code)] = code
            self._chains = {place: callers for place, callers in self._chains.items() if place[0] != id(code)}
        chains = self._chains.setdefault((id(code), offset), set())
        callers = tuple((id(caller), place) for caller, place in chain[:-1])
        if callers not in chains and len(chains) >= MOST:
            return False
        chains.add(callers)
        return True
