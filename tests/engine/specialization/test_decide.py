"""engine/specialization/decide.py: what a frame decides about its arguments, call after call, beside torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import dynexplore
from dynamo_ban import lifted
from dynexplore.engine import events as ev
from dynexplore.engine.runtime import optimized
from dynexplore.engine.runtime.stores import Options
from dynexplore.recording.recording import Recording
from dynexplore.session.session import watched_store


def scaled(x: Any, n: Any = 2) -> Any:
    return x * n


def rows(count: int, mark: str = "") -> torch.Tensor:
    x = torch.ones(count, 3)
    if mark:
        getattr(dynexplore, mark)(x, 0)
    return x


def decisions(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], dynamic: bool | None = None) -> dict[str, str]:
    """What the last translation of these calls decided: source -> `kind: because`."""
    recording = Recording()
    compiled = optimized.wrap(function, watched_store("eager", Options(dynamic=dynamic), recording).region)
    for arguments in calls:
        assert torch.equal(compiled(*arguments), function(*arguments))
    last = recording.frames[-1].frame
    final = recording.final_attempt(last)
    reasons = [one for one in recording.of_frame(last, ev.Specialized) if one.attempt == final]
    return {one.source: f"{one.kind}: {one.because}" for one in reasons}


def torch_inputs(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], dynamic: bool | None) -> Any:
    """Of the last graph of torch.compile: whether the first size of `x` is a symbol, and whether a number is an input."""
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    with lifted():
        torch._dynamo.reset()
        compiled = torch.compile(function, backend=backend, dynamic=dynamic)
        for arguments in calls:
            compiled(*arguments)
    examples = [node.meta["example_value"] for node in graphs[-1].graph.nodes if node.op == "placeholder"]
    tensors = [value for value in examples if isinstance(value, torch.Tensor)]
    sized = next(value for value in tensors if value.dim() == 2)
    sizes = {size.node.expr for value in tensors for size in value.shape if isinstance(size, torch.SymInt)}
    numbers = [value for value in examples if isinstance(value, torch.SymInt) and value.node.expr not in sizes]
    return isinstance(sized.shape[0], torch.SymInt), bool(numbers) or len(tensors) > 1


SIZES: list[tuple[str, list[Any], bool | None, str]] = [
    ("the first size", [rows(4)], None, "static: no other size has been seen here"),
    ("the same size again", [rows(4), rows(4)], None, "static: no other size has been seen here"),
    ("a second size", [rows(4), rows(5)], None, "dynamic: it changed from 4 to 5"),
    ("a second size that is 1", [rows(4), rows(1)], None,
     "static: sizes 0 and 1 are specialized, because operators treat them differently"),
    ("dynamic=True", [rows(4)], True, "dynamic: dynamic=True was set"),
    ("dynamic=True and a size of 1", [rows(1)], True,
     "static: sizes 0 and 1 are specialized, because operators treat them differently"),
    ("dynamic=False and a second size", [rows(4), rows(5)], False, "static: dynamic=False was set"),
    ("mark_dynamic", [rows(4, "mark_dynamic")], None, "dynamic: mark_dynamic marked this dimension"),
    ("maybe_mark_dynamic", [rows(4, "maybe_mark_dynamic")], None, "dynamic: maybe_mark_dynamic marked this dimension"),
    ("mark_static and a second size", [rows(4, "mark_static"), rows(5, "mark_static")], None,
     "static: mark_static marked this dimension"),
    ("mark_unbacked", [rows(4, "mark_unbacked")], None, "unbacked: mark_unbacked marked this dimension"),
]  # fmt: skip


@pytest.mark.parametrize(("calls", "dynamic", "decided"), [case[1:] for case in SIZES], ids=[case[0] for case in SIZES])
def test_a_size_beside_torch_compile(calls: list[torch.Tensor], dynamic: bool | None, decided: str) -> None:
    """The kind and the reason of a size; torch.compile makes a symbol of it where this engine does."""
    arguments = [(call,) for call in calls]
    reasons = decisions(scaled, arguments, dynamic)
    assert reasons.get("x.size()[0]", reasons.get("x.size()")) == decided
    is_symbol, _ = torch_inputs(scaled, arguments, dynamic)
    assert is_symbol == (not decided.startswith("static"))


NUMBERS: list[tuple[str, list[Any], bool | None, str]] = [
    ("the first int", [3], None, "static: no other number has been seen here"),
    ("a second int", [3, 5], None, "dynamic: it changed from 3 to 5"),
    ("a third int", [3, 5, 7], None, "dynamic: it changed from 3 to 5"),
    ("dynamic=False and a second int", [3, 5], False, "static: dynamic=False was set"),
    ("the first float", [1.5], None, "static: no other number has been seen here"),
    ("a second float", [1.5, 2.5], None, "dynamic: its value has changed, and the graph computes with it"),
    ("a second float that is infinite", [1.5, float("inf")], None, "static: a symbol cannot represent 0.0, inf or nan"),
]


@pytest.mark.parametrize(("calls", "dynamic", "decided"), [case[1:] for case in NUMBERS], ids=[case[0] for case in NUMBERS])
def test_a_number_beside_torch_compile(calls: list[Any], dynamic: bool | None, decided: str) -> None:
    """The kind and the reason of a number; torch.compile makes an input of it where this engine does."""
    arguments = [(torch.ones(4, 3), number) for number in calls]
    assert decisions(scaled, arguments, dynamic)["n"] == decided
    _, is_input = torch_inputs(scaled, arguments, dynamic)
    assert is_input == (not decided.startswith("static"))


def test_a_size_that_the_function_requires() -> None:
    """A dynamic size that a condition requires to be one number is static by the end, and the reason says so."""
    def only_five(x: Any) -> Any:
        return x * 2 if x.shape[0] == 5 else x * 3

    reasons = decisions(only_five, [(rows(4),), (rows(5),)])
    assert reasons["x.size()[0]"] == "static: it was dynamic, but the function or an operator requires the value 5"


def test_a_number_that_a_loop_carries() -> None:
    """What the code counts up between graph breaks is unspecialized, until the graph computes with it."""
    def counts(x: Any) -> Any:
        count = 0
        for _ in range(3):
            torch._dynamo.graph_break()
            x = x + count
            count += 1
        return x

    reasons = decisions(counts, [(torch.ones(3),)])
    assert reasons["count"] == "dynamic: a loop increments it or takes it from an iterator, and the graph computes with it"


class Layer(torch.nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: Any) -> Any:
        return x + self.number


def test_an_attribute_of_one_of_several_modules() -> None:
    """Another module of the class is not guarded by identity, and its number is an input at once."""
    layers = [Layer(number) for number in range(3)]

    def calls(x: Any, layer: Any) -> Any:
        return layer(x)

    reasons = decisions(calls, [(torch.ones(3), layer) for layer in layers[:2]])
    assert reasons["layer"] == "unstable: another object was seen at `layer`"
    assert reasons["layer.number"].startswith(("dynamic", "unspecialized"))


def test_a_stride_that_changes_in_each_call_is_a_symbol_though_a_size_was_another_once() -> None:
    """The last column of an array that grows has the size 1 and a new stride in each call: the second one makes it a symbol."""
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    call = dynexplore.optimize(backend)(scaled)
    for width in range(3, 12):
        whole = torch.ones(5, width)
        x = whole if width == 3 else whole[:, -1:]
        assert torch.equal(call(x), scaled(x))
    assert len(graphs) == 3
