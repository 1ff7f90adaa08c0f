"""Golden files: text that a test expects, kept in tests/golden/, rewritten by `pytest --update-golden`.

In: `golden("views/toy.steps.txt", text)` from a test, where `golden` is a fixture.
Out: the test fails with a diff unless the file holds that text; under `--update-golden` the file is written instead,
and the diff is read in git.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "golden"

Golden = Callable[[str, str], None]


def add_option(parser: pytest.Parser) -> None:
    """Add `--update-golden` to pytest."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the files of tests/golden/")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """A function (name, text) that compares text with a golden file."""
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path = FOLDER / name
        text = text.rstrip("\n") + "\n"
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        if expected != text:
            lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), f"golden/{name}", "now", lineterm="")
            pytest.fail("\n".join([*lines, "(pytest --update-golden rewrites it)"]), pytrace=False)

    return compare
