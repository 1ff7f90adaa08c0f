"""Suggestions for a misspelled name: one sentence, with the nearest name that exists.

In: the name, and those there are. Out: a hint; without a likely name, the list of all.
torch/utils/_config_module.py says no more than that a name does not exist.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def instead(name: str, candidates: Iterable[str]) -> str:
    """The end of a sentence that began with what is wrong.

    >>> instead("egaer", ["eager", "inductor"]), instead("zzz", ["eager", "inductor"])
    ("; did you mean 'eager'?", '; there are: eager, inductor')
    """
    names = list(candidates)
    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(names)}"
