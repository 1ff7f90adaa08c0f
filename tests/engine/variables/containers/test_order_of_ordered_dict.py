"""An OrderedDict that comes in has an order of its own, which `move_to_end` makes another than that of the dict below it.

Theme: a table of uses that return or write the order x OrderedDict and a subclass x text and numbers as keys.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend

X = torch.ones(3)


class Ordered(OrderedDict[Any, Any]):
    """A subclass that adds nothing."""


@pytest.mark.parametrize("keys", ["ab", (1001, 1002)])
@pytest.mark.parametrize("use", ["d.move_to_end(FIRST)", "d[LAST] = d.pop(LAST)", "d[9] = 3", "d[FIRST] = 8"])
@pytest.mark.parametrize("kind", [OrderedDict, Ordered])
def test_order_of_a_moved_dict(kind: Any, use: str, keys: Any) -> None:
    """A dict that comes in after `move_to_end`: its own order is not that of the dict below it."""
    names = {"FIRST": keys[0], "LAST": keys[1]}
    exec(f"def f(x, d):\n  before = [*d.items()]\n  {use}\n  return x + 1, before\n", names)
    counting = CountingBackend()
    seen = []
    for call in (names["f"], dynexplore.optimize(counting)(names["f"])):
        d = kind(zip(keys, (1, 2), strict=True))
        d.move_to_end(keys[0])
        seen.append((call(X, d)[1], list(d.items())))
    assert seen[0] == seen[1]
    assert counting.graphs
