"""Break chains: the call stacks through which a graph broke in an inlined callee, limited per breaking instruction.

The idea: a break in a callee ends one graph for all frames of the call stack, so what is captured is specific to that chain of
calls. A helper that breaks and is called in twenty places would be compiled in each of them, while as a frame of its own it is
compiled once. So an instruction has a limit: after `MOST` chains, any other chain breaks at the outermost frame's call.

For the same reason a function that broke through a chain when it was the outermost frame, and is then inlined in a caller, keeps
its frame: the caller breaks at the call (`recorded_end`), and the function's graphs and resume functions are reused.

If the rest of a chain cannot be one graph in some call, its callee runs as a separate frame, under the guards of the attempt that
showed it. Where this happens again with other values, `may_guard_separate_callee` ends it: the next such entry has no guards.

In: the frame in which a graph ends, and the calls that led to it. Out: `BreakChains`, one per store, which each translation uses.
PyTorch's counterpart: none; Dynamo creates a resume function for each chain.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from types import CodeType

MOST = 4
"""The maximum number of chains per breaking instruction."""
MOST_GUARDED = 2
"""The maximum number of guarded entries for one chain whose callee runs as a separate frame."""
_Place = tuple[int, int]


def may_guard_separate_callee(guarded: int, entries: int, limit: int) -> bool:
    """Whether another entry under which a chain's callee runs as a separate frame may have guards.

    `guarded`: how many such entries the code has, of `entries` in all. One without guards serves every call, so that a chain that
    is never one graph does not reach the recompile limit because a constant changes.
    """
    return guarded < MOST_GUARDED and entries + 1 < limit


class BreakChains:
    """The chains of each breaking instruction; code objects are referenced weakly."""

    def __init__(self) -> None:
        self._alive: weakref.WeakValueDictionary[int, CodeType] = weakref.WeakValueDictionary()
        self._chains: dict[_Place, set[tuple[_Place, ...]]] = {}

    def forget(self) -> None:
        """Forget all chains, together with the compiled code to which they belong."""
        self._alive.clear()
        self._chains.clear()

    def recorded_end(self, chain: Sequence[tuple[CodeType, int]]) -> int:
        """Where the longest recorded chain starts that is the end of this chain; 0 if there is none or all of it is."""
        code, offset = chain[-1]
        if self._alive.get(id(code)) is not code:
            return 0
        recorded = self._chains.get((id(code), offset), ())
        callers = tuple((id(caller), call_offset) for caller, call_offset in chain[:-1])
        return next((begin for begin in range(len(callers)) if callers[begin:] in recorded), 0)

    def admit(self, chain: Sequence[tuple[CodeType, int]]) -> bool:
        """Whether a graph may end at the last of these places, each a code object and an offset; if so, the chain is recorded."""
        code, offset = chain[-1]
        if self._alive.get(id(code)) is not code:
            self._alive[id(code)] = code
            self._chains = {end: callers for end, callers in self._chains.items() if end[0] != id(code)}
        chains = self._chains.setdefault((id(code), offset), set())
        callers = tuple((id(caller), call_offset) for caller, call_offset in chain[:-1])
        if callers not in chains and len(chains) >= MOST:
            return False
        chains.add(callers)
        return True
