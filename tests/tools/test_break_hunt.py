"""tools/break_hunt.py: ten programs that break the graph, solutions for all of them, and wrong rewrites that are told so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore import cli
from dynexplore.tools import break_hunt


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x / x.abs().max() + 1


def noisy(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(torch.tanh(x * 2) * 2)


def clipped(gradient: torch.Tensor) -> torch.Tensor:
    return gradient / gradient.norm().clamp(min=1)


def positives(x: torch.Tensor) -> torch.Tensor:
    return x - (x > 0).sum()


def chosen(x: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.sin(x), torch.cos(x), torch.tanh(x)]).index_select(0, kind.reshape(1)).squeeze(0) * 2


def timed(x: torch.Tensor, seconds: list[float]) -> torch.Tensor:
    return (torch.relu(x) + 1) * 3


def positive_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.sum(1, keepdim=True) >= 0, x, 0).sum(0)


def by_size(rows: list[torch.Tensor]) -> torch.Tensor:
    stacked = torch.stack(rows)
    ordered = stacked[stacked.sum(1).argsort(descending=True)]
    return (ordered / torch.arange(1, len(rows) + 1).unsqueeze(1)).sum(0)


def safe_mean(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (x * mask).sum() / mask.sum().clamp(min=1)


def square_root(x: torch.Tensor) -> torch.Tensor:
    guess, done = x, torch.tensor(False)
    for _ in range(20):
        better = (guess + x / guess) / 2
        change = (better - guess).abs().max()
        guess = torch.where(done, guess, better)
        done = done | (change < 1e-3)
    return guess


SOLUTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (scaled, noisy, clipped, positives, chosen, timed, positive_rows, by_size, safe_mean, square_root)
}


@pytest.mark.parametrize("name", break_hunt.PROGRAMS)
def test_a_program_breaks_and_can_be_solved(name: str) -> None:
    """As it is given out it needs more than one graph, with equal values; the solution needs one."""
    given = break_hunt.judge(name, break_hunt._original(name))
    assert given.values_equal and given.graphs > 1 and given.todo.startswith("breaks at `")
    solved = break_hunt.judge(name, SOLUTIONS[name])
    assert (solved.solved, solved.graphs, solved.todo) == (True, 1, "")


@pytest.mark.plain("values are compared, whatever is captured")
def test_wrong_rewrites_are_told_what_is_wrong() -> None:
    """Other values, an exception, code that is hidden from the capture, and more than one version."""
    assert break_hunt.judge("scaled", lambda x: x).todo == "call 1 returns [1.0, -4.0], and eager returns [1.25, 0.0]"
    assert break_hunt.judge("scaled", lambda x, y: x).todo.startswith("it raises TypeError: ")
    assert break_hunt.judge("scaled", None).todo == "there is no function `scaled`"
    hidden = break_hunt.judge("scaled", out_of_sight(scaled))
    assert hidden.values_equal and not hidden.solved


def out_of_sight(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind a graph break, and one operator."""
    hidden = dynexplore.disable(function)
    return lambda *arguments: hidden(*arguments) * 1


def test_the_command_writes_the_programs_and_scores_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second time, the file is what the reader made of it."""
    file = tmp_path / "mine.py"
    assert cli.main(["hunt", str(file)]) == 0
    assert capsys.readouterr().out.endswith("\n0 of 10 solved, 24 graphs left (at best 10)\n")
    text = file.read_text()
    assert "    largest = x.abs().max().item()\n" in text
    file.write_text(text.replace(".max().item()", ".max()"))
    assert cli.main(["hunt", str(file)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("✓ scaled         1 graph   values equal\n  noisy          2 graphs  values equal   breaks at `print(")
    assert out.endswith("\n1 of 10 solved, 23 graphs left (at best 10)\n")


@pytest.mark.plain("a refusal comes before any capture")
def test_what_is_no_python_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written."""
    assert cli.main(["hunt", str(tmp_path / "notes.txt")]) == 2
    assert "is not a Python file" in capsys.readouterr().err and list(tmp_path.iterdir()) == []
