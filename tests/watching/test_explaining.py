"""Ways in: `explain(engine="torch.compile")`, `%%dynamo --engine torch.compile`, `dynexplore watch SCRIPT.py`; and other tools."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from watching.programs import Net, branches, one_graph, prints

import dynexplore
from dynexplore import cli
from dynexplore.cli_program import uses_torch_compile
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.headline import headline

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
    assert str(explained).startswith("torch.compile of branches: 4 graphs, 2 graph breaks at 1 line, 2 recompiles (")
    assert "2 recompiles (`a` and `b` had 2 elements, now 3)." in headline(explained.recording).what
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
    assert "torch.compile: 2 graphs, 1 graph break, 0 recompiles.\nThe graph breaks at script.py:8 in step, `print(" in printed
    recording = Recording.from_json(out.read_text(encoding="utf-8"))
    assert recording.engine == "torch.compile"
    assert recording.steps


def test_the_command_can_leave_steps_out(script: Path, tmp_path: Path) -> None:
    """`--no-steps` writes a recording without steps."""
    out = tmp_path / "seen.json"
    assert cli.main(["watch", "--no-steps", "--json", str(out), str(script)]) == 0
    assert not Recording.from_json(out.read_text(encoding="utf-8")).steps


def test_explain_of_a_script_points_to_watch(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`dynexplore explain --engine dynexplore` says of a script that uses torch.compile where its captures are to be seen."""
    assert cli.main(["explain", "--no-real", "--engine", "dynexplore", str(script)]) == 0
    assert f"What torch.compile did: dynexplore watch {script}" in capsys.readouterr().out


def test_explain_watches_a_script_that_names_torch_compile(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`dynexplore explain` of a script whose own module uses torch.compile runs it as it is, watches, and says so."""
    main = script.parent / "main.py"
    main.write_text("import script\n", encoding="utf-8")
    assert cli.main(["explain", str(main)]) == 0
    printed = capsys.readouterr().out
    assert "torch.compile: 2 graphs, 1 graph break, 0 recompiles.\nThe graph breaks at script.py:8 in step, `print(" in printed
    assert "main.py uses torch.compile, and above stands what that did; --engine dynexplore: what this engine does." in printed


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
def test_scripts_are_recognized_by_their_text(text: str, uses: bool, tmp_path: Path) -> None:
    """A script uses torch.compile when it names it, or calls `.compile()` for what it does, not for what it returns."""
    path = tmp_path / "one.py"
    path.write_text(text, encoding="utf-8")
    assert uses_torch_compile(path) is uses


def test_breaks_of_a_script_that_uses_torch_compile(script: Path) -> None:
    """The tools that run inside the first call of a function see the function itself, not what torch.compile made of it."""
    command = [sys.executable, "-m", "dynexplore", "breaks", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert "which torch.compile compiles" in ended.stdout
    assert "1. GB0059 Failed to trace builtin operator, 1 x" in ended.stdout
