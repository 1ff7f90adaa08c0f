"""The tools on the command line: each on the call that a script makes, and one sentence for every mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynexplore.cli import program as cli_program
from warm_python import run

SCRIPT = """
import sys
import torch
import dynexplore

@dynexplore.register_backend
def no_sine(graph, inputs):
    assert "sin" not in graph.code, "no sines here"
    return graph.forward

def wave(x, count=1):
    print("in wave", count)
    return (x + count).sin() * 2

def main():
    print("arguments", sys.argv[1:])
    wave(torch.ones(3), count=4)
    raise SystemExit("the script went on")

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script whose `wave` fails under its own backend."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_diagnose_names_the_failing_layer(script: Path, tmp_path: Path) -> None:
    """The script runs with its arguments up to the call, and no further; status 1 says that a layer fails."""
    page = tmp_path / "d.html"
    done = run("diagnose", f"{script}:wave", "3", "--lr", "1", "--backend", "no_sine", "--html", page)
    assert done.stdout.startswith("arguments ['3', '--lr', '1']\nFirst call to wave in "), done.stdout + done.stderr
    assert "First failing stage: backend" in done.stdout and "no sines here" in done.stdout
    assert (done.returncode, done.stderr) == (1, "")
    assert "in wave 4\n" in done.stdout
    assert page.read_text().startswith("<!doctype html>") and "First failing stage: backend" in page.read_text()


@pytest.mark.parametrize("form", ["f = torch.compile(f, HOW)", "f = Net()\nf.compile(HOW)", "f = torch.compile(Net(), HOW)"])
def test_diagnose_tests_the_backend_that_the_script_compiles_with(form: str, tmp_path: Path) -> None:
    """And its `dynamic`, of a function, a module after `.compile()` and a wrapped module; the error is what the backend raised."""
    script = tmp_path / "script.py"
    script.write_text(COMPILED.replace("FORM", form).replace("HOW", "backend=bad, dynamic=True"), encoding="utf-8")
    done = run("diagnose", script)
    assert ", captured by torch.compile, dynamic=True\n" in done.stdout, done.stdout + done.stderr
    assert "\nbackend       bad  " in done.stdout
    assert "First failing stage: backend\n  raises RuntimeError: no product today\n" in done.stdout
    assert done.returncode == 1


COMPILED = """
import torch

def bad(graph, inputs):
    raise RuntimeError("no product today")

def f(x):
    return x * 2

class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2

FORM
f(torch.ones(3))
"""


def test_minify_writes_the_program(script: Path, tmp_path: Path) -> None:
    """The smallest graph is printed and written; where nothing fails there is no file, and status 0."""
    out = tmp_path / "small.py"
    done = run("minify", script, "--backend", "no_sine", "--out", out)
    assert done.returncode == 1, done.stderr
    assert "3 operators became 1" in done.stdout and done.stdout.endswith(f"wrote {out}: run it with python {out}\n")
    assert "sin" in out.read_text()
    out.unlink()
    done = run("minify", script, "--backend", "eager", "--out", out)
    assert (done.returncode, out.exists()) == (0, False)
    assert "the graph of this call does not fail under 'eager'" in done.stdout


def test_breaks_are_those_of_a_function_and_of_what_it_calls(script: Path) -> None:
    """The function may be the script's whole work; without a name it is the first that gets a tensor."""
    one = run("breaks", script)
    assert one.returncode == 0 and "wave: the graph breaks in 1 place" in one.stdout, one.stderr
    script.write_text(SCRIPT.replace('    raise SystemExit("the script went on")\n', ""))
    whole = run("breaks", f"{script}:main")
    assert whole.returncode == 0 and "main: the graph breaks in 2 places" in whole.stdout, whole.stderr
    assert whole.stdout.count("in wave 4") == 2


def test_a_script_that_ends_at_its_call_leaves_no_traceback(script: Path) -> None:
    """That the script goes no further is no error: standard error has nothing about it."""
    done = run("coverage", script)
    assert (done.returncode, done.stderr) == (0, "")


def test_coverage_counts_the_graphs_of_the_engine_that_compiles_the_call(script: Path, tmp_path: Path) -> None:
    """Of a script that uses torch.compile its graphs, of this engine on demand; what runs outside of graphs is listed."""
    page = tmp_path / "c.html"
    done = run("coverage", script, "--html", page)
    assert done.returncode == 0, done.stderr
    assert "3 of 3 operators (100.0%)" in done.stdout
    assert "run inside 1 graph\n" in page.read_text(encoding="utf-8").replace("</", "\n</")
    compiled = SCRIPT.replace("def wave", "@torch.compile(backend='eager')\ndef wave")
    script.write_text(compiled.replace("(x + count).sin()", "(x + x.max().item())"), encoding="utf-8")
    theirs = run("coverage", script)
    assert "wave in " in theirs.stdout and "captured by torch.compile" in theirs.stdout, theirs.stderr
    assert "of torch.compile\n" in theirs.stdout and "outside: 1 x aten::item" in theirs.stdout
    ours = run("coverage", "--engine", "dynexplore", script)
    assert ours.returncode == 0 and "torch.compile" not in ours.stdout, ours.stderr


def test_compare_writes_json_and_html(script: Path, tmp_path: Path) -> None:
    """The methods that are asked for, in the JSON that the object has."""
    saved, page = tmp_path / "c.json", tmp_path / "c.html"
    done = run("compare", "--methods", "fx,dynexplore", f"{script}:wave", "--json", saved, "--html", page)
    assert done.returncode == 0, done.stderr
    assert [method["key"] for method in json.loads(saved.read_text())["methods"]] == ["fx", "dynexplore"]
    assert "torch.fx.symbolic_trace" in page.read_text()


def test_compare_engines_writes_a_page_on_which_both_are_stepped(script: Path, tmp_path: Path) -> None:
    """Both engines capture the script's own call; the page has both explorers, the JSON the differences."""
    saved, page = tmp_path / "two.json", tmp_path / "two.html"
    done = run("compare", "--engines", f"{script}:wave", "--json", saved, "--html", page)
    assert done.returncode == 0, done.stderr
    assert "wave: the same 3 operators in 1 graph from both engines" in done.stdout
    assert {one["kind"] for one in json.loads(saved.read_text(encoding="utf-8"))["partings"]} <= {"guard", "step"}
    assert "together(" in page.read_text(encoding="utf-8")
    done = run("compare", "--engines", "--methods", "fx", script)
    assert done.returncode == 2
    assert "cannot be combined with --methods" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["diagnose", "no_such.py"], "dynexplore: there is no script no_such.py\n"),
        (["minify", "no_such.py:f"], "dynexplore: there is no script no_such.py\n"),
        (["diagnose", "SCRIPT:f"], "dynexplore: f is not called when "),
        (["diagnose", "SCRIPT", "--backend", "nothing"], "dynexplore: there is no backend 'nothing'; there are: "),
        (["compare", "SCRIPT", "--methods", "nothing"], "dynexplore: there is no method 'nothing'; there are fx, "),
        (["compare", "SCRIPT", "--json", "no/such/c.json"], "dynexplore: no/such/c.json cannot be written: there is no folder"),
        (["diagnose", "SCRIPT", "--html", "docs"], "dynexplore: docs cannot be written: it is a folder\n"),
        (["breaks", "SCRIPT", "--html", "no/such/b.html"], "dynexplore: no/such/b.html cannot be written: "),
        (["coverage", "SCRIPT", "--backend", "nothing"], "dynexplore: there is no backend 'nothing'; there are: "),
        (["minify", "SCRIPT", "--out", "no/such/r.py"], "dynexplore: no/such/r.py cannot be written: "),
    ],
)
def test_a_mistake_is_one_sentence(script: Path, words: list[str], sentence: str) -> None:
    """What cannot be done is said in one sentence on standard error, with status 2."""
    script.write_text(SCRIPT.replace('    raise SystemExit("the script went on")\n', ""))
    done = run(*(word.replace("SCRIPT", str(script)) for word in words))
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(sentence), done.stderr
    assert done.stderr.count("\n") == 1


def test_a_function_that_fails_keeps_its_traceback(script: Path) -> None:
    """Minify and breaks run the call: what it raises is said as Python would say it, with status 1."""
    script.write_text(SCRIPT.replace("return (x", "raise ValueError('mine')\n    return (x"))
    done = run("minify", f"{script}:wave", "--backend", "eager")
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: mine\n") and "dynexplore/engine" not in done.stderr


def test_every_option_of_a_tool_may_stand_after_the_script() -> None:
    """The table of options that are moved before the script has all that the parser knows."""
    help_text = {name: run(name, "--help").stdout for name in ("diagnose", "minify", "breaks", "coverage", "compare")}
    for name, shown in help_text.items():
        alone, with_value = cli_program.OWN_OPTIONS[name]
        options = {word for line in shown.splitlines() for word in line.split()[:1] if word.startswith("--")}
        assert options == {*alone, *with_value}, name


def test_a_long_report_is_one_screen_unless_all_of_it_is_asked_for(tmp_path: Path) -> None:
    """`breaks` prints at most 40 lines and counts the rest; --full, before the script or after it, prints all."""
    script = tmp_path / "many.py"
    body = "    print(end='')\n    x = x + 1\n" * 12
    script.write_text(f"import torch\ndef many(x):\n{body}    return x\nmany(torch.ones(2))\n")
    short, whole = run("breaks", script), run("breaks", script, "--full")
    assert short.returncode == whole.returncode == 0, short.stderr + whole.stderr
    assert len(short.stdout.splitlines()) <= 40 and "more places (--full)" in short.stdout
    assert whole.stdout.count("DX206 printing") == 12 and "--full" not in whole.stdout
