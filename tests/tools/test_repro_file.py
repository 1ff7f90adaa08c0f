"""tools/repro_file.py: the parts of the written program."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import torch.fx

from dynexplore.engine.runtime.backends import resolve
from dynexplore.tools.repro_file import ReproFile, can_stand_alone


def traced(fn: Any) -> torch.fx.GraphModule:
    """Its graph."""
    return torch.fx.symbolic_trace(fn)


@pytest.mark.plain("writes the parts of a program")
def test_inputs_of_every_kind() -> None:
    """Floats, integers within their range, booleans, strides, plain numbers."""
    inputs = [torch.randn(2, 3).t(), torch.tensor([3, 7]), torch.tensor([True]), 5, torch.ones(1, requires_grad=True)]
    file = ReproFile(traced(lambda a, b, c, d, e: (a, b, c, d, e)), inputs, backend="eager", after="dynamo", failure="fails")
    made = file.random_inputs()
    for wanted, got in zip(inputs, made, strict=True):
        if isinstance(wanted, torch.Tensor):
            assert (got.shape, got.stride(), got.dtype) == (wanted.shape, wanted.stride(), wanted.dtype)
            assert got.requires_grad == wanted.requires_grad
    assert 3 <= made[1].min() and made[1].max() <= 7 and made[3] == 5


@pytest.mark.plain("writes the parts of a program")
def test_exact_inputs_and_attributes_come_back() -> None:
    """What is packed into the text is the very content; the file is Python that compiles."""
    graph = traced(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    x = torch.randn(2)
    text = ReproFile(graph, [x], backend="eager", after="dynamo", failure="fails").text(exact_inputs=True)
    namespace: dict[str, Any] = {"__name__": "repro"}
    exec(compile(text, "repro.py", "exec"), namespace)
    assert torch.equal(namespace["repro_inputs"]()[0], x)


@pytest.mark.plain("writes the parts of a program")
def test_who_can_stand_alone() -> None:
    """Names and importable functions can; a callable object without source cannot."""
    assert can_stand_alone("inductor") and can_stand_alone(torch.nn.functional.relu)
    assert not can_stand_alone(object())


def scaled(graph: torch.fx.GraphModule, inputs: Any, options: Any = None, mode: Any = None) -> Any:
    """A backend of the program that takes options."""
    return lambda *given: tuple(one * options["factor"] for one in graph(*given))


@pytest.mark.plain("writes the parts of a program")
@pytest.mark.parametrize("how", ["torch.compile", "partial"])
def test_options_of_a_backend_are_written(how: str) -> None:
    """What torch.compile makes of a backend and options calls it with these, and so does the program; an object is no text."""

    def wrapped(options: Any) -> Any:
        by_torch: Any = torch._TorchCompileWrapper(scaled, None, options, None)
        return by_torch if how == "torch.compile" else functools.partial(scaled, options=options)

    assert resolve(wrapped({"factor": 3})).name == "scaled"
    graph = traced(lambda x: (x + 1,))
    file = ReproFile(graph, [torch.ones(2)], backend=wrapped({"factor": 3}), after="dynamo", failure="fails")
    namespace: dict[str, Any] = {"__name__": "repro"}
    exec(compile(file.text(exact_inputs=True), "repro.py", "exec"), namespace)
    assert namespace["backend"](graph, [])(torch.ones(2))[0].tolist() == [6, 6]
    assert can_stand_alone(wrapped({"factor": 3})) and not can_stand_alone(wrapped({"factor": object()}))
