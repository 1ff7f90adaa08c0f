"""CPython's own tests, with every function's code swapped: all end as they end without the hook."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import cpython_tests
import pytest

pytestmark = [pytest.mark.plain("runs CPython's own tests under the bare hook"), pytest.mark.skipif(
    importlib.util.find_spec("test") is None or importlib.util.find_spec("test.test_scope") is None,
    reason="this Python comes without its own tests",
)]

QUICK = ["test_scope", "test_contextlib", "test_generators", "test_with", "test_raise", "test_extcall"]
LONG = [
    "test_call", "test_functools", "test_collections", "test_coroutines", "test_dataclasses", "test_dict",
    "test_exceptions", "test_gc", "test_json", "test_keywordonlyarg", "test_re", "test_threading", "test_weakref",
    "test_asyncgen", "test_enum", "test_typing", "test_unittest", "test_itertools", "test_copy", "test_super",
]  # fmt: skip


def run(name: str, way: str, folder: Path) -> dict[str, Any]:
    """Run a module of tests in a process of its own, in an empty folder."""
    root = Path(cpython_tests.__file__).parent
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", cpython_tests.__file__, name, way],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": f"{root}:{root.parent}", "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-5000:]
    outcomes: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcomes


def assert_same(name: str, ways: list[str], folder: Path) -> None:
    """Compare the outcomes of all tests of a module."""
    plain = run(name, "plain", folder)["tests"]
    assert plain
    for way in ways:
        result = run(name, way, folder)
        assert result["swaps"] > 100
        different = {
            test: (plain.get(test), result["tests"].get(test))
            for test in plain.keys() | result["tests"].keys()
            if plain.get(test) != result["tests"].get(test)
        }
        assert not different, f"{way}: {different}\n" + "\n".join(result["first failures"])


@pytest.mark.parametrize("name", QUICK)
def test_a_few_modules(name: str, tmp_path: Path) -> None:
    """Tests of calls, closures, generators and exceptions end alike when guarded copies of all functions run."""
    assert_same(name, ["checked"], tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", QUICK + LONG)
def test_many_modules(name: str, tmp_path: Path) -> None:
    """The same for many modules, swapped in place, behind a guard, and with every frame moved to a new one."""
    assert_same(name, ["swapped", "checked", "moved"], tmp_path)
