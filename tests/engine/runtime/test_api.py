"""engine/runtime/api.py: optimize, compile, run, disable, skip, reset and the marks, as people use them."""

from __future__ import annotations

import binascii
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import native
from engine_checks import CountingBackend


def double(x: torch.Tensor) -> torch.Tensor:
    return x + x


def calls_double(x: torch.Tensor) -> torch.Tensor:
    return double(x) * 3


X = torch.arange(3.0)


# -- optimize ------------------------------------------------------------------------------------------------


def test_a_decorated_function_is_captured_once() -> None:
    """The first call compiles one graph, the second compiles nothing and runs it again."""
    backend = CountingBackend()

    @dynexplore.optimize(backend)
    def triple(x: torch.Tensor) -> torch.Tensor:
        """Three times x."""
        return x * 3

    assert triple(X).tolist() == triple(X).tolist() == [0, 3, 6]
    assert (len(backend.graphs), backend.runs) == (1, 2)
    assert (triple.__name__, triple.__doc__) == ("triple", "Three times x.")


def test_a_block_is_a_region_for_the_calls_in_it() -> None:
    """Functions called inside the block are captured; the block's own operators are not."""
    backend = CountingBackend()
    with dynexplore.optimize(backend):
        y = X + 1
        z = double(y)
    double(X)
    assert z.tolist() == [2, 4, 6]
    assert backend.targets() == [["add"]] and backend.runs == 1
    assert native.current() is None and not native.installed()


def test_a_block_ends_with_an_exception() -> None:
    """However the block ends, the hook is gone."""
    with pytest.raises(ZeroDivisionError), dynexplore.optimize():
        assert native.installed()
        1 / 0
    assert native.current() is None and not native.installed()


def test_one_optimize_serves_many() -> None:
    """The same object decorates functions, and enters blocks that nest in themselves."""
    backend = CountingBackend()
    region = dynexplore.optimize(backend)
    one, two = region(double), region(calls_double)
    with region, region:
        assert one(X).tolist() == [0, 2, 4]
    assert two(X).tolist() == [0, 6, 12]
    assert native.current() is None and len(backend.graphs) == 2


def test_wrapping_again_shares_what_is_compiled() -> None:
    """The same function with the same backend and options is compiled once, however often it is wrapped."""
    backend = CountingBackend()
    for _ in range(3):
        dynexplore.optimize(backend)(double)(X)
        dynexplore.optimize(backend)(dynexplore.optimize(backend)(double))(X)
    assert len(backend.graphs) == 1
    dynexplore.optimize(backend, dynamic=False)(double)(X)
    assert len(backend.graphs) == 2


def test_backends_do_not_share() -> None:
    """Another backend compiles for itself."""
    one, two = CountingBackend(), CountingBackend()
    for backend in (one, two, one, two):
        dynexplore.optimize(backend)(double)(X)
    assert len(one.graphs) == len(two.graphs) == 1


def test_of_nested_optimizes_the_outer_wins() -> None:
    """A function that is optimized for itself is part of the outer graph when an optimized function calls it."""
    inner_backend, outer_backend = CountingBackend(), CountingBackend()
    inner = dynexplore.optimize(inner_backend)(double)

    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x) * 3

    assert dynexplore.optimize(outer_backend)(outer)(X).tolist() == [0, 6, 12]
    with dynexplore.optimize(outer_backend), dynexplore.optimize(inner_backend):
        double(X)
    assert inner_backend.graphs == [] and len(outer_backend.graphs) == 2
    inner(X)
    assert len(inner_backend.graphs) == 1


@pytest.mark.plain("is about the engine being off")
def test_disable_switches_off() -> None:
    """optimize(disable=True) changes nothing, as a decorator and as a block."""
    off = dynexplore.optimize(disable=True)
    assert off(double) is double
    with off:
        assert not native.installed()
    with dynexplore.config.patch(disable=True):
        assert dynexplore.optimize()(double) is double


@pytest.mark.plain("is about the engine being off")
def test_disabled_by_the_environment() -> None:
    """With DYNEXPLORE_DISABLE=1 optimized functions are the plain ones."""
    code = "import torch, dynexplore; f = lambda x: x; assert dynexplore.optimize()(f) is f; print('plain')"
    environment = {"DYNEXPLORE_DISABLE": "1", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "plain\n"


REFUSED = pytest.mark.plain("refused before anything is captured")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"backend": "eger"}, "there is no backend 'eger'; did you mean 'eager'"),
        pytest.param({"nopython": 1}, "nopython must be True or False, not 1", marks=REFUSED),
        pytest.param({"dynamic": "yes"}, "dynamic must be True, False or None, not 'yes'", marks=REFUSED),
        pytest.param({"disable": None}, "disable must be True or False, not None", marks=REFUSED),
    ],
)
def test_a_wrong_option_lists_the_right_ones(options: dict[str, Any], says: str) -> None:
    """A wrong option is a ValueError in one sentence."""
    with pytest.raises(ValueError, match=says):
        dynexplore.optimize(**options)


def test_what_cannot_be_optimized() -> None:
    """A class, a number as a function, a number as a backend: a TypeError in one sentence."""
    with pytest.raises(TypeError, match="not the class Linear"):
        dynexplore.optimize()(torch.nn.Linear)
    with pytest.raises(TypeError, match="expected a function, a method or a module, not int"):
        dynexplore.optimize()(3)
    with pytest.raises(TypeError, match="backend must be a name or a callable .* not int"):
        dynexplore.optimize(3)  # type: ignore[arg-type]


def test_nopython_captures_the_whole_function_or_raises() -> None:
    """One graph is fine; a break is exc.Unsupported with every level of the user's stack; nothing has run."""
    seen: list[str] = []

    def inner(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x

    def outer(x: torch.Tensor) -> torch.Tensor:
        seen.append("called")
        return inner(x) + 1

    assert dynexplore.optimize(nopython=True)(double)(X).tolist() == [0, 2, 4]
    with pytest.raises(dynexplore.exc.Unsupported, match="Graph break DX104") as caught:
        dynexplore.optimize(nopython=True)(outer)(X)
    text = str(caught.value)
    assert "in test_nopython_captures_the_whole_function_or_raises.<locals>.inner" in text
    assert "from  " in text and ".outer" in text and "if x.sum() > 0:" in text
    assert "in test_nopython_captures_the_whole_function_or_raises\n" in text  # who called it
    assert caught.value.graph_break is not None and seen == []


# -- compile -------------------------------------------------------------------------------------------------


def test_compile_is_optimize_under_known_names() -> None:
    """fullgraph is nopython, the backend is an argument, and it decorates as well."""
    backend = CountingBackend()
    assert dynexplore.compile(double, backend=backend)(X).tolist() == [0, 2, 4]

    @dynexplore.compile(backend=backend, fullgraph=True, dynamic=False)
    def breaks(x: torch.Tensor) -> torch.Tensor:
        dynexplore.graph_break()
        return x + 1

    with pytest.raises(dynexplore.exc.Unsupported, match="DX208"):
        breaks(X)
    assert len(backend.graphs) == 1
    assert dynexplore.compile(double, disable=True) is double


def test_a_generator_function_is_no_one_graph() -> None:
    """Under fullgraph its call raises; without, it runs as plain Python."""

    def pieces(x):
        yield x + 1

    backend = CountingBackend()
    with pytest.raises(dynexplore.exc.Unsupported, match="pieces is a generator function"):
        dynexplore.compile(pieces, backend=backend, fullgraph=True)(X)
    caller = dynexplore.compile(lambda x: [piece * 2 for piece in pieces(x)], backend=backend, fullgraph=True)
    assert caller(X)[0].tolist() == [2.0, 4.0, 6.0] and len(backend.graphs) == 1
    assert [piece.tolist() for piece in dynexplore.compile(pieces, backend=backend)(X)] == [[1.0, 2.0, 3.0]]


@dynexplore.config.patch(specialize_float=True)
def test_a_recompile_limit_of_its_own() -> None:
    """One call of compile has another limit than the rest, and entries of its own where that is asked for."""

    def scaled(x, factor):
        return x * factor

    backend = CountingBackend()
    whole = dynexplore.compile(scaled, backend=backend, fullgraph=True, recompile_limit=1, name="scaled")
    whole(X, 1.5)
    with pytest.raises(dynexplore.exc.RecompileError, match=r"recompile limit \(1\)"):
        whole(X, 2.5)
    apart = dynexplore.compile(scaled, backend=backend, fullgraph=True, recompile_limit=1, isolate_recompiles=True)
    assert apart(X, 2.5).tolist() == [0.0, 2.5, 5.0] and len(backend.graphs) == 2


@pytest.mark.plain("wrong arguments are refused before anything is captured")
@pytest.mark.parametrize(
    ("parameter", "value"),
    [("shapes_spec", {"x": None}), ("dynamic_shapes", {}), ("recompile_limit", 0), ("isolate_recompiles", 1), ("name", 3)],
)
def test_a_parameter_of_torch_compile_is_refused_by_name(parameter: str, value: Any) -> None:
    """What does not work says which parameter it was."""
    with pytest.raises(ValueError, match=parameter):
        dynexplore.compile(double, backend="eager", **{parameter: value})


def test_a_wrong_mode_or_option_lists_the_right_ones() -> None:
    """Inductor's modes and options are checked when they are given."""
    with pytest.raises(ValueError, match="there is no mode 'fast'; there are: .*max-autotune"):
        dynexplore.compile(double, mode="fast")
    with pytest.raises(ValueError, match="inductor has no option 'max_autotun'; did you mean 'max_autotune'"):
        dynexplore.compile(double, options={"max_autotun": True})
    with pytest.raises(ValueError, match="inductor's option 'max_autotune' takes bool, not 'yes'"):
        dynexplore.compile(double, options={"max_autotune": "yes"})
    with pytest.raises(ValueError, match="cannot be combined"):
        dynexplore.compile(double, mode="default", options={})
    with pytest.raises(ValueError, match="there is no backend 'nothing'"):
        dynexplore.compile(double, backend="nothing")


def test_options_reach_other_backends() -> None:
    """Another backend gets mode and options as keyword arguments."""
    seen: list[Any] = []

    def backend(graph: Any, inputs: Any, *, mode: Any = None, options: Any = None) -> Any:
        seen.append((mode, options))
        return graph.forward

    dynexplore.compile(double, backend=backend, options={"level": 3})(X)
    dynexplore.compile(double, backend=backend, mode="quick")(X)
    dynexplore.compile(double, backend=backend)(X)
    assert seen == [(None, {"level": 3}), ("quick", None), (None, None)]


# -- run -----------------------------------------------------------------------------------------------------


def test_run_uses_what_is_there_and_compiles_nothing() -> None:
    """run(fn) of the plain and of the optimized function runs the cached graph; what does not fit runs plain."""
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend, dynamic=False)(double)
    optimized(X)
    for fn in (double, optimized):
        assert dynexplore.run(fn)(X).tolist() == [0, 2, 4]
        assert dynexplore.run(fn)(torch.ones(7)).tolist() == [2.0] * 7
    assert (len(backend.graphs), backend.runs) == (1, 3)


def test_run_as_decorator_and_block() -> None:
    """@run, @run() and `with run():` do the same."""
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(double)
    optimized(X)

    @dynexplore.run
    def one(x: torch.Tensor) -> torch.Tensor:
        return optimized(x)

    @dynexplore.run()
    def two(x: torch.Tensor) -> torch.Tensor:
        return calls_double(x)

    with dynexplore.run():
        double(X), optimized(X), calls_double(X)
    one(X), two(X)
    assert (len(backend.graphs), backend.runs) == (1, 6)
    assert one.__name__ == "one" and native.current() is None


@pytest.mark.plain("nothing is compiled yet")
def test_run_before_anything_is_compiled() -> None:
    """Where nothing is cached, run is plain Python."""
    assert dynexplore.run(double)(X).tolist() == [0, 2, 4]
    with dynexplore.run():
        assert double(X).tolist() == [0, 2, 4]
    assert dynexplore.counters["frames"]["total"] == 0


def test_run_of_a_module() -> None:
    """A module under run is still a module, and compiles nothing."""
    backend = CountingBackend()
    module = torch.nn.Linear(3, 2)
    optimized = dynexplore.optimize(backend)(module)
    expected = optimized(X)
    only_run = dynexplore.run(optimized)
    assert isinstance(only_run, torch.nn.Linear) and torch.equal(only_run(X), expected)
    assert (len(backend.graphs), backend.runs) == (1, 2)
    dynexplore.run(torch.nn.Linear(3, 2))(X)
    assert len(backend.graphs) == 1


def test_run_is_about_its_own_thread() -> None:
    """Another thread goes on compiling."""
    backend = CountingBackend()
    with dynexplore.run():
        thread = threading.Thread(target=dynexplore.optimize(backend)(double), args=(X,))
        thread.start()
        thread.join()
    assert len(backend.graphs) == 1


# -- disable and skip ----------------------------------------------------------------------------------------


def test_a_disabled_function_is_plain_with_all_it_calls() -> None:
    """disable as a function, a decorator with and without parentheses, and a block."""
    backend = CountingBackend()

    @dynexplore.disable
    def one(x: torch.Tensor) -> torch.Tensor:
        return double(x)

    @dynexplore.disable()
    def two(x: torch.Tensor) -> torch.Tensor:
        return double(x)

    with dynexplore.optimize(backend):
        one(X), two(X), dynexplore.disable(double)(X)
        with dynexplore.disable():
            double(X)
        assert backend.graphs == []
        double(X)
    assert len(backend.graphs) == 1 and one.__name__ == "one"


def test_a_skipped_function_is_plain_but_not_what_it_calls() -> None:
    """skip marks the function itself, and returns it."""
    backend = CountingBackend()

    def outer(x: torch.Tensor) -> torch.Tensor:
        return double(x) + 1

    assert dynexplore.skip(outer) is outer
    assert dynexplore.optimize(backend)(outer)(X).tolist() == [1, 3, 5]
    assert backend.targets() == [["add"]]
    with pytest.raises(TypeError, match="only a Python function can be skipped, not builtin_function_or_method"):
        dynexplore.skip(len)


def test_a_disabled_function_breaks_the_graph_of_its_caller() -> None:
    """Inside a captured function the call of a disabled one is a graph break of its own kind."""
    backend = CountingBackend()
    plain = dynexplore.disable(double)

    def caller(x: torch.Tensor) -> torch.Tensor:
        return plain(x + 1) * 2

    assert dynexplore.optimize(backend)(caller)(X).tolist() == [4, 8, 12]
    assert backend.targets() == [["add"], ["mul"]]
    assert any("disable" in reason for reason in dynexplore.graph_breaks())


@pytest.mark.parametrize("disable", [dynexplore.disable, torch.compiler.disable])
@pytest.mark.parametrize("recursive", [True, False])
def test_the_reason_of_a_disabled_function_is_told(disable: Any, recursive: bool) -> None:
    """`disable(f, reason=...)`, called or as a decorator, takes what torch's takes; the break says the reason."""

    def helper(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    for disabled in (disable(helper, recursive, reason="it logs"), disable(recursive=recursive, reason="it logs")(helper)):
        compiled = dynexplore.optimize("eager")(lambda x, disabled=disabled: disabled(x * 2) * 3)
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 9.0))
        assert ": it logs" in str(dynexplore.graph_breaks())
        dynexplore.reset()


@pytest.mark.plain("is about the engine being off")
def test_a_disabled_module() -> None:
    """A disabled module is a module still, and is left alone."""
    backend = CountingBackend()
    module = dynexplore.disable(torch.nn.Linear(3, 2))
    assert isinstance(module, torch.nn.Linear)
    with dynexplore.optimize(backend):
        module(X)
    assert backend.graphs == []


# -- marks ---------------------------------------------------------------------------------------------------


def test_graph_break_does_what_it_says() -> None:
    """In captured code it breaks the graph; elsewhere it does nothing."""
    backend = CountingBackend()

    def f(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        dynexplore.graph_break()
        return x * 2

    assert f(X).tolist() == dynexplore.optimize(backend)(f)(X).tolist() == [2, 4, 6]
    assert backend.targets() == [["add"], ["mul"]]


def test_allow_in_graph() -> None:
    """A marked function is one node of the graph and is not looked into; a list marks each."""
    backend = CountingBackend()

    def opaque(x: torch.Tensor) -> torch.Tensor:
        return x + x

    assert dynexplore.allow_in_graph([opaque]) == [opaque]
    assert dynexplore.optimize(backend)(lambda x: opaque(x) * 2)(X).tolist() == [0, 4, 8]
    assert backend.targets() == [["opaque", "mul"]]
    with pytest.raises(TypeError, match="allow_in_graph takes a callable, not int"):
        dynexplore.allow_in_graph(3)


def test_disallow_in_graph() -> None:
    """A torch operator that is not wanted in graphs breaks them."""
    backend = CountingBackend()
    dynexplore.disallow_in_graph(torch.sinh)
    try:
        value = dynexplore.optimize(backend)(lambda x: torch.sinh(x + 1) * 2)(X)
    finally:
        dynexplore.allow_in_graph(torch.sinh)
    assert torch.equal(value, torch.sinh(X + 1) * 2)
    assert backend.targets() == [["add"], ["mul"]]


def test_is_compiling() -> None:
    """Captured code is told that it is compiled, plain code that it is not."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if dynexplore.is_compiling() else x - 1

    assert dynexplore.optimize()(f)(X).tolist() == [1, 2, 3] and f(X).tolist() == [-1, 0, 1]


# -- reset ---------------------------------------------------------------------------------------------------


def test_reset_forgets_everything() -> None:
    """After reset the same wrapper compiles anew, counts start at 0, and names too."""
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(double)
    named = dynexplore.optimize("eager")(double)
    optimized(X), named(X)
    dynexplore.reset()
    assert dict(dynexplore.counters) == {} and dynexplore.graph_breaks() == {}
    optimized(X), named(X)
    assert len(backend.graphs) == 2
    assert dynexplore.counters["frames"] == {"total": 2, "ok": 2}


def test_counters_tell_what_happened() -> None:
    """Frames, graphs, captured calls, breaks by reason."""

    def f(x: torch.Tensor) -> torch.Tensor:
        x = x.sum() + 1
        dynexplore.graph_break()
        return x * 2

    optimized = dynexplore.optimize()(f)
    optimized(X), optimized(X)
    counters = dynexplore.counters.snapshot()
    assert counters["frames"] == {"total": 2, "ok": 2}
    assert counters["stats"] == {"graphs": 2, "calls_captured": 3, "unique_graph_breaks": 1}
    assert counters["backend"] == {"eager": 2}
    assert dynexplore.graph_breaks() == counters["graph_break"] and list(dynexplore.graph_breaks().values()) == [1]


@pytest.mark.plain("asks the list of names")
def test_backends_by_name() -> None:
    """list_backends names ours and torch's; register_backend adds one."""
    known = dynexplore.list_backends()
    assert {"eager", "aot_eager", "aot_eager_decomp_partition", "inductor"} <= set(known)
    assert known == sorted(known)


def test_inside_an_optimized_function_run_is_only_a_layer() -> None:
    """Of nested regions the outer wins: what `run` wraps is captured with the rest."""
    dynexplore.reset()
    counting = CountingBackend("eager")
    inner = dynexplore.run()(lambda x: torch.sin(x) * 10)
    middle = dynexplore.optimize("eager", nopython=True)(lambda x: inner(x) + 1)
    outer = dynexplore.optimize(counting, nopython=True)(lambda x: torch.relu(middle(x)))
    x = torch.ones(3)
    assert torch.equal(outer(x), torch.relu(torch.sin(x) * 10 + 1))
    assert len(counting.graphs) == 1


def test_a_python_function_is_traced_in_the_place_of_one_in_c() -> None:
    """What breaks the graph as a C function is traced by the substitute: its own globals, closures and tensor work count."""
    weight = 3
    text = b"abc"

    @dynexplore.substitute_in_graph(binascii.crc_hqx)
    def checksum(data: bytes, start: int) -> Any:
        return len(data) * weight + start

    backend = CountingBackend()

    def f(x: Any) -> Any:
        return x * 2 + binascii.crc_hqx(text, 1)

    x = torch.ones(3)
    assert torch.equal(dynexplore.optimize_assert(backend)(f)(x), x * 2 + 10)
    assert len(backend.graphs) == 1
    assert not torch.equal(f(x), x * 2 + 10)  # itself it is as it was
    with pytest.raises(TypeError, match="takes a callable, not int"):
        dynexplore.substitute_in_graph(3)  # type: ignore[arg-type]


IMPORTS = """
import sys, torch, dynexplore

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("torch._dynamo"):
            frame = sys._getframe(1)
            while "importlib" in frame.f_code.co_filename:
                frame = frame.f_back
            print(name, frame.f_code.co_filename, frame.f_code.co_name)

sys.meta_path.insert(0, Finder())
dynexplore.optimize("eager")(torch.sin)
print("decorated")
dynexplore.optimize("eager")(lambda x: x.sin() + 1)(torch.ones(3))
"""


def test_torch_alone_loads_its_tracer():
    """Importing the package and decorating load nothing of torch._dynamo; at the first call FakeTensorMode, which reads its config
    there, is the first to import it, and no file of the package imports any of it.
    """
    printed = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True).stdout
    before, _, after = printed.partition("decorated\n")
    assert not before
    importers = [line.split()[1:] for line in after.splitlines()]
    assert importers[0][0].endswith(os.path.join("torch", "_subclasses", "fake_tensor.py"))
    assert importers[0][1] == "__init__"
    package = os.path.join(os.path.dirname(dynexplore.__file__), "")
    assert not [file for file, _ in importers if file.startswith(package)]
