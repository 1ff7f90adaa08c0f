"""views/annotated.py: the source with the graphs that hold its lines, and the breaks with cause and remedy."""

from __future__ import annotations

import heapq
import re

import torch
from torch import nn

from dynexplore import explain
from dynexplore.recording.recording import Recording
from dynexplore.views.annotated import Annotations, annotated
from sample_recordings import OUTER, inlined, toy

TOY = """\
toy, example.py line 9
    9     def toy(a, b):
   10 1       x = a / (torch.abs(a) + 1)
   11 !       if b.sum() < 0:
                 ^^^^^^^^^^^
          ! graph break: `if` on a tensor value
            Use torch.where, or move the `if` out of the compiled function.
   12 2           b = b * -1
   13 2       return x * b"""


def test_lines_of_toy() -> None:
    """Each line bears the number of its graph; below the one that breaks stand its place, cause and remedy."""
    assert annotated(toy()) == TOY


def test_a_call_that_is_traced_through() -> None:
    """The line that calls is in the graph of what is called."""
    marks = Annotations(inlined()).of_code(OUTER)
    assert marks == {5: ([1], [])}
    assert "    2 1       return y.relu()" in annotated(inlined())


class Chatty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        print("between")
        return self.b(y)


def test_a_module() -> None:
    """The forward is shown, not the engine's wrapper, and its break once."""
    shown = annotated(explain(Chatty())(torch.ones(1, 4)).recording)
    lines = [line.split(maxsplit=2)[1:] for line in shown.splitlines()[2:]]
    assert lines[0] == ["1", "y = self.a(x)"] and lines[1] == ["!", 'print("between")'] and lines[-1] == ["2", "return self.b(y)"]
    assert shown.count("graph break") == 1 and "entry" not in shown


def outer(x: torch.Tensor) -> torch.Tensor:
    def inner(y: torch.Tensor) -> torch.Tensor:
        z = y.sin()
        print("between")
        return z.cos()

    return inner(x)


def test_what_is_defined_inside_is_marked_there_too() -> None:
    """A cell, or a function, shows the functions that it defines: their lines bear graphs and breaks as on their own."""
    recording = explain(outer)(torch.ones(2)).recording
    code = next(code for code in recording.codes.values() if code.qualname == "outer" and code.first_line)
    marks = Annotations(recording).of_code(code)
    first = outer.__code__.co_firstlineno
    assert [marks[first + at][0] for at in (2, 4)] == [[1], [2]]
    assert [mark.cause for mark in marks[first + 3][1]] == ["printing or logging"]
    assert "inner breaks the graph" in marks[first + 6][1][0].cause


def test_a_loop() -> None:
    """A line that two graphs hold says so."""

    def loops(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x + 1
            print("round")
        return x

    signs = [line.split()[1] for line in annotated(explain(loops)(torch.ones(2)).recording).splitlines() if "x = x + 1" in line]
    assert signs == ["1+"]


def test_nothing_to_show() -> None:
    """Without frames there is no source."""
    assert annotated(Recording()) == ""


def picks(x: torch.Tensor) -> torch.Tensor:
    scores = [(x * k).sum() for k in range(3)]
    return heapq.nlargest(1, scores)[0] * 2


def test_a_break_inside_a_library() -> None:
    """The line that calls has cause, the library's line and remedy: the library's own source is not shown."""
    text = annotated(explain(picks)(torch.ones(3)).recording)
    line = text.splitlines().index(next(line for line in text.splitlines() if "heapq.nlargest" in line))
    told = "\n".join(text.splitlines()[line + 1 : line + 4])
    assert re.search(r"! graph break: .* in nlargest \(heapq\.py:\d+\)\n +\w+", told), text
