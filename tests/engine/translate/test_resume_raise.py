"""What is raised before a resume function begins belongs to the function: its blocks are left, its handlers may catch."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import dynexplore

LOG: list[Any] = []


@contextlib.contextmanager
def block(name: str) -> Iterator[None]:
    """Notes how it is left."""
    LOG.append(f"enter {name}")
    try:
        yield
    except BaseException as error:
        LOG.append(f"{name} sees {type(error).__name__}")
        raise
    finally:
        LOG.append(f"leave {name}")


def in_with_blocks(x: Any) -> Any:
    with block("a"), torch.no_grad(), block("b"):
        dynexplore.graph_break()
        return x.sin()


def in_finally(x: Any) -> Any:
    try:
        dynexplore.graph_break()
        return x.sin()
    finally:
        LOG.append("finally")


def in_a_loop(x: Any) -> Any:
    for number in range(3):
        try:
            dynexplore.graph_break()
            x = x.sin()
        finally:
            LOG.append(number)
    return x


def with_cells(x: Any) -> Any:
    total = x

    def later() -> Any:
        return total

    with block("a"):
        dynexplore.graph_break()
        total = x.sin()
    return later()


def in_a_handler(x: Any) -> Any:
    try:
        raise KeyError("k")
    except KeyError as error:
        try:
            dynexplore.graph_break()
            return x.sin()
        finally:
            LOG.append(type(error).__name__)


def in_no_block(x: Any) -> Any:
    dynexplore.graph_break()
    return x.sin()


LEFT = [
    (in_with_blocks, ["enter a", "enter b", "b sees {}", "leave b", "a sees {}", "leave a"]),
    (in_finally, ["finally"]),
    (in_a_loop, [0]),
    (with_cells, ["enter a", "a sees {}", "leave a"]),
    (in_a_handler, ["KeyError"]),
    (in_no_block, []),
]


def failing(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that takes no graph with a sine."""
    if any(node.target in (torch.sin, "sin") for node in graph.graph.nodes):
        raise NotImplementedError("no sine")
    return graph.forward


def interrupting(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend at whose work somebody presses Ctrl-C."""
    raise KeyboardInterrupt


@pytest.mark.parametrize(("backend", "error"), [(failing, "BackendCompilerError"), (interrupting, "KeyboardInterrupt")])
@pytest.mark.parametrize(("fn", "left"), LEFT, ids=lambda one: getattr(one, "__name__", ""))
def test_blocks_are_left(fn: Callable[..., Any], left: list[Any], backend: Any, error: str) -> None:
    """`with` blocks are left and `finally` runs, in order; modes are as before; the traceback ends where the function goes on."""
    LOG.clear()
    with pytest.raises((dynexplore.exc.BackendCompilerError, KeyboardInterrupt)) as raised:
        dynexplore.optimize(backend)(fn)(torch.ones(3))
    assert type(raised.value).__name__ == error
    assert LOG == [one.format(error) if isinstance(one, str) else one for one in left]
    assert torch.is_grad_enabled()
    entries = [entry for entry in traceback.extract_tb(raised.value.__traceback__) if entry.filename == __file__]
    assert [entry.name for entry in entries if entry.name == fn.__name__] == [fn.__name__]


def test_a_handler_around_the_break_catches() -> None:
    """What the rest raises before it begins is raised inside of the `try` that it stands in; the next call tries again."""

    def fn(x: Any) -> Any:
        try:
            dynexplore.graph_break()
            return x.sin()
        except dynexplore.exc.BackendCompilerError:
            return "caught"

    compiled = dynexplore.optimize(failing)(fn)
    assert [compiled(torch.ones(3)) for _ in range(2)] == ["caught"] * 2
    assert torch.equal(dynexplore.optimize("eager")(fn)(torch.ones(3)), torch.ones(3).sin())


def test_a_break_that_is_forbidden_leaves_blocks() -> None:
    """`error_on_graph_break` in the rest of a frame raises where the frame goes on."""

    def fn(x: Any) -> Any:
        with torch.no_grad():
            dynexplore.graph_break()
            with dynexplore.error_on_graph_break(True):
                x = x.sin()
                dynexplore.graph_break()
        return x

    with pytest.raises(dynexplore.exc.Unsupported):
        dynexplore.optimize("eager")(fn)(torch.ones(3))
    assert torch.is_grad_enabled()
