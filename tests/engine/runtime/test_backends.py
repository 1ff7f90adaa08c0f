"""engine/runtime/backends.py: every backend by name, user callables of one and two arguments, and what goes wrong."""

from __future__ import annotations

import functools
import gc
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor

import dynexplore
from dynexplore.engine import native
from dynexplore.engine.runtime import backends
from engine_checks import graphs_compiled

NAMES = backends.list_backends()
MAY_FAIL_ON_PURPOSE = {name for name in NAMES if "TESTING_ONLY" in name}


def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x = a + b
    x = x / 2.0
    if x.sum() < 0:
        return x * -1.0
    return x


def double(x: torch.Tensor) -> torch.Tensor:
    return x + x


# -- names ----------------------------------------------------------------------------------------------------


# what `cudagraphs` compiles for a CPU is a module, which torch disables for its own Dynamo with a class of that
USES_DYNAMO = {"cudagraphs": pytest.mark.lenses}


@pytest.mark.parametrize("name", [pytest.param(name, marks=USES_DYNAMO.get(name, ())) for name in NAMES])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_every_name_runs_or_names_the_missing_package(name: str) -> None:
    """Each name of the registry gives eager's values for `fn` and for a Linear, or one sentence about a package."""
    a, b = torch.randn(10), torch.randn(10)
    linear = torch.nn.Linear(3, 2)
    x = torch.randn(4, 3)
    try:
        value = dynexplore.optimize(name)(fn)(-a.abs(), b)
        output = dynexplore.optimize(name)(linear)(x)
        with torch.no_grad():
            silent = dynexplore.optimize(name)(linear)(x)
    except dynexplore.exc.MissingBackendPackage as missing:
        text = str(missing)
        assert re.fullmatch(rf"backend '{name}' needs the package '\w+', which is not installed", text)
        return
    except dynexplore.exc.BackendCompilerError as error:
        needs = "cuda" in str(error).lower() or "triton" in str(error).lower()
        assert name in MAY_FAIL_ON_PURPOSE or needs, error
        return
    torch.testing.assert_close(value, fn(-a.abs(), b))
    torch.testing.assert_close(output, linear(x))
    torch.testing.assert_close(silent, linear(x))
    output.sum().backward()
    assert linear.weight.grad is not None
    assert graphs_compiled() == 4  # two of `fn`, and one of the layer with and one without gradients


@pytest.mark.parametrize("name", ["aot_eager", "aot_eager_decomp_partition"])
def test_gradients_through_aot_autograd(name: str) -> None:
    """Training works: gradients of parameters and inputs are eager's."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    x = torch.randn(5, 3, requires_grad=True)
    model(x).sum().backward()
    expected = [x.grad, *(p.grad for p in model.parameters())]
    x.grad = None
    model.zero_grad()
    dynexplore.optimize(name)(model)(x).sum().backward()
    for got, wanted in zip([x.grad, *(p.grad for p in model.parameters())], expected, strict=True):
        torch.testing.assert_close(got, wanted)
    assert graphs_compiled() == 1


def test_dynamic_shapes_reach_aot_autograd() -> None:
    """A symbolic size goes through a backend that wants fake inputs; one graph serves all sizes."""
    optimized = dynexplore.optimize("aot_eager", dynamic=True)(double)
    for size in (3, 4, 5):
        assert torch.equal(optimized(torch.ones(size, 2)), torch.full((size, 2), 2.0))
    assert dynexplore.counters["stats"]["graphs"] == 1


def test_registering_a_backend() -> None:
    """register_backend works as a call, as a decorator, and with a name; a taken name is refused."""
    calls: list[str] = []

    @dynexplore.register_backend
    def mine(graph: Any, inputs: Any) -> Any:
        calls.append("mine")
        return graph.forward

    @dynexplore.register_backend(name="yours")
    def other(graph: Any, inputs: Any) -> Any:
        calls.append("yours")
        return graph.forward

    try:
        for name in ("mine", "yours"):
            assert name in dynexplore.list_backends()
            dynexplore.optimize(name)(double)(torch.ones(2))
        assert calls == ["mine", "yours"]
        assert dynexplore.register_backend(mine) is mine
        for taken in ("eager", "inductor", "yours"):
            with pytest.raises(ValueError, match=f"the name '{taken}' is already used by another backend"):
                dynexplore.register_backend(mine, name=taken)
        with pytest.raises(ValueError, match="has no __name__"):
            dynexplore.register_backend(functools.partial(mine))
        with pytest.raises(TypeError, match="a backend must be a callable, not int"):
            dynexplore.register_backend(3)
    finally:
        for name in ("mine", "yours"):
            backends._OWN.pop(name)


def test_what_a_backend_imports_is_imported_with_the_collector_at_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collector at work walks over all that the imports make; it is back for the backend itself, which is not ours."""
    (tmp_path / "imported_by_a_backend.py").write_text("import gc\nCOLLECTS = gc.isenabled()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(backends._IMPORTED_LATE, "aot_eager", "imported_by_a_backend")
    x = torch.ones(2)
    assert torch.equal(dynexplore.optimize("aot_eager")(double)(x), double(x))
    assert sys.modules.pop("imported_by_a_backend").COLLECTS is False
    assert gc.isenabled()


def test_what_a_backend_imports_is_old_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lives as long as the process: it is moved to the oldest generation, though no collection has run."""
    (tmp_path / "imported_by_a_backend.py").write_text("VALUES = [[] for _ in range(1000)]\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(backends._IMPORTED_LATE, "aot_eager", "imported_by_a_backend")
    thresholds = gc.get_threshold()
    gc.unfreeze()  # what conftest.py froze: `importing` moves nothing if the program has frozen objects
    gc.set_threshold(10**9)
    try:
        x = torch.ones(2)
        assert torch.equal(dynexplore.optimize("aot_eager")(double)(x), double(x))
        old = set(map(id, gc.get_objects(generation=2)))
        assert gc.get_freeze_count() < 1000
    finally:
        gc.set_threshold(*thresholds)
        gc.freeze()
    assert graphs_compiled() == 1
    assert all(id(value) in old for value in sys.modules.pop("imported_by_a_backend").VALUES)


@pytest.mark.plain("refused before anything is captured")
def test_an_unknown_name_lists_the_known_ones() -> None:
    """The error is a ValueError and InvalidBackend."""
    with pytest.raises(dynexplore.exc.InvalidBackend, match="there is no backend 'nope'; there are: .*eager"):
        backends.lookup("nope")


# -- callables ------------------------------------------------------------------------------------------------


def test_a_backend_gets_the_graph_and_fake_inputs() -> None:
    """Two arguments: the GraphModule and example inputs without data, of the same shapes, with the hook off."""
    seen: list[Any] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        seen.append((graph, inputs, native.current(), torch._guards.TracingContext.get().fake_mode))
        return graph.forward

    dynexplore.optimize(backend)(double)(torch.ones(2, 3))
    graph, inputs, region, fake_mode = seen[0]
    assert isinstance(graph, torch.fx.GraphModule) and isinstance(inputs, list) and region is None
    assert [type(value) for value in inputs] == [FakeTensor] and inputs[0].shape == (2, 3)
    assert inputs[0].fake_mode is fake_mode


def test_a_backend_of_one_argument() -> None:
    """A callable that takes one argument gets the GraphModule alone; one of unknown signature gets both."""

    class Opaque:
        __signature__ = "no signature"

        def __call__(self, *args: Any) -> Any:
            seen.append(len(args))
            return args[0].forward

    seen: list[int] = []

    def one(graph: Any) -> Any:
        seen.append(1)
        return graph.forward

    def two(graph: Any, inputs: Any, extra: int = 0) -> Any:
        seen.append(2)
        return graph.forward

    for backend in (one, two, Opaque(), lambda graph, *rest: one(graph)):
        assert dynexplore.optimize(backend)(double)(torch.ones(2)).tolist() == [2, 2]
    assert seen == [1, 2, 2, 1]


def test_graphs_run_with_the_hook_off() -> None:
    """A compiled callable written in Python is not captured itself, nor is what an eager graph calls."""
    regions: list[Any] = []

    def helper(x: torch.Tensor) -> torch.Tensor:
        regions.append(native.current())
        return x + x

    dynexplore.allow_in_graph(helper)
    assert dynexplore.optimize()(lambda x: helper(x))(torch.ones(2)).tolist() == [2, 2]

    def backend(graph: Any, inputs: Any) -> Any:
        return lambda *args: (helper(args[0]),)

    dynexplore.optimize(backend)(double)(torch.ones(2))
    assert [region for region in regions if region is not None] == [] and len(regions) >= 2
    assert dynexplore.counters["frames"]["total"] == 2


def test_a_backend_may_use_optimized_functions_itself() -> None:
    """A backend that optimizes something in its turn works, and compiles for itself."""
    inner_graphs: list[Any] = []

    def inner(graph: Any, inputs: Any) -> Any:
        inner_graphs.append(graph)
        return graph.forward

    def outer(graph: Any, inputs: Any) -> Any:
        assert dynexplore.optimize(inner)(lambda x: x * 3)(torch.ones(2)).tolist() == [3, 3]
        return graph.forward

    assert dynexplore.optimize(outer)(double)(torch.ones(2)).tolist() == [2, 2]
    assert len(inner_graphs) == 1


# -- what goes wrong ----------------------------------------------------------------------------------------------


def test_a_backend_that_raises() -> None:
    """BackendCompilerError in the program, with the graph, its name and the cause; the next call tries again."""

    def broken(graph: Any, inputs: Any) -> Any:
        raise ValueError("no such op")

    optimized = dynexplore.optimize(broken)(double)
    for _ in range(2):
        with pytest.raises(dynexplore.exc.BackendCompilerError) as caught:
            optimized(torch.ones(2))
    error = caught.value
    assert re.search(r"broken' failed to compile __compiled_fn_\d+: ValueError: no such op", str(error))
    assert isinstance(error.graph, torch.fx.GraphModule) and isinstance(error.cause, ValueError)
    assert error.graph_name.startswith("__compiled_fn_") and error.__cause__ is error.cause
    assert dynexplore.counters["frames"]["failed"] == 2 and native.current() is None


def test_a_backend_that_returns_no_callable() -> None:
    """One sentence says what was returned."""
    with pytest.raises(dynexplore.exc.BackendCompilerError, match="it returned int instead of a callable"):
        dynexplore.optimize(lambda graph, inputs: 3)(double)(torch.ones(2))


def test_ctrl_c_in_a_backend() -> None:
    """KeyboardInterrupt goes to the program as it is, and leaves nothing behind."""

    def interrupted(graph: Any, inputs: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dynexplore.optimize(interrupted)(double)(torch.ones(2))
    assert native.current() is None and not native.installed()
    assert dynexplore.optimize()(double)(torch.ones(2)).tolist() == [2, 2]


def test_verify_correctness() -> None:
    """With config.verify_correctness a backend that computes something else is found out when the graph runs."""

    def wrong(graph: Any, inputs: Any) -> Any:
        return lambda *args: tuple(value + 1 for value in graph(*args))

    def right(graph: Any, inputs: Any) -> Any:
        return lambda *args: graph(*args)

    with dynexplore.config.patch(verify_correctness=True):
        assert dynexplore.optimize(right)(double)(torch.ones(2)).tolist() == [2, 2]
        assert dynexplore.optimize("eager")(double)(torch.ones(2)).tolist() == [2, 2]
        with pytest.raises(dynexplore.exc.BackendCompilerError, match="output 0 differs from the captured graph's"):
            dynexplore.optimize(wrong)(double)(torch.ones(2))


def test_verifying_draws_the_same_random_numbers() -> None:
    """The graph that is run for comparison changes neither random numbers nor inputs."""

    def noisy(x: torch.Tensor) -> torch.Tensor:
        return x.add_(torch.rand(2))

    def backend(graph: Any, inputs: Any) -> Any:
        return lambda *args: graph(*args)

    with dynexplore.config.patch(verify_correctness=True):
        torch.manual_seed(3)
        value = dynexplore.optimize(backend)(noisy)(torch.ones(2))
        after = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(value, noisy(torch.ones(2))) and torch.equal(after, torch.rand(1))
    assert graphs_compiled() == 1


def test_a_package_that_a_backend_of_the_program_lacks_is_named_with_the_line() -> None:
    """An ImportError inside a backend says which package is missing, and which line of the backend wanted it."""

    def prints(graph: torch.fx.GraphModule) -> Any:
        import no_such_package_for_tables  # noqa: F401

        return graph.forward

    with pytest.raises(dynexplore.exc.MissingBackendPackage) as caught:
        dynexplore.optimize(prints)(lambda x: x + 1)(torch.ones(2))
    line = prints.__code__.co_firstlineno + 1
    assert "needs the package 'no_such_package_for_tables', which is not installed" in str(caught.value)
    assert f"(requested at {__file__}:{line}: import no_such_package_for_tables" in str(caught.value)


def test_a_backend_may_print_its_graph_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """`print_tabular` works inside a backend: what it needs is a dependency of ours."""
    pytest.importorskip("tabulate")

    def prints(graph: torch.fx.GraphModule) -> Any:
        graph.graph.print_tabular()
        return graph.forward

    dynexplore.optimize(prints)(lambda x: x + 1)(torch.ones(2))
    assert "call_function" in capsys.readouterr().out
