"""widgets/static/vendor: what was taken from others is what its table says, and its licence is there."""

from __future__ import annotations

import hashlib
import re

import pytest

from dynexplore.widgets import assets
from source_tree import ROOT

VENDOR = ROOT / "dynexplore/widgets/static/vendor"
ROWS = [line.strip("| ").split(" | ") for line in (VENDOR / "README.md").read_text().splitlines() if re.match(r"\| \S+\.js ", line)]


def test_every_file_is_in_the_table() -> None:
    """Nothing stands in the folder that the table does not name."""
    assert {path.name for path in VENDOR.glob("*.js")} == {row[0] for row in ROWS} != set()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_file_is_what_the_table_says(row: list[str]) -> None:
    """Version, licence and hash; the text of the licence stands beside it."""
    name, _, version, licence, digest = row
    title = {"Apache-2.0": "Apache License", "MIT": "MIT License"}[licence.partition(" ")[0]]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest
    assert title in (VENDOR / re.search(r"\((\S+)\)", licence)[1]).read_text()  # type: ignore[index]


def test_graphviz_is_sent_apart_from_the_script() -> None:
    """The script does not carry it, and it asks no host for anything, its source map included."""
    text = assets.graphviz()
    assert len(text) > 700_000 > len(assets.SCRIPT)
    assert "sourceMappingURL" not in text
    assert set(re.findall(r"https?://[\w./]+", text)) == {"http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd"}


def test_the_editor_is_sent_apart_from_the_script() -> None:
    """The script does not carry it; it asks no host for anything, and makes no code of texts."""
    text = assets.code_editor()
    assert len(text) > 300_000 and "codemirror" not in assets.SCRIPT[:200]
    assert set(re.findall(r"https?://[\w./]+", text)) == {"http://www.w3.org/2000/svg"}
    assert all(word not in text for word in ("sourceMappingURL", "eval(", "new Function", "fetch(", "XMLHttp"))
