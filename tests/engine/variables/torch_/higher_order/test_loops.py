"""while_loop, map and scan of torch: the function that they run again and again is a body of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.backends.debugging import aot_eager
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import dynexplore
from dynamo_ban import lifted
from engine_checks import assert_same_as_eager, differences

X = torch.linspace(-1, 1, 6).reshape(2, 3)
WEIGHT = torch.linspace(-1, 1, 9).reshape(3, 3)
LAYER = torch.nn.Linear(3, 3)


# What the operators mean, in Python: torch itself compiles them when they are called, so that there is no plain run of them.


def plain_while(condition: Any, body: Any, state: Any) -> Any:
    """A loop."""
    while bool(condition(*state)):
        state = body(*state)
    return state


def plain_map(function: Any, xs: Any, *args: Any) -> Any:
    """One step for each part."""
    steps = [function(torch.utils._pytree.tree_map(lambda x, place=place: x[place], xs), *args)
             for place in range(len(torch.utils._pytree.tree_leaves(xs)[0]))]
    return torch.utils._pytree.tree_map(lambda *parts: torch.stack(parts), *steps)


def plain_scan(step: Any, state: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
    """Steps that hand a state on."""
    tree = torch.utils._pytree
    places = range(tree.tree_leaves(xs)[0].shape[dim])
    made = []
    for place in reversed(places) if reverse else places:
        state, out = step(state, tree.tree_map(lambda x, place=place: x.select(dim, place), xs))
        made.append(out)
    return state, tree.tree_map(lambda *parts: torch.stack(parts).movedim(0, dim), *(reversed(made) if reverse else made))


OPERATORS = {"while": while_loop, "map": torch_map, "scan": scan}
PLAIN = {"while": plain_while, "map": plain_map, "scan": plain_scan}


def counts_up(op: Any, x: Any) -> Any:
    """The condition and the body use what stands outside."""
    most = x.sum().abs() + 3
    return op["while"](lambda i, a: i < most, lambda i, a: (i + 1, (a @ WEIGHT).tanh()), (torch.tensor(0.0), x))


def carries_a_nest(op: Any, x: Any) -> Any:
    """The state is a nest; a module runs in the loop."""
    def body(i: Any, rest: Any) -> Any:
        return i + 1, {"a": LAYER(rest["a"]), "b": [rest["b"][0] * 2]}

    with torch.no_grad():
        return op["while"](lambda i, rest: i < 4, body, (torch.tensor(0), {"a": x * 1, "b": [x + 1]}))


def maps_rows(op: Any, x: Any) -> Any:
    """A nest comes out, closures are used."""
    shift = x.sum()
    return op["map"](lambda row, by: (row.sin() * shift, {"b": [row * by]}), x, WEIGHT[0] + 0)


def scans_rows(op: Any, x: Any) -> Any:
    """A state is handed on."""
    weight = WEIGHT * 2
    return op["scan"](lambda c, row: ((c + row) @ weight, c * row), torch.zeros(3), x)


def scans_backwards(op: Any, x: Any) -> Any:
    """From the end, along another side, over a nest."""
    def step(c: Any, part: Any) -> Any:
        return c + part["a"], {"o": c * part["b"]}

    return op["scan"](step, torch.ones(2), {"a": x.sin(), "b": x + 1}, dim=1, reverse=True)


def one_inside_another(op: Any, x: Any) -> Any:
    """A loop whose step is a scan."""
    def body(i: Any, a: Any) -> Any:
        return i + 1, op["scan"](lambda c, row: (c + row * i, c * row), torch.zeros(3), a)[1].tanh()

    return op["while"](lambda i, a: i < 3, body, (torch.tensor(1.0), x * 1))


OLD = not hasattr(torch._functorch.predispatch, "_unwrap_for_grad")
"""Whether torch's own scan still gives other strides and gradients than the loop in Python does: ours is torch's."""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [counts_up, carries_a_nest, maps_rows, scans_rows, scans_backwards, one_inside_another])
def test_a_loop_is_one_graph(fn: Callable[..., Any], backend: str) -> None:
    """One graph gives what the loop means, for other data, too."""
    if OLD and fn is scans_backwards:
        pytest.skip("other strides in torch itself")
    graphs = []

    def counting(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return (graph.forward if backend == "eager" else aot_eager(graph, inputs))

    compiled = dynexplore.optimize(counting)(fn)
    for x in (X, X * 3):
        assert not list(differences({"value": fn(PLAIN, x)}, {"value": compiled(OPERATORS, x)}, exact=False))
    assert len(graphs) == 1 and not dynexplore.graph_breaks() and not dynexplore.counters["graph_failure"]


@pytest.mark.filterwarnings(r"ignore:.torch\.jit\..* is deprecated:DeprecationWarning")
@pytest.mark.parametrize(("fn", "backends"), [
    (counts_up, ["eager"]), (maps_rows, ["eager", "aot_eager"]), (scans_rows, ["eager", "aot_eager"]),
    (scans_backwards, ["eager", "aot_eager"]),
])  # fmt: skip
def test_gradients_flow_through_a_loop(fn: Callable[..., Any], backends: list[str]) -> None:
    """The gradients are those of the loop in Python; of a `scan` torch's own derivative marks a module for torch.compile."""
    def gradient(op: Any, run: Any) -> Any:
        x = X.clone().requires_grad_()
        total = sum(t.sum() for t in torch.utils._pytree.tree_leaves(run(op, x)) if t.requires_grad)
        return torch.autograd.grad(total, x)[0]

    if OLD and fn in (scans_rows, scans_backwards):
        pytest.skip("other gradients in torch itself")
    for backend in backends:
        dynexplore.reset()
        with lifted():
            value = gradient(OPERATORS, dynexplore.optimize(backend)(fn))
        torch.testing.assert_close(value, gradient(PLAIN, fn))
        assert dynexplore.counters["stats"]["graphs"] == 1
        assert not dynexplore.counters["graph_failure"] and not dynexplore.graph_breaks()


@pytest.mark.filterwarnings(r"ignore:.torch\.jit\..* is deprecated:DeprecationWarning")
def test_what_is_not_traced_is_left_to_torch() -> None:
    """A body that changes a list, or whose state changes its shape, breaks the graph: torch says what is wrong with it."""
    seen: list[int] = []

    def changes_a_list(x: Any) -> Any:
        return while_loop(lambda i: i < 3, lambda i: (seen.append(1) or i + 1,), (x[0, 0] * 0,))

    def grows(x: Any) -> Any:
        return scan(lambda c, row: (torch.cat([c, row]), row * 2), torch.zeros(3), x)

    for fn in (changes_a_list, grows):
        dynexplore.reset()
        with pytest.raises(Exception, match=r".") as raised, lifted():
            dynexplore.optimize("eager")(fn)(X)
        assert type(raised.value).__module__.startswith(("torch", "builtins")), raised.value
        assert any("higher-order" in reason for reason in dynexplore.graph_breaks()), dynexplore.graph_breaks()


@torch.library.custom_op("dynexplore_loops::fill", mutates_args=("x",))
def fill(x: torch.Tensor, value: float) -> None:
    """A custom operator that writes."""
    x.fill_(value)


def test_a_custom_operator_that_writes_goes_through_a_compiler() -> None:
    """The operator that a compiler makes of it (`auto_functionalized`) is carried out on our fake tensors."""

    def run(x: torch.Tensor) -> Any:
        y = x * 2
        fill(y, 3.0)
        return y + x

    assert_same_as_eager(run, X, graphs=1, breaks=0, backend="aot_eager")
