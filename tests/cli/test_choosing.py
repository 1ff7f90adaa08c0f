"""What is captured is chosen in one way by every command: each option and each form of program, with each command.

`explain` and `watch` run; of the tools only the choice is made, and a stand-in notes which call it got (test_tools.py shows what
they say of one).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dynexplore
from dynexplore import cli

pytestmark = pytest.mark.lenses  # `watch` is about torch.compile

SCRIPT = """
import sys
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        return x * 2

def wave(x):
    return x.sin()

def main():
    net, second = Net(), wave
    if "--compile" in sys.argv:
        net, second = torch.compile(net, backend="eager"), torch.compile(wave, backend="eager")
    net(torch.ones(2))
    second(torch.ones(3))

assert sys.argv[1:2] != ["--only"], sys.argv
main()
"""
NET, WAVE = "Net", "wave"

TOOLS = {"breaks": "all_breaks", "coverage": "coverage", "compare": "compare", "diagnose": "diagnose", "minify": "minify"}
COMMANDS = ("explain", "watch", *TOOLS)

WAYS: dict[str, tuple[tuple[str, ...], str]] = {
    "the script": (("SCRIPT", "ARGS"), NET),
    "--only": (("--only", "wave", "SCRIPT", "ARGS"), WAVE),
    "--only, twice": (("--only", "nothing", "--only", "wave", "SCRIPT", "ARGS"), WAVE),
    "--only behind the script": (("SCRIPT", "--only", "wave", "ARGS"), WAVE),
    "--only a method": (("--only", "Net.forward", "SCRIPT", "ARGS"), NET),
    "--only a line": (("--only", "script.py:11", "SCRIPT", "ARGS"), WAVE),
    "--only a glob": (("--only", "w*e", "SCRIPT", "ARGS"), WAVE),
    "--not": (("--not", "Net*", "SCRIPT", "ARGS"), WAVE),
    "SCRIPT.py:FUNCTION": (("SCRIPT:wave", "ARGS"), WAVE),
    "SCRIPT.py:CLASS": (("SCRIPT:Net", "ARGS"), NET),
    "--all": (("--all", "SCRIPT", "ARGS"), "main"),
    "--all, -m": (("--all", "-m", "package.script", "ARGS"), "main"),
    "--all of a notebook": (("--all", "NOTEBOOK", "ARGS"), "main"),
    "-m": (("-m", "package.script", "ARGS"), NET),
    "-m and --only": (("--only", "wave", "-m", "package.script", "ARGS"), WAVE),
    "a notebook": (("NOTEBOOK", "ARGS"), NET),
    "a notebook and --only": (("--only", "wave", "NOTEBOOK", "ARGS"), WAVE),
    "NOTEBOOK.ipynb:FUNCTION": (("NOTEBOOK:wave", "ARGS"), WAVE),
    "arguments after --": (("SCRIPT", "--", "ARGS", "--not"), NET),
}
"""A command line -> what it captures first. ARGS is --compile for `watch`."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same program as a script, a module of a package and a notebook."""
    (tmp_path / "package").mkdir()
    for name in ("script.py", "package/script.py", "package/__init__.py"):
        (tmp_path / name).write_text(SCRIPT if name.endswith("script.py") else "")
    cells = [{"cell_type": "code", "source": part} for part in SCRIPT.split("\nassert")[0].split("\nclass")]
    cells[1]["source"] = "class" + cells[1]["source"] + "\nmain()\n"
    (tmp_path / "script.ipynb").write_text(json.dumps({"cells": cells}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_chooses_alike(
    command: str, way: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first function that is captured is the one that the words name."""
    words, expected = WAYS[way]
    arguments = ["--compile"] if command == "watch" else ["3"]
    line = [word for each in words for word in (arguments if each == "ARGS" else [_spelled(each)])]
    if command in TOOLS:
        called: list[str] = []
        monkeypatch.setattr(dynexplore, TOOLS[command], _stand_in(called))
        cli.main([command, *line])
        assert [name.partition(".")[0] for name in called] == [expected], capsys.readouterr()
        return
    if command == "explain" and "--all" in way:
        expected = "one graph of 4 operators"  # of the whole program, with the torch.ones that it begins with
    if command == "watch" and "--all" in way:
        expected = "Net.forward and wave"
    dynexplore.reset()
    assert cli.main([command, *line]) == 0, capsys.readouterr()
    out = capsys.readouterr().out.partition("Not captured")[0]
    others = {NET, WAVE} - {expected}
    has_both = not {"--only", "--not"}.intersection(words[:2]) and ":" not in "".join(words)
    assert expected in out and (has_both or not any(other in out for other in others)), out


def _spelled(word: str) -> str:
    return word.replace("SCRIPT", "script.py").replace("NOTEBOOK", "script.ipynb")


def _stand_in(called: list[str]) -> Any:
    def tool(target: Any, *args: Any, **options: Any) -> Any:
        called.append(getattr(target, "__qualname__", type(target).__qualname__))
        raise dynexplore.exc.DynexploreError("seen")

    tool.__name__ = "tool"
    return tool
