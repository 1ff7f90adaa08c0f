"""What people install: the packages that `make dist` builds have all that is needed, and run where there is no compiler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import dynexplore
from source_tree import ROOT

THIS = f"cp{sys.version_info.major}{sys.version_info.minor}"
C_SOURCES = {path.name for path in (ROOT / "dynexplore/engine/native").iterdir() if path.suffix in (".c", ".h")}


def package(pattern: str) -> Path:
    """The package of the tested version that `make dist` has left in dist/."""
    made = sorted((ROOT / "dist").glob(pattern.format(version=dynexplore.__version__)))
    assert len(made) == 1, f"dist/ has {len(made)} packages like {pattern}: run `make dist` first"
    return made[0]


def wheel() -> Path:
    return package(f"dynexplore-{{version}}-{THIS}-{THIS}-*.whl")


def test_the_version_stands_once() -> None:
    """pyproject.toml takes it from the package."""
    text = (ROOT / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in text and not re.search(r"^version\s*=\s*\"", text, re.MULTILINE)


def test_a_compiler_that_warns_of_more_stops_nobody() -> None:
    """Warnings are errors only where DYNEXPLORE_STRICT is set, which make does."""
    assert "export DYNEXPLORE_STRICT := 1" in (ROOT / "Makefile").read_text()
    code = (
        "import os, sys, setuptools; os.environ.pop('DYNEXPLORE_STRICT', None); seen = []\n"
        "setuptools.setup = lambda **given: seen.append(given['ext_modules'][0].extra_compile_args)\n"
        "exec(open('setup.py').read()); print('-Werror' in seen[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_another_system_is_refused_in_one_sentence() -> None:
    """A build elsewhere ends before the compiler is asked, with the sentence of `import dynexplore` (test_doors.py)."""
    here = "{}.{}".format(*sys.version_info[:2])
    for pretended, told in (
        ("sys.platform = 'darwin'", f"CPython {here} on macOS"),
        ("sys.platform = 'win32'", f"CPython {here} on Windows"),
        ("sys.version_info = (3, 15, 0)", "CPython 3.15 on Linux"),
    ):
        code = f"import sys, setuptools, platform; {pretended}; exec(open('setup.py').read())"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
        sentence = f"dynexplore runs on Linux with CPython 3.11, 3.12, 3.13 or 3.14, but this is {told}.\n"
        assert (done.returncode, done.stderr) == (1, sentence)


@pytest.mark.soak
def test_what_the_packages_hold() -> None:
    """The wheel has the extension, assets and tutorials, and a tag that old systems know; the source package builds all of that."""
    names = zipfile.ZipFile(wheel()).namelist()
    assert re.search(r"manylinux_2_(\d+)_", wheel().name)[1] in ("17", "28")  # type: ignore[index]
    assert any(re.fullmatch(r"dynexplore/engine/native/_frame_hook\..*\.so", name) for name in names)
    tutorials = {f"dynexplore/tutorials/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    static = {str(path.relative_to(ROOT)) for path in (ROOT / "dynexplore/widgets/static").rglob("*.js")}
    assert tutorials | static <= set(names) and not [name for name in names if name.startswith(("tests", "benchmarks"))]
    with tarfile.open(package("dynexplore-{version}.tar.gz")) as archive:
        held = {Path(name).name for name in archive.getnames()}
    assert C_SOURCES <= held and {Path(name).name for name in tutorials} <= held


@pytest.mark.soak
def test_the_wheel_in_a_clean_environment(tmp_path: Path) -> None:
    """Without a compiler and without the repository: the command line explains, a kernel runs the first tutorial."""
    subprocess.check_call([sys.executable, "-m", "venv", tmp_path / "venv"])
    programs = tmp_path / "venv" / "bin"
    environment = {"PATH": str(programs), "HOME": str(tmp_path), "VIRTUAL_ENV": str(programs.parent), "TMPDIR": str(tmp_path)}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    (tmp_path / "toy.py").write_text((ROOT / "examples" / "toy.py").read_text())

    def run(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1500, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    run(programs / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", f"{wheel()}[lab]")
    assert run(programs / "dynexplore", "--version") == f"dynexplore {dynexplore.__version__}\n"
    assert "3 graphs, 1 graph break" in run(programs / "dynexplore", "explain", "toy.py", "--html", "toy.html")
    assert (tmp_path / "toy.html").stat().st_size > 100_000
    copies = tmp_path / "dynexplore-tutorials"
    told = run(programs / "dynexplore", "lab", "--version")  # all that `lab` does, and JupyterLab that says its version and ends
    assert told.startswith(f"the tutorials are in {copies}\n")
    first = sorted(copies.glob("*.ipynb"))[0]
    run(programs / "jupyter", "nbconvert", "--to", "notebook", "--execute", "--output", "run.ipynb", first)
