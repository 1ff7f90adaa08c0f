"""The pages of docs/design: each decision has its date, its alternative and its reason, and names files that are there."""

from __future__ import annotations

import re

import pytest

from source_tree import ROOT

pytestmark = pytest.mark.plain("reads pages and files")

PAGES = sorted((ROOT / "docs" / "design").glob("*.md"))
DATE, ALTERNATIVE, REASON = r"(\d{4}-\d\d-\d\d)\. [^#]+?", r"\*\*Alternative\.\*\* [^#]+?", r"\*\*Reason\.\*\* "
DECISION = re.compile(rf"^## (D\d\d): .+\n{DATE}\n\n{ALTERNATIVE}\n{REASON}", re.MULTILINE)


def test_each_decision_has_a_date_an_alternative_and_a_reason() -> None:
    """Ids go up from D01 through all pages without a gap."""
    text = "\n".join((ROOT / "docs" / "design" / f"{page}.md").read_text() for page in _order())
    ids = re.findall(r"^## (\S+):", text, re.MULTILINE)
    assert ids == [f"D{number:02}" for number in range(1, len(ids) + 1)]
    assert [decision for decision, _ in DECISION.findall(text)] == ids


def test_the_files_that_a_decision_names_are_there() -> None:
    """A page is changed with the code that it is about."""
    for page in PAGES:
        for path in re.findall(r"`((?:dynexplore|tests|benchmarks|scripts)/[\w./]+)`", page.read_text()):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


def test_what_code_cites_is_a_decision() -> None:
    """A comment that says D22 leads to a heading of the page beside it."""
    for file in [*(ROOT / "dynexplore").rglob("*.py"), *(ROOT / "dynexplore").rglob("*.c")]:
        for page, decision in re.findall(r"docs/design/(\w+\.md), (D\d\d)", file.read_text()):
            assert f"## {decision}: " in (ROOT / "docs" / "design" / page).read_text(), file


def _order() -> list[str]:
    index = (ROOT / "docs" / "design" / "index.md").read_text()
    return re.findall(r"^\| \[.+?\]\((\w+)\.md\)", index, re.MULTILINE)
