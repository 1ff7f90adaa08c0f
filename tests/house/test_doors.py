"""The doors: importing dynexplore is cheap, its table is true, and what is not supported says so in one sentence."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dynexplore
import dynexplore.engine
from dynexplore.engine import torch_versions
from source_tree import ROOT, modules


def test_importing_dynexplore_imports_no_torch() -> None:
    """`import dynexplore` and reading recordings, counters and options bring in neither torch nor numpy."""
    code = (
        "import sys, json, dynexplore, dynexplore.engine\n"
        "dynexplore.config, dynexplore.counters, dynexplore.exc, dynexplore.Recording\n"
        "print(json.dumps([name for name in ('torch', 'numpy', 'IPython', 'anywidget') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(done.stdout) == []


def test_the_table_of_the_front_door_is_what_type_checkers_see() -> None:
    """The lazy table, `__all__` and the imports under TYPE_CHECKING name the same things in the same modules."""
    block = next(node for node in modules()["dynexplore"].tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: (statement.module, alias.name)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    table = {
        name: tuple(module.rsplit(".", 1)) if attribute is None else (module, attribute)
        for name, (module, attribute) in dynexplore.PUBLIC.items()
    }
    assert seen == table
    assert dynexplore.__all__ == list(dynexplore.PUBLIC)


def test_every_public_name_is_there() -> None:
    """Each name of the front door can be had."""
    for name in dynexplore.PUBLIC:
        assert getattr(dynexplore, name) is not None, name


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that is not public is an AttributeError, as with any module."""
    with pytest.raises(AttributeError, match="'dynexplore' has no attribute 'optimise'"):
        dynexplore.optimise


def test_reading_recordings_asks_no_torch(tmp_path: Path) -> None:
    """A torch that nobody tested, and that is broken, is no reason not to read a recording."""
    (tmp_path / "torch.py").write_text("__version__ = '9.9.0'\nraise ImportError('broken')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import dynexplore; dynexplore.Recording; print('fine')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("fine\n", "")


NO_EXTENSION = (
    "import sys, importlib.abc\n"
    "class NoExtension(importlib.abc.MetaPathFinder):\n"
    "    def find_spec(self, name, path, target=None):\n"
    "        if name.endswith('._frame_hook'): raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
    "sys.meta_path.insert(0, NoExtension())\n"
)


@pytest.mark.parametrize(
    "pretended, told",
    [
        ("sys.version_info = (3, 15, 0)", "CPython 3.15 on Linux"),
        ("import sysconfig; sysconfig.get_config_var = lambda name: 1", "the free-threaded build of CPython {}.{} on Linux"),
        ("sys.platform = 'darwin'", "CPython {}.{} on macOS"),
        ("sys.platform = 'win32'", "CPython {}.{} on Windows"),
        ("platform.python_implementation = lambda: 'PyPy'", "PyPy {}.{} on Linux"),
    ],
)
def test_what_is_not_supported_fails_at_import(pretended: str, told: str) -> None:
    """`import dynexplore` where there is no extension, on another system or Python, fails with one sentence that says what is."""
    code = f"{NO_EXTENSION}import platform; {pretended}\nimport dynexplore"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    here = told.format(*sys.version_info[:2])
    sentence = f"ImportError: dynexplore runs on Linux with CPython 3.11, 3.12, 3.13 or 3.14, but this is {here}."
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, sentence)


def test_an_extension_that_is_not_built_is_named() -> None:
    """Where all is supported and the C extension is missing, the engine says so and what builds it; recordings can be read."""
    code = f"{NO_EXTENSION}import dynexplore; dynexplore.Recording; print('fine'); dynexplore.optimize"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout, done.stderr.splitlines()[-1]) == (
        "fine\n",
        "ImportError: dynexplore's C extension is not built for this Python: `pip install -e .` in the repository builds it.",
    )


def test_a_missing_torch_is_named() -> None:
    """Without torch the first name that needs it says so, and how to install it."""
    code = (
        "import sys, importlib.abc\n"
        "class NoTorch(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'torch': raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
        "import dynexplore\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "dynexplore.optimize"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: dynexplore.optimize needs PyTorch, which is not installed: pip install 'torch>=2.11'"
    )


def test_pyproject_says_the_same() -> None:
    """pyproject.toml, the front door and the constraints agree on versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"torch>={torch_versions.text(torch_versions.TESTED[0])}" in project["dependencies"]
    assert project["dynamic"] == ["version"]
    pinned = re.search(r"^torch==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    newest = re.search(r'^NEWEST_TORCH=(.*)$', (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert pinned and torch_versions.is_tested(pinned[1])
    assert newest and newest[1].startswith(torch_versions.text(torch_versions.TESTED[1]) + ".")
