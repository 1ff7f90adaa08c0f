"""warm_python.py: a warm child refuses what it would ignore."""

from __future__ import annotations

import os

import pytest

from warm_python import ROOT, python

pytestmark = pytest.mark.plain("a helper of the tests: programs that only print")


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "PYTHONPATH", "TORCH_LOGS", "TORCHDYNAMO_DISABLE"])
def test_a_variable_that_was_read_before_the_fork_is_refused(name: str) -> None:
    """The test would otherwise pass, or fail, without the variable."""
    with pytest.raises(ValueError, match=f"a warm child ignores {name}: start Python itself"):
        python("-c", "pass", env={**os.environ, name: "/elsewhere"})


def test_other_variables_are_those_of_the_child() -> None:
    """The folder of the tests may be named once more, and a variable of the program's own is what it is given."""
    environment = {"PYTHONPATH": str(ROOT), "OWN": "given"}
    assert python("-c", "import os; print(sorted(os.environ))", env=environment).stdout == "['OWN', 'PYTHONPATH']\n"
