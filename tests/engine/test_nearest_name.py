"""engine/nearest_name.py: whoever misspells a name is told in one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import dynexplore
from dynexplore.engine.nearest_name import did_you_mean

PLAIN = pytest.mark.plain("refused before anything is captured")


@PLAIN
def test_a_near_name_is_said_and_else_all() -> None:
    """The end of the sentence: a question, or the list."""
    assert did_you_mean("indutor", ["eager", "inductor"]) == "; did you mean 'inductor'?"
    assert did_you_mean("zzz", ["eager", "inductor"]) == "; there are: eager, inductor"


@pytest.mark.parametrize(("call", "says"), [
    pytest.param(lambda: dynexplore.optimize("egaer"), "there is no backend 'egaer'; did you mean 'eager'?", id="backend"),
    pytest.param(lambda: dynexplore.stance("force_eagr"),  # type: ignore[arg-type]
                 "there is no stance 'force_eagr'; did you mean 'force_eager'?", id="stance", marks=PLAIN),
    pytest.param(lambda: dynexplore.config.patch(recompile_limt=4),
                 "there is no option 'recompile_limt'; did you mean 'recompile_limit'?", id="option", marks=PLAIN),
    pytest.param(lambda: dynexplore.compile(abs, mode="max-autotun"),
                 "there is no mode 'max-autotun'; did you mean 'max-autotune'?", id="mode"),
    pytest.param(lambda: dynexplore.compile(abs, options={"max_autotun": 1}),
                 "inductor has no option 'max_autotun'; did you mean 'max_autotune'?", id="inductor's option"),
])  # fmt: skip
def test_each_place_that_takes_a_name_says_the_nearest(call: Callable[[], Any], says: str) -> None:
    """Backends, stances, options, modes: one sentence, that ends with the question."""
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        call()
