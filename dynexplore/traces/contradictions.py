"""Contradictions between the guards of two compilations: further reasons of a recompile besides the one that torch logs.

The idea: torch logs only the first failing guard, and no values. But the guards of the new compilation hold for the call: if a
guard of the old and one of the new compilation check the same thing and expect different values, the old one failed as well. A size
or number that is dynamic in the new compilation contradicts nothing, so some reasons are missed; every reported one is true.

In: the guards of both compilations, as printed. Out: `contradictions(before, after)`: guard, expected and actual value.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dynexplore.traces.guard_text import PrintedGuard

_EQUAL = re.compile(r"^(.+?) == (.+)$")
_TENSOR = re.compile(r"^(\w+)\[(.*)\] (\S+)$")

Contradiction = tuple[PrintedGuard, str, str]
"""A guard that failed, its expected and its actual value."""


def contradictions(before: Sequence[PrintedGuard], after: Sequence[PrintedGuard]) -> Iterator[Contradiction]:
    """The guards of `before` that cannot hold for a call that satisfies `after`.

    >>> before = PrintedGuard("local", "n", "EQUALS_MATCH", "", "n == 3", 4)
    >>> [found[1:] for found in contradictions([before], [PrintedGuard("local", "n", "EQUALS_MATCH", "", "n == 5", 4)])]
    [('3', '5')]
    """
    demands = {(guard.source, guard.kind): guard for guard in after}
    for guard in before:
        other = demands.get((guard.source, guard.kind))
        if other is None or not guard.source:
            continue
        if guard.kind == "TENSOR_MATCH" and _is_another_tensor(guard.expected, other.expected):
            yield guard, guard.expected, other.expected
        elif guard.kind == "EQUALS_MATCH":
            old, new = _EQUAL.match(guard.expression), _EQUAL.match(other.expression)
            if old and new and old[1] == new[1] and old[2] != new[2]:
                yield guard, old[2], new[2]


def _is_another_tensor(expected: str, other: str) -> bool:
    """Whether no tensor satisfies both: dtype, number of dimensions, device, or a size fixed by both differs.

    >>> _is_another_tensor("float32[2, 4] cpu", "float32[?, 4] cpu"), _is_another_tensor("float32[2, 4] cpu", "float32[?, 8] cpu")
    (False, True)
    """
    old, new = _TENSOR.match(expected), _TENSOR.match(other)
    if old is None or new is None:
        return False
    sizes, others = ([size.strip() for size in match[2].split(",")] for match in (old, new))
    fixed = (size != now for size, now in zip(sizes, others, strict=False) if size.isdecimal() and now.isdecimal())
    return (old[1], len(sizes), old[3]) != (new[1], len(others), new[3]) or any(fixed)
