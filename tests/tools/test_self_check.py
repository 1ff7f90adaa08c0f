"""The self-check passes here, and each of its checks fails when what it looks at does not work."""

from __future__ import annotations

import pytest

from dynexplore.engine.config import config
from dynexplore.engine.torch_versions import CHECKS
from dynexplore.tools import self_check


@pytest.mark.plain("the self-check switches the engine on for itself")
def test_all_checks_pass_here(capsys: pytest.CaptureFixture[str]) -> None:
    """Under a torch that is tested every check passes, and says so in the order that torch_versions.py knows."""
    self_check.main()
    assert capsys.readouterr().out.splitlines() == [f"{name} ok" for name in CHECKS]


@pytest.mark.plain("is about the engine being off")
@pytest.mark.parametrize("check", [self_check.check_hook, self_check.check_graph, self_check.check_break])
def test_a_check_fails_without_the_engine(check: object) -> None:
    """A check is no formality: with the engine off nothing is captured, and it says what should have been."""
    with config.patch(disable=True), pytest.raises(RuntimeError, match="should be .*, but is"):
        check()  # type: ignore[operator]


def test_the_recompile_check_sees_what_the_cache_limit_forbids() -> None:
    """With room for one entry the second dtype is not compiled, and the check says how many graphs there should be."""
    with config.patch(cache_size_limit=1, log_level="ERROR"):
        with pytest.raises(RuntimeError, match="the number of graphs should be 2, but is 1"):
            self_check.check_recompile()
