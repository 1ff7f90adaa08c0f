"""What a person meets on a machine that lacks something: one clear sentence, never a traceback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from source_tree import ROOT

BASH = shutil.which("bash") or pytest.skip("the Makefile and its scripts need bash", allow_module_level=True)
SETUP = ROOT / "scripts" / "setup.sh"
HERE = "{}.{}".format(*sys.version_info[:2])


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script with changed environment variables, and return what it said."""
    command = [BASH, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment})


def only_these_on_path(folder: Path, *programs: str) -> str:
    """A PATH on which only the named programs are."""
    for program in programs:
        found = shutil.which(program)
        if found:
            (folder / program).symlink_to(found)
    return str(folder)


def test_everything_is_there_here() -> None:
    """On a machine that can run this suite the check passes in silence."""
    done = run(SETUP, "--check", HERE, PYTHON=sys.executable)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_compiler_is_one_sentence() -> None:
    """Without a C compiler the setup says what to install."""
    done = run(SETUP, ".venv-never", HERE, PYTHON=sys.executable, CC="no-such-compiler")
    assert done.returncode == 1
    assert re.fullmatch(r"dynexplore: no C compiler found .*apt-get install gcc.*\n", done.stderr)
    assert not (ROOT / ".venv-never").exists()


def test_no_headers_is_one_sentence(tmp_path: Path) -> None:
    """Without Python's headers the setup says which package has them."""
    without = tmp_path / "python3"
    without.write_text(f'#!{BASH}\ncase "$2" in *sysconfig*) echo {tmp_path}/include ;; *) exec "{sys.executable}" "$@" ;; esac\n')
    without.chmod(0o755)
    (tmp_path / "bin").mkdir()
    # the script asks the Python that it found for its own path, which is the real one: let that be ours
    without.write_text(without.read_text().replace("*sysconfig*)", "*sys.executable*) echo $0 ;; *sysconfig*)"))
    done = run(SETUP, ".venv-never", HERE, PYTHON=str(without))
    assert done.returncode == 1
    assert re.fullmatch(rf"dynexplore: the headers of Python {HERE} are missing .*python{HERE}-dev.*\n", done.stderr)


def test_no_supported_python_is_one_sentence(tmp_path: Path) -> None:
    """Without a supported Python the setup says which are."""
    path = only_these_on_path(tmp_path, "bash", "dirname", "ls", "sort")
    done = run(SETUP, ".venv-never", PATH=path, PYENV_ROOT=str(tmp_path), PYTHON="")
    assert done.returncode == 1
    assert done.stderr.startswith("dynexplore: no supported Python found (3.11, 3.12, 3.13, 3.14); install one, or set PYTHON")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("builds", "there", "chosen"),
    [
        (("cp311-cp311", "cp313-cp313"), ("python3", "python3.11", "python3.13", "python3.14"), "python3.13"),
        (("cp311-cp311",), ("python3", "python3.11", "python3.14"), "python3.11"),
        (("cp312-cp312",), ("python3", "python3.14"), "python3"),
        ((), ("python3", "python3.11", "python3.14"), "python3"),
        ((), ("python3.11", "python3.14"), "python3.14"),
        (("cp314-cp314t",), ("python3.11", "python3.14"), "python3.14"),
    ],
)
def test_the_newest_python_with_a_cpu_build_of_torch(
    builds: tuple[str, ...], there: tuple[str, ...], chosen: str, tmp_path: Path
) -> None:
    """Without a wish: that one, else python3, else the newest supported one; made-up Pythons say only who they are."""
    path = only_these_on_path(tmp_path, "bash", "dirname", "ls", "sort")
    torch = re.search(r"^torch==(.*)$", (ROOT / "constraints.txt").read_text(), re.M)
    assert torch is not None
    for build in builds:
        (tmp_path / f"torch-{torch[1]}+cpu-{build}-manylinux_2_28_x86_64.whl").touch()
    for name in there:
        version = name.removeprefix("python") if "." in name else "3.12"
        (tmp_path / name).write_text(f'#!{BASH}\ncase "$2" in *version_info*) echo {version} ;; *) echo {name} ;; esac\n')
        (tmp_path / name).chmod(0o755)
    words = {"PATH": path, "PYENV_ROOT": str(tmp_path / "none"), "PYTHON": "", "PIP_FIND_LINKS": f"{tmp_path}/none {tmp_path}"}
    done = run(SETUP, "--find", "any", **words)
    assert done.stdout.split() == [chosen], done.stderr


def test_an_asked_for_python_that_is_missing_is_one_sentence(tmp_path: Path) -> None:
    """A missing or unsupported interpreter is named; .ci/run ends with this sentence."""
    path = only_these_on_path(tmp_path, "bash", "dirname", "ls", "sort")
    done = run(SETUP, "--check", "3.13", PATH=path, PYENV_ROOT=str(tmp_path), PYTHON="")
    assert (done.returncode, done.stderr) == (1, "dynexplore: Python 3.13 was not found on PATH or under pyenv.\n")
    done = run(SETUP, "--check", "3.9")
    assert (done.returncode, done.stderr) == (
        1,
        "dynexplore: Python 3.9 is not supported; these are: 3.11, 3.12, 3.13, 3.14.\n",
    )


def test_a_name_that_is_not_on_path_is_sought_under_pyenv(tmp_path: Path) -> None:
    """`PYTHON=python3.12` is found there where the shim of that name refuses: pyenv has not chosen that version."""
    (tmp_path / "shims").mkdir()
    interpreter = tmp_path / "versions" / f"{HERE}.0" / "bin" / f"python{HERE}"
    interpreter.parent.mkdir(parents=True)
    for program, script in ((interpreter, f'exec "{sys.executable}" "$@"'), (tmp_path / "shims" / interpreter.name, "exit 127")):
        program.write_text(f"#!{BASH}\n{script}\n")
        program.chmod(0o755)
    path = f"{tmp_path / 'shims'}:{os.environ['PATH']}"
    done = run(SETUP, "--find", "any", PATH=path, PYENV_ROOT=str(tmp_path), PYTHON=interpreter.name)
    assert (done.returncode, done.stdout.strip()) == (0, sys.executable)


def test_a_python_that_is_none_is_one_sentence() -> None:
    """PYTHON=... that is no supported Python is named."""
    done = run(SETUP, "--check", "any", PYTHON="/bin/false")
    assert (done.returncode, done.stderr) == (
        1,
        "dynexplore: PYTHON=/bin/false is not a Python that dynexplore supports (3.11, 3.12, 3.13, 3.14).\n",
    )


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    """VENV pointing at some other folder does not wipe it."""
    (tmp_path / "thesis.txt").write_text("years of work")
    done = run(SETUP, str(tmp_path), HERE, PYTHON=sys.executable)
    assert done.returncode == 1
    assert "is no virtual environment" in done.stderr
    assert (tmp_path / "thesis.txt").exists()


def made_up_environment(folder: Path, uv: str) -> tuple[Path, dict[str, str]]:
    """A copy of the setup beside a made-up `uv`, and an environment that notes what its pip is asked for: nothing is installed."""
    (folder / "scripts").mkdir()
    shutil.copy(SETUP, folder / "scripts")
    shutil.copy(ROOT / "constraints.txt", folder)
    for name, text in {
        "bin/uv": uv,
        "venv/bin/python": f'case "$2" in pip) echo pip "$@" >>"{folder}/asked" ;; *) exec "{sys.executable}" "$@" ;; esac\n',
    }.items():
        program = folder / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!{BASH}\n{text}")
        program.chmod(0o755)
    (folder / "venv" / "pyvenv.cfg").touch()
    return folder / "scripts" / "setup.sh", {"PATH": f"{folder}/bin:{os.environ['PATH']}", "PYTHON": sys.executable}


def test_uv_installs_where_it_is_there(tmp_path: Path) -> None:
    """With uv on PATH, torch as constrained and then the project go into the environment by uv alone."""
    script, environment = made_up_environment(tmp_path, f'echo uv "$@" >>"{tmp_path}/asked"\n')
    done = run(script, "venv", HERE, "", "demo", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[:5] for line in asked] == [["uv", "pip", "install", "--python", "venv/bin/python"]] * 2
    assert re.search(r"torch==[\d.]+ setuptools$", asked[0])
    assert asked[1].endswith("-e .[demo]")


def test_pip_installs_where_uv_fails(tmp_path: Path) -> None:
    """A uv that cannot install is said in one line, with its last words, and pip is asked for the same."""
    script, environment = made_up_environment(tmp_path, "echo no such package >&2\nexit 1\n")
    done = run(script, "venv", HERE, "", "demo", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("dynexplore: uv could not install it (no such package); pip tries\n") == 2
    asked = (tmp_path / "asked").read_text().splitlines()
    assert re.search(r"^pip -m pip install .* torch==[\d.]+ setuptools$", asked[0])
    assert asked[1].endswith("-e .[demo]")


def test_missing_programs_are_a_notice_and_no_failure(tmp_path: Path) -> None:
    """Without root rights a missing Graphviz or Chromium is said, with what is left out, and the setup goes on."""
    path = only_these_on_path(tmp_path, "bash")
    identity = tmp_path / "id"
    identity.write_text(f"#!{BASH}\necho 1000\n")
    identity.chmod(0o755)
    done = run(ROOT / "scripts" / "system_packages.sh", "dot", "chromium", PATH=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("needs root rights: apt-get install graphviz chromium") == 2
    assert "the tests in tests/browser fail, everything else works." in done.stdout


def test_the_lowest_torch_of_ci_is_the_lowest_that_is_allowed() -> None:
    """.ci/run reads the lowest torch out of pyproject.toml, and its pattern finds it."""
    pattern = re.search(r"sed -n 's/(.*)/\\1/p' pyproject.toml", (ROOT / ".ci" / "run").read_text())
    assert pattern
    text = (ROOT / "pyproject.toml").read_text()
    found = re.search(pattern[1].replace("\\(", "(").replace("\\)", ")"), text)
    assert found
    dependencies = tomllib.loads(text)["project"]["dependencies"]
    assert f"torch>={found[1]}" in dependencies


def test_no_file_names_a_place_to_download_from() -> None:
    """No file of the build names an index or a folder of packages: that is the machine's business."""
    for name in (
        "pyproject.toml",
        "constraints.txt",
        "Makefile",
        ".ci/run",
        "scripts/setup.sh",
        "binder/postBuild",
    ):
        assert not re.search(r"index-url|find-links|PIP_\w*INDEX", (ROOT / name).read_text()), name
