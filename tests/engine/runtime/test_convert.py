"""engine/runtime/convert.py: what happens to a frame that no entry fits."""

from __future__ import annotations

import random
import re
import warnings
from typing import Any

import numpy
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine import native
from dynexplore.engine.errors import RecompileLimitError
from dynexplore.engine.runtime import convert
from dynexplore.engine.runtime.optimized import wrap
from dynexplore.engine.runtime.stores import Options
from dynexplore.recording.recording import Recording
from dynexplore.session.session import watched_store
from engine_checks import CountingBackend, graphs_compiled


def double(x: Any) -> Any:
    return x + x


def by_number(x: torch.Tensor, number: float) -> torch.Tensor:
    return x * number


X = torch.ones(3)


def watched(fn: Any, **options: Any) -> tuple[Any, Recording]:
    """A function in a region of its own, and the recording of all that happens there."""
    recording = Recording()
    return wrap(fn, watched_store("eager", Options(**options), recording).region), recording


# -- recompiles and the limit ---------------------------------------------------------------------------------


def test_a_recompile_names_the_guard_that_failed() -> None:
    """Another dtype: GuardFailed with expected and actual for each entry, Recompiled with the reason, one count."""
    optimized, recording = watched(double)
    optimized(X), optimized(X.double()), optimized(X.int())
    assert dynexplore.counters["stats"]["recompiles"] == 2
    failed = recording.of(ev.GuardFailed)
    assert [(one.scope, one.source, one.kind) for one in failed] == [("local", "x", "TENSOR_MATCH")] * 3
    assert failed[0].expected == "float32[3] cpu" and failed[0].actual.startswith("float64[3] cpu")
    assert [event.entries for event in recording.of(ev.Recompiled)] == [1, 2]
    assert recording.of(ev.Recompiled)[0].reason.startswith("local 'x' TENSOR_MATCH: expected float32[3] cpu, found ")


@dynexplore.config.patch(specialize_float=True)
def test_the_limit_runs_plain_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """After cache_size_limit entries a miss runs plain; one line of the log names guard, expected and actual; hits still hit."""
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(by_number)
    with dynexplore.config.patch(cache_size_limit=3):
        for number in (1.5, 2.5, 3.5):
            optimized(X, number)
        assert optimized(X, 4.5).tolist() == [4.5] * 3
        assert optimized(X, 5.5).tolist() == [5.5] * 3
        optimized(X, 1.5)
    (line,) = caplog.messages
    assert re.search(r"by_number \(.*recompile limit .* = 3\)\..*local 'number' EQUALS.*expected 3.5, found 4.5", line)
    assert (len(backend.graphs), backend.runs) == (3, 4)
    assert dynexplore.counters["stats"]["cache_limit"] == 2


@pytest.mark.usefixtures("caplog")
@pytest.mark.parametrize("action", ["always", "error"])
@dynexplore.config.patch(specialize_float=True, cache_size_limit=2)
def test_the_limit_is_no_warning_that_a_program_records(action: Any) -> None:
    """A program that records warnings, or makes errors of them, gets its own and none of the engine's."""

    optimized = dynexplore.optimize("eager")(by_number)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        for number in (1.5, 2.5, 3.5):
            optimized(X, number)
    assert caught == []
    assert dynexplore.counters["stats"]["cache_limit"] == 1


@dynexplore.config.patch(specialize_float=True)
def test_the_limit_is_an_error_where_only_graphs_are_promised() -> None:
    """Under nopython a miss at the limit raises, each time, and names the guard; what is compiled still serves."""
    optimized = dynexplore.optimize(CountingBackend(), nopython=True)(by_number)
    with dynexplore.config.patch(cache_size_limit=2):
        for number in (1.5, 2.5):
            optimized(X, number)
        for number in (3.5, 4.5):
            with pytest.raises(RecompileLimitError, match=r"by_number \(.*recompile limit \(2\).*local 'number' EQUALS"):
                optimized(X, number)
        assert optimized(X, 1.5).tolist() == [1.5] * 3


@dynexplore.config.patch(specialize_float=True)
def test_eight_entries_by_default(caplog: pytest.LogCaptureFixture) -> None:
    """The ninth is not compiled."""
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(by_number)
    for number in range(10):
        optimized(X, number + 0.5)
    assert len(backend.graphs) == 8 and len(caplog.messages) == 1


@dynexplore.config.patch(specialize_float=True)
def test_the_newest_entry_is_tried_first() -> None:
    """What was just needed is what is needed next; every entry still hits."""
    optimized, recording = watched(by_number)
    for number in (1.5, 2.5, 2.5, 1.5):
        optimized(X, number)
    hits = recording.of(ev.CacheHit)
    assert len(hits) == 2
    assert [event.entry for event in hits] == [event.entry for event in reversed(recording.of(ev.CacheEntryAdded))]


def test_an_entry_goes_with_the_object_it_is_about() -> None:
    """A module that dies takes its entry along, and the limit does not count it."""
    backend = CountingBackend()

    def call(module: Any, x: torch.Tensor) -> torch.Tensor:
        return module(x)

    optimized = dynexplore.optimize(backend)(call)
    with dynexplore.config.patch(cache_size_limit=1):
        for _ in range(3):
            optimized(torch.nn.Linear(3, 2), X)
    assert len(backend.graphs) == 2 and dynexplore.counters["stats"]["cache_limit"] == 0


# -- what is left alone -----------------------------------------------------------------------------------------


def test_only_the_function_that_is_debugged() -> None:
    """config.debug_function translates functions of that name only, and their resume functions."""
    backend = CountingBackend()

    def wanted(x: torch.Tensor) -> torch.Tensor:
        x = x - 1
        dynexplore.graph_break()
        return x * 3

    with dynexplore.config.patch(debug_function="wanted"), dynexplore.optimize(backend):
        double(X), wanted(X)
    assert backend.targets() == [["sub"], ["mul"]]
    with dynexplore.optimize(backend):
        double(X)
    assert len(backend.graphs) == 3


def test_frames_without_tensors_are_soon_asked_no_more() -> None:
    """A function that gets no tensor and computes none is translated, once more when its number varies, and then left alone."""

    def plain(n: int) -> int:
        return n * 2 + 1

    optimized = dynexplore.optimize()(plain)
    assert [optimized(n) for n in range(5)] == [1, 3, 5, 7, 9]
    assert dynexplore.counters["frames"] == {"total": 2, "skipped": 2}


def test_files_that_are_not_looked_into_cost_one_question() -> None:
    """Frames of the standard library are marked for the hook when they are first met."""
    import json

    with dynexplore.optimize():
        json.dumps({"a": 1})
    assert native.is_skipped(json.dumps.__code__)
    assert dynexplore.counters["frames"]["total"] == 0


class Counting(TorchFunctionMode):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(function.__name__)
        return function(*args, **(kwargs or {}))


class Dispatching(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [Counting, Dispatching])
def test_modes_of_the_program_see_every_operator(mode: Any) -> None:
    """Under a foreign mode nothing is compiled, and what was compiled before is not used."""
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(lambda x: x.sin() + 1)
    with mode() as active:
        optimized(X)
    assert len(active.seen) == 2 and backend.graphs == []
    optimized(X)
    with mode() as active:
        optimized(X)
    assert len(active.seen) == 2 and (len(backend.graphs), backend.runs) == (1, 1)


def test_a_mode_may_ignore_us() -> None:
    """A mode whose ignore_compile_internals() is True does not keep frames from being compiled."""

    class Ignoring(Dispatching):
        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True

    backend = CountingBackend()
    with Ignoring():
        assert dynexplore.optimize(backend)(double)(X).tolist() == [2, 2, 2]
    assert len(backend.graphs) == 1


def test_tracers_of_torch_see_every_operator() -> None:
    """Under jit.trace, fx.symbolic_trace, vmap, grad, make_fx and a fake mode frames run plain."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(double)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(optimized, X, check_trace=False)  # the check runs it plainly
    assert traced(X).tolist() == [2, 2, 2]
    assert [node.op for node in torch.fx.symbolic_trace(lambda x: optimized(x)).graph.nodes][1] == "call_function"
    assert torch.func.vmap(optimized)(torch.ones(2, 3)).shape == (2, 3)
    assert torch.func.grad(lambda x: optimized(x).sum())(X).tolist() == [2, 2, 2]
    assert "add" in make_fx(optimized)(X).code
    with FakeTensorMode():
        assert optimized(torch.empty(4)).shape == (4,)
    assert backend.graphs == []
    optimized(X)
    assert len(backend.graphs) == 1


# -- nothing is changed -------------------------------------------------------------------------------------------


def test_random_numbers_are_the_same_with_and_without_compiling() -> None:
    """A backend that draws random numbers does not change those of the program."""

    def backend(graph: Any, inputs: Any) -> Any:
        torch.rand(3), random.random(), numpy.random.rand()
        return graph.forward

    optimized = dynexplore.optimize(backend)(double)
    torch.manual_seed(1), random.seed(1), numpy.random.seed(1)
    optimized(X)
    found = torch.rand(2).tolist(), random.random(), numpy.random.rand()
    torch.manual_seed(1), random.seed(1), numpy.random.seed(1)
    assert found == (torch.rand(2).tolist(), random.random(), numpy.random.rand())
    assert graphs_compiled() == 1


def test_global_modes_are_what_they_were() -> None:
    """A backend that changes grad mode, autocast, default dtype and deterministic mode leaves no trace."""

    def backend(graph: Any, inputs: Any) -> Any:
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.set_autocast_enabled("cpu", True)
        torch.use_deterministic_algorithms(True)
        return graph.forward

    def modes() -> Any:
        return (
            torch.is_grad_enabled(),
            torch.get_default_dtype(),
            torch.is_autocast_enabled("cpu"),
            torch.are_deterministic_algorithms_enabled(),
        )

    before = modes()
    dynexplore.optimize(backend)(double)(X)
    assert modes() == before == (True, torch.float32, False, False)
    assert graphs_compiled() == 1


# -- bugs of ours -----------------------------------------------------------------------------------------------


@pytest.fixture
def bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """A translator that raises what nobody expects."""

    def translate(request: Any) -> Any:
        raise LookupError("the translator lost its way")

    monkeypatch.setattr(convert, "translate", translate)


@pytest.mark.usefixtures("bug")
@pytest.mark.engine_errors_fall_back
def test_a_bug_of_ours_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """The frame runs plain from then on; the bug is counted and named in one line of the log."""
    optimized = dynexplore.optimize()(double)
    assert optimized(X).tolist() == [2, 2, 2]
    assert optimized(X).tolist() == [2, 2, 2]
    (line,) = caplog.messages
    assert re.search(r"EngineError .*LookupError: the translator lost its way.*double", line)
    assert list(dynexplore.counters["engine_error"].values()) == [1]
    assert dynexplore.counters["frames"] == {"total": 1, "failed": 1}


@pytest.mark.usefixtures("bug")
@pytest.mark.engine_errors_fall_back
@pytest.mark.parametrize("options", [{"suppress_errors": False}, {"raise_engine_errors": True}])
def test_a_bug_is_raised_where_that_is_wanted(options: dict[str, bool]) -> None:
    """With suppress_errors off or raise_engine_errors on it is an EngineError with the cause."""
    with dynexplore.config.patch(**options), pytest.raises(dynexplore.exc.EngineError, match="lost its way") as caught:
        dynexplore.optimize()(double)(X)
    assert isinstance(caught.value.__cause__, LookupError) and native.current() is None


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_what_is_no_error_goes_to_the_program(end: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a translation leaves hook, lock and modes clean, and the next call works."""

    def translate(request: Any) -> Any:
        torch.set_grad_enabled(False)
        raise end

    with monkeypatch.context() as patched:
        patched.setattr(convert, "translate", translate)
        with pytest.raises(end):
            dynexplore.optimize()(double)(X)
    assert native.current() is None and not native.installed() and torch.is_grad_enabled()
    assert dynexplore.optimize()(double)(X).tolist() == [2, 2, 2]


def test_the_programs_own_exceptions_come_through() -> None:
    """A program that raises in eager raises the same exception, message and line under the engine."""

    def raises(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="^wrong$") as caught:
        dynexplore.optimize()(raises)(X)
    assert caught.traceback[-1].lineno + 1 == raises.__code__.co_firstlineno + 2
    assert graphs_compiled() == 1


# -- events -----------------------------------------------------------------------------------------------------


def test_what_a_watched_frame_tells() -> None:
    """FrameEntered with arguments, the entry, timings, the outcome; then hits and runs of the graph."""
    optimized, recording = watched(by_number)
    optimized(X, 2.5), optimized(X, 2.5)
    frame = recording.frames[0]
    assert frame.code.qualname == "by_number" and frame.parent is None
    assert [(name, view.text) for name, view in frame.arguments] == [("x", "float32[3] cpu"), ("number", "2.5")]
    added = recording.of(ev.CacheEntryAdded)[0]
    assert (added.frame, added.code, added.guard_count > 1) == (frame.frame, frame.code.id, True)
    assert {event.phase for event in recording.of(ev.PhaseTimed)} == {"translate", "backend"}
    assert [event.outcome for event in recording.of(ev.FrameFinished)] == ["compiled"]
    hit = recording.of(ev.CacheHit)[0]
    assert (hit.entry, hit.compiled_by, hit.function) == (added.entry, frame.frame, "by_number")
    runs = recording.of(ev.GraphRan)
    assert [(run.run, run.inputs[0].text, run.outputs[0].text) for run in runs] == [
        (1, "float32[3] cpu", "float32[3] cpu"),
        (2, "float32[3] cpu", "float32[3] cpu"),
    ]


def test_a_resume_function_knows_its_parent() -> None:
    """The frame of a resume function names the frame in whose modified code it was called."""

    def f(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        dynexplore.graph_break()
        return x * 2

    optimized, recording = watched(f)
    optimized(X)
    first, second = recording.frames
    assert first.parent is None and second.parent == first.frame


def test_watching_changes_nothing() -> None:
    """The same function makes the same graphs and values, watched or not."""
    optimized, recording = watched(double)
    backend = CountingBackend()
    assert torch.equal(optimized(X), dynexplore.optimize(backend)(double)(X))
    assert len(recording.of(ev.SubgraphCompiled)) == len(backend.graphs) == 1


def test_the_engines_own_stack_is_shown_on_demand_only() -> None:
    """Unsupported comes with the user's stack; `config.verbose` adds the engine's."""

    def helper(x: torch.Tensor) -> torch.Tensor:
        print("woo")
        return x

    def whole(x: torch.Tensor) -> torch.Tensor:
        return helper(x + 1)

    files = {}
    for verbose in (False, True):
        with dynexplore.config.patch(verbose=verbose), pytest.raises(dynexplore.exc.Unsupported, match="woo") as caught:
            dynexplore.optimize(nopython=True)(whole)(X)
        files[verbose] = [entry.path.name for entry in caught.traceback]
        assert "in test_the_engines_own_stack_is_shown_on_demand_only.<locals>.whole" in str(caught.value)
    assert files[False] in (["test_convert.py"], ["test_convert.py", "convert.py"])
    assert len(files[True]) > len(files[False])


# -- modules that are made -------------------------------------------------------------------------------------


class Filled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(2))
        self.apply(self.fill)
        with torch.no_grad():
            self.size = self(torch.ones(1, 2)).numel()

    def fill(self, module: torch.nn.Module) -> None:
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.ones_(module.weight)
            torch.nn.init.zeros_(module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers[0](x)


def test_of_a_module_that_is_made_nothing_is_captured() -> None:
    """Lists of layers, weights that are filled and a first look at sizes are plain Python; the calls behind are one graph."""

    results: list[tuple[int, torch.Tensor]] = []

    def program() -> None:
        model = Filled()
        results.append((model.size, model(torch.ones(3, 2))))

    recording = dynexplore.explain(dynexplore.skip(program))().recording
    assert {entered.code.qualname for entered in recording.frames} == {"Filled.forward"}
    assert len(recording.graphs) == 1 and not recording.breaks and not recording.of(ev.Recompiled)
    program()
    (size, result), (same_size, same_result) = results
    assert size == same_size == 2 and torch.equal(result, same_result)


def test_a_module_made_in_a_captured_function_is_captured() -> None:
    """Where a function is captured, the making of a module in it still is: only frames of `__init__` themselves stay plain."""

    def makes(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.Softmax(-1)(x) * 2

    assert len(dynexplore.explain(makes)(torch.ones(2)).recording.graphs) == 1
