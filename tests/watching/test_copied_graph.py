"""The code of a watched graph, generated when it is read: the text that torch generates, and nothing of the program is held."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from watching.programs import PROGRAMS, Program, run

import dynexplore
from dynexplore.watching.copied_graph import code_of, copied_arguments, copy_of, has_plain_code

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]

X = torch.ones(2, 4)


def _constants(x: torch.Tensor) -> torch.Tensor:
    """Slices, dtypes, nested lists, an ellipsis, infinities, keyword arguments, names that Python and torch use."""
    print_1, relu = x[..., 1:3, None], torch.relu(x)
    total = torch.cat([print_1.squeeze(-1), relu[:, ::2]], dim=1).to(torch.float64).clamp(min=-float("inf"), max=1e300)
    return torch.where(total > 0, total, torch.zeros_like(total, dtype=torch.float64, memory_format=torch.contiguous_format))


def _sizes(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(x.shape[1], x.shape[0]) * x.shape[0]


def _subgraph(x: torch.Tensor) -> torch.Tensor:
    return torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False)


def _module() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.GELU())


OTHERS = {
    "constants": Program(lambda: _constants, lambda: [(X,)]),
    "sizes": Program(lambda: _sizes, lambda: [(X,), (torch.ones(3, 4),)]),
    "subgraph": Program(lambda: _subgraph, lambda: [(torch.ones(2, requires_grad=True),)]),
    "module": Program(_module, lambda: [(X,)]),
}


@pytest.mark.parametrize("name", [*PROGRAMS, *OTHERS])
def test_the_code_is_that_of_torch(name: str) -> None:
    """The code generated from the copies is that of the graph, to the letter."""
    from torch._dynamo import output_graph

    graphs: list[tuple[str, list[Any]]] = []
    original = output_graph.OutputGraph.call_user_compiler

    def collect(output: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
        copies = [arguments and copy_of(node, arguments) for node in graph.graph.nodes for arguments in [copied_arguments(node)]]
        assert has_plain_code(graph.graph)
        graphs.append((graph.graph.python_code("self").src, copies))
        return original(output, graph, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_graph.OutputGraph, "call_user_compiler", collect)
        run((PROGRAMS | OTHERS)[name])
    assert graphs or name == "loop"
    for code, copies in graphs:
        assert None not in copies
        assert code_of(copies) == code


def test_a_watch_shows_the_code_that_the_backend_got() -> None:
    """A backend that changes the graph afterwards does not change the recording."""
    received: list[str] = []

    def change(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        received.append(graph.code)
        for node in list(graph.graph.nodes):
            if node.target is torch.relu:
                node.target = torch.sin
        graph.recompile()
        return graph.forward

    with dynexplore.watch(steps=False) as seen:
        torch.compile(lambda x: torch.relu(x) + 1, backend=change)(X)
    assert [graph.code for graph in seen.recording.of(dynexplore.engine.events.SubgraphCompiled)] == [received[0].strip()]
    assert "torch.relu" in received[0]


def test_a_function_of_the_program_in_a_graph_is_not_held() -> None:
    """A node that calls a function of the program is not copied; the code of its graph is generated at once."""

    def mine(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    node = torch.fx.Graph().create_node("call_function", mine, (1,))
    assert copied_arguments(node) == ((1,), {})
    assert copy_of(node, ((1,), {})) is None
    torch.compiler.allow_in_graph(mine)
    with dynexplore.watch(steps=False) as seen:
        torch.compile(lambda x: mine(x) + 1, backend="eager")(X)
    assert "mine(" in seen.recording.of(dynexplore.engine.events.SubgraphCompiled)[0].code


@pytest.mark.plain("a table of argument types needs no engine")
def test_an_argument_of_the_program_is_not_copied() -> None:
    """An object that is not a constant among a node's arguments is not held."""
    node = torch.fx.Graph().create_node("call_function", torch.relu, (object(),))
    assert copied_arguments(node) is None
