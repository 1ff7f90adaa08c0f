"""Functions that ask for their own local variables: they see what plain Python shows, and nothing of the engine's."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import graphs_compiled


def after_a_break(x: torch.Tensor) -> Any:
    """`y` is not used again, but it is there."""
    y = x + 1
    dynexplore.graph_break()
    z = x * 2
    return sorted(locals()), z.sum().item(), y.shape


def in_a_callee(x: torch.Tensor) -> Any:
    """The callee asks; the caller is captured."""

    def told(first: torch.Tensor) -> Any:
        second = first + 1
        return list(locals()), second.sum()

    names, total = told(x * 2)
    return names, (total + x).tolist()


def without_arguments(x: torch.Tensor) -> Any:
    """vars() and dir() are about the frame, too."""
    known = x.shape[0]
    return sorted(vars()), dir(), (x + known).tolist()


def as_a_format(x: torch.Tensor) -> str:
    """The idiom."""
    size = x.shape[0]
    return "{size} of {dtype}".format(**locals(), dtype=x.dtype)


def of_the_frame(x: torch.Tensor) -> Any:
    """Frames say it as well."""
    y = x + 1
    frame = inspect.currentframe()
    assert frame is not None
    return sorted(sys._getframe().f_locals), "y" in frame.f_locals, y.tolist()


@pytest.mark.parametrize("program", [after_a_break, in_a_callee, without_arguments, as_a_format, of_the_frame])
def test_the_names_are_those_of_plain_python(program: Callable[..., Any]) -> None:
    """On the call that captures and on the next."""
    x = torch.tensor([1.0, 2.0])
    compiled = dynexplore.optimize("eager")(program)
    assert [compiled(x), compiled(x)] == [program(x), program(x)]
    # who reads its own frame runs plain; a callee that does so breaks the graph of its caller
    assert graphs_compiled() == (2 if program is in_a_callee else 0)
    assert dynexplore.counters["frames"]["total"] > 0


def test_vars_of_an_object_is_no_such_question() -> None:
    """With an argument these functions are about that, and the function is captured."""

    class Holder:
        def __init__(self) -> None:
            self.scale = 2.0

    def program(x: torch.Tensor, holder: Holder) -> torch.Tensor:
        return x * vars(holder)["scale"]

    graphs = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    assert dynexplore.optimize(backend)(program)(torch.ones(2), Holder()).tolist() == [2.0, 2.0]
    assert len(graphs) == 1
