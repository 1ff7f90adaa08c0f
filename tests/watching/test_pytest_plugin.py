"""dynexplore/pytest_plugin.py in runs of pytest of their own, with torch.compile and with this engine."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys

import pytest

from source_tree import ROOT

pytest_plugins = ["pytester"]

TESTS = """
import pytest, torch, dynexplore

def f(x):
    print(end="")
    return x * 2

def g(x):
    return x + 1

made_before = [dynexplore.optimize("eager")(g)]

@pytest.mark.parametrize("compile", [torch.compile, dynexplore.compile])
def test_right(compiles, compile):
    with compiles(graphs=1, breaks=0, recompiles=0) as block:
        compile(g, backend="eager")(torch.ones(2))
    assert block.counts == {"graphs": 1, "breaks": 0, "recompiles": 0}

@pytest.mark.parametrize("compile", [torch.compile, dynexplore.compile])
def test_wrong(compiles, compile):
    compiled = compile(f, backend="eager")
    with compiles(graphs=1, breaks=0):
        compiled(torch.ones(2))

def test_made_before(compiles):
    made_before[0](torch.ones(2))
    with compiles(graphs=1, recompiles=1, engine="dynexplore"):
        made_before[0](torch.ones(3))
    with compiles(graphs=0, breaks=0, recompiles=0):
        made_before[0](torch.ones(4))

@pytest.mark.compiles(graphs=1, breaks=1)
def test_marked():
    torch._dynamo.reset()
    torch.compile(f, backend="eager")(torch.ones(2))

@pytest.mark.compiles(graphs=2, engine="torch.compile")
def test_marked_wrong():
    torch.compile(g, backend="eager")(torch.ones(2, 2, 2))

def test_snapshot(compiles):
    torch._dynamo.reset()
    with compiles(snapshot=True):
        torch.compile(f, backend="eager")(torch.ones(2))

def test_compiled_before(compiles):
    torch._dynamo.reset()
    compiled = torch.compile(g, backend="eager")
    with compiles():
        compiled(torch.ones(2))
    with compiles(graphs=1, engine="torch.compile"):
        compiled(torch.ones(2))

def test_recompiles_for_another_test(compiles):
    torch._dynamo.reset()
    compiled = torch.compile(g, backend="eager")
    with compiles():
        compiled(torch.ones(2))
    with compiles(recompiles=0):
        compiled(torch.ones(3))

def test_recompiles_by_itself(compiles):
    torch._dynamo.reset()
    with compiles(recompiles=0):
        compiled = torch.compile(g, backend="eager")
        compiled(torch.ones(2))
        compiled(torch.ones(3))

def test_it_raises(compiles):
    with compiles(graphs=7):
        raise ValueError("of the test")
"""


INSTALLED = any(entry.value == "dynexplore.pytest_plugin" for entry in importlib.metadata.entry_points(group="pytest11"))
NAMED = () if INSTALLED else ("-p", "dynexplore.pytest_plugin")
"""In a checkout that was not installed since the plugin is there, pytest is told of it."""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*NAMED, "-p", "no:xdist", "--strict-markers", *options)


@pytest.mark.plain("the run of pytest in the test has an engine of its own")
def test_what_is_expected_and_what_is_not(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both engines are counted, also in functions made before the block. A failure has the ranked list and a page; a snapshot fails
    until it is written, and then says which break is new."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    file = pytester.makepyfile(test_it=TESTS)
    first = run(pytester, "--compiles-pages", "pages")
    first.assert_outcomes(passed=4, failed=8)
    # with CI set in the environment pytest prints each message a second time in its summary
    output = first.stdout.str().partition(" short test summary info ")[0]
    assert len(re.findall("^expected 0 graph breaks, got 1$", output, re.M)) == 2 and "expected 2 graphs, got 1" in output
    assert "The graph breaks at test_it.py:4 in f" in output and "ValueError: of the test" in output
    assert "torch.__trace" not in output
    reused = "Code that an earlier test compiled may be reused in the block. To prevent this, call"
    assert len(re.findall(f"^{reused} `torch._dynamo.reset\\(\\)` before it", output, re.M)) == 2
    assert output.count(f"{reused} `torch._dynamo.reset()` and `dynexplore.reset()` before it.") == 1
    assert "there is no snapshot of this block: pytest --compiles-update writes __compiles__/test_it.json" in output
    pages = [path for path in (pytester.path / "pages").rglob("*.html") if "test_wrong" in str(path)]
    assert sorted(path.name for path in pages) == ["dynexplore.html", "torch_compile.html"]
    assert all("<html" in path.read_text() for path in pages)

    run(pytester, "--compiles-update", "-k", "snapshot").assert_outcomes(passed=1, deselected=11)
    snapshot = json.loads((pytester.path / "__compiles__" / "test_it.json").read_text())
    assert list(snapshot) == ["test_snapshot 1"] and len(snapshot["test_snapshot 1"]) == 1
    file.write_text("# another line\n" + TESTS.replace('    print(end="")\n', '    print(end="")\n    print("", end="")\n', 1))
    last = run(pytester, "-k", "snapshot")
    last.assert_outcomes(failed=1, deselected=11)
    last.stdout.fnmatch_lines(["new graph break: test_it.py in f: * | print(*"])


@pytest.mark.plain("nothing is captured")
def test_a_run_that_does_not_use_it_imports_no_torch(pytester: pytest.Pytester) -> None:
    """pytest loads the plugin in every run of an environment that has dynexplore."""
    pytester.makepyfile("import sys\ndef test_it():\n    assert 'torch' not in sys.modules\n")
    words = [sys.executable, "-m", "pytest", "-q", *NAMED, "-p", "no:xdist"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run(words, cwd=pytester.path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
