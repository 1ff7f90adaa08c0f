"""tools/quiescence.py: warm up until nothing new is compiled."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import dynexplore


def test_quiet_after_the_shapes_are_known() -> None:
    """Two dtypes are two compiles, then one quiet round."""
    compiled = dynexplore.optimize("eager")(lambda x: x + 1)
    found = dynexplore.until_quiet(compiled, [(torch.ones(2),), (torch.ones(2).double(),)])
    assert found.compiled == (2, 0) and found.is_quiet and "is quiet after 2 rounds" in str(found)


def test_never_quiet() -> None:
    """A string that changes each time is compiled each time; the report says where to look."""
    names = itertools.count()
    compiled = dynexplore.optimize("eager")(lambda x, name: (x + 1, name.upper()))

    def call(x: Any) -> Any:
        return compiled(x, f"call {next(names)}")

    found = dynexplore.until_quiet(call, [(torch.ones(2),)], rounds=3)
    assert found.compiled == (1, 1, 1) and not found.is_quiet and "still compiles after 3 rounds" in str(found)


@pytest.mark.plain("an error of the caller")
def test_no_rounds() -> None:
    """At least one."""
    with pytest.raises(ValueError, match="rounds must be at least 1, not 0"):
        dynexplore.until_quiet(abs, [], rounds=0)
