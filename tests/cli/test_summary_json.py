"""`--summary-json` of `explain`, `watch`, `open` and `diagnose`: one file, one schema."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dynexplore.cli import main
from dynexplore.views.summary import SCHEMA

SCRIPT = """
import torch
def f(x):
    print("between")
    return x * 2
if __name__ == "__main__":
    f(torch.ones(3))
"""


def read(path: Path) -> dict[str, object]:
    data: dict[str, object] = json.loads(path.read_text())
    jsonschema.validate(data, SCHEMA)
    return data


def test_explain_open_and_diagnose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `explain` writes is what `open` makes of the saved recording."""
    script, saved, first, again, layers = (tmp_path / name for name in ("s.py", "r.json", "1.json", "2.json", "3.json"))
    script.write_text(SCRIPT)
    assert main(["explain", str(script), "--json", str(saved), "--summary-json", str(first)]) == 0
    assert main(["open", str(saved), "--summary-json", str(again)]) == 0
    explained = read(first)
    assert explained == read(again) and explained["program"] == "s.py"
    assert [cost["kind"] for cost in explained["costs"]] == ["graph break"]  # type: ignore[attr-defined]
    assert main(["open", str(saved), "--redact", "--summary-json", str(again)]) == 0
    assert str(tmp_path) in first.read_text() and str(tmp_path) not in again.read_text()
    assert main(["diagnose", str(script), "--backend", "eager", "--summary-json", str(layers)]) == 0
    assert read(layers)["agrees"] is True
    capsys.readouterr()
    assert main(["open", str(saved), "--summary-json", "-"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == explained


@pytest.mark.plain("a mistake about a file")
def test_a_place_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said before the program runs."""
    (tmp_path / "s.py").write_text(SCRIPT)
    for command in ("explain", "watch", "diagnose"):
        assert main([command, str(tmp_path / "s.py"), "--summary-json", str(tmp_path / "no" / "s.json")]) == 2
        assert "cannot be written" in capsys.readouterr().err
