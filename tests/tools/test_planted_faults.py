"""Planted faults: each tool of the toolbox finds the one that it is for, wherever it was put.

What must hold: a fault deep inside a module, after a graph break, in a resume function, for one dtype only, in backward only,
or raised only when a graph runs is found; a program that is merely random, in-place or unsteady is not called wrong.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx

import dynexplore
from dynexplore.engine.translate import dispatch
from dynexplore.engine.variables.scalars.constant import ConstantVariable

Fault = Callable[[torch.fx.Node, Any], bool]


class _Off(torch.fx.Interpreter):
    """Runs a graph, off by 1e-2 on the nodes that the fault picks."""

    def __init__(self, graph: torch.fx.GraphModule, fault: Fault) -> None:
        super().__init__(graph)
        self.fault = fault

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        return result + 1e-2 if n.op.startswith("call_") and self.fault(n, result) else result


def wrong_on(fault: Fault) -> Any:
    """A backend that is wrong on some nodes."""

    def wrong(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        return lambda *given: _Off(graph, fault).run(*given)

    return wrong


def calls(target: Any) -> Fault:
    return lambda node, result: node.target is target


def crashes(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that refuses one operator while it compiles."""
    if any(node.target is torch.erf for node in graph.graph.nodes):
        raise NotImplementedError("erf")
    return graph.forward


def raises_late(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend whose product refuses it when it is called."""

    def run(*given: Any) -> Any:
        crashes(graph, given)
        return graph(*given)

    return run


class Block(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear, self.norm, self.drop = torch.nn.Linear(size, size), torch.nn.LayerNorm(size), torch.nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        return self.norm(x + self.drop(torch.nn.functional.gelu(self.linear(x))))


class Deep(torch.nn.Module):
    """The bad operator stands in the third of four blocks; dropout in each, in-place operations between them."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(8) for _ in range(4))
        self.blocks[2].register_forward_hook(lambda module, args, out: torch.erf(out).mul_(1.01))

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x.sum()


def two_graphs(x: Any) -> Any:
    y = x.cos() + 1
    torch._C._set_grad_enabled(torch.is_grad_enabled())
    print("a break")
    return (torch.erf(y) * 2).tanh()


def in_a_branch(x: Any) -> Any:
    if x.sum() > 1e6:
        return x.sin()
    return torch.erf(x) + x


def in_double(x: Any) -> Any:
    return (torch.exp(x) + torch.exp(x.double()).float()).sum()


def changes_its_argument(x: Any) -> Any:
    x[0] = torch.erf(x[1]) + 2
    return x * 2


X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
PROGRAMS = {"deep": Deep(), "two graphs": two_graphs, "branch": in_a_branch, "in place": changes_its_argument}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("backend", [crashes, raises_late, wrong_on(calls(torch.erf))], ids=["crashes", "late", "wrong"])
def test_one_bad_operator(program: str, backend: Any) -> None:
    """Diagnosed as the backend's, and cut down to that operator; the argument of the caller stays as it is."""
    before = X.clone()
    found = dynexplore.diagnose(PROGRAMS[program], X, backend=backend)
    assert found.failing is not None and found.failing.layer == "backend", str(found)
    small = dynexplore.minify(PROGRAMS[program], X, backend=backend)
    assert [node.target for node in small.graph.graph.nodes if node.op.startswith("call_")] == [torch.erf]
    assert torch.equal(X, before)


def test_wrong_for_one_dtype() -> None:
    """The same operator on the other dtype is right, and is not what is left."""
    backend = wrong_on(lambda node, result: node.target is torch.exp and result.dtype is torch.float64)
    found = dynexplore.diagnose(in_double, X, backend=backend)
    assert found.failing is not None and found.failing.layer == "backend"
    small = dynexplore.minify(in_double, X, backend=backend)
    (one,) = [node for node in small.graph.graph.nodes if node.target is torch.exp]
    assert small.inputs[0].dtype is torch.float64 or ("double" in small.graph.code and one is not None)


def test_wrong_in_backward_only() -> None:
    """Through AOTAutograd, a backward graph that is off: values agree, gradients do not."""
    common = pytest.importorskip("torch._dynamo.backends.common")
    compilers = pytest.importorskip("functorch.compile")
    wrong = wrong_on(lambda node, result: "cos" in str(node.target))

    def backward(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        return compilers.make_boxed_func(wrong(graph, inputs))

    def forward(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        return compilers.make_boxed_func(graph.forward)

    backend = common.aot_autograd(fw_compiler=forward, bw_compiler=backward)
    x = X.clone().requires_grad_()

    def program(x: Any) -> Any:
        return (torch.sin(x * 2).exp() + x.tanh()).sum()

    found = dynexplore.diagnose(program, x, backend=backend)
    assert found.failing is not None and found.failing.layer == "backend" and "the gradient of argument[0]" in str(found)
    small = dynexplore.minify(program, x, backend=backend)
    assert small.failure.kind == "differs" and "gradient" in small.failure.words
    assert [node.target for node in small.graph.graph.nodes if node.op.startswith("call_")] == [torch.sin]
    behind = dynexplore.minify(program, x, backend=wrong, after="aot")
    assert [node.target for node in behind.graph.graph.nodes if node.op.startswith("call_")] == [torch.ops.aten.cos.default]


@pytest.mark.parametrize("backend", ["aot_eager", wrong_on(lambda node, result: False)], ids=["aot_eager", "right"])
def test_what_is_right_is_not_called_wrong(backend: Any) -> None:
    """Dropout, in-place operations, breaks, buffers that change, an argument that is written to."""
    model = torch.nn.Sequential(Block(8), torch.nn.BatchNorm1d(8))
    for program in (*PROGRAMS.values(), model):
        found = dynexplore.diagnose(program, X, backend=backend)
        assert found.failing is None and not found.unsteady, str(found)
        assert dynexplore.explain(program, X).graph_count > 0


def test_an_engine_handler_that_is_wrong_on_purpose() -> None:
    """It computes something else: the capture is to blame, whatever stands behind it; and a saved frame shows it again."""

    def swapped(frame: Any, step: Any, ctx: Any) -> None:
        if step.arg == "-":
            frame.stack[-1], frame.stack[-2] = frame.stack[-2], frame.stack[-1]
        original(frame, step, ctx)

    def program(x: Any, y: Any) -> Any:
        return (x - y).sum()

    with dispatch.override("BINARY_OP", swapped) as original:
        found = dynexplore.diagnose(program, X, X * 2, backend="aot_eager")
    assert found.failing is not None and found.failing.layer == "capture" and "the value differs by" in str(found)
    assert dynexplore.diagnose(program, X, X * 2, backend="aot_eager").failing is None


def test_an_engine_handler_that_raises_for_one_function_only() -> None:
    """A fallback to plain Python would give the right value, and is reported all the same."""

    def picky(frame: Any, step: Any, ctx: Any) -> None:
        if step.arg == "@":
            raise AssertionError("no matrices today")
        original(frame, step, ctx)

    with dispatch.override("BINARY_OP", picky) as original:
        found = dynexplore.diagnose(lambda x: x.sin() @ x.t(), X, backend="eager")
    assert found.failing is not None and found.failing.layer == "capture" and "no matrices today" in found.failing.failure


def test_a_constant_that_is_wrong() -> None:
    """A handler that pushes another constant."""

    def off_by_one(frame: Any, step: Any, ctx: Any) -> None:
        original(frame, step, ctx)
        if step.arg == 3:
            frame.pop()
            frame.push(ConstantVariable(4))

    with dispatch.override("LOAD_CONST", off_by_one) as original:
        found = dynexplore.diagnose(lambda x: x * 3, X, backend="eager")
    assert found.failing is not None and found.failing.layer == "capture"


# -- what recompiles, what breaks ----------------------------------------------------------------------------------------

SCALE = 2


def profiled(fn: Any, calls: list[tuple[Any, ...]]) -> Any:
    """The report of a profiler after some calls."""
    prof = dynexplore.CompilationProfiler()
    fast = dynexplore.optimize(prof)(fn)
    for args in calls:
        fast(*args)
    return prof.report()


def test_an_int_that_recompiles_every_call() -> None:
    """The profiler names argument, guard, what was expected and what was found; until_quiet never gets quiet."""

    def program(x: Any, n: int) -> Any:
        return x * len("x" * n)

    report = profiled(program, [(X, 3), (X, 4), (X, 5)])
    assert any("'n'" in one.source and (one.expected, one.actual) == ("3", "4") for one in report.recompiles), report
    with dynexplore.config.patch(cache_size_limit=64):
        fast = dynexplore.optimize("eager")(program)
        numbers = itertools.count(3)
        restless = dynexplore.until_quiet(lambda x: fast(x, next(numbers)), [(X,)], rounds=4)
    assert not restless.is_quiet and restless.compiled == (1, 1, 1, 1) and "still compiles after 4 rounds" in str(restless)


def test_a_global_that_changes() -> None:
    """Its guard is named."""

    def program(x: Any) -> Any:
        return x.repeat(SCALE, 1) if isinstance(SCALE, int) else x

    global SCALE
    prof = dynexplore.CompilationProfiler()
    fast = dynexplore.optimize(prof)(program)
    try:
        for SCALE in (2, 3, 4):
            fast(X)
    finally:
        SCALE = 2
    report = prof.report()
    assert any("SCALE" in one.source for one in report.recompiles), report
    assert "SCALE" in report._repr_html_()


def test_a_hook_that_breaks_the_graph() -> None:
    """all_breaks and the profiler say where, in which function, and how to mend it."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())

    def noisy_hook(module: Any, args: Any, out: Any) -> Any:
        print("in the hook")
        return out + 1

    model[0].register_forward_hook(noisy_hook)
    report = dynexplore.all_breaks(model, X)
    assert any("noisy_hook" in cost.place and cost.graph_break.kind == "DX206" for cost in report), str(report)
    issue = next(cost.as_issue() for cost in report if "noisy_hook" in cost.place)
    assert 'print("in the hook")' in issue and f"torch {torch.__version__}" in issue
    profile = profiled(model, [(X,)])
    assert any("noisy_hook" in one.place and one.fix for one in profile.breaks), profile


# -- five hundred nodes ----------------------------------------------------------------------------------------------------


def long_program(x: Any, weights: Any) -> Any:
    for number, weight in enumerate(weights):
        x = torch.tanh(x @ weight) + x * 0.5
        if number == 61:
            x = torch.erf(x) + torch.erf(x.detach())[:1]
        if number == 30:
            x = torch.nn.functional.dropout(x, 0.2)
    return x.sum(), x


@pytest.mark.parametrize("backend", [crashes, raises_late, wrong_on(calls(torch.erf))], ids=["crashes", "late", "wrong"])
def test_five_hundred_nodes(backend: Any) -> None:
    """One bad node of 500 is left with at most four others, in less than a minute."""
    weights = [torch.randn(8, 8).requires_grad_() for _ in range(125)]
    started = time.process_time()
    small = dynexplore.minify(long_program, X, weights, backend=backend)
    assert time.process_time() - started <= 60
    assert len(small.before.graph.nodes) >= 500 and len(small.graph.graph.nodes) <= 5
    assert any(node.target is torch.erf for node in small.graph.graph.nodes)
