"""Suggestions for a misspelled name: one sentence, with the nearest existing name.

The idea: an error about an unknown name should suggest the likely one, or else list all names.

In: the name, and the existing ones. Out: the hint. PyTorch's counterpart: none; torch/utils/_config_module.py only says that a
name does not exist.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """The end of a sentence that began with the error.

    >>> did_you_mean("egaer", ["eager", "inductor"]), did_you_mean("zzz", ["eager", "inductor"])
    ("; did you mean 'eager'?", '; there are: eager, inductor')
    """
    names = list(candidates)
    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(names)}"
