"""Runs of torch.compile under the profiler, and the graph break that each operator outside of graphs is due to.

The idea: the cost of a break is what runs outside of graphs because of it. PyTorch's profiler reports for each operator whether a
compiled graph called it, and from which Python lines it came. An operator from the line that broke is attributed to that break; any
other operator of a function with breaks to the break for which torch skipped the function, or else to the preceding break.

In: what users pass, a backend; the operators of a run, the breaks of a recording.
Out: `compiled_in_ranges`, a callable; `due_to`, operators by break.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import torch.fx

from dynexplore.engine import events as ev
from dynexplore.engine.display_paths import shown_file
from dynexplore.engine.runtime.backends import CompilerFn, resolve
from dynexplore.engine.runtime.profiler_ranges import GRAPH, ranged
from dynexplore.session import torch_compiled
from dynexplore.tools.operator_profile import OperatorRun
from dynexplore.traces.torch_words import plain_function


def in_ranges(backend: str | CompilerFn) -> CompilerFn:
    """The same backend, with its graphs wrapped in profiler ranges."""
    resolved, numbers = resolve(backend), itertools.count(1)

    def compile_graph(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return ranged(resolved(graph, inputs), f"{GRAPH}{next(numbers)}")

    compile_graph.__name__ = compile_graph.__qualname__ = resolved.name
    return compile_graph


def compiled_in_ranges(fn: Any, backend: str | CompilerFn, dynamic: bool | None = None) -> Callable[..., Any]:
    """A fresh torch.compile of a function, with each graph in a profiler range."""
    return torch_compiled.compiled_anew(fn, in_ranges(backend), dynamic=dynamic)


_LEVEL = re.compile(r"(.*)\((\d+)\): (.*)")
Level = tuple[str, int, str]


def due_to(ran: Iterable[OperatorRun], breaks: Sequence[ev.GraphBroke], given_up: Container[int]) -> dict[int, list[OperatorRun]]:
    """The operators outside of graphs, by the number of the break that they are due to; others are left out. `given_up` are the
    frames that torch skipped and runs as plain Python.
    """
    operators: dict[int, list[OperatorRun]] = {}
    for run in ran:
        number = None if run.graph else _break_of(run, breaks, given_up)
        if number is not None:
            operators.setdefault(number, []).append(run)
    return operators


def _levels(stack: Iterable[str]) -> Iterable[Level]:
    """File, line and function of each Python stack level, innermost first, named as in a recording."""
    for level in filter(None, map(_LEVEL.fullmatch, stack)):
        yield shown_file(level[1]), int(level[2]), plain_function(level[3])


def _break_of(run: OperatorRun, breaks: Sequence[ev.GraphBroke], given_up: Container[int]) -> int | None:
    located = [(number, broke) for number, broke in enumerate(breaks) if broke.user_stack]
    for file, line, function in _levels(run.stack):
        at_line = [n for n, broke in located if (broke.user_stack[-1].file, broke.user_stack[-1].line) == (file, line)]
        inside = [
            (n, broke) for n, broke in located if (broke.user_stack[0].file, broke.user_stack[0].function) == (file, function)
        ]
        if at_line:
            return at_line[0]
        if inside:
            return max(inside, key=lambda pair: _nearness(pair[1], line, given_up))[0]
    return None


def _nearness(broke: ev.GraphBroke, line: int, given_up: Container[int]) -> tuple[bool, bool, int]:
    """How likely it is that a line of the function runs as plain Python because of this break."""
    at = broke.user_stack[0].line
    return broke.frame in given_up, at <= line, at if at <= line else -at
