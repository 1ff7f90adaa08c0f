"""Recompile limits: how many cache entries torch.compile keeps per function, and whether a log shows that the limit was reached.

The idea: beyond a limit torch stops compiling a function. Versions log this differently: torch 2.13 writes a message with the
number, 2.8 and 2.10 only that a limit is reached, and 2.6 only the failing guards of the entries. The numbers are in the config
that is logged with each compilation.

In: the config as JSON; the reason of a failure, the limits, and the number of entries that did not match. Out: `limits_in`,
`limit_reached`.

PyTorch's counterpart: `exceeds_recompile_limit` in torch/_dynamo/cache_size.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dynexplore.traces.json_object import json_object

_NAMES = {
    "recompile_limit": ("recompile_limit", "cache_size_limit"),
    "accumulated_recompile_limit": ("accumulated_recompile_limit", "accumulated_cache_size_limit"),
}
"""Config options for the entries of a function, and of its code in all modules -> their names in the versions of torch."""

_WITH_NUMBER = re.compile(r"(?:recompile|cache_size)_limit.*?\(?(?:currently )?(?:set to|hit|:) ?\(?(\d+)", re.S)
_NAMED = re.compile(r"(?:accumulated_)?(?:recompile|cache_size)_limit(?= reached$)")


def limits_in(config: Any) -> dict[str, int]:
    """The limits in a config; {} if it cannot be parsed.

    >>> limits_in('{"cache_size_limit": 8, "accumulated_cache_size_limit": 256}')
    {'recompile_limit': 8, 'accumulated_recompile_limit': 256}
    """
    values = json_object(config) if isinstance(config, str) else {}
    limits = {
        name: next((values[setting] for setting in names if type(values.get(setting)) is int), 0) for name, names in _NAMES.items()
    }
    return {name: limit for name, limit in limits.items() if 0 < limit < 1 << 62}


def limit_reached(reason: str, limits: Mapping[str, Any], unfit: int) -> int:
    """The limit that prevented a compilation; 0 for none, or if the log does not contain its number.

    `reason` is the reason of the failure ("": not in the log), `unfit` the number of entries that did not match.

    >>> limit_reached("recompile_limit reached", {"recompile_limit": 8}, 3), limit_reached("", {"recompile_limit": 8}, 8)
    (8, 8)
    """
    if match := _WITH_NUMBER.search(reason):
        return int(match[1])
    if match := _NAMED.match(reason):
        return int(limits.get(match[0].replace("cache_size", "recompile"), 0))
    limit = int(limits.get("recompile_limit", 0))
    return limit if limit and unfit >= limit and not reason else 0
