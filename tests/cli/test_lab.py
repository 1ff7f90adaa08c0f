"""cli_lab.py: `dynexplore lab` opens the tutorials in JupyterLab, and JupyterLab trusts those that are the project's own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from jupyter_server.services.contents.filemanager import FileContentsManager

import dynexplore
from dynexplore import cli
from dynexplore.cli import lab as cli_lab
from source_tree import ROOT

pytestmark = pytest.mark.plain("it opens JupyterLab, and captures nothing")

Started = list[list[str]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Started:
    """The words of each process that `lab` would have become; signatures go into a folder of the test's own."""
    words: Started = []
    monkeypatch.setattr(os, "execv", lambda program, these: words.append(these))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return words


def write_notebook(path: Path, words: str) -> None:
    """A notebook with one output that JupyterLab shows as bare words until it trusts it."""
    output = {"output_type": "display_data", "metadata": {}, "data": {"text/html": f"<svg>{words}</svg>", "text/plain": words}}
    cell = {"cell_type": "code", "id": "c", "metadata": {}, "execution_count": 1, "source": "", "outputs": [output]}
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


def trusted(folder: Path) -> dict[str, bool]:
    """Notebook -> whether JupyterLab's server trusts all of its cells."""
    server = FileContentsManager(root_dir=str(folder))
    cells = {one.name: server.get(one.name)["content"]["cells"] for one in sorted(folder.glob("*.ipynb"))}
    server.notary.close()
    return {name: all(one["metadata"].get("trusted", True) for one in found) for name, found in cells.items()}


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A checkout with two tutorials in its last commit."""
    (tmp_path / "notebooks").mkdir()
    for name in ("01_first", "02_second"):
        write_notebook(tmp_path / "notebooks" / f"{name}.ipynb", name)
    git(tmp_path, "init")
    git(tmp_path, "add", "notebooks")
    git(tmp_path, "commit", "-m", "tutorials")
    monkeypatch.setattr(cli_lab, "CHECKOUT", tmp_path)
    return tmp_path


def test_lab_opens_a_copy_of_the_first_tutorial(started: Started, checkout: Path) -> None:
    """`lab` becomes JupyterLab in the checkout, whose address leads to the copy; options go along."""
    cli.main(["lab", "--no-browser"])
    ((_, *words),) = started
    assert words[:2] == ["-m", "jupyterlab"] and words[-1] == "--no-browser"
    assert "--LabApp.default_url=/lab/tree/dynexplore-tutorials/01_first.ipynb" in words
    assert f"--ServerApp.root_dir={checkout}" in words


def test_running_a_tutorial_changes_no_tracked_file(started: Started, checkout: Path) -> None:
    """What JupyterLab saves goes to the copy, which git ignores in this repository."""
    cli.main(["lab"])
    write_notebook(checkout / "dynexplore-tutorials" / "01_first.ipynb", "run")
    cli.main(["lab"])
    assert "run" in (checkout / "dynexplore-tutorials" / "01_first.ipynb").read_text()
    status = subprocess.run(["git", "status", "--porcelain", "-uno"], cwd=checkout, capture_output=True, text=True, check=True)
    assert status.stdout == ""
    assert "/dynexplore-tutorials/" in (ROOT / ".gitignore").read_text().splitlines()


def test_a_copy_that_nobody_changed_follows_its_tutorial(started: Started, checkout: Path) -> None:
    """After a pull the copy is the new tutorial; a copy that somebody has changed stays."""
    cli.main(["lab"])
    copies = checkout / "dynexplore-tutorials"
    write_notebook(copies / "02_second.ipynb", "mine")
    for name in ("01_first", "02_second"):
        write_notebook(checkout / "notebooks" / f"{name}.ipynb", "pulled")
    cli.main(["lab"])
    assert "pulled" in (copies / "01_first.ipynb").read_text() and "mine" in (copies / "02_second.ipynb").read_text()


def test_copies_of_committed_tutorials_are_trusted_and_no_others(
    started: Started, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trusted is what the last commit contains; not what was changed since, and not what somebody has put beside it."""
    write_notebook(checkout / "notebooks" / "02_second.ipynb", "changed")
    cli.main(["lab"])
    copies = checkout / "dynexplore-tutorials"
    write_notebook(copies / "03_theirs.ipynb", "theirs")
    assert trusted(copies) == {"01_first.ipynb": True, "02_second.ipynb": False, "03_theirs.ipynb": False}
    assert len(started) == 1 and capsys.readouterr().err == ""


def test_what_cannot_be_signed_is_opened_all_the_same(
    started: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence says why: no git, a folder that git does not know, and no place for the signatures."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    write_notebook(folder / "01_first.ipynb", "first")
    monkeypatch.setattr(cli_lab, "CHECKOUT", tmp_path)
    begins = "dynexplore: until you run its cells, a tutorial shows text instead of drawings: "
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    cli.main(["lab"])
    assert capsys.readouterr().err == f"{begins}this folder is not in a git repository\n"
    with monkeypatch.context() as no_programs:
        no_programs.setenv("PATH", "")
        cli.main(["lab"])
    assert capsys.readouterr().err == f"{begins}git is not installed, so unmodified tutorials cannot be identified\n"
    git(tmp_path, "init")
    git(tmp_path, "add", "notebooks")
    git(tmp_path, "commit", "-m", "tutorials")
    (tmp_path / "data").write_text("")
    cli.main(["lab"])
    told = capsys.readouterr().err
    assert told.startswith(f"{begins}{tmp_path}/data cannot store the signatures of notebooks: ") and told.count("\n") == 1
    assert len(started) == 3


def test_lab_of_an_installed_package_opens_a_copy(
    started: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outside of a checkout they come from the package; what somebody has changed in a copy stays, untrusted."""
    package, here = tmp_path / "site" / "dynexplore", tmp_path / "here"
    (package / "tutorials").mkdir(parents=True)
    here.mkdir()
    for name in ("02_second.ipynb", "01_first.ipynb"):
        write_notebook(package / "tutorials" / name, "new")
    monkeypatch.setattr(cli_lab, "CHECKOUT", package.parent)
    monkeypatch.setattr(dynexplore, "__file__", str(package / "__init__.py"))
    monkeypatch.chdir(here)
    copies = here / "dynexplore-tutorials"
    cli.main(["lab"])
    assert trusted(copies) == {"01_first.ipynb": True, "02_second.ipynb": True}
    write_notebook(copies / "01_first.ipynb", "changed")
    monkeypatch.chdir(here)
    cli.main(["lab"])
    assert trusted(copies) == {"01_first.ipynb": False, "02_second.ipynb": True}
    assert "changed" in (copies / "01_first.ipynb").read_text()
    assert all("--LabApp.default_url=/lab/tree/dynexplore-tutorials/01_first.ipynb" in words for words in started)
    assert f"--ServerApp.root_dir={here}" in started[-1]
    assert capsys.readouterr().out == f"the tutorials are in {copies}\n" * 2
    (here / "full").write_text("")
    monkeypatch.setattr(Path, "cwd", lambda: here / "full")
    assert cli.main(["lab"]) == 2
    assert capsys.readouterr().err.startswith("dynexplore: the tutorials cannot be copied to ")
