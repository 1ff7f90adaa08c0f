"""examples/mini_dynamo.py, the file that tutorial 12 builds: same values as plain Python, and the graphs that the engine makes."""

from __future__ import annotations

import importlib.util
import json
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore

of_its_own = pytest.mark.plain("the example is an engine of its own")

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "examples" / "mini_dynamo.py"
_spec = importlib.util.spec_from_file_location("mini_dynamo", PATH)
mini_dynamo = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(mini_dynamo)

SCALE = torch.tensor([2.0, 3.0, 4.0])
printed = []
rate = 0.5


def straight(x, y):
    return (x * 2 + torch.abs(y)).relu() / (y @ y)


def on_a_number(x, n):
    if n > 2:
        return x * n
    return x + n


def on_a_shape(x):
    if x.shape[0] == 3 and x.dim() == 1:
        return x.reshape(3, 1) * x.size(0)
    return x + x.ndim


def counting_down(x, n):
    while n > 0:
        x = x * 2 + n
        n -= 1
    return x


def of_globals(x):
    return x * SCALE - rate


def broken_once(x):
    y = x.abs() + 1
    printed.append(y.sum().item())
    return y * 2


def on_data(x):
    if x.sum() > 0:
        return x.sin()
    return x.cos() - 1


def broken_in_a_loop(x, n):
    while n > 0:
        x = x + 1
        printed.append(n)
        n -= 1
    return x * 2


def helper(x):
    printed.append("helper")
    return x.tanh()


def broken_amid_a_call(x):
    return torch.add(helper(x) * 2, helper(x + 1))


def in_place(x):
    y = x.clone()
    y += 1
    y.mul_(3)
    return y.sum()


def of_a_tuple(x):
    return x.shape, x[0] + 1


def a_loop_over_a_range(x):
    for place in range(3):
        x = x + place
    return x


def it_raises(x):
    return x.abs() @ torch.ones(7)


ONES, NEGATIVE = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, 3.5])
CALLS: dict[Callable[..., Any], list[tuple[Any, ...]]] = {
    straight: [(ONES, NEGATIVE), (NEGATIVE, ONES), (ONES.double(), NEGATIVE.double())],
    on_a_number: [(ONES, 3), (ONES, 1), (NEGATIVE, 3), (ONES, True), (ONES, 3.0), (ONES, 0.0), (ONES, -0.0)],
    on_a_shape: [(ONES,), (torch.ones(2, 3),), (NEGATIVE,)],
    counting_down: [(ONES, 3), (ONES, 0), (NEGATIVE, 3)],
    of_globals: [(ONES,), (NEGATIVE,)],
    broken_once: [(ONES,), (NEGATIVE,), (ONES,)],
    on_data: [(ONES,), (-ONES,), (ONES + 1,)],
    broken_in_a_loop: [(ONES, 4), (NEGATIVE, 2)],
    broken_amid_a_call: [(ONES,), (NEGATIVE,)],
    in_place: [(ONES,), (NEGATIVE,)],
    of_a_tuple: [(ONES,), (torch.ones(2, 2),)],
    a_loop_over_a_range: [(ONES,), (NEGATIVE,)],
}
CAPTURED_ALIKE = (straight, on_a_number, on_a_shape, counting_down, broken_once, on_data)
"""Where the file has to break exactly where the engine does."""


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What a call returns and what it printed."""
    printed.clear()
    value = function(*arguments)
    return value, list(printed)


@of_its_own
@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_values_are_those_of_plain_python(function: Callable[..., Any]) -> None:
    """Of each call twice, so that cached code runs, too; what is printed comes in the same order."""
    mini = mini_dynamo.MiniDynamo()
    fast = mini.optimize(function)
    for arguments in [*CALLS[function], *CALLS[function]]:
        expected, effects = outcome(function, arguments)
        value, same_effects = outcome(fast, arguments)
        torch.testing.assert_close(value, expected, rtol=0, atol=0)
        assert effects == same_effects
    assert mini.frames


@pytest.mark.parametrize("function", CAPTURED_ALIKE, ids=lambda function: function.__name__)
def test_graphs_are_those_of_the_engine(function: Callable[..., Any]) -> None:
    """The same operators in the same graphs, in the first call."""
    mini = mini_dynamo.MiniDynamo()
    mini.optimize(function)(*CALLS[function][0])
    graphs = dynexplore.explain(function, *CALLS[function][0]).recording.graphs
    called = [[node.name for node in graph.nodes if node.op.startswith("call_")] for graph in graphs]
    captured = [[node.name for node in frame.graph.nodes if node.op.startswith("call_")] for frame in mini.frames]
    assert [nodes for nodes in captured if nodes] == called and called


@of_its_own
@pytest.mark.plain("compares two texts")
def test_tutorial_12_builds_the_file() -> None:
    """Its cells, one after the other, are the file without its docstring, section headings and example."""
    (path,) = (ROOT / "notebooks").glob("12_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    built = ["".join(cell["source"]) for cell in cells if "mini_dynamo" in cell["metadata"].get("tags", ())]
    file = PATH.read_text(encoding="utf-8").split('"""', 2)[2].partition("\n\nif __name__ ==")[0]
    assert "\n\n\n".join(built) == re.sub(r"\n+# -- .* -+\n+", "\n\n\n", file).strip()


@of_its_own
def test_a_second_call_captures_nothing() -> None:
    """What guards allow is used again: other numbers are; another dtype is not, nor another number in an `if`."""
    mini = mini_dynamo.MiniDynamo()
    fast = mini.optimize(on_a_number)
    for arguments, entries in [((ONES, 3), 1), ((NEGATIVE, 3), 1), ((ONES, 4), 2), ((ONES.double(), 3), 3), ((ONES, 4), 3)]:
        fast(*arguments)
        assert len(mini.frames) == entries
    assert {(guard.source, guard.kind) for guard in mini.frames[0].guards} == {("x", "TENSOR_MATCH"), ("n", "EQUALS")}


@of_its_own
def test_a_global_that_changes_is_noticed() -> None:
    """A number and a tensor of the module are guarded, and read again in each call."""
    mini = mini_dynamo.MiniDynamo()
    fast = mini.optimize(of_globals)
    fast(ONES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "rate", 0.25)
        patch.setitem(globals(), "SCALE", SCALE + 1)
        torch.testing.assert_close(fast(ONES), of_globals(ONES))
    assert len(mini.frames) == 2


@of_its_own
def test_a_loop_with_a_break_has_one_resume_function() -> None:
    """However many rounds it has: a resume function of a resume function continues the original code."""
    mini = mini_dynamo.MiniDynamo()
    mini.optimize(broken_in_a_loop)(ONES, 6)
    assert len({frame.code for frame in mini.frames}) == 2


@of_its_own
def test_gradients_are_those_of_plain_python() -> None:
    """A graph that is run as it is captured takes part in autograd."""
    leaves = [ONES.clone().requires_grad_(), ONES.clone().requires_grad_()]
    for function, leaf in zip([mini_dynamo.MiniDynamo().optimize(on_data), on_data], leaves, strict=True):
        function(leaf).sum().backward()
    assert torch.equal(leaves[0].grad, leaves[1].grad)


@of_its_own
def test_an_error_comes_from_the_line_that_has_it() -> None:
    """An operation that fails on fake tensors is a graph break: Python runs it, and raises what it would have raised."""
    mini = mini_dynamo.MiniDynamo()
    with pytest.raises(RuntimeError) as plain:
        it_raises(ONES)
    with pytest.raises(RuntimeError) as captured:
        mini.optimize(it_raises)(ONES)
    assert str(captured.value) == str(plain.value) and mini.frames


@of_its_own
def test_a_resume_function_has_the_lines_of_the_original() -> None:
    """The traceback of an error behind a graph break names the line of the source."""

    def breaks_and_raises(x):
        printed.append(1)
        raise ValueError(x)

    with pytest.raises(ValueError) as raised:
        mini_dynamo.MiniDynamo().optimize(breaks_and_raises)(ONES)
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert last.line == "raise ValueError(x)"
