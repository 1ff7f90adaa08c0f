"""A torch that nobody tested is tried once in an environment: it runs with one line of notice, or ImportError names the check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dynexplore.engine import torch_versions
from dynexplore.engine.torch_versions import CHECKS, PASSED, admit, answers_file, cached_answer, is_tested, key_of, run_self_check
from source_tree import ROOT

pytestmark = pytest.mark.plain("what is compiled is compiled in other processes")

UNDER_AN_UNTESTED_TORCH = """
import dynexplore.engine.torch_versions as versions
versions.TESTED = ((0, 1), (0, 2))
import dynexplore, torch
print(dynexplore.optimize("eager")(lambda x: x + 1)(torch.ones(1)).item())
"""


@pytest.mark.parametrize("version", ["2.11.0", "2.12.1+cu130", "2.13.0+cpu", "2.14.1", "2.14.0a0+git123"])
def test_the_tested_range_is_admitted_without_a_word(version: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Each torch of the tested range runs, and nothing is said or checked."""
    admit(version)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("version", ["2.10.1", "1.12.1", "2.15.0", "3.0", "unknown"])
def test_other_versions_are_not_tested(version: str) -> None:
    """What lies outside of the range, or is no version, is not tested."""
    assert not is_tested(version)


def test_an_answer_is_kept_for_its_key(tmp_path: Path) -> None:
    """The self-check runs once for each torch, Python, dynexplore and environment."""
    file = tmp_path / "a" / "answers.json"
    asked: list[str] = []

    def check() -> str:
        asked.append("")
        return PASSED

    assert [cached_answer(key, file, check) for key in ("one", "two", "one", "two")] == [PASSED] * 4
    assert len(asked) == 2
    assert json.loads(file.read_text()) == {"one": PASSED, "two": PASSED}
    assert [one.name for one in file.parent.iterdir()] == ["answers.json"]


@pytest.mark.parametrize("content", ["not JSON", "[1]"])
def test_a_file_that_is_not_ours_is_written_anew(tmp_path: Path, content: str) -> None:
    """A damaged file of answers is as good as none."""
    file = tmp_path / "answers.json"
    file.write_text(content)
    assert cached_answer("one", file, lambda: PASSED) == PASSED
    assert json.loads(file.read_text()) == {"one": PASSED}


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    """Where nothing can be kept, the self-check runs each time."""
    (tmp_path / "file").write_text("")
    assert cached_answer("one", tmp_path / "file" / "answers.json", lambda: PASSED) == PASSED


def test_the_key_says_what_the_answer_holds_for() -> None:
    """Another torch, Python, dynexplore or environment is another key."""
    python = ".".join(map(str, sys.version_info[:2]))
    assert key_of("2.15.0").startswith(f"torch 2.15.0, Python {python}, dynexplore ")
    assert key_of("2.15.0").endswith(sys.prefix)


def test_a_failed_check_is_an_import_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch under which a check fails is refused in one sentence: which check, why, and where that is kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(torch_versions, "run_self_check", lambda: "guard: TypeError: no")
    with pytest.raises(ImportError) as caught:
        admit("9.9.0")
    assert str(caught.value) == (
        "dynexplore is tested with torch 2.11 to 2.14; under torch 9.9.0 its self-check failed at guard: TypeError: no "
        f"(cached in {answers_file()}; delete that file to check again)"
    )


def test_the_self_check_names_what_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch that cannot even be imported by the engine fails at the first check, with the exception's last line."""
    (tmp_path / "torch.py").write_text("__version__ = '9.9.0'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    check, why = run_self_check().split(": ", 1)
    assert check == CHECKS[0]
    assert why.startswith("ModuleNotFoundError: No module named 'torch.")


def test_a_working_torch_that_nobody_tested_runs_with_one_line(tmp_path: Path) -> None:
    """The whole way, in a fresh process: the self-check passes, one line says so, and the function runs; the answer is kept."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", UNDER_AN_UNTESTED_TORCH], capture_output=True, text=True, cwd=ROOT, env=environment, check=True
    )
    assert done.stdout == "2.0\n"
    notice = done.stderr.splitlines()
    assert len(notice) == 1
    assert notice[0].startswith("dynexplore is tested with torch 0.1 to 0.2; its self-check passed under torch 2.")
    assert list(json.loads((tmp_path / "dynexplore" / "self_check.json").read_text()).values()) == [PASSED]
