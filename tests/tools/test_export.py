"""tools/export.py: one whole graph with the function's own calling convention, that runs without the engine."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn
from torch.overrides import TorchFunctionMode

import dynexplore

X = torch.linspace(-1, 1, 6).reshape(2, 3)
Y = torch.ones(3)
SCALE = torch.tensor(2.0)
Pair = namedtuple("Pair", "left right")


def check(fn: Any, *args: Any, other: tuple[Any, ...] = (), **kwargs: Any) -> torch.fx.GraphModule:
    """The exported graph does what the function does, with these arguments and with others of the same shapes."""
    graph, _ = dynexplore.export(fn, *args, **kwargs)
    for given in filter(None, (args, other)):
        expected, found = fn(*given, **kwargs), graph(*given, **kwargs)
        assert pytree.tree_structure(expected) == pytree.tree_structure(found)
        torch.testing.assert_close(found, expected)
    return graph


def nested(pair: Any, options: Any) -> Any:
    a, (b, c) = pair
    return {"sum": a + b * options["scale"], "rest": [c, (a,)]}


def test_nested_inputs_and_outputs() -> None:
    """Tuples, lists and dicts go in and come out as they are."""
    pair = (X, (X + 1, X * 2))
    graph = check(nested, pair, {"scale": SCALE}, other=((X * 3, (X, X)), {"scale": SCALE + 1}))
    assert [node.op for node in graph.graph.nodes if node.op.startswith("call")] == ["call_function"] * 2


def test_inputs_constants_and_twins_that_are_returned() -> None:
    """An argument comes back as it is, constants stand in the graph, one tensor returned twice is one output."""

    def fn(x: Any, unused: Any) -> Any:
        y = x + 1
        return x, y, y, None, 3, "text", torch.float32, x.shape[0]

    graph, _ = dynexplore.export(fn, X, Y)
    found = graph(X, Y)
    assert found[0] is X and found[1] is found[2] and found[3:] == (None, 3, "text", torch.float32, 2)


def test_keyword_arguments_and_defaults() -> None:
    """Given keywords are keywords of the graph; defaults that were not given are constants in it."""

    def fn(x: Any, *more: Any, scale: Any = 2, **others: Any) -> Any:
        return x * scale + sum(more) + others["bias"]

    check(fn, X, Y, bias=Y.clone(), other=(X + 1, Y * 2))


def test_named_tuples_and_registered_dataclasses() -> None:
    """What pytree knows may come out; another object is refused in one sentence."""

    @dataclass
    class Output:
        loss: Any

    assert isinstance(check(lambda x: Pair(x + 1, right=x), X)(X), Pair)
    with pytest.raises(dynexplore.exc.Unsupported, match=r"it returns an object of type .*Output.*register_dataclass"):
        dynexplore.export(lambda x: Output(x + 1), X)
    pytree.register_dataclass(Output)
    graph, _ = dynexplore.export(lambda x: Output(x.sum()), X)
    assert isinstance(graph(X), Output) and torch.equal(graph(X).loss, X.sum())


class Net(nn.Module):
    """A module with parameters, a buffer and a child."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("offset", torch.ones(3))

    def forward(self, x: Any, flag: bool = True) -> Any:
        """Uses all of them."""
        return (self.layer(x) + self.offset if flag else x), self.layer.weight


def test_a_module_runs_alone() -> None:
    """Parameters and buffers are attributes under their own names, shared with the module; gradients reach them."""
    net = Net()
    graph = check(net, X, other=(X + 1,))
    assert set(dict(graph.named_parameters())) == {"layer.weight", "layer.bias"}
    assert graph.layer.weight is net.layer.weight and graph(X)[1] is net.layer.weight
    graph(X)[0].sum().backward()
    assert net.layer.weight.grad is not None
    check(net.forward, X)


def test_tensors_of_closures_and_globals() -> None:
    """They become attributes as well."""
    offset = torch.ones(3)
    graph = check(lambda x: x * SCALE + offset, X)
    assert len([node for node in graph.graph.nodes if node.op == "get_attr"]) == 2


def test_no_operator_at_all() -> None:
    """A function that only rearranges is a graph without calls."""
    check(lambda x, y: [y, {"x": x}], X, Y)


def test_aten_graphs() -> None:
    """aten operators, decomposed where a table says so, in the same calling convention."""

    def fn(x: Any, weights: Any) -> Any:
        return {"y": torch.nn.functional.silu(x @ weights["w"])}, x

    graph, _ = dynexplore.export(fn, X, {"w": torch.ones(3, 2)}, aten_graph=True)
    targets = {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}
    assert targets == {"aten.mm.default", "aten.silu.default"}
    given = (X + 1, {"w": torch.full((3, 2), 0.5)})
    torch.testing.assert_close(graph(*given), fn(*given))
    table = {torch.ops.aten.silu.default: lambda x: x * torch.sigmoid(x)}
    small, _ = dynexplore.export(fn, X, {"w": torch.ones(3, 2)}, aten_graph=True, decomposition_table=table)
    assert "aten.sigmoid.default" in {str(node.target) for node in small.graph.nodes}
    torch.testing.assert_close(small(*given), fn(*given))


@pytest.mark.parametrize("tracing_mode", ["fake", "symbolic"])
def test_other_ways_of_tracing(tracing_mode: Any) -> None:
    """Fake tensors, and sizes as symbols: then the graph serves other sizes."""
    net = Net()
    graph, _ = dynexplore.export(net, X, aten_graph=True, tracing_mode=tracing_mode)
    given = torch.randn(5 if tracing_mode == "symbolic" else 2, 3)
    torch.testing.assert_close(graph(given)[0], net(given)[0])


def test_the_guards_tell_what_was_relied_on() -> None:
    """A constant argument and the tensor's properties are among them."""
    _, guards = dynexplore.export(lambda x, n: x * n, X, 3)
    assert {(guard.source, guard.kind) for guard in guards} >= {("args[0]", "TENSOR_MATCH"), ("args[1]", "EQUALS")}


def test_everything_that_stands_in_the_way() -> None:
    """Each break with place, reason and cure."""

    def fn(x: Any) -> Any:
        y = x + 1
        print("woo")
        return y * y.sum().item()

    with pytest.raises(dynexplore.exc.Unsupported) as caught:
        dynexplore.export(fn, X)
    text = str(caught.value)
    assert "breaks in 2 places" in text and "DX206" in text and "DX101" in text and 'print("woo")' in text


def test_a_break_in_a_callee_is_one_place() -> None:
    """One graph would end there for all frames: the export says so once, with the line of the callee."""

    def callee(x: Any) -> Any:
        y = x + 1
        print("inside")
        return y * 2

    def fn(x: Any) -> Any:
        return callee(x * 3) - x

    with dynexplore.config.patch(nested_graph_breaks=True), pytest.raises(dynexplore.exc.Unsupported) as caught:
        dynexplore.export(fn, X)
    text = str(caught.value)
    assert "breaks in 1 place" in text and 'print("inside")' in text and "return callee(x * 3) - x" not in text


def test_changes_of_other_objects_are_refused() -> None:
    """Tensors changed in place are part of the graph; a list of the program is not."""
    seen: list[Any] = []

    def notes(x: Any) -> Any:
        seen.append(1)
        return x + 1

    with pytest.raises(dynexplore.exc.Unsupported, match="it has side effects other than mutations of tensors: .*append"):
        dynexplore.export(notes, X)

    def in_place(x: Any) -> Any:
        x.add_(1)
        return x * 2

    graph, _ = dynexplore.export(in_place, X.clone())
    given = X.clone()
    assert torch.equal(graph(given), (X + 1) * 2) and torch.equal(given, X + 1)


def sets_a_global(x: Any) -> Any:
    """Changes this module."""
    global SEEN
    SEEN = 5
    return x + 1


SEEN = 0


def test_a_global_that_is_set_is_refused() -> None:
    """The graph would not set it."""
    with pytest.raises(dynexplore.exc.Unsupported, match="global SEEN of the globals"):
        dynexplore.export(sets_a_global, X)


def test_one_tensor_passed_twice_is_refused() -> None:
    """Two tensors there later would be taken for one; copies of one tensor are two."""
    check(lambda a, b: a - b * 2, X, X.clone(), other=(X, X + 1))
    with pytest.raises(dynexplore.exc.Unsupported, match=r"the same tensor passed twice: pass a copy"):
        dynexplore.export(lambda a, b: a - b * 2, X, X)


def test_the_callers_tensors_and_modules_stay_as_they_are() -> None:
    """The one call of the capture works on copies; running statistics are put back."""
    x, norm = X.clone(), nn.BatchNorm1d(3)
    dynexplore.export(lambda x: x.add_(1) * 2, x)
    dynexplore.export(norm, x)
    assert torch.equal(x, X) and norm.num_batches_tracked == 0


def test_what_is_made_inside_may_change() -> None:
    """Closures and lists of the function's own are no side effects."""

    def fn(x: Any) -> Any:
        total = 0
        items = []

        def add(n: int) -> None:
            nonlocal total
            total += n
            items.append(x * n)

        add(1), add(2)
        return items, total

    check(fn, X)


class Logging(TorchFunctionMode):
    """A mode that wants to see every operator."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("around", "why"),
    [
        pytest.param(
            lambda: dynexplore.config.patch(disable=True),
            "because config.disable is on",
            marks=pytest.mark.plain("is about the engine being off"),
        ),
        (Logging, "because the mode Logging is active"),
    ],
)
def test_what_runs_as_plain_python_is_refused(around: Any, why: str) -> None:
    """Its result of this one call would stand in the graph as a constant."""
    with around(), pytest.raises(dynexplore.exc.Unsupported, match=f"cannot be exported: it ran as plain Python, {why}"):
        dynexplore.export(lambda x: x + 1, X)


def test_is_exporting_is_true_inside_only() -> None:
    """torch.compiler.is_exporting tells export from other captures."""

    def fn(x: Any) -> Any:
        return x + 1 if torch.compiler.is_exporting() else x - 1

    graph, _ = dynexplore.export(fn, X)
    assert torch.equal(graph(X), X + 1)
    assert torch.equal(dynexplore.optimize("eager")(fn)(X), X - 1)


class Config:
    """An object of the program."""

    depth = 3

    @dynexplore.assume_constant_result
    def layers(self) -> int:
        """Not traced."""
        return len(str(self.depth)) + self.depth


@dynexplore.assume_constant_result
def table(name: str) -> Any:
    """Not traced either."""
    return {"two": 2}[name.lower()] if name.isupper() else torch.ones(3)


def test_results_assumed_constant() -> None:
    """Functions and methods are called while capturing; numbers and tensors are constants of the graph."""

    check(lambda x: x * table("TWO") + table("ones"), X)
    config = Config()
    check(lambda x: x * config.layers(), X)


@dynexplore.assume_constant_result
def places(x: Any, also: Any) -> Any:
    """What depends on the content of tensors."""
    also.add_(1)
    return {"places": torch.nonzero(x), "parts": [x * 2, (also, "text")]}


def test_results_assumed_constant_of_tensors() -> None:
    """The function gets the values of this call, on copies; what it gives is baked in, nests of tensors too."""

    def fn(x: Any) -> Any:
        y = x.relu() + 1
        y.mul_(2)
        found = places(y, x)
        return found["places"] + 1, found["parts"][0], found["parts"][1], y

    x = torch.tensor([-1.0, 0.0, 2.0])
    graph, _ = dynexplore.export(fn, x)
    assert torch.equal(x, torch.tensor([-1.0, 0.0, 2.0]))
    expected = fn(x.clone())
    for args in (x, x * 7):
        found, part, (also, text), _ = graph(args)
        assert torch.equal(found, expected[0])
        assert torch.equal(part, expected[1])
        assert torch.equal(also, expected[2][0])
        assert text == "text"
    assert torch.equal(graph(x * 7)[3], (x * 7).relu() * 2 + 2)


@pytest.mark.plain("refused before anything is captured")
def test_wrong_options() -> None:
    """Each gets one sentence."""
    with pytest.raises(ValueError, match="tracing_mode must be 'real', 'fake' or 'symbolic', not 'fast'"):
        dynexplore.export(abs, X, tracing_mode="fast")
    with pytest.raises(ValueError, match="pass aten_graph=True"):
        dynexplore.export(abs, X, tracing_mode="fake")


def test_an_export_prints_as_code_and_guards() -> None:
    """A pair that can be unpacked, and what people look at: the code of the graph, then the guards as a table."""
    exported = dynexplore.export(lambda x: x.sin() + 1, X)
    graph, guards = exported
    assert isinstance(exported, tuple) and graph.code.strip() in repr(exported) and repr(exported).endswith(repr(guards))
    shown = exported._repr_html_()
    assert "x_.sin()" in shown and f"{len(guards)} guards" in shown
