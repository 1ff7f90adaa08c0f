"""tools/diagnosis.py: a fault planted in one layer is found in that layer."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.fx
from torch.utils.checkpoint import checkpoint

import dynexplore
from dynexplore.engine.aliasing import lower_indexing
from dynexplore.engine.runtime.backends import resolve
from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.engine.translate import dispatch
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.tools import diagnosis
from engine_checks import CountingBackend


def model(x: Any) -> Any:
    return {"loss": (torch.sin(x) * 2).sum()}


X = torch.linspace(-1, 1, 6, requires_grad=True)


def crashes(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that cannot do one operator."""
    if any(node.target is torch.sin for node in graph.graph.nodes):
        raise NotImplementedError("sin")
    return graph.forward


class Off(torch.fx.Interpreter):
    """Runs a graph, one operator off by 1e-2."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """One operator."""
        result = super().call_function(target, args, kwargs)
        return result + 1e-2 if target is torch.sin else result


def is_off(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that is wrong on one operator."""
    return lambda *given: Off(graph).run(*given)


class WrongBackward(torch.autograd.Function):
    """Right forward, and a gradient that is a hundredth too large."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """The value."""
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Wrong."""
        return gradient * 1.01


def wrong_backward(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that is wrong in backward only."""
    return lambda *given: tuple(WrongBackward.apply(one) for one in graph(*given))


def diagnosed(fn: Any, *args: Any, backend: Any = "eager") -> Any:
    """The layer that is blamed, what is said of it (sentences that were wrapped in one line again), and the whole."""
    found = dynexplore.diagnose(fn, *args, backend=backend)
    return (found.failing.layer if found.failing else None), str(found).replace("\n    ", " "), found


def test_nothing_is_wrong() -> None:
    """Each layer has its time and memory, and the verdict is ok."""
    layer, text, found = diagnosed(model, X, backend="aot_eager")
    assert (
        layer is None
        and "\n\nEvery stage matches plain Python.\nOnly one input was tested" in text
        and "\nMemory: peak " in text
    )
    assert [stage.layer for stage in found.stages] == ["plain Python", "capture", "AOTAutograd"]
    assert all(stage.first_seconds > 0 and stage.seconds > 0 for stage in found.stages)
    assert "<table>" in found._repr_html_()
    backend = CountingBackend()
    assert dynexplore.diagnose(model, X, backend=backend).failing is None
    assert backend.targets() == [["sin", "mul", "sum"]]


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        (crashes, "backend 'crashes' failed to compile"),
        (is_off, 'the value["loss"] differs by 0.12'),
        (wrong_backward, "the gradient of argument[0] differs by 0.0"),
    ],
)
def test_a_faulty_backend(backend: Any, words: str) -> None:
    """One that crashes, one that is off by 1e-2, one that is wrong in backward only."""
    layer, text, found = diagnosed(model, X, backend=backend)
    assert layer == "backend" and words in text
    assert all(stage.first_seconds > 0 and stage.memory is not None for stage in found.stages)
    assert f"dynexplore.minify(f, ..., backend={backend.__name__})" in text


def test_a_lowering_that_is_wrong_on_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass between capture and backend is blamed, and not AOTAutograd, which was given a wrong graph."""
    right = lower_indexing._indices

    def row_zero(graph: Any, node: Any, dim: int, item: Any, *operands: Any) -> Any:
        return right(graph, node, dim, lower_indexing._call(graph, node, torch.zeros_like, item), *operands)

    monkeypatch.setattr(lower_indexing, "_indices", row_zero)
    weights = torch.arange(12.0).reshape(4, 3)
    layer, _, found = diagnosed(lambda x, t: (x[t] * 2).sum(), weights, torch.tensor(1), backend="aot_eager")
    assert layer == "lowering"
    assert [stage.layer for stage in found.stages] == ["plain Python", "capture", "lowering"]


def test_a_handler_that_is_wrong_on_purpose() -> None:
    """The capture is blamed, whatever the backend."""

    def wrong(frame: Any, step: Any, ctx: Any) -> None:
        frame.pop()
        frame.pop()
        frame.push(ConstantVariable(3))

    with dispatch.override("BINARY_OP", wrong):
        layer, text, _ = diagnosed(lambda x: x.sum() * 2, X, backend="aot_eager")
    assert layer == "capture" and "the value: Tensor expected, int found" in text


def test_a_bug_of_the_engine_is_raised_not_survived() -> None:
    """The fallback to plain Python would hide it."""

    def broken(frame: Any, step: Any, ctx: Any) -> None:
        raise ZeroDivisionError("bug")

    with dispatch.override("BINARY_OP", broken):
        layer, text, _ = diagnosed(lambda x: x * 2, X)
    assert layer == "capture" and "ZeroDivisionError: bug" in text


@pytest.mark.plain("fails before anything is captured")
def test_a_program_that_fails_by_itself() -> None:
    """Plain Python is the first layer."""
    layer, text, _ = diagnosed(lambda x: x.reshape(5), X)
    assert layer == "plain Python" and "RuntimeError" in text and "fix it first" in text


def test_a_program_that_gives_something_else_each_time() -> None:
    """It is not called wrong: its values are not compared, and that is said; what raises is found all the same."""
    count = itertools.count()

    def unsteady(x: Any) -> Any:
        return x * next(count)

    layer, text, found = diagnosed(unsteady, X)
    assert layer is None and "returns a different value each time (the value differs by" in text
    assert "\n\nEvery stage runs.\n" in text
    layer, text, _ = diagnosed(lambda x: torch.sin(x) * next(count), X, backend=crashes)
    assert layer == "backend" and "a different value each time" in text
    assert "a different value each time" in found._repr_html_()


COUNTED: list[int] = []
TOTAL = 0
KEPT = torch.zeros(6)


MANY = [[at] for at in range(30_000)]


@pytest.mark.plain("state is noted and restored around any run")
def test_state_beyond_the_limit_is_told() -> None:
    """Not everything can be restored: this is said, and what the function itself names is restored all the same."""

    def counts(x: Any) -> Any:
        COUNTED.append(len(MANY))
        return x * len(COUNTED)

    layer, text, found = diagnosed(counts, X)
    assert layer is None and not found.unsteady and not COUNTED
    assert "The call can reach more objects than are restored between runs" in text
    assert "more objects" not in diagnosed(model, X)[1]


def test_a_training_step_runs_its_own_backward() -> None:
    """A loss that the call itself differentiated is not differentiated again; the gradients that it left are compared."""
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss, x.sin()

    x = torch.ones(3, 4, requires_grad=True)
    for backend, layer in (("eager", None), (wrong_backward, "backend")):
        found, text, _ = diagnosed(step, x, backend=backend)
        assert found == layer, text


@pytest.mark.plain("asks autograd in plain Python: the mistake was in the stage before the engine's")
def test_whether_a_backward_is_possible_is_asked_without_effects() -> None:
    """A checkpoint computes its forward again whenever what its graph saved is read: here only in the one backward."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.linear = torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return checkpoint(lambda y: self.linear(self.norm(y)), x, use_reentrant=False)

    net = Net()
    x = torch.randn(3, 4, requires_grad=True)
    layer, text, _ = diagnosed(net, x, backend="eager")
    assert layer is None, text
    starts = [CallSnapshot(net, (x,), {})]
    _, expected, unsteady = diagnosis._run_plain(net, starts, None)
    assert expected is not None and not unsteady
    assert expected[0].sources == (0,)
    assert int(expected[0].reached["state"]["norm.num_batches_tracked"]) == 2, "the forward, and once more in the backward"


@pytest.mark.plain("asks autograd in plain Python")
def test_results_are_sources_of_a_backward_where_the_step_left_their_graph() -> None:
    """Of many results, those are differentiated whose own graph is neither freed nor changed; a graph that saves nothing is not."""
    weight = torch.ones(4, requires_grad=True)

    def step(x: Any) -> Any:
        loss = (x * weight).square().sum()
        loss.backward()
        saves_nothing = (x + 1).sum()
        saves_nothing.backward()
        changed = x.exp()
        written = changed.sin()
        changed.add_(1)
        return [loss, x.cos(), saves_nothing, written, x.tan(), torch.ones(()), loss + 1]

    start = CallSnapshot(step, (torch.ones(4, requires_grad=True),), {})
    assert diagnosis._observe_plain(step, start).sources == (1, 2, 4)
    layer, text, _ = diagnosed(step, torch.ones(4, requires_grad=True))
    assert layer is None, text


def test_a_joint_graph_that_the_call_has_freed_is_no_failure() -> None:
    """In eager mode, logits whose graph saves nothing can be differentiated after the loss; AOTAutograd frees one graph for both.
    The diagnosis begins no backward there, and says so; that of another result still counts.
    """
    weight = torch.nn.Parameter(torch.ones(3))

    def step(x: Any) -> Any:
        logits = x + weight
        logits.square().sum().backward()
        return logits, x.sin() * x

    x = torch.ones(3, requires_grad=True)
    found = dynexplore.diagnose(step, x, backend="aot_eager")
    assert found.failing is None and [stage.layer for stage in found.stages] == ["plain Python", "capture", "AOTAutograd"], found
    assert found.freed == (0,) and "No gradients were compared for result 0: the call's own backward frees" in str(found)
    assert "matches plain Python, as far as it was compared." in str(found)

    def apart(x: Any) -> Any:
        return x + weight, x.sin() * x

    assert not dynexplore.diagnose(apart, x, backend="aot_eager").freed

    def alone(x: Any) -> Any:
        logits = x + weight
        logits.square().sum().backward()
        return logits

    assert "No gradients were compared for the result: " in str(dynexplore.diagnose(alone, x, backend="aot_eager"))


def writes_what_is_saved(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that changes a result in place, although the backward needs it."""

    def run(*given: Any) -> Any:
        results = graph(*given)
        with torch.no_grad():
            results[0].mul_(1.0)
        return results

    return run


def frees_its_graph(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that runs a backward which the program does not."""

    def run(*given: Any) -> Any:
        results = graph(*given)
        torch.autograd.grad(results[0].sum(), given[0])
        return results

    return run


@pytest.mark.parametrize(
    ("backend", "steps", "words"),
    [
        (writes_what_is_saved, False, "modified by an inplace operation"),
        (writes_what_is_saved, True, "modified by an inplace operation"),
        (frees_its_graph, False, "backward through the graph a second time"),
    ],
)
def test_a_backend_that_breaks_a_graph_is_at_fault(backend: Any, steps: bool, words: str) -> None:
    """Eager mode can run the backward, and the program runs none that could have freed the graph. If it does, only what is freed is
    left alone, not what is written to.
    """

    def program(x: Any) -> Any:
        if steps:
            x.detach().requires_grad_().square().sum().backward()
        return x.exp()

    layer, text, found = diagnosed(program, torch.ones(3, requires_grad=True), backend=backend)
    assert layer == "backend" and words in text, text
    assert not found.freed and "No gradients" not in text


def test_a_later_call_that_raises_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the first call had freed its graph, so that a further one tries which results are left."""
    weight, calls = torch.nn.Parameter(torch.ones(3)), itertools.count()

    def fails_later(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        compiled = resolve("aot_eager")(graph, inputs)

        def run(*given: Any) -> Any:
            if next(calls):
                raise ValueError("not today")
            return compiled(*given)

        return run

    def step(x: Any) -> Any:
        logits = x + weight
        logits.square().sum().backward()
        return logits

    monkeypatch.setattr(diagnosis, "_layers", lambda _: [("backend", fails_later)])
    layer, text, found = diagnosed(step, torch.ones(3, requires_grad=True), backend=fails_later)
    assert layer == "backend" and "ValueError: not today" in text and not found.freed, text


@pytest.mark.plain("fails before anything is captured")
def test_a_backward_that_is_possible_only_at_first_is_shown_in_autograd_s_words() -> None:
    """A second run of plain Python may find its graph freed: no name of the diagnosis's own is shown."""
    runs = itertools.count()

    def sometimes(x: Any) -> Any:
        logits = x.exp()
        if next(runs):
            logits.sum().backward()
        return logits

    layer, text, _ = diagnosed(sometimes, torch.ones(3, requires_grad=True))
    assert layer == "plain Python" and "RuntimeError: Trying to backward through the graph a second time" in text, text


@pytest.mark.plain("fails before anything is captured")
def test_a_backward_that_raises_is_a_finding() -> None:
    """Only a graph that is used up is left alone: a backward with a mistake of its own fails in plain Python."""

    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            raise RuntimeError("no gradient today")

    layer, text, _ = diagnosed(lambda x: Raises.apply(x), X, backend="eager")
    assert layer == "plain Python" and "no gradient today" in text


@pytest.mark.plain("fails before anything is captured")
def test_an_exception_that_wraps_none_is_told_itself() -> None:
    """torch's wrapper of what a backend raised has an attribute for it; another exception may have one that is None."""

    class Wraps(Exception):
        inner_exception: Any = None

    def raises(x: Any) -> Any:
        raise Wraps("alone")

    layer, text, _ = diagnosed(raises, X)
    assert layer == "plain Python" and "raises Wraps: alone" in text
    Wraps.inner_exception = KeyError("inside")
    assert "raises KeyError: 'inside'" in diagnosed(raises, X)[1]


def test_what_stands_around_the_function_is_put_back() -> None:
    """A global that counts, a list that grows, a tensor that is written to, a generator, a module that rebinds."""
    generator = torch.Generator()

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.log = 0, []
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.log.append(self.calls)
            self.seen = self.seen + 1
            return x * self.calls + self.seen * len(self.log)

    counting = Counting()

    def program(x: Any) -> Any:
        global TOTAL
        TOTAL += 1
        COUNTED.append(1)
        KEPT.add_(x.detach())
        return counting(x) * TOTAL + len(COUNTED) + KEPT + torch.rand(6, generator=generator)

    backend = CountingBackend("aot_eager")
    layer, text, found = diagnosed(program, X, backend=backend)
    assert layer is None and not found.unsteady, text
    assert len(backend.graphs) == 2
    assert TOTAL == 0 and COUNTED == [] and not KEPT.any() and counting.calls == 0 and counting.seen == 0


def test_the_module_is_as_before() -> None:
    """Parameters, buffers and gradients get their content back."""
    module = torch.nn.BatchNorm1d(3)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    backend = CountingBackend()
    assert dynexplore.diagnose(module, torch.randn(4, 3), backend=backend).failing is None
    assert len(backend.graphs) == 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert module.weight.grad is None


@pytest.mark.plain("refused before anything is captured")
def test_an_unknown_backend_is_a_mistake_of_the_caller() -> None:
    """It raises at once."""
    with pytest.raises(dynexplore.exc.InvalidBackend, match="there is no backend 'nothing'"):
        dynexplore.diagnose(model, X, backend="nothing")


def has_symbols(graph: torch.fx.GraphModule) -> bool:
    """Whether a size of an input is a symbol."""
    examples = [node.meta["example_value"] for node in graph.graph.find_nodes(op="placeholder")]
    return any(isinstance(size, torch.SymInt) for one in examples for size in getattr(one, "shape", (one,)))


def wrong_on_symbols(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that is wrong where sizes are symbols."""
    return (lambda *given: tuple(one + 1 for one in graph(*given))) if has_symbols(graph) else graph.forward


def test_sizes_are_symbols_where_the_caller_or_the_functions_own_decorator_says_so() -> None:
    """A backend that fails with symbolic sizes only is found with dynamic=True, said or taken over; else that is not tried."""
    layer, text, found = diagnosed(model, X, backend=wrong_on_symbols)
    assert layer is None and found.dynamic is None and "Only one input was tested, with static shapes" in text
    found = dynexplore.diagnose(model, X, backend=wrong_on_symbols, dynamic=True)
    assert (
        found.failing is not None
        and found.failing.layer == "backend"
        and str(found).startswith("Diagnosis of model, dynamic=True\n")
    )
    decorated = dynexplore.optimize(wrong_on_symbols, dynamic=True)(model)
    found = dynexplore.diagnose(decorated, X)
    assert found.failing is not None and found.failing.layer == "backend" and found.dynamic is True


@pytest.mark.lenses
@pytest.mark.plain("torch.compile makes the graphs")
def test_sizes_are_symbols_where_torch_compile_was_told_so() -> None:
    """The option is taken over from what stands around the function."""
    by_torch = torch.compile(model, backend=wrong_on_symbols, dynamic=True)
    found = dynexplore.diagnose(by_torch, X)
    assert found.failing is not None and found.failing.layer == "backend" and found.dynamic is True


def test_further_calls_of_one_compiled_function_are_tried() -> None:
    """The second size makes sizes symbols, and the failure that this brings is said to be that of the second call."""
    longer = torch.linspace(-1, 1, 9, requires_grad=True)
    found = dynexplore.diagnose(model, X, backend=wrong_on_symbols, calls=[longer])
    assert found.failing is not None and found.failing.failure.startswith("in call 2, the value")
    assert "Only one input" not in str(found) and ", 2 calls\n" in str(found)
    assert dynexplore.diagnose(model, X, backend="eager", calls=[longer, (X,)]).failing is None
