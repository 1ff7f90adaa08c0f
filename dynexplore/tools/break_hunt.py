"""Break hunt: ten programs that break the graph, and a scorer for the fixes.

The idea: fixing graph breaks is a skill, and practice needs immediate feedback. The programs are a file of ordinary functions
(hunt_programs.py). A rewritten function is called on the same arguments as the original: in eager mode, where the results must be
equal, and captured, where all its calls should need one graph. The count comes from the recording, so any rewrite that preserves
the results is accepted.

In: a file with the ten functions, or one function and the name of the program that it replaces.
Out: `write(path)`, `score(path) -> Score`, `judge(name, function) -> Verdict`; `what_is_wrong(name)` checks an exercise.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import linecache
import runpy
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from dynexplore.engine.config import config
from dynexplore.engine.records import record
from dynexplore.engine.runtime.api import optimize
from dynexplore.session.explain import explain
from dynexplore.tools import hunt_programs
from dynexplore.views.counts import plural

_CALLS: dict[str, Any] = hunt_programs.CALLS

PROGRAMS = tuple(_CALLS)
"""The names of the programs, from easy to hard."""

_TEXT = "".join(Path(hunt_programs.__file__).read_text(encoding="utf-8").partition('"""')[1:])  # without its comment for mypy


@record()
class Verdict:
    """One program: how many graphs its calls need, and what is left to do ("" if it is solved)."""

    name: str
    graphs: int
    values_equal: bool
    todo: str

    @property
    def solved(self) -> bool:
        """Whether all calls run in one graph, without breaks and with the same results."""
        return not self.todo


@record()
class Score:
    """The verdicts of a file, from easy to hard."""

    verdicts: tuple[Verdict, ...]

    @property
    def solved(self) -> int:
        """The number of solved programs."""
        return sum(verdict.solved for verdict in self.verdicts)

    @property
    def graphs_left(self) -> int:
        """The total number of graphs of all programs; the minimum is one each."""
        return sum(verdict.graphs for verdict in self.verdicts)

    def __str__(self) -> str:
        rows = [
            f"{'✓' if verdict.solved else ' '} {verdict.name:14} {plural(verdict.graphs, 'graph'):9} "
            f"{'values equal ' if verdict.values_equal else 'values differ'}  {verdict.todo}".rstrip()
            for verdict in self.verdicts
        ]
        graphs = plural(self.graphs_left, "graph")
        total = f"{self.solved} of {len(self.verdicts)} solved, {graphs} left (at best {len(self.verdicts)})"
        return "\n".join([*rows, "", total])


def write(path: Path) -> None:
    """Write the ten programs to a new file."""
    with path.open("x", encoding="utf-8") as file:
        file.write(_TEXT)


def score(path: Path) -> Score:
    """Judge each program of a file."""
    answers = runpy.run_path(str(path))
    return Score(tuple(judge(name, answers.get(name)) for name in PROGRAMS))


def judge(name: str, function: Callable[..., Any] | None) -> Verdict:
    """Call a function on the arguments of a program, and report whether the results are equal and how many graphs it needs."""
    if not callable(function):
        return Verdict(name, 0, False, f"there is no function `{name}`")
    calls = _CALLS[name]
    with contextlib.redirect_stdout(io.StringIO()), config.patch(log_level="ERROR"):
        expected = [_original(name)(*arguments) for arguments in copy.deepcopy(calls)]
        try:
            explanation = explain(function).calls(*copy.deepcopy(calls))
            captured = optimize("eager")(function)
            values = [captured(*arguments) for arguments in copy.deepcopy(calls)]
        except Exception as error:  # the user's function may raise anything
            return Verdict(name, 0, False, f"it raises {type(error).__name__}: {str(error).partition(chr(10))[0]}")
    wrong = _difference(expected, values)
    return Verdict(name, explanation.graph_count, not wrong, wrong or _still_to_do(explanation))


def what_is_wrong(name: str) -> Callable[[Callable[..., Any]], str | None]:
    """The check of an exercise: returns what is left to do on a function that replaces a program, or None."""
    return lambda function: judge(name, function).todo or None


def _still_to_do(explanation: Any) -> str:
    """For calls with correct results: where a graph breaks, or why they need more than one."""
    if explanation.breaks:
        broke = explanation.breaks[0]
        return f"breaks at `{broke.user_stack[-1].code.strip()}`: {broke.title}"
    if explanation.graph_count != 1:
        return f"{plural(explanation.graph_count, 'graph')} for its calls, where one is enough"
    return ""


def _difference(expected: list[Any], values: list[Any]) -> str:
    for number, (in_eager, value) in enumerate(zip(expected, values, strict=True), start=1):
        try:
            torch.testing.assert_close(value, in_eager, check_dtype=False)
        except AssertionError:
            return f"call {number} returns {_shown(value)}, and eager returns {_shown(in_eager)}"
    return ""


def _shown(value: Any) -> str:
    return str(value.tolist()) if isinstance(value, torch.Tensor) else repr(value)



@functools.cache
def _programs() -> ModuleType:
    """The programs as a user module: functions in dynexplore's own files are not captured."""
    name = "<break hunt>"
    linecache.cache[name] = (len(_TEXT), None, _TEXT.splitlines(True), name)
    module = ModuleType("break_hunt")
    exec(compile(_TEXT, name, "exec"), vars(module))
    return module


def _original(name: str) -> Callable[..., Any]:
    program: Callable[..., Any] = getattr(_programs(), name)
    return program
