"""What Binder builds an image from: files by repo2docker's rules, and a pip part that installs and runs a tutorial."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
BINDER = ROOT / "binder"
CPU_TORCH = "--extra-index-url https://download.pytorch.org/whl/cpu"


def lines(path: Path) -> list[str]:
    """The lines that say something."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def pins(path: Path) -> dict[str, str]:
    """Package -> version of a file of exact versions."""
    found = [Requirement(line) for line in lines(path) if not line.startswith("--")]
    assert all(re.fullmatch(r"==[\w.]+", str(each.specifier)) for each in found), "every version is exact"
    return {each.name: str(each.specifier) for each in found}


def test_the_files_are_those_that_count() -> None:
    """repo2docker reads runtime.txt only beside a requirements.txt, and neither of them beside an environment.yml."""
    assert {path.name for path in BINDER.iterdir()} == {"apt.txt", "postBuild", "requirements.txt", "runtime.txt"}


def test_the_python_is_one_that_we_support() -> None:
    """runtime.txt is python-X.Y, as repo2docker wants it, and pyproject.toml allows that Python."""
    name, _, version = (BINDER / "runtime.txt").read_text().strip().partition("-")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert name == "python" and re.fullmatch(r"3\.\d+", version)
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]


def test_requirements_are_the_projects_in_the_versions_of_constraints() -> None:
    """What the package and the tutorials need is there, torch without CUDA, nothing else, each as in constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    needed = [*project["project"]["dependencies"], *extras["lab"], *extras["notebook"], *extras["colours"]]  # each has the next
    names = {Requirement(line).name for line in [*needed, *project["build-system"]["requires"]]} - {"dynexplore"}
    path = BINDER / "requirements.txt"
    assert pins(path).keys() == names
    assert pins(path).items() <= pins(ROOT / "constraints.txt").items()
    assert [line for line in lines(path) if line.startswith("-")] == [CPU_TORCH]


def test_apt_packages_have_names_of_debian_packages() -> None:
    """One name a line: repo2docker hands them to apt-get as they are."""
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", line) for line in lines(BINDER / "apt.txt"))


def test_the_script_can_be_run() -> None:
    """postBuild is executable, has a first line that names its shell, stops at errors, and bash can read it."""
    path = BINDER / "postBuild"
    text = path.read_text()
    assert os.access(path, os.X_OK)
    assert text.startswith("#!/usr/bin/env bash\n") and "set -euo pipefail" in text
    assert subprocess.run(["bash", "-n", path], capture_output=True, timeout=20).stderr == b""


@pytest.mark.soak
def test_an_environment_made_of_it_runs_a_tutorial(tmp_path: Path) -> None:
    """In a clean virtual environment the pip part installs, postBuild passes, and the first tutorial runs to its end."""
    version = (BINDER / "runtime.txt").read_text().strip().removeprefix("python-")
    assert sys.version.startswith(version), f"this test wants Python {version}, as the image has it"
    checkout = tmp_path / "checkout"
    tracked = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
    ).split("\0")
    for name in filter(None, tracked):
        if (ROOT / name).exists():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name, follow_symlinks=False)  # the docs link to the tutorials
    subprocess.check_call([sys.executable, "-m", "venv", tmp_path / "venv"])
    programs = tmp_path / "venv" / "bin"
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(programs.parent)}
    environment.pop("PYTHONPATH", None)
    # where the index of CPU builds cannot be reached, pip soon goes on with what it has
    pip = [programs / "python", "-m", "pip", "install", "--quiet", "--retries", "0", "--timeout", "20"]
    tutorial = sorted((checkout / "notebooks").glob("*.ipynb"))[0]
    for command in (
        [*pip, "-r", "binder/requirements.txt"],
        ["binder/postBuild"],
        [programs / "jupyter", "nbconvert", "--to", "notebook", "--execute", "--output-dir", tmp_path, tutorial],
    ):
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=1200)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (tmp_path / tutorial.name).exists()
