"""Counts with their noun in singular or plural.

The idea: every text says `1 graph` and `2 graphs` through one function.

In: a number and a noun. Out: `1 graph`, `2 graphs`. PyTorch's counterpart: none.
"""

from __future__ import annotations


def plural(count: int, singular: str, many: str = "") -> str:
    """The count with its noun; `many` is the plural, if it is not `singular` with an s.

    >>> plural(1, "graph"), plural(2, "graph"), plural(0, "run of a graph", "runs of graphs")
    ('1 graph', '2 graphs', '0 runs of graphs')
    """
    return f"{count} {singular if count == 1 else many or singular + 's'}"
