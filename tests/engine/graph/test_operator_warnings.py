"""Warnings of operators: as in eager, once, at the user's line, under any filter, with and without a compiler."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import dynexplore


def broadcasts(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return torch.nn.functional.mse_loss(y, y[:1])


def without_dimension(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return torch.nn.functional.softmax(y)


def in_a_callee(x: torch.Tensor) -> torch.Tensor:
    return without_dimension(x) * 2


def resizes(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(2)
    torch.add(x, 1, out=y)
    return y


def in_a_layer(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.relu(torch.nn.MSELoss()(x, x[:1]))


PROGRAMS = (broadcasts, without_dimension, in_a_callee, resizes, in_a_layer)
Shown = list[tuple[type[Warning], str, int]]


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    dynexplore.reset()
    yield
    dynexplore.reset()


def shown_by(function: Callable[..., Any], action: Any, calls: int = 3) -> Shown:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter(action)
        for _ in range(calls):
            function(torch.arange(12.0).reshape(3, 4))
    return [(one.category, one.filename, one.lineno) for one in shown]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_an_operator_warns_once_at_the_line_of_eager(program: Callable[..., Any], backend: str) -> None:
    """Category, file and line are eager's, over three calls."""
    expected = shown_by(program, "default")
    assert len(expected) == 1
    compiled = dynexplore.optimize(backend)(program)
    assert shown_by(compiled, "default") == expected
    assert dynexplore.counters["frames"]["ok"] == 1, "it runs as plain Python"


def test_under_always_a_compiled_graph_warns_in_each_call() -> None:
    """A compiler's code has no warning in it, and eager warns in each call."""
    expected = shown_by(broadcasts, "always")
    assert len(expected) == 3
    assert shown_by(dynexplore.optimize("aot_eager")(broadcasts), "always") == expected
    assert dynexplore.counters["backend"]["aot_eager"] == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_filter_that_makes_it_an_error_raises_in_the_first_call_and_in_cached_calls(backend: str) -> None:
    """Also if the filter changes when the code is compiled already."""
    x = torch.arange(12.0).reshape(3, 4)
    compiled = dynexplore.optimize(backend)(broadcasts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning, match="target size"):
                compiled(x)
    dynexplore.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert compiled(x).item() == broadcasts(x).item()
    assert dynexplore.counters["frames"]["ok"] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="target size"):
            compiled(x)


ONCE = """
import sys, warnings, torch, dynexplore
warnings.simplefilter("error")
def transposes(x):
    return x.reshape(2, 2, 3).T
function = transposes if sys.argv[1] == "plain" else dynexplore.optimize(sys.argv[1])(transposes)
for _ in range(3):
    try:
        function(torch.arange(12.0))
    except UserWarning as warning:
        print("raised", str(warning)[:20])
    else:
        print("returned")
print(sum(dynexplore.counters["graph_break"].values()), "breaks")
"""


def test_a_warning_of_once_per_process_is_raised_by_the_call_that_raises_it_in_eager() -> None:
    """Running the operator on fake tensors does not use up the warning."""
    commands = [[sys.executable, "-c", ONCE, how] for how in ("plain", "eager")]
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in commands]
    assert outputs[0].splitlines()[0].startswith("raised")
    assert outputs[0].replace("0 breaks", "1 breaks") == outputs[1]
