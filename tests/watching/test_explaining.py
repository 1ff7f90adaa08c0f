"""Ways in: `explain(engine="torch.compile")`, `%%dynamo --engine torch.compile`, `dynexplore watch SCRIPT.py`; and other tools."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from watching.programs import Net, branches, one_graph, prints

import dynexplore
import warm_python
from dynexplore import cli
from dynexplore.cli.program import imports_use_torch_compile
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.headline import headline
from dynexplore.widgets.source import function_code

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]

SCRIPT = """
import sys
import torch

@torch.compile(backend="eager")
def step(x, n):
    y = x * n
    print("n is", n)
    return y.relu()

print(sys.argv[1:], step(torch.ones(2), 2).tolist())
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script that uses torch.compile."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_explain_tells_what_torch_compile_does() -> None:
    """The explanation has torch.compile's graphs, breaks and guards, the value, and one outcome a call."""
    two, three = torch.ones(2), torch.ones(3)
    explained = dynexplore.explain(branches, engine="torch.compile").calls((two, two), (three, three))
    assert explained.recording.engine == "torch.compile"
    assert str(explained).startswith("torch.compile of branches: 4 graphs, 2 graph breaks on 1 line, 2 recompiles (")
    assert "2 recompiles (`a` and `b` changed from 2 elements to 3)." in headline(explained.recording).summary
    assert explained.outcomes == ["compile", "recompile"]
    assert len(explained.graphs) == 4
    assert all(isinstance(graph, torch.fx.GraphModule) for graph in explained.graphs)
    assert explained.value.tolist() == [0.5, 0.5, 0.5]
    assert not explained.notice


def test_explain_leaves_alone_what_was_compiled_before() -> None:
    """A function that is compiled already is explained anew, and what torch remembers of it stays."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    compiled = torch.compile(one_graph, backend="eager")
    compiled(torch.ones(2), torch.ones(2), 3)
    before = _debug_get_cache_entry_list(one_graph.__code__)
    explained = dynexplore.explain(compiled, torch.ones(2), torch.ones(2), 3, engine="torch.compile")
    assert explained.graph_count == 1
    assert len(before) == len(_debug_get_cache_entry_list(one_graph.__code__)) == 1


def test_an_exception_comes_out_of_explain() -> None:
    """What the function raises comes out, and the call is told with it."""

    def fails(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")

    with dynexplore.explain(fails, engine="torch.compile") as watched, pytest.raises(ValueError, match="no"):
        watched(torch.ones(2))
    assert [one.error for one in watched.explanation.recording.of(ev.CallEnded)] == ["ValueError"]


def test_an_unknown_engine_is_named() -> None:
    """There are two engines."""
    with pytest.raises(ValueError, match="there is no engine 'jit'; there are: dynexplore, torch.compile"):
        dynexplore.explain(prints, torch.ones(2), engine="jit")


@pytest.mark.parametrize("make", [lambda: torch.compile(one_graph, backend="eager"), lambda: torch.compile(Net(), backend="eager")])
def test_this_engine_explains_what_is_inside_torch_compile(make: Any) -> None:
    """Asked by name about what torch.compile has wrapped, this engine explains the function or module inside, and says so."""
    target = make()
    given = (torch.ones(2, 4),) if isinstance(target, torch.nn.Module) else (torch.ones(2), torch.ones(2), 3)
    explained = dynexplore.explain(target, *given, engine="dynexplore")
    assert explained.graph_count == 1
    assert not explained.breaks
    assert "It is compiled by torch.compile" in " ".join(str(explained).split())


def test_the_magic_watches_a_cell(capsys: pytest.CaptureFixture[str]) -> None:
    """`%%dynamo --engine torch.compile` runs the cell under torch.compile and binds its recording."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    dynexplore.load_ipython_extension(shell)
    text = "def f(x):\n    return x + 1\ny = f(torch.ones(2))"
    shell.user_ns["torch"] = torch
    shell.run_cell_magic("dynamo", "--engine torch.compile --view none -o rec", text)
    recording = shell.user_ns["rec"]
    assert recording.engine == "torch.compile"
    assert recording.graphs
    assert shell.user_ns["y"].tolist() == [2.0, 2.0]


def test_the_command_watches_a_script(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`dynexplore watch SCRIPT.py ARGS --json OUT` runs the script unchanged, prints the report, and writes the recording."""
    out = tmp_path / "seen.json"
    assert cli.main(["watch", str(script), "a", "b", "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "['a', 'b'] [2.0, 2.0]" in printed
    assert THEIRS in printed
    recording = Recording.from_json(out.read_text(encoding="utf-8"))
    assert recording.engine == "torch.compile"
    assert recording.steps


def test_the_command_can_leave_steps_out(script: Path, tmp_path: Path) -> None:
    """`--no-steps` writes a recording without steps."""
    out = tmp_path / "seen.json"
    assert cli.main(["watch", "--no-steps", "--json", str(out), str(script)]) == 0
    assert not Recording.from_json(out.read_text(encoding="utf-8")).steps


def run(*words: object) -> str:
    """What the command line prints, in a process of its own: there torch.compile is not banned."""
    ended = warm_python.run(*words)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


DYNEXPLORE = "script.py: 2 graphs, 1 graph break, 0 recompiles.\nThe graph breaks at script.py:8 in step: printing or logging."
THEIRS = "torch.compile of script.py: 2 graphs, 1 graph break, 0 recompiles.\nThe graph breaks at script.py:8 in step, `print("


@pytest.mark.parametrize("engine", ["dynexplore", "torch.compile"])
def test_the_command_measures_guards(engine: str, script: Path, tmp_path: Path) -> None:
    """`watch --guard-prices` prints and writes the price of each entry, of either engine; without the option, none."""
    out = tmp_path / "priced.json"
    printed = run("watch", "--engine", engine, "--guard-prices", "--summary-json", out, script)
    priced = json.loads(out.read_text(encoding="utf-8"))["guards"]
    assert "Measured guard cost: the most expensive checks" in printed
    assert len(priced) == 2 and all(entry["us"] > 0 and entry["values"] for entry in priced), priced
    assert all(bool(entry["filters"]) == (engine == "torch.compile") for entry in priced)
    assert "Measured guard cost" not in run("watch", "--engine", engine, script)


def test_what_a_script_gives_to_torch_compile_is_captured_instead(script: Path) -> None:
    """`dynexplore explain --engine dynexplore` captures what the script gives to torch.compile, in its place."""
    other = "def other(x):\n    return x + 1\nother(torch.ones(2))\n"
    other += "module = torch.compile(torch.nn.Linear(2, 2))\nmodule(torch.ones(2))\n"
    script.write_text(SCRIPT + other)
    printed = run("explain", "--engine", "dynexplore", script)
    assert "script.py: 3 graphs, 1 graph break" in printed and "at script.py:8 in step: printing or logging" in printed
    assert "Linear.forward" in printed and "other" not in printed.replace("the other", "")


def test_explain_watches_a_script_from_the_moment_that_it_calls_torch_compile(script: Path) -> None:
    """Its own module may do so while it is imported; the report says whose it is, and how to choose otherwise."""
    printed = run("explain", script)
    assert THEIRS in printed
    assert "script.py calls torch.compile, so this report is about torch.compile." in printed
    main = script.parent / "main.py"
    main.write_text("import script\n", encoding="utf-8")
    assert THEIRS.replace("script.py: ", "main.py: ") in run("explain", main)


def test_what_counts_is_what_ran_and_not_the_text_of_the_file(script: Path) -> None:
    """A script whose flag leaves torch.compile out is captured by this engine, though it names torch.compile."""
    by_flag = "@(lambda f: torch.compile(f) if len(sys.argv) > 9 else f)"
    script.write_text(SCRIPT.replace('@torch.compile(backend="eager")', by_flag))
    assert DYNEXPLORE in run("explain", script)


def test_watch_of_a_script_without_torch_compile_names_the_command_that_fits(script: Path) -> None:
    """There is nothing to show, and `explain` would show something."""
    script.write_text(SCRIPT.replace('@torch.compile(backend="eager")', ""))
    printed = run("watch", script)
    assert printed.endswith(
        "script.py never called torch.compile, so there is nothing to show.\n"
        "To see how it would be captured: dynexplore explain script.py\n"
    )


@pytest.mark.plain("looks at the text of scripts")
@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("import torch\nf = torch.compile(print)", True),
        ("from torch import compile", True),
        ("import re\np = re.compile('a')", False),
        ("model.compile()\nmodel.compile(backend='eager')", True),
        ("code = compile('1', 'f', 'eval')", False),
        ("not Python", False),
    ],
)
def test_imports_are_recognized_by_their_text(text: str, uses: bool, tmp_path: Path) -> None:
    """A module uses torch.compile when it names it, or calls `.compile()` for what it does, not for what it returns."""
    main, part = tmp_path / "main.py", tmp_path / "part.py"
    main.write_text("import part", encoding="utf-8")
    part.write_text(text, encoding="utf-8")
    assert imports_use_torch_compile(main) is uses
    assert not imports_use_torch_compile(part)


def test_breaks_of_a_script_that_uses_torch_compile(script: Path) -> None:
    """The tools that run inside the first call of a function see the function itself, not what torch.compile made of it."""
    command = [sys.executable, "-m", "dynexplore", "breaks", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert "captured by torch.compile" in ended.stdout
    assert "1. GB0059 Failed to trace builtin operator: broke the graph once" in ended.stdout


CELLS = {
    "x = y.sin() + 1": (1, "of this cell makes one graph of 2 operators"),
    "class Net(torch.nn.Linear): pass\nnet = Net(2, 2)\nx = net(y)": (0, "It runs as plain Python (it defines a class), and calls"),
    "net = torch.nn.Linear(2, 2)\nfast = torch.compile(net, backend='eager')\nx = fast(y)": (1, "one graph of 1 operator"),
}
"""A cell -> how many graphs torch.compile makes in it, and a sentence of the headline."""


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_that_is_a_program_runs_as_it_is_and_what_it_compiles_is_watched(cell: str) -> None:
    """torch.compile is given a cell of tensor code as one function, as this engine is, and no cell that builds or trains."""
    graphs, sentence = CELLS[cell]
    namespace: dict[str, Any] = {"__builtins__": __builtins__, "torch": torch, "y": torch.ones(2)}
    function = types.FunctionType(function_code(cell, "cell.py"), namespace)
    with dynexplore.explain(function, engine="torch.compile") as called:
        called.explanation.follow_cell(cell, None)
        called()
    recording = called.explanation.recording
    assert isinstance(namespace["x"], torch.Tensor) and len(recording.graphs) == graphs
    assert sentence in str(headline(recording)).replace("\n  ", " "), headline(recording)
